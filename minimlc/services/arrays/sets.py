"""Search in sorted vectors, nonzero elements, unique values. Their number is data-dependent: the
operators give as many as there can be, and the number.
"""

from math import prod
from typing import Any

from minimlc.graphs.ir.nodes import Expr
from minimlc.graphs.ops.broadcast import (
    floor_divide,
    logical_and,
    logical_or,
    maximum,
    minimum,
    mod,
    where,
)
from minimlc.graphs.ops.checks import ALL, NUMBERS, refuse
from minimlc.graphs.ops.create import arange, zeros
from minimlc.graphs.ops.elementwise import isnan, logical_not
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.shape import reshape
from minimlc.graphs.ops.values import Values, iota, named
from minimlc.loops.values.dtypes import is_float
from minimlc.services.arrays.gather import argsort
from minimlc.services.arrays.scan import cumsum
from minimlc.services.arrays.slicing import stack, strided_slice, take


def _zeros(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    fill = zeros.formula if isinstance(like, Values) else zeros.meaning
    return fill(shape=shape, dtype=dtype)


def _numbers(total: int, like: Any) -> Any:
    """0, 1, ... total - 1, over graph expressions, too."""
    return arange.call((), {"start": total}) if isinstance(like, Expr) else iota(total, like)


def _last(x: Any) -> Any:
    """The last element of a vector, as a scalar."""
    return reshape(strided_slice(x, begin=x.shape[0] - 1, end=x.shape[0]), shape=())


def _before(a: Any, b: Any) -> Any:
    """Whether a comes before b; NaN is the greatest."""
    if not is_float(str(a.dtype)):
        return a < b
    return logical_or(a < b, logical_and(isnan(b), logical_not(isnan(a))))


def _searchsorted(x: Any, values: Any, *, right: bool = False) -> Any:
    """The number of elements of the sorted vector x that are less than each value (int64), or with
    `right`, less or equal; NaN is the greatest. By bisection.
    """
    if x.ndim != 1:
        refuse(f"x is a vector in order, its shape is {x.shape}")
    left, at = int(x.shape[0]), _zeros(values, values.shape, "int64")
    while left:
        half = max(left // 2, 1)
        probe = take(x, at + (half - 1), mode="clip")
        passes = logical_not(_before(values, probe)) if right else _before(probe, values)
        at = named(where(passes, at + half, at), f"searchsorted_{left}")
        left -= half
    return at


def _padded_nonzero(x: Any) -> tuple[Any, Any]:
    """The indices of the elements of x that are not 0 or False, one per row (int64), in order;
    after them rows of zeros. And the number of such elements.
    """
    total = prod(x.shape)
    if not x.ndim:
        refuse("x has no axes", hint="op.expand_dims(x, axis=0)")
    if total == 0:
        return _zeros(x, (0, x.ndim), "int64"), _zeros(x, (), "int64")
    hits = reshape(x, shape=(total,)).astype("bool").astype("int64")
    so_far, numbers = named(cumsum(hits, axis=0), "nonzero_so_far"), _numbers(total, x)
    count = _last(so_far)
    place = named(where(numbers < count, searchsorted(so_far, numbers + 1), 0), "nonzero_place")
    columns = []
    for size in reversed(x.shape):
        columns.append(mod(place, size))
        place = floor_divide(place, size)
    return stack(tuple(reversed(columns)), axis=1), count


def _padded_unique(x: Any) -> tuple[Any, ...]:
    """The distinct values of x, sorted, NaN once and last; after them zeros. For each of them,
    the first place where it is in the flat x, and how often it is there. For each element of x, the
    number of its value. And how many different values there are: values, indices, inverse, counts,
    number (all but the values int64).
    """
    total = prod(x.shape)
    if total == 0:
        empty = _zeros(x, (0,), "int64")
        inverse, number = _zeros(x, x.shape, "int64"), _zeros(x, (), "int64")
        return reshape(x, shape=(0,)), empty, inverse, empty, number
    flat, numbers = reshape(x, shape=(total,)), _numbers(total, x)
    order = named(argsort(flat), "unique_order")
    ordered = named(take(flat, order, mode="clip"), "unique_ordered")
    fresh = _before(take(ordered, maximum(numbers - 1, 0), mode="clip"), ordered)
    fresh = logical_or(numbers < 1, fresh).astype("int64")
    group = named(cumsum(fresh, axis=0), "unique_group")
    number = _last(group)
    start = searchsorted(group, numbers + 1)
    there, safe = numbers < number, minimum(start, total - 1)
    end = searchsorted(group, numbers + 1, right=True)
    values = where(there, take(ordered, safe, mode="clip"), _zeros(x, (), str(x.dtype)))
    indices, counts = where(there, take(order, safe, mode="clip"), 0), end - start
    inverse = reshape(take(group, argsort(order), mode="clip") - 1, shape=x.shape)
    return values, indices, inverse, counts, number


searchsorted = composite("searchsorted", _searchsorted, dtypes=NUMBERS, rounds=False)
padded_nonzero = composite("padded_nonzero", _padded_nonzero, dtypes=ALL, rounds=False)
padded_unique = composite("padded_unique", _padded_unique, dtypes=NUMBERS, rounds=False)
