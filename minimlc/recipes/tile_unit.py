"""A product on a machine's tile registers: its C, and what is loaded of A and B, live there."""

from minimlc.recipes.lowprec import Unit
from minimlc.recipes.product import factors_of
from minimlc.recipes.views import (
    buffer_of,
    cut,
    loops_below,
    loops_of,
    making,
    store_of,
    unrolled,
)
from minimlc.schedule import Schedule

SIDE = 16
"""Rows of a tile; and of C, columns."""

SCOPE = "amx.tile"


def sum_in_tiles(sch: Schedule, sums: str) -> Schedule:
    """A block that sums up in a buffer which is to become tiles, copied out afterwards."""
    return sch.cache_write(sums, buffer_of(sch, sums), SCOPE)


def on_tiles(sch: Schedule, sums: str, around: str, unit: Unit) -> Schedule:
    """What stands inside the loop `around`: tiles of C are cleared, summed up, and stored.

    `sums` is the block that `sum_in_tiles` was for, decomposed since.
    """
    init, update = f"{sums}_init", f"{sums}_update"
    tile = buffer_of(sch, update)
    (stored,) = sch.consumers(update)
    sch = in_tiles(sch, update, tile)
    sch = by_tiles(sch, init, loops_below(sch, init, around), unit.zero)
    sch = by_tiles(sch, stored, loops_below(sch, stored, around), unit.store)
    summed = loops_of(sch, update, "R")[-1]
    row, column = loops_below(sch, update, summed)
    sch, (step, group) = cut(sch, update, summed, unit.step)
    sch, (group, part) = cut(sch, update, group, unit.depth)
    sch, rows = cut(sch, update, row, SIDE)
    sch, columns = cut(sch, update, column, SIDE)
    sch = sch.reorder(step, rows[0], columns[0], rows[1], columns[1], group, part)
    for buffer, load in zip(factors_of(sch, update), unit.loads, strict=True):
        sch = loaded(sch, update, buffer, step, load)
    sch = sch.tensorize(rows[1], unit.intrin)
    return sch.unroll(rows[0]).unroll(columns[0])


def in_tiles(sch: Schedule, block: str, buffer: str) -> Schedule:
    """The last two axes of a buffer cut into tiles."""
    *outer, i, j = [f"a{axis}" for axis in range(store_of(sch, block).buffer.ndim)]
    tiles = [*outer, f"{i} // {SIDE}", f"{j} // {SIDE}", f"{i} % {SIDE}", f"{j} % {SIDE}"]
    return sch.transform_layout(block, buffer, f"{', '.join([*outer, i, j])} -> {', '.join(tiles)}")


def by_tiles(sch: Schedule, block: str, loops: list[str], intrin: str) -> Schedule:
    """Two loops over a piece of C as one over its tiles, each done by an intrinsic."""
    sch, rows = cut(sch, block, loops[-2], SIDE)
    sch, columns = cut(sch, block, loops[-1], SIDE)
    sch = sch.reorder(rows[0], columns[0], rows[1], columns[1]).tensorize(rows[1], intrin)
    return sch.unroll(rows[0]).unroll(columns[0])


def loaded(sch: Schedule, block: str, buffer: str, step: str, intrin: str) -> Schedule:
    """A factor's tiles, loaded in each step."""
    sch, (load,) = making(sch, "cache_read", block, buffer, SCOPE)
    sch = sch.compute_at(load, step)
    *outer, rows, _, _ = loops_below(sch, load, step)
    return unrolled(sch.tensorize(rows, intrin), outer)
