"""Copies of buffers beside a block: the places they stand in, and the blocks that make them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from minimlc.node import Mutator, replace, walk
from minimlc.schedule.tree import Names, Place, nest, replaced, with_alloc
from minimlc.tir.analysis.access import Access, loop_ranges
from minimlc.tir.analysis.arith import Ranges, constant_value
from minimlc.tir.analysis.regions import Box, Side
from minimlc.tir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Cast,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Stmt,
    Store,
    conjunction,
    const,
    index,
    seq,
)

WIDEST = "int64"
"""Holds the sum of an element and an offset, until it is narrowed to what has room for it."""


class Anchor(NamedTuple):
    """The statement beside which a copy is made, and the loops around that statement."""

    stmt: Stmt
    loops: tuple[For, ...]
    inner: tuple[For, ...]


def anchors(place: Place) -> list[Anchor]:
    """The statements that hold a block, outermost first: a copy can stand beside each.

    There are none inside a block: its iters would be out of sight.
    """
    path = [*place.around, place.stmt]
    found = []
    for depth, stmt in enumerate(path):
        if isinstance(stmt, For | Block | IfThenElse):
            outer = tuple(s for s in path[:depth] if isinstance(s, For))
            inner = tuple(s for s in path[depth:] if isinstance(s, For))
            found.append(Anchor(stmt, outer, inner))
        if isinstance(stmt, Block):
            break
    return found


def inside(items: Sequence[Access], stmt: Stmt) -> list[Access]:
    """The accesses that stand in a statement."""
    if isinstance(stmt, For):
        return [item for item in items if stmt in item.loops]
    nodes = set(walk(stmt))
    return [item for item in items if item.node in nodes]


def whole(shape: Sequence[int]) -> Box:
    """The box that is all of a shape."""
    return tuple(Side(index(0), size) for size in shape)


class End(NamedTuple):
    """A buffer that a copy reads or writes, and its index for the values of the copy's iters."""

    buffer: Buffer
    at: Callable[[Sequence[Expr]], Sequence[Expr]] = tuple


def copy_nest(
    source: End,
    target: End,
    sizes: Sequence[int],
    names: Names,
    name: str,
    box: Box | None = None,
    loops: Sequence[For] = (),
    offset: int = 0,
) -> Stmt:
    """A block over iters of these sizes that copies element by element, with loops of its own.

    It runs over a box of the iters, whose corner may speak of the `loops` around; or over all.
    To integers an `offset` is added, which the target's dtype has room for.
    """
    ranges = loop_ranges(tuple(loops))
    own: list[For] = []
    iters: list[BlockIter] = []
    clips: list[Expr] = []
    for dim, (side, size) in enumerate(zip(box or whole(sizes), sizes, strict=True)):
        value = side.start
        if box is None or side.extent > 1:
            var = names.var(f"ax{dim}")
            ranges = ranges.extended({var: side.extent})
            value = var if constant_value(side.start) == 0 else side.start + var
            own.append(For(var, index(side.extent), "serial", seq(())))
        iters.append(BlockIter(names.var(f"v{dim}"), size, "S", value))
        clips += _clips(value, size, ranges)
    values = [it.var for it in iters]
    load: Expr = Load(source.buffer, tuple(source.at(values)))
    if offset:
        load = Cast(WIDEST, load) + const(offset, WIDEST)
    if load.dtype != target.buffer.dtype:
        load = Cast(target.buffer.dtype, load)
    store = Store(target.buffer, tuple(target.at(values)), load)
    block = Block(names.block(name), tuple(iters), conjunction(clips), None, store)
    return nest(own, block)


def _clips(value: Expr, size: int, ranges: Ranges) -> list[Expr]:
    low, high = ranges.bounds(value)
    below = [] if low >= 0 else [value >= 0]
    return below + ([] if high < size else [value < size])


def beside(
    func: PrimFunc,
    anchor: Stmt,
    block: Stmt,
    new_block: Stmt,
    before: Sequence[Stmt],
    after: Sequence[Stmt],
    cache: Buffer,
) -> PrimFunc:
    """`func` with a block replaced, copies around its anchor, and a buffer for them."""
    middle = new_block
    if anchor is not block:
        middle = replaced(replace(func, body=anchor), {block: new_block}).body
    return with_alloc(replaced(func, {anchor: seq((*before, middle, *after))}), cache)


class Rename(Mutator):
    """Exchanges buffers: in loads, in stores, or both; indices may be exchanged with them."""

    def __init__(
        self,
        loads: Mapping[Buffer, Buffer],
        stores: Mapping[Buffer, Buffer],
        indices: Sequence[Expr] | None = None,
    ):
        self.loads, self.stores, self.indices = loads, stores, indices

    def visit_Load(self, item: Load) -> Any:
        item = self.visit_children(item)
        return self._moved(item, self.loads)

    def visit_Store(self, item: Store) -> Any:
        item = self.visit_children(item)
        return self._moved(item, self.stores)

    def _moved(self, item: Any, mapping: Mapping[Buffer, Buffer]) -> Any:
        if item.buffer not in mapping:
            return item
        indices = item.indices if self.indices is None else tuple(self.indices)
        return replace(item, buffer=mapping[item.buffer], indices=indices)
