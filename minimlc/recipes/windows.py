"""Pooling and depthwise convolutions: each element is made of a small window of its own channel."""

from minimlc.recipes.elementwise import is_elementwise
from minimlc.recipes.general import attempt
from minimlc.recipes.views import (
    WORTH_THREADS,
    block_of,
    divisor,
    extent,
    iterations,
    lanes_of,
    loops_feeding_axis,
    loops_of,
    making,
    refusal,
    started,
    store_of,
    unrolled,
)
from minimlc.schedule import Schedule
from minimlc.target import Target
from minimlc.tir.nodes import Store

MOST_IN_A_WINDOW = 64
"""Elements of a window that become straight code."""

VECTORS = 8
"""Vectors of results that are kept in registers at a time."""


def windows(
    sch: Schedule, block: str | None = None, *, target: str | Target | None = None
) -> Schedule:
    """A fast out[n, c, i, j] += f(image[n, c, i*s + p, j*t + q]), with max, sums, or weights.

    A piece of a row of results stays in registers until its windows are read. `block` names the
    reduction, by default the first there is. Raises `ScheduleError` where there is none.
    """
    target = started(sch, target)
    for name in [block] if block is not None else sch.blocks():
        if is_by_windows(sch, name):
            return in_pieces(sch, name, target)
    what = f'block "{block}" does not reduce' if block is not None else "no block reduces"
    raise refusal(f"windows: {what} small windows along its rows")


def is_by_windows(sch: Schedule, name: str) -> bool:
    """Whether a block takes few elements for each result, by loops of its own inside of a row's."""
    item = block_of(sch, name)
    spatial, sums = (loops_of(sch, name, kind) for kind in "SR")
    own = isinstance(item.body, Store) and isinstance(item.init, Store) and len(sums) > 1
    if not own or not spatial or sch.loops(name) != [*spatial, *sums]:
        return False
    if len(loops_feeding_axis(sch, name, -1)) != 1:
        return False
    return iterations(sch, name, sums) <= MOST_IN_A_WINDOW


def in_pieces(sch: Schedule, name: str, target: Target) -> Schedule:
    """Pieces of a row in vectors; the windows written out."""
    sums = loops_of(sch, name, "R")
    (along,) = loops_feeding_axis(sch, name, -1)
    elements = iterations(sch, name)
    lanes = lanes_of(target, store_of(sch, name).buffer.dtype)
    piece = divisor(extent(sch, name, along), VECTORS * lanes)
    if piece >= lanes:
        sch = sch.split(along, [None, piece])
        along = loops_feeding_axis(sch, name, -1)[-1]
    sch = sch.reorder(*sums, along)
    sch, (init, update) = making(sch, "decompose_reduction", name, at=sums[0])
    sch = unrolled(sch.vectorize(along).vectorize(sch.loops(init)[-1]), sums)
    sch = with_neighbours(sch, update, sch.loops(init)[:-1])
    long = [loop for loop in sch.loops(init)[:-1] if extent(sch, init, loop) > 1]
    return sch.parallel(long[0]) if long and elements >= WORTH_THREADS else sch


def with_neighbours(sch: Schedule, name: str, outer: list[str]) -> Schedule:
    """Borders are added to one channel at a time, and what follows is done piece by piece."""
    for border in [each for each in sch.producers(name) if is_elementwise(sch, each)]:
        near = attempt(sch, "compute_at", border, outer[1]) if len(outer) > 2 else sch
        sch = attempt(near, "vectorize", near.loops(border)[-1])
    for after in [each for each in sch.consumers(name) if is_elementwise(sch, each)]:
        near = attempt(sch, "reverse_compute_at", after, outer[-1]) if outer else sch
        sch = attempt(near, "vectorize", near.loops(after)[-1])
    return sch
