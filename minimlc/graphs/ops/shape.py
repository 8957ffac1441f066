"""Operators that move elements about without changing them."""

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minimlc.graphs.ops.broadcast import where
from minimlc.graphs.ops.checks import (
    ALL,
    NUMBERS,
    Axes,
    axes_of,
    axis_of,
    broadcast_shapes,
    may_equal,
    refuse,
    resized,
    sizes_of,
)
from minimlc.graphs.ops.create import ones_like
from minimlc.graphs.ops.record import composite, primitive
from minimlc.graphs.ops.values import Values, iota, read, spread
from minimlc.loops.ir.nodes import Expr


def _new_shape(old: Sequence[int], shape: object) -> tuple[int, ...]:
    """`shape` with its one -1 replaced by what is left over."""
    sizes = sizes_of(shape, "shape")
    if sizes.count(-1) > 1 or any(size < -1 for size in sizes):
        refuse(f"shape={shape!r} must hold sizes >= 0 and at most one -1", "E204")
    known = prod(size for size in sizes if size != -1)
    count = prod(old)
    if -1 in sizes and known and count % known == 0:
        sizes = tuple(count // known if size == -1 else size for size in sizes)
    if -1 in sizes or prod(sizes) != count:
        refuse(f"{count} elements of shape {tuple(old)} do not fit into {shape!r}")
    return sizes


def _segments(old: Sequence[int], new: Sequence[int]) -> list[tuple[range, range]]:
    """The shortest runs of axes of both shapes that hold equally many elements."""
    pairs = []
    a = b = 0
    while a < len(old) or b < len(new):
        start_a, start_b = a, b
        size_a, size_b = 1, 1
        if a < len(old):
            size_a, a = old[a], a + 1
        if b < len(new):
            size_b, b = new[b], b + 1
        while size_a != size_b:
            if (size_a < size_b and a < len(old)) or b == len(new):
                size_a, a = size_a * old[a], a + 1
            else:
                size_b, b = size_b * new[b], b + 1
        pairs.append((range(start_a, a), range(start_b, b)))
    return pairs


def _row_major(indices: Sequence[Expr], sizes: Sequence[int]) -> Expr | int:
    """The number of an element. Indices may be integers, as a part of one element gives them."""
    flat: Expr | int | None = None
    for i, size in zip(indices, sizes, strict=True):
        if size != 1:
            flat = i if flat is None else flat * size + i
    return 0 if flat is None else flat


def _unflatten(flat: Expr | int, sizes: Sequence[int]) -> list[Expr | int]:
    result: list[Expr | int] = []
    left = prod(sizes)
    for position, size in enumerate(sizes):
        left //= size
        if size == 1:
            result.append(0)
            continue
        index = flat if left == 1 else flat // left
        outermost = prod(sizes[:position]) == 1
        result.append(index if outermost else index % size)
    return result


@primitive("reshape", ALL, lambda x, shape: x.reshape(shape))
def reshape(x: Values, *, shape: Any) -> Values:
    """The same elements, in row-major order, in another shape; one size may be -1."""
    sizes = _new_shape(x.shape, shape)

    def element(*i: Expr) -> Expr:
        indices: list[Expr | int] = []
        for old, new in _segments(x.shape, sizes):
            flat = _row_major([i[b] for b in new], [sizes[b] for b in new])
            indices += _unflatten(flat, [x.shape[a] for a in old])
        return x[tuple(indices)]

    nothing = 0 in sizes
    return Values(sizes, x.dtype, (lambda *i: x[(0,) * x.ndim]) if nothing else element)


@primitive("permute_dims", ALL, np.transpose)
def permute_dims(x: Values, *, axes: Axes = None) -> Values:
    """The axes in the order `axes`; reversed when it is None."""
    order = tuple(reversed(range(x.ndim)))
    if axes is not None:
        order = tuple(axis_of(a, x.ndim, "axes") for a in sizes_of(axes, "axes"))
    if sorted(order) != list(range(x.ndim)):
        refuse(f"axes={axes} must name each of {x.ndim} axes once", "E204")

    def element(*i: Expr) -> Expr:
        return x[tuple([i[order.index(a)] for a in range(x.ndim)])]

    return Values([x.shape[a] for a in order], x.dtype, element)


@primitive("broadcast_to", ALL, np.broadcast_to)
def broadcast_to(x: Values, *, shape: Any) -> Values:
    """x repeated along new axes and axes of size 1 until it has `shape`."""
    sizes = sizes_of(shape, "shape")
    try:
        fits = broadcast_shapes(x.shape, sizes) == sizes
    except ValueError:
        fits = False
    if not fits:
        refuse(f"the shape {x.shape} does not broadcast to {sizes}")
    return Values(sizes, x.dtype, lambda *i: read(x, i, sizes))


@primitive("match_cast", ALL, lambda x, shape: x)
def match_cast(x: Values, *, shape: Any) -> Values:
    """x, which has `shape`: the call checks it where sizes are known only then."""
    sizes = sizes_of(shape, "shape")
    if len(sizes) != x.ndim:
        refuse(f"x has {x.ndim} dimension(s), the shape {sizes} has {len(sizes)}")
    for axis, (got, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if not may_equal(got, size):
            refuse(f"x has {got} elements along axis {axis}, declared {size}")
    return Values(sizes, x.dtype, lambda *i: x[i])


def _flatten(x: Any, *, start_axis: int = 0) -> Any:
    """The axes from `start_axis` on as one."""
    start = axis_of(start_axis, x.ndim, "start_axis") if x.ndim else 0
    return reshape(x, shape=(*x.shape[:start], prod(x.shape[start:])))


def _expand_dims(x: Any, *, axis: Axes) -> Any:
    """New axes of size 1 at `axis` of the result."""
    if axis is None:
        refuse("axis is an integer or a tuple of integers, got None", "E204")
    ndim = x.ndim + (len(axis) if isinstance(axis, tuple) else 1)
    axes, rest = axes_of(axis, ndim), iter(x.shape)
    return reshape(x, shape=tuple([1 if a in axes else next(rest) for a in range(ndim)]))


def _squeeze(x: Any, *, axis: Axes = None) -> Any:
    """Without the axes of size 1: those in `axis`, or all when it is None."""
    ones = tuple(a for a, size in enumerate(x.shape) if size == 1)
    axes = ones if axis is None else axes_of(axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            refuse(f"axis {a} has size {x.shape[a]}, only axes of size 1 can go")
    return reshape(x, shape=tuple(size for a, size in enumerate(x.shape) if a not in axes))


flatten = composite("flatten", _flatten, dtypes=ALL, rounds=False)
expand_dims = composite("expand_dims", _expand_dims, dtypes=ALL, rounds=False)
squeeze = composite("squeeze", _squeeze, dtypes=ALL, rounds=False)
batch_flatten = composite(
    "batch_flatten",
    lambda x: flatten(x, start_axis=1),
    "All axes but the first as one.",
    dtypes=ALL,
    rounds=False,
)


@primitive("flip", ALL, np.flip)
def flip(x: Values, *, axis: Axes = None) -> Values:
    """The elements in reverse order along `axis` (an integer, a tuple, or None for all axes)."""
    axes = axes_of(axis, x.ndim)

    def element(*i: Expr) -> Expr:
        turned = [x.shape[a] - 1 - e if a in axes else e for a, e in enumerate(i)]
        return x[tuple(turned)]

    return Values(x.shape, x.dtype, element)


def _repeat(x: Any, *, repeats: int, axis: int) -> Any:
    """Each slice along `axis`, `repeats` times, one after the other."""
    along = axis_of(axis, x.ndim)
    _check_count(repeats)
    copies = resized(x.shape, along, x.shape[along], repeats)
    wide = broadcast_to(expand_dims(x, axis=along + 1), shape=copies)
    return reshape(wide, shape=resized(x.shape, along, x.shape[along] * repeats))


def _tile(x: Any, *, repeats: Any) -> Any:
    """Copies of x beside each other: `repeats` are their numbers along the last axes."""
    counts = sizes_of(repeats, "repeats")
    for count in counts:
        _check_count(count)
    ndim = max(x.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    pairs = list(zip(counts, (1,) * (ndim - x.ndim) + x.shape, strict=True))
    spaced = reshape(x, shape=tuple([n for _, size in pairs for n in (1, size)]))
    wide = broadcast_to(spaced, shape=tuple([n for pair in pairs for n in pair]))
    return reshape(wide, shape=tuple([count * size for count, size in pairs]))


def _check_count(count: Any) -> None:
    if not hasattr(count, "__index__") or count < 0:
        refuse(f"repeats is integers >= 0, got {count!r}", "E204")


def _triangle(name: str, doc: str, keeps: Callable[[Any, int], Any]) -> None:
    def formula(x: Any, *, k: int = 0) -> Any:
        if x.ndim < 2:
            refuse(f"x has {x.ndim} dimension(s), a triangle needs at least 2")
        rows, columns = (spread(iota(x.shape[a], x), (x.ndim + a,), x.ndim) for a in (-2, -1))
        return where(keeps(columns - rows, k), x, False if str(x.dtype) == "bool" else 0)

    text = f"x where {doc}, else 0, in each of its matrices."
    composite(name, formula, text, ALL, rounds=False)


repeat = composite("repeat", _repeat, dtypes=ALL, rounds=False)
tile = composite("tile", _tile, dtypes=ALL, rounds=False)
_triangle("tril", "column - row <= k", operator.le)
_triangle("triu", "column - row >= k", operator.ge)


def _eye_like(x: Any, *, k: int = 0) -> Any:
    """1 where column - row is k, else 0, in each matrix of x's shape."""
    if x.ndim < 2:
        refuse(f"x has {x.ndim} dimension(s), a diagonal needs at least 2")
    rows, columns = (spread(iota(x.shape[a], x), (x.ndim + a,), x.ndim) for a in (-2, -1))
    return where(columns - rows == k, ones_like(x), 0)


eye_like = composite("eye_like", _eye_like, dtypes=NUMBERS, rounds=False)
