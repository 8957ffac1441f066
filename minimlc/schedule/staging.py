"""Copies of buffers beside a block: the places they stand in, and the blocks that make them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minimlc.node import walk
from minimlc.schedule.redirect import At
from minimlc.schedule.tree import Names, Place, nest, replaced, replaced_in, with_allocs
from minimlc.tir.analysis.access import Access, loop_ranges
from minimlc.tir.analysis.arith import constant_value
from minimlc.tir.analysis.regions import Box, Side
from minimlc.tir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Cast,
    Expr,
    For,
    IfThenElse,
    IterKind,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
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


def anchors(place: Place) -> list[Anchor]:
    """The statements that hold a block, outermost first: a copy can stand beside each.

    There are none inside a block: its iters would be out of sight.
    """
    found: list[Anchor] = []
    loops: tuple[For, ...] = ()
    for stmt in (*place.around, place.stmt):
        if isinstance(stmt, For | Block | IfThenElse):
            found.append(Anchor(stmt, loops))
        if isinstance(stmt, For):
            loops = (*loops, stmt)
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


class Sweep(NamedTuple):
    """New loops over a box, the index along each of its sides, and what keeps these in range."""

    loops: list[For]
    values: list[Expr]
    clips: list[Expr]


def sweep(
    box: Box, sizes: Sequence[int], names: Names, outer: Sequence[For] = (), *, units: bool = False
) -> Sweep:
    """Loops `ax0`, `ax1`, ... over a box in a space of these sizes.

    Its corner may depend on the `outer` loops. A side of one element has a loop if `units`.
    """
    new = Sweep([], [], [])
    ranges = loop_ranges(tuple(outer))
    for dim, (side, size) in enumerate(zip(box, sizes, strict=True)):
        value = side.start
        if units or side.extent > 1:
            var = names.var(f"ax{dim}")
            ranges = ranges.extended({var: side.extent})
            value = var if constant_value(side.start) == 0 else side.start + var
            new.loops.append(For(var, index(side.extent), "serial", seq(())))
        low, high = ranges.bounds(value)
        new.values.append(value)
        new.clips.extend([] if low >= 0 else [value >= 0])
        new.clips.extend([] if high < size else [value < size])
    return new


def fresh_iters(
    values: Sequence[Expr], sizes: Sequence[int], names: Names, kinds: Sequence[IterKind] = ()
) -> tuple[BlockIter, ...]:
    """Iters `v0`, `v1`, ... of these values and extents, spatial unless `kinds` says otherwise."""
    spatial: list[IterKind] = ["S"] * len(sizes)
    parts = zip(values, sizes, kinds or spatial, strict=True)
    return tuple(
        BlockIter(names.var(f"v{dim}"), size, kind, value)
        for dim, (value, size, kind) in enumerate(parts)
    )


class Space(NamedTuple):
    """The values of a copy's iters, of these sizes; of them a box, whose corner may depend on the
    `loops` around, or all.
    """

    sizes: Sequence[int]
    box: Box | None = None
    loops: tuple[For, ...] = ()


def store_nest(
    name: str, space: Space, names: Names, store: Callable[[tuple[Var, ...]], Store]
) -> Stmt:
    """A block of one store, made of the block's spatial iters, with loops of its own."""
    sizes, box, around = space
    loops, values, clips = sweep(box or whole(sizes), sizes, names, around, units=box is None)
    iters = fresh_iters(values, sizes, names)
    body = store(tuple(it.var for it in iters))
    return nest(loops, Block(names.block(name), iters, conjunction(clips), None, body))


class End(NamedTuple):
    """A buffer that a copy reads or writes, and its index for the values of the copy's iters."""

    buffer: Buffer
    at: At = tuple


def copy_nest(
    source: End, target: End, space: Space, names: Names, name: str, offset: int = 0
) -> Stmt:
    """A block that copies element by element, with loops of its own.

    To integers an `offset` is added, which the target's dtype has room for.
    """

    def copied(at: Sequence[Var]) -> Store:
        load: Expr = Load(source.buffer, tuple(source.at(at)))
        if offset:
            load = Cast(WIDEST, load) + const(offset, WIDEST)
        if load.dtype != target.buffer.dtype:
            load = Cast(target.buffer.dtype, load)
        return Store(target.buffer, tuple(target.at(at)), load)

    return store_nest(name, space, names, copied)


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
    middle = replaced_in(anchor, {block: new_block})
    return with_allocs(replaced(func, {anchor: seq((*before, middle, *after))}), [cache])
