"""Combining what comes before along an axis: in steps of 1, 2, 4, ... (Hillis and Steele 1986)."""

from math import inf
from typing import Any

from minimlc.dtypes import is_float, whole_range
from minimlc.graph.ops.broadcast import add, maximum, minimum, multiply
from minimlc.graph.ops.checks import NUMBERS, axis_of
from minimlc.graph.ops.create import full_like
from minimlc.graph.ops.record import Op, composite
from minimlc.graph.ops.shape import flip, reshape
from minimlc.graph.ops.slicing import concat, strided_slice
from minimlc.graph.ops.values import named


def _least(dtype: str) -> float:
    return -inf if is_float(dtype) else (whole_range(dtype) or (0, 0))[0]


def _most(dtype: str) -> float:
    return inf if is_float(dtype) else (whole_range(dtype) or (0, 0))[1]


def _shifted(x: Any, axis: int, by: int, start: float) -> Any:
    """`x` moved along an axis, `start` in the places that get free."""
    size = x.shape[axis]
    head = full_like(strided_slice(x, begin=0, end=by, axes=axis), value=start)
    return concat((head, strided_slice(x, begin=0, end=size - by, axes=axis)), axis=axis)


def _scan(name: str, doc: str, combine: Op, start: Any) -> Op:
    def formula(x: Any, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
        x = x if x.ndim else reshape(x, shape=(1,))  # as numpy has it
        along, step = axis_of(axis, x.ndim), 1
        size, first = x.shape[along], start(str(x.dtype)) if callable(start) else start
        result = flip(x, axis=along) if reverse else x
        result = _shifted(result, along, 1, first) if exclusive and size else result
        while step < size:
            result = named(combine(result, _shifted(result, along, step, first)), f"{name}_{step}")
            step *= 2
        return flip(result, axis=along) if reverse else result

    text = f"{doc} of each element and those before it along `axis`; without itself if `exclusive`."
    return composite(name, formula, f"{text} From the end if `reverse`.", NUMBERS)


cumsum = _scan("cumsum", "The sum", add, 0)
cumprod = _scan("cumprod", "The product", multiply, 1)
cummax = _scan("cummax", "The greatest (NaN if any is)", maximum, _least)
cummin = _scan("cummin", "The least (NaN if any is)", minimum, _most)
