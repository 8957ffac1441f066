"""The last steps of a tree, between the threads of a warp: by registers instead of memory.

The values are combined in the same order as in shared memory, so results are the same.
"""

from collections.abc import Mapping

from minimlc.codegen.gpu.launch import Axis
from minimlc.codegen.gpu.warps import LANES, X
from minimlc.codegen.lower import TENSOR
from minimlc.node import Mutator, node, structural_equal
from minimlc.schedule.redirect import Redirect, fixed, to
from minimlc.tir.analysis.threads import THREAD
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Expr,
    For,
    IfThenElse,
    Load,
    Seq,
    Stmt,
    Store,
    index,
    seq,
    substitute,
)
from minimlc.tir.walks import loops_in

SHUFFLES = "shuffles"
"""The name of the unit that a tree's last steps are for."""
HALVES = "halves"
"""The annotation that says how far apart the threads are in each step."""
_HERE = (index(0),)


@node
class Shuffle(Stmt):
    """A thread's `target` becomes the `source` of the one that is `down` further on in its warp."""

    target: Load
    source: Load
    down: int


def is_tree(block: Block) -> bool:
    """Whether a block holds the steps of a tree between the threads of a warp."""
    return (TENSOR, SHUFFLES) in block.annotations


def fits(block: Block, axes: Mapping[str, Axis], bound: frozenset[str]) -> bool:
    """Whether threads that combine values are in one warp, and all of its threads come there."""
    own = {loop.thread for loop in loops_in(block)}
    wide = [axis for axis in axes.values() if axis.name.startswith(THREAD) and axis.extent > 1]
    size = axes[X].extent
    alone = all(axis.name == X for axis in wide)
    return {a.name for a in wide} <= own | bound and (alone or not (size % LANES and LANES % size))


def shuffled(block: Block, axes: Mapping[str, Axis]) -> Stmt:
    """A tree's steps by registers. Steps are updates under a condition; what may come before them
    stores the values of threads.
    """
    halves = dict(block.annotations)[HALVES]
    assert isinstance(halves, tuple)
    parts = block.body.stmts if isinstance(block.body, Seq) else (block.body,)
    stmts = [_bound(stmt, axes) for stmt in parts]
    first, steps = stmts[: -len(halves)], stmts[-len(halves) :]
    *_, last = steps
    assert isinstance(last, IfThenElse) and isinstance(last.then_case, Store)
    shared, place = last.then_case.buffer, Load(last.then_case.buffer, last.then_case.indices)
    mine, other = (
        Buffer(f"{shared.name}_{n}", (1,), shared.dtype, "local") for n in ("own", "other")
    )
    own = Load(mine, _HERE)
    values = [Redirect({shared: to(mine, fixed(_HERE))}).visit(seq(first))]
    values = values if first else [Store(mine, _HERE, place)]
    for half, step in zip(halves, steps, strict=True):
        taken = _Taken(place, own, Load(other, _HERE)).visit(step)
        values += [Shuffle(Load(other, _HERE), own, half), taken]
    result = Store(shared, place.indices, own)
    values.append(IfThenElse(Binary("==", axes[X].var, index(0)), result))
    return Alloc(mine, Alloc(other, seq(values)))


def _bound(stmt: Stmt, axes: Mapping[str, Axis]) -> Stmt:
    """What a thread does of a nest."""
    while isinstance(stmt, For) and stmt.thread in axes:
        stmt = substitute(stmt.body, {stmt.var: axes[stmt.thread].var})
    return stmt


class _Taken(Mutator):
    """An update of a place from another one of the same buffer, by registers."""

    def __init__(self, place: Load, own: Load, other: Load):
        self.place, self.own, self.other = place, own, other

    def visit_Load(self, item: Load) -> Expr:
        if item.buffer is not self.place.buffer:
            return item
        return self.own if structural_equal(item, self.place) else self.other

    def visit_Store(self, item: Store) -> Stmt:
        return Store(self.own.buffer, _HERE, self.visit(item.value))
