"""Transposes: a small rectangle of elements at a time, in registers."""

from math import gcd, prod

from minimlc.loops.ir.nodes import Block, Load, Store
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    first,
    recipe,
    refusal,
    through_registers,
    worth_threads,
)

LINE = 64
"""Bytes of a cache line."""

PAGE = 4096
"""Lines at a distance of a multiple of this compete for the same set of the first cache."""

READ = 32
"""Bytes side by side that one read of a rectangle gets."""

WRITE = 16
"""Bytes side by side that one write of a rectangle puts."""

MOST, SQUARE = 8, 16
"""Elements on a side of a rectangle, more of which do not fit into the registers; and of a square,
where vectors are as long as a line, so that whole lines are read and written. Columns of a square
have most steps in common. Lines that compete for the same sets need it most; with shorter vectors,
they are lost before all of them is read, and narrow rectangles are faster.
"""

WORD, FEW = 4, 4
"""Of elements of at least so many bytes, so many rows are written at a time where more would
compete for the same sets.
"""

LEAST = 48
"""Rows and columns from which on what squares leave over at the edges is little."""

RUN = 256
"""Elements of a row that are written before those of the next row, where the cache does not keep
what they are read from: in long columns it loses even the translations of so many pages.
"""

MANY = 16
"""Iterations that threads can share out evenly enough."""


@recipe
def transpose(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast block that reads a buffer across the rows which it writes: B[j, i] = f(A[i, j]).

    It takes a few elements of a few rows at a time, which turn in registers; what is left over at
    the edges has loops of its own. `block` names the transpose, by default the first there is.
    Raises `ScheduleError` where there is none, or where plain loops are as fast.
    """
    why = "transpose: {} across the rows it writes"
    name, across = first(sch, block, _read_across, why, ("does not read", "reads"))
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
        for load in nodes_of(block.body.value, Load)
        if load.indices
        and load.indices[-1] in output[:-1]
        and output[-1] in load.indices
        and set(load.indices) <= set(output)
    ]
    return across[0] if len(across) == 1 else None


def _refuse_what_is_fast(sch: Draft, name: str, load: Load, axis: int, target: Target) -> None:
    """Refuse where there is nothing to turn; or where rows stay in the cache and elements are not
    of four bytes: reading them one by one takes no longer than turning narrow ones or a few wide
    ones.
    """
    ends = [sch.loops_along(name, place) for place in (axis, -1)]
    if [len(loops) for loops in ends] != [1, 1]:
        raise refusal(f'transpose: block "{name}" is not in loops of its own', "")
    if min(sch.extent(name, loop) for (loop,) in ends) < 2:
        raise refusal(f'transpose: block "{name}" has nothing to turn', "")
    lines = sch.iterations(name, sch.loops_below(name, *ends[0]))
    if bytes_of(load.buffer.dtype) != WORD and _stays(sch, name, load, lines, target):
        why = "all lines that a row is read from stay in the first cache"
        raise refusal(f'transpose: block "{name}": {why}', "")


def _stays(sch: Draft, name: str, load: Load, lines: int, target: Target) -> bool:
    """Whether the first cache holds all lines that a row of the output is read from, so that the
    next row finds its elements there; or a row uses up whole lines.
    """
    apart = _apart(sch, name, load)
    return apart < LINE or lines <= target.l1 // max(LINE, gcd(apart, PAGE))


def _apart(sch: Draft, name: str, load: Load) -> int:
    """How many bytes of what is read lie between neighbours of a row of the output."""
    place = load.indices.index(sch.store(name).indices[-1])
    return prod(load.buffer.shape[place + 1 :]) * bytes_of(load.buffer.dtype)


def _is_crowded(apart: int) -> bool:
    """Whether rows so many bytes apart compete for few sets of the first cache."""
    return gcd(apart, PAGE) > PAGE // 4


def in_rectangles(sch: Draft, name: str, load: Load, axis: int, target: Target) -> Draft:
    """Cut both axes, the outer one first; then go through A by way of a rectangle of its own."""
    (row,) = sch.loops_along(name, axis)
    (column,) = sch.loops_along(name, -1)
    others = [loop for loop in sch.loops(name) if loop not in (row, column)]
    sizes = {loop: sch.extent(name, loop) for loop in sch.loops(name)}
    enough = worth_threads(prod(sizes.values()), target)
    size = bytes_of(load.buffer.dtype)
    again = _stays(sch, name, load, sizes[column], target)
    long, crowded = target.vector_bits >= 8 * LINE, _is_crowded(_apart(sch, name, load))
    side = LINE // size if long and crowded else gcd(LINE // size, sizes[row], sizes[column])
    pair = sizes[row], sizes[column]
    far = min(pair) >= LEAST and prod(pair) * size > target.l2
    square = min(max(side, MOST if far else 1), SQUARE if long else MOST)
    written = prod(sch.store(name).buffer.shape[axis + 1 :]) * size
    count = prod(sizes[loop] for loop in others)
    turned = enough and count < MANY and pair[0] < min(MANY * FEW, pair[1])
    if not crowded and _is_crowded(written) and size >= WORD and not turned:
        lanes, rows = FEW, FEW
    elif square >= MOST and (long or not crowded):
        lanes, rows = square, square
    else:
        lanes = min(MOST, WRITE // size)
        rows = lanes if again else min(MOST, READ // size)
    sides = (2, 4, MOST, SQUARE)
    sch, lanes = choose(sch, f"lanes of {name}", (lanes, *sides))
    sch, rows = choose(sch, f"rows of {name}", (rows, *sides))
    steps = {row: min(rows, sizes[row]), column: min(lanes, sizes[column])}
    few = enough and count < MANY > sizes[row] // steps[row]
    first, second = (column, row) if few and sizes[column] > sizes[row] else (row, column)
    if sch.loops(name) != [*others, first, second]:
        sch = sch.reorder(*others, first, second)
    sch, (outer, inner) = _cut_evenly(sch, name, first, steps[first])
    sch = sch.reorder(outer, second, inner)
    sch, (within, lane) = _cut_evenly(sch, name, second, steps[second])
    along, lane = (inner, lane) if first == row else (lane, inner)
    sch = sch.reorder(within, along, lane) if first == row else sch
    sch = through_registers(sch, name, load.buffer.name, within, [along, lane])
    run = divisor(sch.extent(name, within), RUN // lanes)
    alone = first == row and sizes[column] % lanes == 0
    if alone and not again and 2 * run * lanes >= RUN:
        sch, (runs, _) = sch.cut(name, within, run)
        sch = sch.reorder(runs, outer)
        others = [*others, runs]
    if not enough:
        return sch
    counts = {loop: sch.extent(name, loop) for loop in (*others, outer)}
    longest = max([outer, *others], key=lambda loop: counts[loop])
    return sch.parallel(next((loop for loop in others if counts[loop] >= MANY), longest))


def _cut_evenly(sch: Draft, name: str, loop: str, size: int) -> tuple[Draft, list[str]]:
    """A loop in runs of `size`; the rest gets its own loop, so that no run needs a guard."""
    whole = sch.extent(name, loop) // size * size
    if whole < sch.extent(name, loop):
        sch = sch.loop_partition(loop, [whole])
    return sch.cut(name, loop, size)
