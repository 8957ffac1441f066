"""The last steps of a tree, between the threads of a warp: by registers instead of memory.

The values are combined in the same order as in shared memory, so results are the same.
"""

from collections.abc import Mapping

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.nodes import THREAD
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.lower.lower import TENSOR
from minimlc.loops.schedule.redirect import Redirect, fixed, to
from minimlc.loops.values.node import Mutator, node, structural_equal
from minimlc.targets.gpu.launch import Axis
from minimlc.targets.gpu.warps import LANES, X

SHUFFLES = "shuffles"
"""The name of the unit that a tree's last steps are for."""
HALVES = "halves"
"""The annotation with the distance between the threads in each step."""
_HERE = (tir.index(0),)


@node
class Shuffle(tir.Stmt):
    """A thread's `target` becomes the `source` of the one that is `down` further on in its warp."""

    target: tir.Load
    source: tir.Load
    down: int


def is_tree(block: tir.Block) -> bool:
    """Whether a block holds the steps of a tree between the threads of a warp."""
    return (TENSOR, SHUFFLES) in block.annotations


def fits(block: tir.Block, axes: Mapping[str, Axis], bound: frozenset[str]) -> bool:
    """Whether threads that combine values are in one warp, and all of its threads come there."""
    used = {loop.thread for loop in loops_in(block)}
    wide = [axis for axis in axes.values() if axis.name.startswith(THREAD) and axis.extent > 1]
    size = axes[X].extent
    alone = all(axis.name == X for axis in wide)
    return {a.name for a in wide} <= used | bound and (alone or not (size % LANES and LANES % size))


def shuffled(block: tir.Block, axes: Mapping[str, Axis]) -> tir.Stmt:
    """A tree's steps by registers. Steps are updates under a condition; what may come before them
    stores the values of threads.
    """
    halves = dict(block.annotations)[HALVES]
    assert isinstance(halves, tuple)
    parts = block.body.stmts if isinstance(block.body, tir.Seq) else (block.body,)
    stmts = [_bound(stmt, axes) for stmt in parts]
    first, steps = stmts[: -len(halves)], stmts[-len(halves) :]
    *_, last = steps
    assert isinstance(last, tir.IfThenElse) and isinstance(last.then_case, tir.Store)
    shared, place = last.then_case.buffer, tir.Load(last.then_case.buffer, last.then_case.indices)
    mine, other = (
        tir.Buffer(f"{shared.name}_{n}", (1,), shared.dtype, "local") for n in ("own", "other")
    )
    kept = tir.Load(mine, _HERE)
    values = [Redirect({shared: to(mine, fixed(_HERE))}).visit(tir.seq(first))]
    values = values if first else [tir.Store(mine, _HERE, place)]
    for half, step in zip(halves, steps, strict=True):
        taken = _Taken(place, kept, tir.Load(other, _HERE)).visit(step)
        values += [Shuffle(tir.Load(other, _HERE), kept, half), taken]
    result = tir.Store(shared, place.indices, kept)
    values.append(tir.IfThenElse(tir.Binary("==", axes[X].var, tir.index(0)), result))
    return tir.Alloc(mine, tir.Alloc(other, tir.seq(values)))


def _bound(stmt: tir.Stmt, axes: Mapping[str, Axis]) -> tir.Stmt:
    """The part of a nest that a thread runs."""
    while isinstance(stmt, tir.For) and stmt.thread in axes:
        stmt = tir.substitute(stmt.body, {stmt.var: axes[stmt.thread].var})
    return stmt


class _Taken(Mutator):
    """An update of a place from another one of the same buffer, by registers."""

    def __init__(self, place: tir.Load, kept: tir.Load, other: tir.Load):
        self.place, self.kept, self.other = place, kept, other

    def visit_Load(self, item: tir.Load) -> tir.Expr:
        if item.buffer is not self.place.buffer:
            return item
        return self.kept if structural_equal(item, self.place) else self.other

    def visit_Store(self, item: tir.Store) -> tir.Stmt:
        return tir.Store(self.kept.buffer, _HERE, self.visit(item.value))
