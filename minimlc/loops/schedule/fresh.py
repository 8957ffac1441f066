"""New parts that primitives make: names, copies of blocks, and nests around a block."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.walks import blocks_in, buffers_in, loops_in
from minimlc.loops.proofs.access import loop_ranges
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.regions import Box, Side
from minimlc.loops.schedule.redirect import At
from minimlc.loops.schedule.tree import nest
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Node, replace


class Names:
    """Fresh names: unique among the loops, iters and buffers, or among the blocks, of `func`."""

    def __init__(self, func: ir.PrimFunc):
        self.symbols = UniqueNames(reserved=(), spell=str)
        blocks = blocks_in(func.body)
        self.symbols.reserve(it.var.name for block in blocks for it in block.iters)
        self.symbols.reserve(loop.var.name for loop in loops_in(func.body))
        buffers = (*func.params, *func.allocs, *buffers_in(func.body))
        self.symbols.reserve(buffer.name for buffer in buffers)
        self.blocks = UniqueNames((b.name for b in blocks), reserved=(), spell=str)

    def var(self, name: str) -> ir.Var:
        return ir.Var(self.symbols.take(name))

    def buffer(self, name: str) -> str:
        return self.symbols.take(name)

    def block(self, name: str) -> str:
        return self.blocks.take(name)

    def again(
        self,
        loops: Iterable[ir.For] = (),
        iters: Iterable[ir.BlockIter] = (),
        buffers: Iterable[ir.Buffer] = (),
        ending: str = "",
    ) -> dict[Node, Node]:
        """The symbols that loops, iters and buffers bind, each with a fresh one to substitute."""
        fresh: dict[Node, Node] = {lp.var: self.var(f"{lp.var.name}{ending}") for lp in loops}
        fresh |= {it.var: self.var(it.var.name) for it in iters}
        fresh |= {buffer: replace(buffer, name=self.buffer(buffer.name)) for buffer in buffers}
        return fresh


def sibling(
    block: ir.Block,
    body: ir.Stmt,
    iters: Iterable[ir.BlockIter],
    loops: Iterable[ir.For],
    ending: str,
    names: Names,
    fixed: Mapping[Node, Node] | None = None,
) -> ir.Stmt:
    """A part of a block's work (`body`, over some of its `iters`) in a separate nest.

    The copy runs under the block's predicate, in copies of `loops`; other loops, which are
    `fixed`, have one value in it, and other iters are 0. The names of all end in `_ending`.
    """
    iters, loops = tuple(iters), tuple(loops)
    start: dict[Node, Node] = {it.var: ir.index(0) for it in block.iters if it not in iters}
    fresh = names.again(loops_in(body), iters, buffers_in(body))
    name = names.block(f"{block.name}_{ending}")
    fresh |= names.again(loops, ending=f"_{ending}")
    copy = replace(block, name=name, iters=iters, init=None, body=body, annotations=())
    around = [replace(loop, annotations=()) for loop in loops]
    return ir.substitute(nest(around, copy), {**start, **(fixed or {}), **fresh})


def whole(shape: Sequence[int]) -> Box:
    """The box that is all of a shape."""
    return tuple(Side(ir.index(0), size) for size in shape)


class Sweep(NamedTuple):
    """New loops over a box, the index along each of its sides, and conditions on their ranges."""

    loops: list[ir.For]
    values: list[ir.Expr]
    clips: list[ir.Expr]


def sweep(
    box: Box,
    sizes: Sequence[int],
    names: Names,
    outer: Sequence[ir.For] = (),
    *,
    units: bool = False,
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
            new.loops.append(ir.For(var, ir.index(side.extent), "serial", ir.seq(())))
        low, high = ranges.bounds(value)
        new.values.append(value)
        new.clips.extend([] if low >= 0 else [value >= 0])
        new.clips.extend([] if high < size else [value < size])
    return new


def fresh_iters(
    values: Sequence[ir.Expr], sizes: Sequence[int], names: Names, kinds: Sequence[ir.IterKind] = ()
) -> tuple[ir.BlockIter, ...]:
    """Iters `v0`, `v1`, ... of these values and extents, spatial unless `kinds` are given."""
    spatial: list[ir.IterKind] = ["S"] * len(sizes)
    parts = zip(values, sizes, kinds or spatial, strict=True)
    return tuple(
        ir.BlockIter(names.var(f"v{dim}"), size, kind, value)
        for dim, (value, size, kind) in enumerate(parts)
    )


class Space(NamedTuple):
    """The domain of a copy's iters: all values of these sizes, or a box of them, whose corner may
    depend on the `loops` around.
    """

    sizes: Sequence[int]
    box: Box | None = None
    loops: tuple[ir.For, ...] = ()


def store_nest(
    name: str, space: Space, names: Names, store: Callable[[tuple[ir.Var, ...]], ir.Store]
) -> ir.Stmt:
    """A block of one store, made of the block's spatial iters, in new loops."""
    sizes, box, around = space
    loops, values, clips = sweep(box or whole(sizes), sizes, names, around, units=box is None)
    iters = fresh_iters(values, sizes, names)
    body = store(tuple(it.var for it in iters))
    return nest(loops, ir.Block(names.block(name), iters, ir.conjunction(clips), None, body))


WIDEST = "int64"
"""The dtype of an element plus an offset, until it is narrowed to one with room for it."""


class End(NamedTuple):
    """A buffer that a copy reads or writes, and its index for the values of the copy's iters."""

    buffer: ir.Buffer
    at: At = tuple


def copy_nest(
    source: End, target: End, space: Space, names: Names, name: str, offset: int = 0
) -> ir.Stmt:
    """A block that copies element by element, in new loops.

    To integers an `offset` is added, which the target's dtype has room for.
    """

    def copied(at: Sequence[ir.Var]) -> ir.Store:
        load: ir.Expr = ir.Load(source.buffer, tuple(source.at(at)))
        if offset:
            load = ir.Cast(WIDEST, load) + ir.const(offset, WIDEST)
        if load.dtype != target.buffer.dtype:
            load = ir.Cast(target.buffer.dtype, load)
        return ir.Store(target.buffer, tuple(target.at(at)), load)

    return store_nest(name, space, names, copied)
