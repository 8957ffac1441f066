"""Operators without tensors: constants that need no storage."""

from math import ceil
from typing import Any

import numpy as np

from minimlc.graphs.ops.checks import ALL, NO_DTYPE, NUMBERS, fits, refuse, sizes_of
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.values import Values, wide
from minimlc.loops.ir.nodes import const
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.literals import Symbol, names_in

Number = int | float | bool


def _check_number(name: str, value: Any, dtype: str) -> None:
    is_bool = isinstance(value, bool)
    is_number = isinstance(value, int | float | Symbol)
    if is_bool != (dtype == "bool") or not is_number or not fits(value, dtype):
        refuse(f"{name}={value!r} is not a value of {dtype}", "E204")


@primitive("full", ALL, lambda shape, value, dtype: np.full(shape, value, to_numpy(dtype)))
def full(*, shape: Any, value: Any, dtype: str = "float32") -> Values:
    """A tensor of `shape` that is `value` everywhere."""
    _check_number("value", value, dtype)
    sizes = sizes_of(shape, "shape")
    if any(size < 0 for size in sizes):
        refuse(f"shape={shape!r} has a negative size", "E204")
    return Values(sizes, dtype, lambda *i: const(value, dtype))


def _filled(name: str, number: int) -> Op:
    def formula(*, shape: Any, dtype: str = "float32") -> Values:
        value = bool(number) if dtype == "bool" else number
        return full.formula(shape=shape, value=value, dtype=dtype)

    doc = f"A tensor of `shape` that is {number} everywhere."
    enter = primitive(name, ALL, lambda shape, dtype: full.meaning(shape, number, dtype), doc)
    return enter(formula)


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)


def _like(x: Any, *, value: Any, dtype: str = "") -> Any:
    """A tensor of x's shape that is `value` everywhere; of x's dtype unless `dtype` is given."""
    fill = full.formula if isinstance(x, Values) else full.meaning
    chosen = str(x.dtype) if dtype in NO_DTYPE else dtype
    number = value == 1 if chosen == "bool" else value
    return fill(shape=tuple(x.shape), value=number, dtype=chosen)


def _zeros_like(x: Any, *, dtype: str = "") -> Any:
    """A tensor of x's shape that is 0 everywhere."""
    return _like(x, value=0, dtype=dtype)


def _ones_like(x: Any, *, dtype: str = "") -> Any:
    """A tensor of x's shape that is 1 everywhere."""
    return _like(x, value=1, dtype=dtype)


full_like = composite("full_like", _like, dtypes=ALL, rounds=False)
zeros_like = composite("zeros_like", _zeros_like, dtypes=ALL, rounds=False)
ones_like = composite("ones_like", _ones_like, dtypes=ALL, rounds=False)


def _span(start: Number, stop: Number | None) -> tuple[Number, Number]:
    return (0, start) if stop is None else (start, stop)


def _arange(start: Number, stop: Number | None, step: Number, dtype: str) -> np.ndarray:
    (count,) = arange.formula(start=start, stop=stop, step=step, dtype=dtype).shape
    inside = to_numpy(wide(dtype))
    first, by = (np.asarray(v).astype(inside) for v in (_span(start, stop)[0], step))
    return np.arange(count).astype(inside) * by + first


@primitive("arange", NUMBERS, _arange)
def arange(
    *, start: Number, stop: Number | None = None, step: Number = 1, dtype: str = "int64"
) -> Values:
    """start, start + step, ... below `stop`; 0 ... start-1 when stop is None."""
    first, last = _span(start, stop)
    if dtype not in NUMBERS:
        refuse(f"dtype cannot be {dtype}", "E202", "one of: " + ", ".join(NUMBERS))
    for name, value in (("start", first), ("stop", last), ("step", step)):
        _check_number(name, value, dtype)
    if step == 0:
        refuse("step is 0", "E204")
    inside = wide(dtype)
    base, by = const(first, inside), const(step, inside)
    whole = names_in((first, last, step)) or all(isinstance(v, int) for v in (first, last, step))
    count: Any = -((first - last) // step) if whole else ceil((last - first) / step)
    count = max(0, count)
    return Values((count,), dtype, lambda i: (i.astype(inside) * by + base).astype(dtype))
