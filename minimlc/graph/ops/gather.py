"""Operators that read and write at indices, and orders.

Negative indices count from the end; those out of range are clipped into it.
"""

from math import prod
from typing import Any

import numpy as np

from minimlc.dtypes import is_float
from minimlc.graph.ops.broadcast import where
from minimlc.graph.ops.checks import ALL, INDICES, INTEGERS, NUMBERS, axis_of, refuse, resized
from minimlc.graph.ops.create import full
from minimlc.graph.ops.record import composite, primitive
from minimlc.graph.ops.shape import broadcast_to, expand_dims, reshape, squeeze
from minimlc.graph.ops.slicing import inside, strided_slice, take
from minimlc.graph.ops.values import Values, iota, named, nothing, spread
from minimlc.sizes import Size
from minimlc.tir import te
from minimlc.tir.nodes import Expr, as_expr, binary, index, intrin, select

OF_INDICES = (("indices", INDICES),)


def _check_beside(name: str, shape: Any, x: Any, axis: int) -> None:
    if len(shape) != x.ndim or resized(shape, axis) != resized(x.shape, axis):
        refuse(f"{name} has shape {shape}, x has {x.shape}; only axis {axis} may differ")


@primitive(
    "take_along_axis",
    ALL,
    lambda x, indices, axis: np.take_along_axis(x, inside(indices, x.shape[axis]), axis),
    param_dtypes=OF_INDICES,
)
def take_along_axis(x: Values, indices: Values, *, axis: int = -1) -> Values:
    """x[..., indices[..., i, ...], ...]: an element for each index, along `axis`."""
    along = axis_of(axis, x.ndim)
    _check_beside("indices", indices.shape, x, along)
    if 0 in indices.shape:
        return nothing(indices.shape, x.dtype)
    places = inside(indices, x.shape[along])
    return Values(indices.shape, x.dtype, lambda *i: x[resized(i, along, places[i])])


def _flat_index(sizes: tuple[int, ...], indices: Any, batch: int = 0) -> Any:
    """Indices (..., number of axes) into axes of these sizes as one into all; the first `batch`
    axes are those of `indices` themselves.
    """
    ndim = indices.ndim - 1
    parts = [spread(iota(size, indices), (a,), ndim) for a, size in enumerate(sizes[:batch])]
    for k, size in enumerate(sizes[batch:]):
        column = strided_slice(indices, begin=k, end=k + 1, axes=-1)
        parts.append(inside(squeeze(column, axis=-1), size))
    flat = parts[0]
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        flat = flat * size + part
    return flat


def _check_depth(x: Any, indices: Any, batch: int) -> int:
    """How many axes of x the indices and the batch say."""
    known = indices.ndim > batch and indices.shape[:batch] == x.shape[:batch]
    depth = indices.shape[-1] if indices.ndim else 0
    if not known or not 1 <= depth <= x.ndim - batch:
        refuse(f"indices of shape {indices.shape} do not fit x of shape {x.shape}")
    return batch + depth


