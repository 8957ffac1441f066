"""Element-wise chains: all of them in one loop, which goes through memory once.

Such a function is limited by the bytes that it moves. So no intermediate value gets a buffer, and
each input is read where it is used.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from minimlc.loops.ir.nodes import BlockIter, Load, Store, Var
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.proofs.arith import variables
from minimlc.loops.schedule.tree import find_block
from minimlc.loops.values.node import nodes_of, structural_equal, walk
from minimlc.loops.values.target import Target
from minimlc.recipes.general import attempt, collects_narrow
from minimlc.recipes.rowwise import at_row
from minimlc.recipes.views import (
    ELEMENTS,
    Draft,
    bytes_of,
    choose,
    fused,
    lanes_of,
    recipe,
    refusal,
    worth_threads,
)

CHUNK = ELEMENTS
"""Elements of one long row that a thread takes at a time."""

LONGEST = 200
"""The most nodes that replace an element's loads, where there are several: steps that each read the
one before twice would double them each time.
"""
SHARES = 64
"""Iterations that threads can share out evenly enough."""


@recipe
def elementwise(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast chain of blocks that each compute an element from elements: no sums, in any order.

    Takes the whole function. `block` names one block that must be in it. Raises `ScheduleError`
    where a block is not of this kind.
    """
    others = [name for name in sch.blocks() if not is_elementwise(sch, name)]
    if others or block not in (None, *sch.blocks()):
        what = f'block "{others[0] if others else block}" is not an element-wise one'
        raise refusal(f"elementwise: {what}")
    for name in sch.blocks()[:-1]:
        if used_once(sch, name):
            sch = attempt(sch, "compute_inline", name)
    near = in_rows(sch, target)
    if near is not sch:
        return near
    for name in sch.blocks():
        sch = one_loop(sch, name, target)
    return sch


def in_rows(sch: Draft, target: Target) -> Draft:
    """Blocks that read other elements of the same row, as the steps of a running sum do: all of
    them for one row, which is near, before the next. Unchanged where there are few or long rows.
    """
    *before, last = sch.blocks()
    *rows, inner = sch.loops(last)
    row = sch.extent(last, inner) * bytes_of(sch.store(last).buffer.dtype)
    many = sch.iterations(last, rows) >= SHARES and row * len(sch.blocks()) <= target.l2 // 2
    done = sch
    for name in reversed(before) if many else ():
        done = at_row(done, name, rows[-1:])
    if done is sch or not all(rows[-1] in done.loops(name) for name in before):
        return sch
    for name in done.blocks():
        done = done.vectorize(done.loops(name)[-1])
    long = [loop for loop in rows if done.extent(last, loop) > 1]
    return done.parallel(long[0]) if worth_threads(sch.iterations(last), target) else done


def left_over(sch: Draft, names: list[str], target: Target) -> Draft:
    """The element-wise blocks among `names` that have no schedule yet, each in one loop."""
    for name in names:
        if name in sch.blocks() and is_elementwise(sch, name) and is_untouched(sch, name):
            sch = one_loop(sch, name, target)
    return sch


def is_untouched(sch: Draft, name: str) -> bool:
    """Whether a block stands alone in loops that all run in order."""
    loops = find_block(sch.func, name).loops
    alone = bool(loops) and len(blocks_in(loops[0])) == 1
    return alone and all(loop.kind == "serial" for loop in loops)


def is_elementwise(sch: Draft, name: str) -> bool:
    """Whether a block writes one element, another one in each iteration."""
    item = sch.block(name)
    if not item.iters or any(it.kind != "S" for it in item.iters):
        return False
    return isinstance(item.body, Store) and len(sch.loops(name)) == len(item.iters)


def used_once(sch: Draft, name: str) -> bool:
    """Whether each element that a block computes is used for one element of one other block, which
    does not get long by writing it as often as it reads it.
    """
    consumers = sch.consumers(name)
    if len(consumers) != 1:
        return False
    buffer = sch.buffer(name)
    loads = nodes_of(sch.block(consumers[0]).body, Load)
    first, *more = [load for load in loads if load.buffer.name == buffer]
    alike = all(
        structural_equal(i, j)
        for load in more
        for i, j in zip(first.indices, load.indices, strict=True)
    )
    written = (1 + len(more)) * sum(1 for _ in walk(sch.store(name).value))
    short = not more or written <= LONGEST
    return alike and short and sch.iterations(name) >= sch.iterations(consumers[0])


