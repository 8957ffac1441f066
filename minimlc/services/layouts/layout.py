"""Primitives on how a buffer is stored: set_scope, transform_layout, storage_align."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from minimlc.loops.ir.nodes import (
    Block,
    Buffer,
    Cast,
    Expr,
    For,
    PrimFunc,
    Store,
    Unary,
    Var,
    as_expr,
    conjunction,
    seq,
)
from minimlc.loops.proofs.access import accesses
from minimlc.loops.schedule.finish import finish, proven
from minimlc.loops.schedule.fresh import Names, fresh_iters, sweep, whole
from minimlc.loops.schedule.memory import check_scope
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import with_storage
from minimlc.loops.schedule.tree import find_block, find_buffer, nest, replaced
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.node import replace
from minimlc.services.layouts.index_map import IndexMap

MOST_PADDING = 16
"""A buffer grows to at most so many times its size."""
SMALL = 2**16
"""Up to so many elements a buffer may grow without that limit."""


@primitive(keeps_order=True)
def set_scope(func: PrimFunc, block: str, buffer: str, scope: str) -> PrimFunc:
    """Set the memory scope of a buffer that a block writes.

        Y = alloc(n)               -->        Y = alloc(n, scope="local")
        Y[i] = f(i)                           Y[i] = f(i)

    Legal for the function's own buffers: a scope does not change results, it is a wish to the
    target. Only what threads fetch together stays in memory that they share.
    """
    check_scope(scope)
    old = own_buffer(func, block, buffer)
    return finish(with_storage(func, {old: replace(old, scope=scope)}))


@primitive(keeps_order=True)
def transform_layout(
    func: PrimFunc,
    block: str,
    buffer: str,
    index_map: str | Callable[..., Any],
    pad_value: int | float | str | Callable[..., Any] | None = None,
) -> PrimFunc:
    """Store a buffer's elements in another order: element (i, j) moves to `index_map(i, j)`.

        B = alloc((n, m))          -->        B = alloc((n // 4, m, 4))
        B[i, j] = f(i, j)                     B[i // 4, j, i % 4] = f(i, j)

    Legal for the function's own buffers where the map is one-to-one on the buffer's indices. Its
    new shape is the smallest that holds them all; its other elements are never read, as every
    access goes through the map. With `pad_value`, a block `B_pad` before the writing one fills
    these: with a number, or the output of a map of the new indices. The loops stay as they are:
    `transform_block_layout` turns the loops of the writing block the same way.
    """
    # NB: in TVM, a parameter's layout changes too, and the pass behind the caller's back is asked
    # to follow; pad values are written by the writing block itself.
    old = own_buffer(func, block, buffer)
    layout = IndexMap.of(index_map)
    if len(layout.inputs) != old.ndim:
        why = f"the index map has {len(layout.inputs)} input(s), {buffer} has {old.ndim} "
        refuse("E146", f"{why}dimension(s)", hint=f"{buffer} has shape {old.shape}")
    new = _with_layout(func, old, layout)
    return new if pad_value is None else _padded(new, block, old, layout, pad_value)


def _padded(
    func: PrimFunc,
    block: str,
    old: Buffer,
    layout: IndexMap,
    value: int | float | str | Callable[..., Any],
) -> PrimFunc:
    """`func` with a block that writes `value` where the new layout of `old` holds no element."""
    names, place = Names(func), find_block(func, block)
    padded = find_buffer(func, old.name)
    loops, at, _ = sweep(whole(padded.shape), padded.shape, names, units=True)
    origin = layout.origin(old.shape, at, padded.shape)
    if origin is None:
        refuse("E146", f"the inverse of {layout} is not found")
    inside = conjunction(origin[1])
    if inside is None:
        return func
    iters = fresh_iters(at, padded.shape, names)
    indices = tuple(it.var for it in iters)
    store = Store(padded, indices, _filling(value, indices, padded.dtype))
    fill = Block(names.block(f"{old.name}_pad"), iters, Unary("not", inside), None, store)
    first = nest(loops, fill)
    refusal = None
    for stmt in (part for part in (*place.around, place.stmt) if isinstance(part, For | Block)):
        try:
            return proven(finish(replaced(func, {stmt: seq((first, stmt))})))
        except ScheduleError as error:  # an iteration may own the buffer: further inside
            refusal = error
    assert refusal is not None
    raise refusal


def _filling(
    value: int | float | str | Callable[..., Any], indices: Sequence[Var], dtype: str
) -> Expr:
    """The value for a place: a number, or the output of a map for the indices there."""
    if isinstance(value, int | float):
        return as_expr(value, dtype)
    map_ = IndexMap.of(value)
    if len(map_.inputs) != len(indices) or len(map_.outputs) != 1:
        why = f"pad_value is a map of {len(indices)} indices to one number, got {map_}"
        refuse("E146", why, hint=f'"{", ".join("ijklmn"[: len(indices)])} -> 0"')
    return Cast(dtype, map_(indices)[0])


@primitive(keeps_order=True)
def storage_align(
    func: PrimFunc, block: str, buffer: str, axis: int, factor: int, offset: int = 0
) -> PrimFunc:
    """Pad the rows of a buffer: stepping along `axis` moves by a number of elements that is
    `offset` more than a multiple of `factor`.

        B = alloc((8, 32))         -->        B = alloc(7 * 33 + 32)
        B[i, j] = f(i, j)                     B[i * 33 + j] = f(i, j)

    Here for axis 0, factor 32, offset 1. Rows along the last axis of memory that threads share just
    become longer: alloc((8, 33), scope="shared"). Legal for the function's own buffers; the
    elements between the rows are never read.
    """
    # NB: in TVM, this is an annotation that lowering reads; here the storage itself changes, so
    # the dimensions from `axis` on become one: lowering cuts a buffer to the box that is used, but
    # for rows of shared memory.
    old = own_buffer(func, block, buffer)
    if not -old.ndim <= axis < old.ndim or axis % old.ndim == old.ndim - 1:
        hint = f"an axis in 0..{old.ndim - 2}" if old.ndim > 1 else f"{buffer} is one row"
        refuse("E118", f"axis {axis} of {buffer} has no row behind it", hint=hint)
    if factor < 1 or not 0 <= offset < factor:
        refuse("E118", f"0 <= offset < factor, got {offset} and {factor}")
    axis %= old.ndim
    row = prod(old.shape[axis + 1 :])
    stride = row + (offset - row) % factor
    if stride == row:
        return func
    if old.scope.startswith("shared") and axis == old.ndim - 2:
        shape = (*old.shape[:-1], stride)
        _check_size(old, shape)
        return finish(with_storage(func, {old: replace(old, shape=shape)}))
    return _with_layout(func, old, _padded_rows(old.shape, axis, stride))


def _padded_rows(shape: tuple[int, ...], axis: int, stride: int) -> IndexMap:
    inputs = tuple(Var(f"d{dim}") for dim in range(len(shape)))
    place: Expr = inputs[axis] * stride
    for dim in range(axis + 1, len(shape)):
        below = prod(shape[dim + 1 :])
        place = place + (inputs[dim] * below if below > 1 else inputs[dim])
    return IndexMap(inputs, (*inputs[:axis], place))


def own_buffer(func: PrimFunc, block: str, buffer: str) -> Buffer:
    """An allocation of `func` that the block writes."""
    stmt = find_block(func, block).stmt
    found = find_buffer(func, buffer)
    writers = [i.block for i in accesses(func) if i.is_write and i.buffer is found]
    if found in func.params:
        copy = "cache_write" if stmt in writers else "cache_read"
        why = f"{buffer} is a parameter: its storage belongs to the caller"
        hint = f'sch.{copy}("{block}", "{buffer}") first: the copy is ours'
        refuse("E147", why, hint=hint)
    if stmt not in writers:
        names = dict.fromkeys(f'"{b.name}"' for b in writers if b is not None)
        hint = f"the block {' or '.join(names)} writes it" if names else ""
        refuse("E117", f'block "{block}" does not write {buffer}', at=stmt, hint=hint)
    return found


def is_too_large(shape: Sequence[int], buffer: Buffer) -> bool:
    """Whether a buffer may not grow to this shape."""
    return prod(shape) > max(SMALL, MOST_PADDING * prod(buffer.shape))


def _with_layout(func: PrimFunc, old: Buffer, layout: IndexMap) -> PrimFunc:
    shape = layout.shape(old.shape)
    layout.check_one_to_one(old.shape)
    _check_size(old, shape)
    hint = "a map made of sums, quotients and remainders of one input each"
    return finish(with_storage(func, {old: replace(old, shape=shape)}, layout), "E146", hint)


def _check_size(old: Buffer, shape: Sequence[int]) -> None:
    if is_too_large(shape, old):
        why = f"{old.name} would grow from {prod(old.shape)} to {prod(shape)} elements"
        hint = f"a map that fills its shape; at most {MOST_PADDING} times the size is allowed"
        refuse("E146", why, hint=hint)
