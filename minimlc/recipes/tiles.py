"""Tiles of a matrix product: how much of it registers and caches hold at a time."""

from itertools import repeat
from math import ceil, prod
from typing import NamedTuple

from minimlc.loops.values.target import Target
from minimlc.recipes import skinny
from minimlc.recipes.lowprec import FLOATS, Unit
from minimlc.recipes.product import Product
from minimlc.recipes.tile_unit import SIDE
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    lanes_of,
    vector_registers,
    worth_threads,
)

MOST_BY_A_UNIT = 384
"""Products that a tensor unit adds up in a tile: bytes exactly, 16-bit floats in its own order.
Vectors add up bytes as far as a panel goes.
"""

SHORTEST = 16
"""Products in a panel at the least, however small a cache is."""

UNROLLED = 4
"""Products along k that are written out: a shared core has less to do besides arithmetic."""

MULTIPLICATIONS = 1 << 15
"""Multiplications of each core from which on threads pay: about a microsecond."""

TILES_TO_SHARE = 4
"""Tiles for each thread at the least, side by side: it goes through all of A for them."""

MOST_VECTORS = 8
"""Vectors side by side in a tile of few rows: so many sums don't wait for each other."""

SAME_SET = 4096
"""Bytes after which addresses take turns for the same few places in the first-level cache."""

MASKED = 1.05
"""The cost of tiles that end beyond C: B is copied with zeros, each tile writes under a mask."""

PART = 4
"""Adding up a tile's part costs about as much as this many more products."""


class Tiles(NamedTuple):
    """Parameters: a tile of registers, and the block of each side that a cache keeps.

    `row_block` is a multiple of `rows`, `column_block` of `columns`, `columns` of the unit's lanes;
    `sum_block` is one of `sums`, which is how much of k a tile adds up before it goes into C. (Long
    sums in one go lose digits.)
    """

    rows: int
    columns: int
    sums: int
    row_block: int
    column_block: int
    sum_block: int
    unit: Unit = FLOATS
    by_columns: bool = True


