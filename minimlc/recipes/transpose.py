"""Transposes: a small rectangle of elements at a time, in registers."""

from math import gcd, prod

from minimlc.recipes.views import (
    WORTH_THREADS,
    bytes_of,
    cut,
    divisor,
    extent,
    first,
    in_registers,
    iterations,
    loads_in,
    loops_below,
    loops_feeding_axis,
    making,
    refusal,
    started,
    store_of,
)
from minimlc.schedule import Schedule
from minimlc.target import Target
from minimlc.tir.nodes import Block, Load, Store

LINE = 64
"""Bytes of a cache line."""

PAGE = 4096
"""Lines that are a multiple of this apart compete for the same few places in the first cache."""

READ = 32
"""Bytes side by side that one read of a rectangle gets."""

WRITE = 16
"""Bytes side by side that one write of a rectangle puts."""

MOST = 8
"""Elements on a side of a rectangle: more of them do not fit into the registers."""

RUN = 256
"""Elements of a row that are written before those of the next, where what they are read from is
not in the cache for the next row: nor is, in long columns, where the pages of so many rows are.
"""

MANY = 16
"""Iterations that threads can share out evenly enough."""


def transpose(
    sch: Schedule, block: str | None = None, *, target: str | Target | None = None
) -> Schedule:
    """A fast block that reads a buffer across the rows which it writes: B[j, i] = f(A[i, j]).

    It takes a few elements of a few rows at a time, which turn in registers; what is left over at
    the edges has loops of its own. `block` names the transpose, by default the first there is.
    Raises `ScheduleError` where there is none, or where plain loops are as fast.
    """
    target = started(sch, target)
    turned = first(sch, block, _read_across)
    if turned is None:
        what = f'block "{block}" reads' if block is not None else "no block reads"
        raise refusal(f"transpose: {what} across the rows it writes")
    name, across = turned
    _refuse_what_is_fast(sch, name, *across, target)
    return in_rectangles(sch, name, *across, target)


def _read_across(block: Block) -> tuple[Load, int] | None:
    """The one load that a block does across, and the axis of the output along its rows."""
    if any(it.kind != "S" for it in block.iters) or not isinstance(block.body, Store):
        return None
    output = block.body.indices
    spatial = {it.var: it for it in block.iters}
    if any(index not in spatial for index in output) or len(set(output)) != len(output):
        return None
    across = [
        (load, output.index(load.indices[-1]))
        for load in loads_in(block.body.value)
        if load.indices
        and load.indices[-1] in output[:-1]
        and output[-1] in load.indices
        and set(load.indices) <= set(output)
    ]
    return across[0] if len(across) == 1 else None


def _refuse_what_is_fast(sch: Schedule, name: str, load: Load, axis: int, target: Target) -> None:
    """Refuse where there is nothing to turn; or rows stay in the cache, and elements are narrow or
    wide: reading them one by one takes no longer than to turn narrow ones, or a few wide ones.
    """
    ends = [loops_feeding_axis(sch, name, place) for place in (axis, -1)]
    if [len(loops) for loops in ends] != [1, 1]:
        raise refusal(f'transpose: block "{name}" is not in loops of its own', "")
    if min(extent(sch, name, loop) for (loop,) in ends) < 2:
        raise refusal(f'transpose: block "{name}" has nothing to turn', "")
    lines = iterations(sch, name, loops_below(sch, name, *ends[0]))
    if bytes_of(load.buffer.dtype) != 4 and _stays(sch, name, load, lines, target):
        why = "all lines that a row is read from stay in the first cache"
        raise refusal(f'transpose: block "{name}": {why}', "")


def _stays(sch: Schedule, name: str, load: Load, lines: int, target: Target) -> bool:
    """Whether the first cache holds all lines that a row of the output is read from, so that the
    next row finds the elements beside; or a row uses them up by itself.
    """
    place = load.indices.index(store_of(sch, name).indices[-1])
    apart = prod(load.buffer.shape[place + 1 :]) * bytes_of(load.buffer.dtype)
    return apart < LINE or lines <= target.l1 // max(LINE, gcd(apart, PAGE))


def in_rectangles(sch: Schedule, name: str, load: Load, axis: int, target: Target) -> Schedule:
    """Cut both axes, the outer one first; then go through A by way of a rectangle of its own."""
    (row,) = loops_feeding_axis(sch, name, axis)
    (column,) = loops_feeding_axis(sch, name, -1)
    others = [loop for loop in sch.loops(name) if loop not in (row, column)]
    sizes = {loop: extent(sch, name, loop) for loop in sch.loops(name)}
    enough = prod(sizes.values()) >= WORTH_THREADS
    size = bytes_of(load.buffer.dtype)
    lanes = min(MOST, WRITE // size)
    again = _stays(sch, name, load, sizes[column], target)
    rows = lanes if again else min(MOST, READ // size)
    steps = {row: min(rows, sizes[row]), column: min(lanes, sizes[column])}
    few = enough and prod(sizes[loop] for loop in others) < MANY > sizes[row] // steps[row]
    first, second = (column, row) if few and sizes[column] > sizes[row] else (row, column)
    if sch.loops(name) != [*others, first, second]:
        sch = sch.reorder(*others, first, second)
    sch, (outer, inner) = _cut_evenly(sch, name, first, steps[first])
    sch = sch.reorder(outer, second, inner)
    sch, (within, lane) = _cut_evenly(sch, name, second, steps[second])
    along, lane = (inner, lane) if first == row else (lane, inner)
    sch = sch.reorder(within, along, lane) if first == row else sch
    sch = _through_registers(sch, name, load.buffer.name, within, along, lane)
    run = divisor(extent(sch, name, within), RUN // lanes)
    alone = first == row and sizes[column] % lanes == 0
    if alone and not again and 2 * run * lanes >= RUN:
        sch, (runs, _) = cut(sch, name, within, run)
        sch = sch.reorder(runs, outer)
        others = [*others, runs]
    if not enough:
        return sch
    counts = {loop: extent(sch, name, loop) for loop in (*others, outer)}
    longest = max([outer, *others], key=lambda loop: counts[loop])
    return sch.parallel(next((loop for loop in others if counts[loop] >= MANY), longest))


def _cut_evenly(sch: Schedule, name: str, loop: str, size: int) -> tuple[Schedule, list[str]]:
    """A loop in runs of `size`; a rest has a loop of its own, so that no run asks where it ends."""
    whole = extent(sch, name, loop) // size * size
    if whole < extent(sch, name, loop):
        sch = sch.loop_partition(loop, [whole])
    return cut(sch, name, loop, size)


def _through_registers(
    sch: Schedule, name: str, buffer: str, around: str, along: str, lane: str
) -> Schedule:
    """Read a rectangle by rows and write it by columns."""
    sch, (copy,) = making(sch, "cache_read", name, buffer)
    sch = in_registers(sch.compute_at(copy, around), [along, lane])
    return in_registers(sch, loops_below(sch, copy, around))
