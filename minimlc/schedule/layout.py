"""Primitives on how a buffer is stored: set_scope, transform_layout, storage_align."""

from collections.abc import Callable
from math import prod
from typing import Any

from minimlc.node import Mutator, replace
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.tree import find_block, find_buffer, refuse
from minimlc.tir.analysis.access import accesses
from minimlc.tir.analysis.index_map import IndexMap
from minimlc.tir.nodes import Buffer, Expr, Load, PrimFunc, Store, Var

SCOPES = ("global", "local", "shared", "amx.tile")
MOST_PADDING = 16
"""A buffer grows to at most so many times its size."""
SMALL = 2**16
"""Up to so many elements a buffer may grow without that limit."""


@primitive(keeps_order=True)
def set_scope(func: PrimFunc, block: str, buffer: str, scope: str) -> PrimFunc:
    """Say where a buffer that a block writes should live.

        Y = alloc(n)               -->        Y = alloc(n, scope="local")
        Y[i] = f(i)                           Y[i] = f(i)

    Legal for the function's own buffers: a scope has no meaning of its own, it is a wish to the
    target.
    """
    check_scope(scope)
    old = own_buffer(func, block, buffer, "set_scope")
    return with_storage(func, old, replace(old, scope=scope), None)


@primitive(keeps_order=True)
def transform_layout(
    func: PrimFunc, block: str, buffer: str, index_map: str | Callable[..., Any]
) -> PrimFunc:
    """Store a buffer's elements in another order: element (i, j) moves to `index_map(i, j)`.

        B = alloc((n, m))          -->        B = alloc((n // 4, m, 4))
        B[i, j] = f(i, j)                     B[i // 4, j, i % 4] = f(i, j)

    Legal for the function's own buffers where the map is one-to-one on the buffer's indices. Its
    new shape is the smallest that holds them all; what else that holds is never read, for every
    access goes through the map. The loops stay as they are: `transform_block_layout` turns those
    of the writing block the same way.
    """
    # NB: in TVM, a parameter's layout changes too, and the pass behind the caller's back is asked
    # to follow; pad values are written into the rest.
    old = own_buffer(func, block, buffer, "transform_layout")
    layout = IndexMap.of(index_map)
    if len(layout.inputs) != old.ndim:
        refuse(
            "E146",
            f"transform_layout: the index map has {len(layout.inputs)} input(s), {buffer} has "
            f"{old.ndim} dimension(s)",
            hint=f"{buffer} has shape {old.shape}",
        )
    return _with_layout(func, old, layout, "transform_layout")


@primitive(keeps_order=True)
def storage_align(
    func: PrimFunc, block: str, buffer: str, axis: int, factor: int, offset: int = 0
) -> PrimFunc:
    """Pad the rows of a buffer: stepping along `axis` moves by a number of elements that is
    `offset` more than a multiple of `factor`.

        B = alloc((8, 32))         -->        B = alloc(7 * 33 + 32)
        B[i, j] = f(i, j)                     B[i * 33 + j] = f(i, j)

    Here for axis 0, factor 32, offset 1. Legal for the function's own buffers; the elements
    between the rows are never read.
    """
    # NB: in TVM, this is an annotation that lowering reads; here the storage itself changes, so
    # the dimensions from `axis` on become one.
    old = own_buffer(func, block, buffer, "storage_align")
    if not -old.ndim <= axis < old.ndim or axis % old.ndim == old.ndim - 1:
        refuse(
            "E118",
            f"storage_align: axis {axis} of {buffer} has no row behind it",
            hint=f"an axis in 0..{old.ndim - 2}" if old.ndim > 1 else f"{buffer} is one row",
        )
    if factor < 1 or not 0 <= offset < factor:
        refuse("E118", f"storage_align: 0 <= offset < factor, got {offset} and {factor}")
    axis %= old.ndim
    row = prod(old.shape[axis + 1 :])
    stride = row + (offset - row) % factor
    if stride == row:
        return func
    return _with_layout(func, old, _padded_rows(old.shape, axis, stride), "storage_align")


def _padded_rows(shape: tuple[int, ...], axis: int, stride: int) -> IndexMap:
    inputs = tuple(Var(f"d{dim}") for dim in range(len(shape)))
    place: Expr = inputs[axis] * stride
    for dim in range(axis + 1, len(shape)):
        below = prod(shape[dim + 1 :])
        place = place + (inputs[dim] * below if below > 1 else inputs[dim])
    return IndexMap(inputs, (*inputs[:axis], place))


def own_buffer(func: PrimFunc, block: str, buffer: str, verb: str) -> Buffer:
    """An allocation of `func` that the block writes."""
    place = find_block(func, block)
    found = find_buffer(func, buffer)
    writers = [i.block for i in accesses(func) if i.is_write and i.buffer is found]
    if found in func.params:
        copy = "cache_write" if place.stmt in writers else "cache_read"
        refuse(
            "E147",
            f"{verb}: {buffer} is a parameter: its storage belongs to the caller",
            hint=f'sch.{copy}("{block}", "{buffer}") first: the copy is ours',
        )
    if place.stmt not in writers:
        names = dict.fromkeys(f'"{b.name}"' for b in writers if b is not None)
        refuse(
            "E117",
            f'{verb}: block "{block}" does not write {buffer}',
            at=place.stmt,
            hint=f"the block {' or '.join(names)} writes it" if names else "",
        )
    return found


def check_scope(scope: str) -> None:
    """Refuse a scope that does not exist."""
    if scope not in SCOPES:
        refuse("E117", f'unknown scope "{scope}"', hint=", ".join(SCOPES))


def _with_layout(func: PrimFunc, old: Buffer, layout: IndexMap, verb: str) -> PrimFunc:
    shape = layout.shape(old.shape)
    layout.check_one_to_one(old.shape)
    if prod(shape) > max(SMALL, MOST_PADDING * prod(old.shape)):
        refuse(
            "E146",
            f"{verb}: {old.name} would grow from {prod(old.shape)} to {prod(shape)} elements",
            hint=f"a map that fills its shape; at most {MOST_PADDING} times the size is allowed",
        )
    new = replace(old, shape=shape)
    hint = "a map made of sums, quotients and remainders of one input each"
    return finish(with_storage(func, old, new, layout), "E146", hint)


def with_storage(func: PrimFunc, old: Buffer, new: Buffer, layout: IndexMap | None) -> PrimFunc:
    """`func` with an allocation exchanged for another, its indices sent through `layout`."""
    allocs = tuple(new if buffer is old else buffer for buffer in func.allocs)
    return replace(func, allocs=allocs, body=_Relay(old, new, layout).visit(func.body))


class _Relay(Mutator):
    """Sends the accesses of a buffer to another one, through an index map."""

    def __init__(self, old: Buffer, new: Buffer, layout: IndexMap | None):
        self.old, self.new, self.layout = old, new, layout

    def visit_Load(self, item: Load) -> Any:
        return self._moved(self.visit_children(item))

    def visit_Store(self, item: Store) -> Any:
        return self._moved(self.visit_children(item))

    def _moved(self, item: Any) -> Any:
        if item.buffer is not self.old:
            return item
        indices = item.indices if self.layout is None else self.layout(item.indices)
        return replace(item, buffer=self.new, indices=indices)