def tiles_for(product: Product, target: Target, unit: Unit = FLOATS) -> Tiles:
    """The tile of `sides_of`, which leaves registers for A and B; blocks for caches.

    A panel of A fills most of the first level, a block of B has half of the second level, a block
    of A an eighth of the third, which other cores share. Blocks are cut evenly, so that the
    last is about as large as the others.
    """
    m, n, k = product.rows, product.columns, product.sums
    size = bytes_of(product.dtypes[0])
    lanes = lanes_of(target, product.dtypes[2])
    count, registers = ceil(n / lanes), vector_registers(target)
    rows, vectors = sides_of(m, count, registers, bool(unit.intrin))
    if registers > 16 and product.left.axes.endswith("mk") and k * size % SAME_SET:
        rows, vectors = sides_of(m, count, registers, bool(unit.intrin), whole=not unit.intrin)
    columns = max(vectors * lanes, unit.lanes)
    alone = m <= rows and prod(product.batches) < target.cores
    if alone and not unit.intrin and is_shared(product, target):
        columns = min(vectors, ceil(count / target.cores)) * lanes
    if unit.loads:
        rows, columns = (SIDE if side <= SIDE else 2 * SIDE for side in (m, n))
    held = even(k, max(target.l1 // (rows * size), SHORTEST), unit.step)
    if not unit.intrin:
        most = skinny.most_summed(product)
    else:
        most = held if product.dtypes[2] == "int32" and not unit.loads else MOST_BY_A_UNIT
    sums = even(held, min(most, held), max(unit.step, UNROLLED if held > most else 1), PART)
    sum_block = ceil(held / sums) * sums
    row_block = even(m, target.l3 // 8 // (sum_block * size), rows)
    by_columns = shares_columns(ceil(m / rows), ceil(n / columns), target.cores)
    share = ceil(n / target.cores) if by_columns else n
    column_block = even(n, min(target.l2 // 2 // (sum_block * size), share), columns)
    return Tiles(rows, columns, sums, row_block, column_block, sum_block, unit, by_columns)


def is_shared(product: Product, target: Target) -> bool:
    """Whether a product is shared out over threads."""
    work = prod(product.batches) * product.rows * product.columns * product.sums
    return worth_threads(work, target, MULTIPLICATIONS)


def sides_of(m: int, n: int, registers: int, by_unit: bool, whole: bool = False) -> tuple[int, int]:
    """Rows and vectors of the tile that makes C, of m rows of n vectors, in the least time: that of
    its products and, where 32 registers leave a choice, of its loads at half a product each. Rows
    that are `whole` tiles may cost a little more: A need not be copied for those.
    """
    wide = registers > 16 and not by_unit
    held = registers - (6 if wide else 4)
    few = max(2, min(MOST_VECTORS, held // m))
    widths = range(2, MOST_VECTORS + 1) if wide else (few,)

    def cost(tile: tuple[int, int]) -> float:
        r, v = tile
        work = r * v + v / 2 + wide * (r + v) / 2
        return ceil(m / r) * ceil(n / v) * work * (MASKED if n % v else 1)

    tiles = [(r, v) for v in map(min, widths, repeat(n)) for r in range(min(held // v, m), 0, -1)]
    best = min(tiles, key=cost)
    if whole:
        near = [tile for tile in tiles if m % tile[0] == 0 and cost(tile) < 1.05 * cost(best)]
        return min(near, key=lambda tile: (cost(tile), -tile[0]), default=best)
    return best


def choose_tiles(
    sch: Draft, product: Product, target: Target, unit: Unit = FLOATS
) -> tuple[Draft, Tiles]:
    """Tiles near the ones of `tiles_for`, which come first; no sums are longer than there."""
    best = tiles_for(product, target, unit)
    if sch.chance is None:
        return sch, best
    m, n, k = product.rows, product.columns, product.sums
    rows, columns = best.rows, best.columns
    if not unit.loads:
        lanes = max(lanes_of(target, product.dtypes[2]), unit.lanes)
        room = vector_registers(target) * lanes_of(target, product.dtypes[2])
        widths = range(lanes, min(ceil(n / lanes), MOST_VECTORS) * lanes + 1, lanes)
        sch, columns = choose(sch, "columns", (columns, *widths))
        most = min(room // columns - 1, m)
        first = (rows,) if columns == best.columns or rows <= most else ()
        sch, rows = choose(sch, "rows", (*first, *range(max(most, 1), 0, -1)))
    step = max(unit.step, UNROLLED if best.sums % UNROLLED == 0 else 1)
    shorter = (even(best.sums, best.sums // parts, step) for parts in (1, 2, 4))
    sch, sums = choose(sch, "sums", (best.sums, *(s for s in shorter if s <= best.sums)))
    deep = ceil(max(k, sums) / sums)
    panels = (sums * ceil(deep / parts) for parts in (1, 2, 3, 4, 6, 8))
    sch, sum_block = choose(sch, "sum_block", (*_of(best.sum_block, sums), *panels))
    cuts = (1, 2, 3, 4, 6, 8, 12, 16)
    blocks = [even(m, ceil(m / parts), rows) for parts in cuts]
    sch, row_block = choose(sch, "row_block", (*_of(best.row_block, rows), *blocks))
    blocks = [even(n, ceil(n / parts), columns) for parts in cuts]
    sch, column_block = choose(sch, "column_block", (*_of(best.column_block, columns), *blocks))
    sizes = rows, columns, sums, row_block, column_block, sum_block
    return sch, Tiles(*sizes, unit, best.by_columns)


def choose_steps(sch: Draft, tiles: Tiles) -> tuple[Draft, int]:
    """How many steps along k are straight code."""
    deep = tiles.sums // tiles.unit.depth
    return choose(
        sch, "steps", (divisor(deep, UNROLLED), *(n for n in (1, 2, 4, 8) if deep % n == 0))
    )


def choose_shared(sch: Draft, tiles: Tiles, target: Target) -> tuple[Draft, bool]:
    """Whether threads share columns of C rather than rows."""
    if target.cores == 1:
        return sch, tiles.by_columns
    return choose(sch, "by_columns", (tiles.by_columns, not tiles.by_columns))


def _of(size: int, part: int) -> tuple[int, ...]:
    """A size where it consists of whole parts."""
    return (size,) if size % part == 0 else ()


def shares_columns(down: int, across: int, cores: int) -> bool:
    """Whether threads share the columns of C rather than its rows, by the number of tiles in each.

    They do where each gets several tiles of them, and about as many as the others; or where there
    are too few tiles down for the rows to be shared.
    """
    share = ceil(across / cores)
    even = share >= TILES_TO_SHARE and share * cores * 16 <= across * 17
    return even or down < TILES_TO_SHARE * cores


def even(size: int, most: int, multiple: int = 1, cost: int = 0) -> int:
    """The size of a block when `size` is cut into even blocks of at most about `most`.

    The largest with the least total work, at `cost` for each block besides its size.
    """
    least = ceil(size / max(most, multiple))
    blocks = [ceil(ceil(size / n) / multiple) * multiple for n in range(least, 2 * least + 1)]
    return min(blocks, key=lambda block: ceil(size / block) * (block + cost))
