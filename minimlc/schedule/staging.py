"""Copies of buffers beside a block: the places they stand in, and the blocks that make them."""

from collections.abc import Sequence
from typing import NamedTuple

from minimlc.node import walk
from minimlc.schedule.fresh import Names, Space, store_nest
from minimlc.schedule.redirect import At
from minimlc.schedule.tree import Place, replaced, replaced_in, with_allocs
from minimlc.tir.analysis.access import Access
from minimlc.tir.nodes import (
    Block,
    Buffer,
    Cast,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
    const,
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
    places: list[Anchor] = []
    loops: tuple[For, ...] = ()
    for stmt in (*place.around, place.stmt):
        if isinstance(stmt, For | Block | IfThenElse):
            places.append(Anchor(stmt, loops))
        if isinstance(stmt, For):
            loops = (*loops, stmt)
        if isinstance(stmt, Block):
            break
    return places


def inside(items: Sequence[Access], stmt: Stmt) -> list[Access]:
    """The accesses that stand in a statement."""
    if isinstance(stmt, For):
        return [item for item in items if stmt in item.loops]
    nodes = set(walk(stmt))
    return [item for item in items if item.node in nodes]


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
