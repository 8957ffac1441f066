"""A product on a machine's tile registers, which hold its C and the loaded parts of A and B."""

from minimlc.recipes.lowprec import Unit
from minimlc.recipes.product import factors_of
from minimlc.recipes.views import Draft, tiled

SIDE = 16
"""Rows of a tile; and of C, columns."""

SCOPE = "amx.tile"


def sum_in_tiles(sch: Draft, sums: str) -> Draft:
    """A block that sums up in a buffer to become tiles, copied out afterwards."""
    return sch.cache_write(sums, sch.buffer(sums), SCOPE)


def on_tiles(sch: Draft, sums: str, around: str, unit: Unit) -> Draft:
    """The body of the loop `around` on tiles: tiles of C are cleared, summed up, and stored.

    `sums` is the block that `sum_in_tiles` was for, decomposed since.
    """
    init, update = f"{sums}_init", f"{sums}_update"
    tile = sch.buffer(update)
    (stored,) = sch.consumers(update)
    sch = in_tiles(sch, update, tile)
    sch = by_tiles(sch, init, sch.loops_below(init, around), unit.zero)
    sch = by_tiles(sch, stored, sch.loops_below(stored, around), unit.store)
    summed = sch.loops_of(update, "R")[-1]
    row, column = sch.loops_below(update, summed)
    sch, (step, group) = sch.cut(update, summed, unit.step)
    sch, (group, part) = sch.cut(update, group, unit.depth)
    sch, rows = sch.cut(update, row, SIDE)
    sch, columns = sch.cut(update, column, SIDE)
    sch = sch.reorder(step, rows[0], columns[0], rows[1], columns[1], group, part)
    for buffer, load in zip(factors_of(sch, update), unit.loads, strict=True):
        sch = loaded(sch, update, buffer, step, load)
    sch = sch.tensorize(rows[1], unit.intrin)
    return sch.unroll(rows[0]).unroll(columns[0])


def in_tiles(sch: Draft, block: str, buffer: str) -> Draft:
    """The last two axes of a buffer cut into tiles."""
    layout = tiled(sch.store(block).buffer.ndim, (SIDE, SIDE))
    return sch.transform_layout(block, buffer, layout)


def by_tiles(sch: Draft, block: str, loops: list[str], intrin: str) -> Draft:
    """Two loops over a piece of C as one over its tiles, each done by an intrinsic."""
    sch, rows = sch.cut(block, loops[-2], SIDE)
    sch, columns = sch.cut(block, loops[-1], SIDE)
    sch = sch.reorder(rows[0], columns[0], rows[1], columns[1]).tensorize(rows[1], intrin)
    return sch.unroll(rows[0]).unroll(columns[0])


def loaded(sch: Draft, block: str, buffer: str, step: str, intrin: str) -> Draft:
    """A factor's tiles, loaded in each step."""
    sch, (load,) = sch.making("cache_read", block, buffer, SCOPE)
    sch = sch.compute_at(load, step)
    *outer, rows, _, _ = sch.loops_below(load, step)
    return sch.tensorize(rows, intrin).unrolled(outer)
