"""Operators that move elements about without changing them."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.loops import read
from minimlc.graph.ops.record import (
    ALL,
    REQUIRED,
    Op,
    axes_of,
    axis_of,
    broadcast_shapes,
    refuse,
    sizes_of,
)
from minimlc.tir import te
from minimlc.tir.nodes import Expr

Axes = tuple[int, ...] | int | None


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
    flat: Expr | int = 0
    for i, size in zip(indices, sizes, strict=True):
        if size != 1:
            flat = i if isinstance(flat, int) else flat * size + i
    return flat


def _unflatten(flat: Expr | int, sizes: Sequence[int]) -> list[Expr | int]:
    result: list[Expr | int] = []
    left = prod(sizes)
    for position, size in enumerate(sizes):
        left //= size
        if size == 1 or isinstance(flat, int):
            result.append(0)
            continue
        index = flat if left == 1 else flat // left
        outermost = prod(sizes[:position]) == 1
        result.append(index if outermost else index % size)
    return result


def _relabel(x: te.Tensor, shape: Sequence[int], name: str) -> te.Tensor:
    """`x`'s elements, in row-major order, as a tensor of `shape`."""
    if 0 in shape:
        return te.compute(shape, lambda *i: x[(0,) * x.ndim], name=name)
    segments = _segments(x.shape, shape)

    def element(*i: Expr) -> Expr:
        indices: list[Expr | int] = []
        for old, new in segments:
            flat = _row_major([i[b] for b in new], [shape[b] for b in new])
            indices += _unflatten(flat, [x.shape[a] for a in old])
        return x[tuple(indices)]

    return te.compute(shape, element, name=name)


def _reshape_type(x: TensorType, shape: object) -> TensorType:
    return TensorType(_new_shape(x.shape, shape), x.dtype)


def _flat_shape(shape: Sequence[int], start_axis: int) -> tuple[int, ...]:
    start = axis_of(start_axis, len(shape), "start_axis") if shape else 0
    return (*shape[:start], prod(shape[start:]))


def _flatten_type(x: TensorType, start_axis: int) -> TensorType:
    return TensorType(_flat_shape(x.shape, start_axis), x.dtype)


def _order(axes: Axes, ndim: int) -> tuple[int, ...]:
    if axes is None:
        return tuple(reversed(range(ndim)))
    order = tuple(axis_of(a, ndim, "axes") for a in sizes_of(axes, "axes"))
    if sorted(order) != list(range(ndim)):
        refuse(f"axes={axes} must name each of {ndim} axes once", "E204")
    return order


def _permute_type(x: TensorType, axes: Axes) -> TensorType:
    return TensorType(tuple(x.shape[a] for a in _order(axes, x.ndim)), x.dtype)


def _lower_permute(x: te.Tensor, axes: Axes) -> te.Tensor:
    order = _order(axes, x.ndim)
    shape = tuple(x.shape[a] for a in order)

    def element(*i: Expr) -> Expr:
        return x[tuple(i[order.index(a)] for a in range(x.ndim))]

    return te.compute(shape, element, name="permute_dims")


def _expanded(shape: Sequence[int], axis: Axes) -> tuple[int, ...]:
    ndim = len(shape) + (len(axis) if isinstance(axis, tuple) else 1)
    axes = axes_of(axis, ndim)
    rest = iter(shape)
    return tuple(1 if a in axes else next(rest) for a in range(ndim))


def _expand_type(x: TensorType, axis: Axes) -> TensorType:
    if axis is None:
        refuse("axis is an integer or a tuple of integers, got None", "E204")
    return TensorType(_expanded(x.shape, axis), x.dtype)


def _squeezed(shape: Sequence[int], axis: Axes) -> tuple[int, ...]:
    if axis is None:
        return tuple(size for size in shape if size != 1)
    axes = axes_of(axis, len(shape))
    for a in axes:
        if shape[a] != 1:
            refuse(f"axis {a} has size {shape[a]}, only axes of size 1 can go")
    return tuple(size for a, size in enumerate(shape) if a not in axes)


def _squeeze_type(x: TensorType, axis: Axes) -> TensorType:
    return TensorType(_squeezed(x.shape, axis), x.dtype)


def _broadcast_type(x: TensorType, shape: object) -> TensorType:
    wanted = sizes_of(shape, "shape")
    try:
        fits = broadcast_shapes(x.shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        refuse(f"the shape {x.shape} does not broadcast to {wanted}")
    return TensorType(wanted, x.dtype)


def _lower_broadcast(x: te.Tensor, shape: object) -> te.Tensor:
    wanted = sizes_of(shape, "shape")
    return te.compute(wanted, lambda *i: read(x, i, wanted), name="broadcast_to")


def mover(
    name: str, doc: str, infer: Callable, meaning: Callable, lower: Callable, *attrs: tuple
) -> Op:
    """An operator on one tensor of any dtype."""
    return Op(name, ("x",), doc, infer, meaning, lower, ALL, attrs)


OPS = (
    mover(
        "reshape",
        "The same elements, in row-major order, in another shape; one size may be -1.",
        _reshape_type,
        lambda x, shape: x.reshape(shape),
        lambda x, shape: _relabel(x, _new_shape(x.shape, shape), "reshape"),
        ("shape", REQUIRED),
    ),
    mover(
        "flatten",
        "The axes from `start_axis` on as one.",
        _flatten_type,
        lambda x, start_axis: x.reshape(_flat_shape(x.shape, start_axis)),
        lambda x, start_axis: _relabel(x, _flat_shape(x.shape, start_axis), "flatten"),
        ("start_axis", 0),
    ),
    mover(
        "permute_dims",
        "The axes in the order `axes`; reversed when it is None.",
        _permute_type,
        lambda x, axes: np.transpose(x, axes),
        _lower_permute,
        ("axes", None),
    ),
    mover(
        "expand_dims",
        "New axes of size 1 at `axis` of the result.",
        _expand_type,
        lambda x, axis: np.expand_dims(x, axis),
        lambda x, axis: _relabel(x, _expanded(x.shape, axis), "expand_dims"),
        ("axis", REQUIRED),
    ),
    mover(
        "squeeze",
        "Without the axes of size 1: those in `axis`, or all when it is None.",
        _squeeze_type,
        lambda x, axis: np.squeeze(x, axis),
        lambda x, axis: _relabel(x, _squeezed(x.shape, axis), "squeeze"),
        ("axis", None),
    ),
    mover(
        "broadcast_to",
        "x repeated along new axes and axes of size 1 until it has `shape`.",
        _broadcast_type,
        lambda x, shape: np.broadcast_to(x, shape),
        _lower_broadcast,
        ("shape", REQUIRED),
    ),
)