def _gather_nd(x: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    """The parts of x at indices: (..., k) for the k axes after the first `batch_dims`, which
    both have.
    """
    if not isinstance(batch_dims, int) or batch_dims < 0:
        refuse(f"batch_dims is an integer >= 0, got {batch_dims!r}", "E204")
    depth = _check_depth(x, indices, batch_dims)
    sizes = x.shape[:depth]
    flat = named(_flat_index(sizes, indices, batch_dims), "gather_nd_index")
    return take(reshape(x, shape=(prod(sizes), *x.shape[depth:])), flat, axis=0, mode="clip")


COMBINE = {"add": ("+", te.sum), "mul": ("*", te.prod), "max": ("max", te.max)}
COMBINE["min"] = ("min", te.min)
_AT = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scattered(x: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    result = x.copy()
    places = list(np.indices(indices.shape, sparse=True))
    places[axis] = inside(indices, x.shape[axis])
    if reduction == "none":
        result[tuple(places)] = updates
    else:
        _AT[reduction].at(result, tuple(places), updates)
    return result


@primitive("scatter_elements", NUMBERS, _scattered, param_dtypes=OF_INDICES, rounds=True)
def scatter_elements(
    x: Values, indices: Values, updates: Values, *, axis: int = 0, reduction: str = "none"
) -> Values:
    """x with updates at indices along `axis`: the last one of several, or all of them combined
    with what is there by "add", "mul", "max" or "min".
    """
    along = axis_of(axis, x.ndim)
    _check_beside("indices", indices.shape, x, along)
    if updates.shape != indices.shape:
        refuse(f"updates have shape {updates.shape}, indices {indices.shape}")
    if reduction not in ("none", *COMBINE):
        refuse(f'reduction is "none", "add", "mul", "max" or "min", got {reduction!r}', "E204")
    if 0 in indices.shape:
        return x
    places = inside(indices, x.shape[along])
    symbol, combine = COMBINE.get(reduction, ("max", te.max))

    def element(*i: Expr) -> te.Reduction:
        k = te.reduce_axis((0, indices.shape[along]), "k")
        at = resized(i, along, k)
        hit = binary("==", places[at], i[along])
        if reduction == "none":
            return combine(select(hit, k, index(-1)), axis=k)
        return combine(updates[at], axis=k, where=hit)

    if reduction != "none":
        rest = Values(x.shape, x.dtype, element, f"scatter_elements_{reduction}")
        return Values(x.shape, x.dtype, lambda *i: binary(symbol, x[i], rest[i]))
    last = Values(x.shape, "int64", element, "scatter_elements_last")

    def chosen(*i: Expr) -> Expr:
        safe = binary("max", last[i], 0)
        return select(binary("<", last[i], 0), x[i], updates[resized(i, along, safe)])

    return Values(x.shape, x.dtype, chosen)


def _scatter_nd(x: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    """x with updates at indices: (..., k) for its first k axes, as `scatter_elements`."""
    depth = _check_depth(x, indices, 0)
    outer, inner = x.shape[:depth], x.shape[depth:]
    if updates.shape != (*indices.shape[:-1], *inner):
        refuse(f"updates have shape {updates.shape}, not {(*indices.shape[:-1], *inner)}")
    flat = reshape(_flat_index(outer, indices), shape=(-1 if prod(outer) else 0, 1))
    places = broadcast_to(named(flat, "scatter_nd_index"), shape=(flat.shape[0], prod(inner)))
    rows = (
        reshape(t, shape=(prod(t.shape) // max(prod(inner), 1), prod(inner))) for t in (x, updates)
    )
    table, values = rows
    result = scatter_elements(table, places, values, axis=0, reduction=reduction)
    return reshape(result, shape=x.shape)


gather_nd = composite("gather_nd", _gather_nd, dtypes=ALL, rounds=False, param_dtypes=OF_INDICES)
scatter_nd = composite("scatter_nd", _scatter_nd, dtypes=NUMBERS, param_dtypes=OF_INDICES)


# Orders


def _argsorted(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _less(a: Expr, b: Expr, dtype: str) -> Expr:
    """Whether a comes before b; NaN is the greatest."""
    less = binary("<", a, b)
    if not is_float(dtype):
        return less
    order = binary("and", intrin("isnan", b), binary("==", a, a))
    return binary("or", less, order)


@primitive("argsort", NUMBERS, _argsorted)
def argsort(x: Values, *, axis: int = -1, descending: bool = False) -> Values:
    """The indices (int64) that put x in order along `axis`; equal ones stay in theirs, NaN is the
    greatest. On a CPU, more than 64 are put in order by merging (`passes.sort_long_axes`), else
    each is compared with each.
    """
    along = axis_of(axis, x.ndim)
    if 0 in x.shape:
        return full.formula(shape=x.shape, value=0, dtype="int64")
    size, zero = x.shape[along], index(0)

    def rank(*i: Expr) -> te.Reduction:
        k = te.reduce_axis((0, size), "k")
        other, own = x[resized(i, along, k)], x[i]
        first, second = (own, other) if descending else (other, own)
        before, after = _less(first, second, x.dtype), _less(second, first, x.dtype)
        earlier = binary("and", binary("<", k, i[along]), binary("==", as_expr(after), False))
        return te.sum(select(binary("or", before, earlier), index(1), zero), axis=k)

    ranks = Values(x.shape, "int64", rank, "argsort_rank")

    def place(*i: Expr) -> te.Reduction:
        k = te.reduce_axis((0, size), "k")
        hit = binary("==", ranks[resized(i, along, k)], i[along])
        return te.sum(select(hit, k, zero), axis=k)

    return Values(x.shape, "int64", place, "argsort")


def _sort(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    """x in order along `axis`; NaN is the greatest."""
    along = axis_of(axis, x.ndim)
    order = named(argsort(x, axis=along, descending=descending), "sort_order")
    return x if 0 in x.shape else take_along_axis(x, order, axis=along)


def _topk(x: Any, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """The k greatest (or least) elements along `axis` in order, and their indices (int64)."""
    along = axis_of(axis, x.ndim)
    if not isinstance(k, int | Size) or not 0 <= k <= x.shape[along]:
        refuse(
            f"k={k!r} is not between 0 and the {x.shape[along]} elements of axis {along}", "E204"
        )
    order = named(argsort(x, axis=along, descending=largest), "topk_order")
    first = strided_slice(order, begin=0, end=k, axes=along)
    return take_along_axis(x, first, axis=along), first


sort = composite("sort", _sort, dtypes=NUMBERS, rounds=False)
topk = composite("topk", _topk, dtypes=NUMBERS, rounds=False)


def _one_hot(
    indices: Any,
    *,
    depth: int,
    axis: int = -1,
    on_value: float = 1,
    off_value: float = 0,
    dtype: str = "float32",
) -> Any:
    """`on_value` at each index along a new axis of `depth` elements, else `off_value`; nowhere for
    an index out of range.
    """
    if not isinstance(depth, int | Size) or depth < 0:
        refuse(f"depth is an integer >= 0, got {depth!r}", "E204")
    along = axis_of(axis, indices.ndim + 1)
    places = expand_dims(indices.astype("int64"), axis=along)
    classes = spread(iota(depth, indices), (along,), places.ndim)
    hit = where(places < 0, places + depth, places) == classes
    on, off = (_filled(hit, value, dtype) for value in (on_value, off_value))
    return where(hit, on, off)


def _filled(like: Any, value: Any, dtype: str) -> Any:
    value = bool(value) if dtype == "bool" else value
    fill = full.formula if isinstance(like, Values) else full.meaning
    return fill(shape=like.shape, value=value, dtype=dtype)


one_hot = composite("one_hot", _one_hot, dtypes=INTEGERS, rounds=False)
