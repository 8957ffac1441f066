"""Operators without tensors: constants that need no storage."""

from math import ceil

import numpy as np

from minimlc.dtypes import dtype_record, integer_range, is_float, to_numpy
from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.record import ALL, NUMBERS, REQUIRED, Op, refuse, sizes_of
from minimlc.tir import te
from minimlc.tir.nodes import const

Number = int | float | bool


def _check_number(name: str, value: object, dtype: str) -> None:
    kind = dtype_record(dtype).kind
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = isinstance(value, bool) if kind == "bool" else number
    if fits and kind in ("int", "uint"):
        low, high = integer_range(dtype)
        fits = isinstance(value, int) and low <= value <= high
    if not fits:
        refuse(f"{name}={value!r} is no {dtype}", "E204")


def _full_type(shape: object, value: Number, dtype: str) -> TensorType:
    _check_number("value", value, dtype)
    sizes = sizes_of(shape, "shape")
    if any(size < 0 for size in sizes):
        refuse(f"shape={shape!r} has a negative size", "E204")
    return TensorType(sizes, dtype)


def _lower_full(shape: object, value: Number, dtype: str, name: str = "full") -> te.Tensor:
    return te.compute(sizes_of(shape, "shape"), lambda *i: const(value, dtype), name=name)


def _number(value: int, dtype: str) -> Number:
    return bool(value) if dtype == "bool" else value


def _filled(name: str, value: int) -> Op:
    return Op(
        name,
        (),
        f"A tensor of `shape` that is {value} everywhere.",
        infer=lambda shape, dtype: _full_type(shape, _number(value, dtype), dtype),
        meaning=lambda shape, dtype: np.full(shape, value, to_numpy(dtype)),
        lower=lambda shape, dtype: _lower_full(shape, _number(value, dtype), dtype, name),
        dtypes=ALL,
        attrs=(("shape", REQUIRED), ("dtype", "float32")),
    )


def _span(start: Number, stop: Number | None) -> tuple[Number, Number]:
    return (0, start) if stop is None else (start, stop)


def _arange_type(start: Number, stop: Number | None, step: Number, dtype: str) -> TensorType:
    first, last = _span(start, stop)
    if dtype not in NUMBERS:
        refuse(f"dtype cannot be {dtype}", "E202", "one of: " + ", ".join(NUMBERS))
    for name, value in (("start", first), ("stop", last), ("step", step)):
        _check_number(name, value, dtype)
    if step == 0:
        refuse("step is 0", "E204")
    return TensorType((max(0, ceil((last - first) / step)),), dtype)


def _arange(start: Number, stop: Number | None, step: Number, dtype: str) -> np.ndarray:
    (count,) = _arange_type(start, stop, step, dtype).shape
    kind = to_numpy(dtype)
    inside = np.dtype(np.float32) if kind.itemsize == 2 and is_float(dtype) else kind
    first, by = (np.asarray(v).astype(inside) for v in (_span(start, stop)[0], step))
    return np.arange(count).astype(inside) * by + first


def _lower_arange(start: Number, stop: Number | None, step: Number, dtype: str) -> te.Tensor:
    (count,) = _arange_type(start, stop, step, dtype).shape
    inside = "float32" if dtype in ("float16", "bfloat16") else dtype
    first, by = const(_span(start, stop)[0], inside), const(step, inside)
    return te.compute((count,), lambda i: (i.astype(inside) * by + first).astype(dtype), "arange")


OPS = (
    _filled("zeros", 0),
    _filled("ones", 1),
    Op(
        "full",
        (),
        "A tensor of `shape` that is `value` everywhere.",
        infer=_full_type,
        meaning=lambda shape, value, dtype: np.full(shape, value, to_numpy(dtype)),
        lower=_lower_full,
        dtypes=ALL,
        attrs=(("shape", REQUIRED), ("value", REQUIRED), ("dtype", "float32")),
    ),
    Op(
        "arange",
        (),
        "start, start + step, ... below `stop`; 0 ... start-1 when stop is None.",
        infer=_arange_type,
        meaning=_arange,
        lower=_lower_arange,
        dtypes=NUMBERS,
        attrs=(("start", REQUIRED), ("stop", None), ("step", 1), ("dtype", "int64")),
    ),
)
