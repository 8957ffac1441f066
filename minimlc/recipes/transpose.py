"""Transposes: a square of elements at a time, read by rows and written by rows."""

from math import gcd, prod

from minimlc.dtypes import DTYPES
from minimlc.errors import ScheduleError
from minimlc.node import walk
from minimlc.recipes.views import (
    HINT,
    WORTH_THREADS,
    added,
    block_of,
    loops_below,
    loops_feeding_axis,
    started,
)
from minimlc.schedule import Schedule
from minimlc.target import Target
from minimlc.tir.nodes import Block, Load, Store

LINE = 64
"""Bytes of a cache line: a square's side."""


def transpose(
    sch: Schedule, block: str | None = None, *, target: str | Target | None = None
) -> Schedule:
    """A fast block that reads a buffer across the rows which it writes: B[j, i] = f(A[i, j]).

    Each line of memory is read whole and written whole, by way of a square in the first-level
    cache. `block` names the transpose, by default the first there is. Raises `ScheduleError`
    where there is none.
    """
    started(sch, target)
    for name in [block] if block is not None else sch.blocks():
        across = _read_across(block_of(sch, name))
        if across is not None:
            return in_squares(sch, name, across)
    what = f'block "{block}" reads' if block is not None else "no block reads"
    raise ScheduleError(f"transpose: {what} across the rows it writes", code="E170", hint=HINT)


def _read_across(block: Block) -> tuple[str, int] | None:
    """The one buffer that a block reads across, and the axis of the output along its rows."""
    if any(it.kind != "S" for it in block.iters) or not isinstance(block.body, Store):
        return None
    output = block.body.indices
    spatial = {it.var: it for it in block.iters}
    if any(index not in spatial for index in output) or len(set(output)) != len(output):
        return None
    loads = [part for part in walk(block.body.value) if isinstance(part, Load) and part.indices]
    found = [
        (load.buffer.name, output.index(load.indices[-1]))
        for load in loads
        if load.indices[-1] in output[:-1]
        and output[-1] in load.indices
        and set(load.indices) <= set(output)
    ]
    return found[0] if len(found) == 1 else None


def in_squares(sch: Schedule, name: str, across: tuple[str, int]) -> Schedule:
    """Cut both axes into pieces of a line, and go through A by way of a square of its own."""
    buffer, axis = across
    item = block_of(sch, name)
    assert isinstance(item.body, Store)
    side = LINE * 8 // DTYPES[item.body.buffer.dtype].bits
    extents = {it.var: it.extent for it in item.iters}
    sizes = [extents[index] for index in item.body.indices]  # type: ignore[index]
    side = side // 2 if gcd(sizes[axis], sizes[-1], side) == side // 2 else side
    if min(sizes[axis], sizes[-1]) < side:
        why = f"{sizes[axis]} by {sizes[-1]} elements are less than a square of {side}"
        raise ScheduleError(f'transpose: block "{name}": {why}', code="E170")
    cached = sch.cache_read(name, buffer)
    (copy,) = added(sch, cached)
    sch = cached
    for place in (axis, -1):
        (loop,) = loops_feeding_axis(sch, name, place)
        sch = sch.split(loop, [None, side])
    row, along = loops_feeding_axis(sch, name, axis)
    column, lane = loops_feeding_axis(sch, name, -1)
    sch = sch.reorder(row, column, along, lane).compute_at(copy, column)
    sch = sch.vectorize(lane).unroll(along)
    *rows, line = loops_below(sch, copy, column)
    sch = sch.vectorize(line)
    for loop in rows:
        sch = sch.unroll(loop)
    outer = sch.loops(name)[0]
    return sch.parallel(outer) if prod(sizes) >= WORTH_THREADS else sch
