"""Scans along an axis: running sums, products, maxima and minima."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from minimlc.graphs.ops.broadcast import add, maximum, minimum, multiply
from minimlc.graphs.ops.checks import NUMBERS, axis_of, resized
from minimlc.graphs.ops.create import full_like
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.shape import flip, reshape
from minimlc.graphs.ops.values import Values, named
from minimlc.loops.ir.nodes import Expr, binary
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import is_float, whole_range
from minimlc.services.arrays.slicing import concat, strided_slice


def _least(dtype: str) -> float:
    return -inf if is_float(dtype) else (whole_range(dtype) or (0, 0))[0]


def _most(dtype: str) -> float:
    return inf if is_float(dtype) else (whole_range(dtype) or (0, 0))[1]


def _shifted(x: Any, axis: int, by: int, start: float) -> Any:
    """`x` moved along an axis, with `start` in the vacated places."""
    size = x.shape[axis]
    head = full_like(strided_slice(x, begin=0, end=by, axes=axis), value=start)
    return concat((head, strided_slice(x, begin=0, end=size - by, axes=axis)), axis=axis)


def in_order(x: Values, axis: int, symbol: str, name: str) -> Values:
    """The scan in order: each element after the first is combined with the one before it."""
    if 0 in x.shape or x.shape[axis] == 1:
        return x

    def element(*i: Expr) -> te.Steps:
        before = [te.reduce_axis((0, n - (a == axis)), f"k{a}") for a, n in enumerate(x.shape)]
        at = resized(tuple(before), axis, before[axis] + 1)

        def step(so_far: te.Tensor) -> tuple[tuple[Expr, ...], Expr]:
            return at, binary(symbol, so_far[tuple(before)], so_far[at])

        return te.in_steps(x[i], x.shape, before, step)

    return Values(x.shape, x.dtype, element, name)


def by_doubling(x: Any, axis: int, combine: Op, start: float, name: str) -> Any:
    """The scan in steps of 1, 2, 4, ... (Hillis and Steele 1986), each for all elements at once;
    over arrays, too.
    """
    step = 1
    while step < x.shape[axis]:
        x = named(combine(x, _shifted(x, axis, step, start)), f"{name}_{step}")
        step *= 2
    return x


PARALLEL: dict[str, Op] = {}
"""The same operators by doubling: n log n steps, for targets with a thread per element."""


def _scan(name: str, doc: str, combine: Op, symbol: str, start: Any, accumulate: Any = None) -> Op:
    """The scan `name` along an axis, in order; in numpy by `accumulate`, or as in `PARALLEL` where
    the order does not matter.
    """

    def laid_out(scan: Callable[[Any, int, float], Any]) -> Callable[..., Any]:
        def formula(x: Any, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
            x = x if x.ndim else reshape(x, shape=(1,))  # as numpy has it
            along = axis_of(axis, x.ndim)
            first = start(str(x.dtype)) if callable(start) else start
            x = flip(x, axis=along) if reverse else x
            x = _shifted(x, along, 1, first) if exclusive and x.shape[along] else x
            result = scan(x, along, first)
            return flip(result, axis=along) if reverse else result

        return formula

    text = f"{doc} of each element and those before it along `axis`; without itself if `exclusive`."
    text += " From the end if `reverse`. On CPUs, one is combined with the next in order."
    doubled = laid_out(lambda x, axis, first: by_doubling(x, axis, combine, first, name))
    composite(name, doubled, text, NUMBERS, table=PARALLEL)
    meaning = doubled
    if accumulate:
        meaning = laid_out(lambda x, axis, _: accumulate(x, axis, x.dtype))
    formula = laid_out(lambda x, axis, _: in_order(x, axis, symbol, name))
    return primitive(name, NUMBERS, meaning, text, rounds=True)(formula)


cumsum = _scan("cumsum", "The sum", add, "+", 0, np.add.accumulate)
cumprod = _scan("cumprod", "The product", multiply, "*", 1, np.multiply.accumulate)
cummax = _scan("cummax", "The greatest (NaN if any is)", maximum, "max", _least)
cummin = _scan("cummin", "The least (NaN if any is)", minimum, "min", _most)