def one_loop(sch: Draft, name: str, target: Target) -> Draft:
    """Rows in lanes, and many elements shared out over threads; rows too short for that become one
    long one.
    """
    loops = sch.loops_of(name, "S")
    enough = worth_threads(sch.iterations(name), target)
    lanes = lanes_of(target, sch.store(name).buffer.dtype)
    row = sch.extent(name, loops[-1])
    whole = row < 4 * lanes or (enough and sch.iterations(name) // row < target.cores)
    together = straight_loops(sch, name) if whole else []
    together = together if len(together) > 1 else loops[-1:]
    if enough and together == loops:
        return _in_chunks(sch, name, loops, target)
    sch = _as_lanes(sch, name, together)
    outer = [loop for loop in loops if loop not in together]
    if not outer or not enough:
        return sch
    counts = accumulate((sch.extent(name, loop) for loop in outer), mul)
    sch = fused(sch, outer[: 1 + sum(count < SHARES for count in counts)])
    return sch.parallel(sch.loops(name)[0])


def _in_chunks(sch: Draft, name: str, loops: list[str], target: Target) -> Draft:
    """One long row in pieces that threads take. What is left over has a separate loop: a
    condition in the pieces would cost more than the work.

    Results larger than the last cache bypass the caches: no line is fetched only to be overwritten,
    which would be a quarter of the traffic of a function of two inputs.
    """
    lead = next((at for at, loop in enumerate(loops) if sch.extent(name, loop) > 1), 0)
    first, *others = loops[lead:]
    count = sch.extent(name, first)
    sizes = (CHUNK, CHUNK // 4, 4 * CHUNK, 16 * CHUNK)
    sch, chunk = choose(sch, f"chunk of {name}", sizes)
    step = max(1, chunk * count // sch.iterations(name))
    if count % step:
        sch, (rest,) = sch.making("loop_partition", first, [count // step * step])
        sch = _as_lanes(sch, rest, sch.loops(rest)[lead:])
    sch, (chunk, within) = sch.cut(name, first, step)
    sch = _as_lanes(sch, name, [within, *others]).parallel(chunk)
    written = sch.store(name).buffer
    around = sch.iterations(name) * bytes_of(written.dtype) > target.l3
    sch, around = choose(sch, f"bypass caches with {name}", (around, not around))
    if not around:
        return sch
    return sch.annotate(sch.loops(name)[-1], "nontemporal", written.name)


def _as_lanes(sch: Draft, name: str, loops: list[str]) -> Draft:
    """The innermost loops around a block fused into one, vectorized where that pays."""
    sch = fused(sch, loops)
    return sch if collects_narrow(sch.block(name)) else sch.vectorize(sch.loops(name)[-1])


def straight_loops(sch: Draft, name: str) -> list[str]:
    """The inner loops around a block along which each of its accesses goes through one row of
    memory, or stays where it is.
    """
    item = sch.block(name)
    order = [it.value.name for it in item.iters if isinstance(it.value, Var)]
    if order != sch.loops(name):
        return []
    uses: list[Store | Load] = [sch.store(name), *nodes_of(item.body, Load)]
    starts = range(len(item.iters))
    straight = (at for at in starts if all(_goes_straight(use, item.iters[at:]) for use in uses))
    return order[next(straight, len(order)) :]


def _goes_straight(use: Store | Load, iters: Sequence[BlockIter]) -> bool:
    """Whether an access goes through whole rows of its buffer as the iters do, or stands still."""
    places = tuple(it.var for it in iters)
    sizes = tuple(it.extent for it in iters)
    moving = [at for at in use.indices if variables(at) & set(places)]
    last = len(use.indices) - len(places)
    spans = use.indices[last:] == places and use.buffer.shape[last:] == sizes
    return not moving or (last >= 0 and len(moving) == len(places) and spans)
