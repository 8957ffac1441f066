"""Reductions along rows, and what is computed from them: softmax, layer norm, sums.

A row is finished before the next begins, so that it stays in the first-level cache. Each sum is
kept in several vectors of partial sums, which do not wait for each other.
"""

from math import prod

from minimlc.dtypes import DTYPES
from minimlc.errors import ScheduleError
from minimlc.node import walk
from minimlc.recipes.views import (
    HINT,
    WORTH_THREADS,
    added,
    block_of,
    extent,
    loops_below,
    loops_of,
)
from minimlc.schedule import Schedule
from minimlc.target import Target
from minimlc.tir.nodes import Load, Store

VECTORS = 8
"""Vectors of partial sums: what adds and what loads are then about equally busy."""

LONG_ROW = 16
"""Elements along the last of several axes from which on a sum over them is for this recipe."""

MOST_WRITTEN_OUT = 8
"""Steps of a sum that become straight code."""


def rowwise(sch: Schedule, block: str | None = None, *, target: Target | None = None) -> Schedule:
    """Fast reductions along the last axis, with the element-wise work before and after them.

    Takes the whole function: its last block is what all others are computed for, row by row.
    `block` names a reduction that must be among them. Raises `ScheduleError` where there is none.
    """
    target = target or Target.host()
    names = sch.blocks()
    reductions = [name for name in names if is_along_rows(sch, name)]
    if not reductions or (block is not None and block not in reductions):
        what = f'block "{block}" is' if block is not None else "no block is"
        raise ScheduleError(
            f"rowwise: {what} a reduction along the last axis", code="E170", hint=HINT
        )
    return row_by_row(sch, names, target)


def row_by_row(sch: Schedule, names: list[str], target: Target) -> Schedule:
    """Blocks in a row, each row of the last one finished before the next begins."""
    last = names[-1]
    reductions = [name for name in names if is_along_rows(sch, name)]
    others = [name for name in sch.blocks() if name not in names]
    elements = prod(extent(sch, last, loop) for loop in sch.loops(last))
    partial: list[str] = []
    for name in reductions:
        before = sch
        sch = in_lanes(sch, name, target)
        partial += added(before, sch)
    names = [name for name in sch.blocks() if name not in others]
    rows = loops_of(sch, last, "S")[: None if last in reductions else -1]
    long = [loop for loop in rows if extent(sch, last, loop) > 1]
    shared = long[:1] if elements >= WORTH_THREADS else []
    if rows:
        for name in reversed([name for name in names if name != last]):
            sch = sch.compute_at(name, rows[-1])
    for name in names:
        sch = in_vectors(sch, name, rows, name in partial)
    for loop in shared:
        sch = sch.parallel(loop)
    return sch


def is_along_rows(sch: Schedule, name: str) -> bool:
    """Whether a block reduces by its innermost loops alone, and the last walks along its inputs."""
    item = block_of(sch, name)
    sums = loops_of(sch, name, "R")
    if not isinstance(item.init, Store) or {it.kind for it in item.iters} - {"S", "R"}:
        return False
    if not sums or sch.loops(name)[-len(sums) :] != sums or is_short(sch, name, sums):
        return False
    last = [it.var for it in item.iters if it.kind == "R"][-1]
    loads = [part for part in walk(item.body) if isinstance(part, Load)]
    return not any(last in walk(index) for load in loads for index in load.indices[:-1])


def is_short(sch: Schedule, name: str, sums: list[str]) -> bool:
    """Whether a sum over several axes goes along rows of few elements: a window's, perhaps."""
    return len(sums) > 1 and extent(sch, name, sums[-1]) < LONG_ROW


def in_lanes(sch: Schedule, name: str, target: Target) -> Schedule:
    """Partial sums in vectors: every lane takes each so-manieth element of the row."""
    k = loops_of(sch, name, "R")[-1]
    item = block_of(sch, name)
    assert isinstance(item.init, Store)
    lanes = target.vector_bits // DTYPES[item.init.buffer.dtype].bits
    size = extent(sch, name, k)
    if size < 2 * lanes:
        return sch
    fits = [n * lanes for n in (VECTORS, 4, 2, 1) if size >= 2 * n * lanes]
    wide = next((width for width in fits if size % width == 0), fits[0])
    sch = sch.split(k, [None, wide])
    sch = sch.rfactor(loops_of(sch, name, "R")[-1])
    if wide > lanes:
        sch = sch.split(loops_of(sch, name, "R")[-1], [None, lanes])
        sch = sch.rfactor(loops_of(sch, name, "R")[-1])
    return sch


def in_vectors(sch: Schedule, name: str, rows: list[str], is_partial: bool) -> Schedule:
    """The innermost loop in lanes; what adds the last lanes up is written out."""
    inner = loops_below(sch, name, rows[-1]) if rows else sch.loops(name)
    sums = loops_of(sch, name, "R")
    if not inner:
        return sch
    if not sums:
        return sch.vectorize(inner[-1])
    order = [*sums, *(loop for loop in inner if loop not in sums)]
    ready = sch.reorder(*order) if len(order) > 1 else sch
    ready = ready.decompose_reduction(name, at=sums[0])
    init, update = added(sch, ready)
    if is_partial:
        ready = ready.vectorize(ready.loops(init)[-1]).vectorize(ready.loops(update)[-1])
    return ready.unroll(sums[0]) if extent(ready, update, sums[0]) <= MOST_WRITTEN_OUT else ready
