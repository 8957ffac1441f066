"""Operators that gather and scatter at indices, and sorting.

Negative indices count from the end; indices out of range are clipped into it.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minimlc.graphs.ops.broadcast import where
from minimlc.graphs.ops.checks import ALL, INDICES, INTEGERS, NUMBERS, axis_of, refuse, resized
from minimlc.graphs.ops.create import full
from minimlc.graphs.ops.record import composite, primitive
from minimlc.graphs.ops.shape import expand_dims, reshape, squeeze
from minimlc.graphs.ops.values import Values, iota, named, nothing, spread
from minimlc.loops.ir.nodes import Expr, as_expr, binary, index, intrin, select
from minimlc.loops.te import te
from minimlc.loops.values.dtypes import is_float
from minimlc.services.arrays.slicing import inside, strided_slice, take
from minimlc.services.sizes.sizes import Size

OF_INDICES = (("indices", INDICES),)


def _check_within(name: str, shape: Any, x: Any, axis: int) -> None:
    """Refuse an array with more elements than x along an axis other than `axis`."""
    pairs = [*enumerate(zip(shape, x.shape, strict=False))]
    if len(shape) != x.ndim or any(length > size for a, (length, size) in pairs if a != axis):
        refuse(f"{name} has shape {shape}, x has {x.shape}; only axis {axis} may be longer")


def _places(x: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """Numpy's index for `indices` along `axis` of x, each at its own place along the others."""
    grid = np.indices(indices.shape, sparse=True)
    return resized(tuple(grid), axis % x.ndim, inside(indices, x.shape[axis]))


@primitive(
    "take_along_axis",
    ALL,
    lambda x, indices, axis: x[_places(x, indices, axis)],
    param_dtypes=OF_INDICES,
)
def take_along_axis(x: Values, indices: Values, *, axis: int = -1) -> Values:
    """x[..., indices[..., i, ...], ...]: an element for each index, along `axis`; along the others,
    there may be fewer indices than elements.
    """
    along = axis_of(axis, x.ndim)
    _check_within("indices", indices.shape, x, along)
    if 0 in indices.shape:
        return nothing(indices.shape, x.dtype)
    places = inside(indices, x.shape[along])
    return Values(indices.shape, x.dtype, lambda *i: x[resized(i, along, places[i])])


def _flat_index(sizes: tuple[int, ...], indices: Any, batch: int = 0) -> Any:
    """Flat indices from indices (..., number of axes) into axes of these sizes; the first `batch`
    axes are axes of `indices` as well.
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
    """The number of axes of x that the indices and the batch cover."""
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


COMBINE = {"add": "+", "mul": "*", "max": "max", "min": "min"}
_AT = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _updated(x: Any, places: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    result = x.copy()
    if reduction == "none":
        result[places] = updates
    else:
        _AT[reduction].at(result, places, updates)
    return result


def _in_steps(
    x: Values,
    updates: Values,
    place: Callable[..., Sequence[Any]],
    reduction: str,
    name: str,
) -> Values:
    """x after all updates, in order, each to the element at `place(its indices)`."""
    exact = reduction not in ("add", "mul")
    first, new = (x.native, updates.native) if exact else (x, updates)

    def element(*i: Expr) -> te.Steps:
        axes = [te.reduce_axis((0, size), f"k{a}") for a, size in enumerate(updates.shape)]

        def step(so_far: te.Tensor) -> tuple[Sequence[Any], Expr]:
            at, value = tuple(place(*axes)), new[tuple(axes)]
            kept = reduction == "none"
            return at, value if kept else binary(COMBINE[reduction], so_far[at], value)

        return te.in_steps(first[i], x.shape, axes, step)

    return Values(x.shape, first.dtype, element, name).astype(x.dtype)


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", *COMBINE):
        refuse(f'reduction is "none", "add", "mul", "max" or "min", got {reduction!r}', "E204")


@primitive(
    "scatter_elements",
    NUMBERS,
    lambda x, indices, updates, axis, reduction: _updated(
        x, _places(x, indices, axis), updates, reduction
    ),
    param_dtypes=OF_INDICES,
    rounds=True,
)
def scatter_elements(
    x: Values, indices: Values, updates: Values, *, axis: int = 0, reduction: str = "none"
) -> Values:
    """x with updates at indices along `axis`, in order: the last one of several, or all of them
    combined with what is there by "add", "mul", "max" or "min". Along the other axes, there may be
    fewer updates than elements.
    """
    along = axis_of(axis, x.ndim)
    _check_within("indices", indices.shape, x, along)
    if updates.shape != indices.shape:
        refuse(f"updates have shape {updates.shape}, indices {indices.shape}")
    _check_reduction(reduction)
    if 0 in indices.shape:
        return x
    places = inside(indices, x.shape[along])

    def place(*k: Expr) -> Sequence[Any]:
        return resized(k, along, places[k])

    return _in_steps(x, updates, place, reduction, "scatter_elements")


def _columns(x: Any, indices: Any) -> list[Any]:
    """The columns of `indices` (..., k): indices along each of the first k axes of x."""
    columns = (
        strided_slice(indices, begin=a, end=a + 1, axes=-1) for a in range(indices.shape[-1])
    )
    return [inside(squeeze(c, axis=-1), size) for c, size in zip(columns, x.shape, strict=False)]


@primitive(
    "scatter_nd",
    NUMBERS,
    lambda x, indices, updates, reduction: _updated(
        x, tuple(_columns(x, indices)), updates, reduction
    ),
    param_dtypes=OF_INDICES,
    rounds=True,
)
def scatter_nd(x: Values, indices: Values, updates: Values, *, reduction: str = "none") -> Values:
    """x with updates at indices: (..., k) for its first k axes, in order, as `scatter_elements`."""
    depth, rows = _check_depth(x, indices, 0), indices.ndim - 1
    if updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        refuse(f"updates have shape {updates.shape}, not {(*indices.shape[:-1], *x.shape[depth:])}")
    _check_reduction(reduction)
    if 0 in updates.shape:
        return x
    columns = _columns(x, indices)

    def place(*k: Expr) -> Sequence[Any]:
        return (*(column[k[:rows]] for column in columns), *k[rows:])

    return _in_steps(x, updates, place, reduction, "scatter_nd")


gather_nd = composite("gather_nd", _gather_nd, dtypes=ALL, rounds=False, param_dtypes=OF_INDICES)


# Sorting


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
    """The indices (int64) that sort x along `axis`; equal elements keep their order, NaN is the
    greatest. More than 64 are sorted by merging (`sort_long_axes`; on a GPU, as many as the memory
    of a block holds), else each is compared with each.
    """
    along = axis_of(axis, x.ndim)
    if 0 in x.shape:
        return full.formula(shape=x.shape, value=0, dtype="int64")
    size, zero = x.shape[along], index(0)

    def rank(*i: Expr) -> te.Reduction:
        k = te.reduce_axis((0, size), "k")
        other, this = x[resized(i, along, k)], x[i]
        first, second = (this, other) if descending else (other, this)
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
    """x sorted along `axis`; NaN is the greatest."""
    along = axis_of(axis, x.ndim)
    order = named(argsort(x, axis=along, descending=descending), "sort_order")
    return x if 0 in x.shape else take_along_axis(x, order, axis=along)


def _topk(x: Any, *, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """The k greatest (or least) elements along `axis`, sorted, and their indices (int64)."""
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
