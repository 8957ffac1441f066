"""Matrix products with few rows: B is read in the order in which it lies."""

from math import ceil, prod

from minimlc.loops.values.target import Target
from minimlc.recipes.product import Product
from minimlc.recipes.rowwise import lanes_last
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    lanes_of,
    refusal,
    vector_registers,
)

FEW_ROWS = 12
"""Rows of C up to which B is read in the order in which it lies."""

MOST_SUMMED, SHORT, LONGER = 256, 8, 128
"""Products that are added up in a row at the most, and of how many in all they need no parts: of
the second number, or of the third, where C has few elements. Rounding errors grow with their
number, and the largest of them with that of the elements: of 512 x 512 sums of normal numbers it
is about 3 u |A||B| in two parts, or in one of 8, and 4 to 5 in one of 16 to 256. Two parts cost
4 % of the time at K = 64, and more below. A product of few rows waits for memory, so its parts are
of the last number, too: libraries add up one row in many parts.
"""

FEW_ELEMENTS = 1024
"""Elements of C, the largest of whose errors are about 3 u |A||B| in one part, too."""

MOST_ROWS, FEWEST_STEPS = 8, 8
"""Rows of C up to which its sums are kept in lanes, and products in each lane from which on."""

FEWEST_COLUMNS = 8
"""The fewest columns of C that this plan takes, whatever the machine's vectors."""

COLUMNS, MANY = 4, 4
"""Columns of B that lie along k and are read side by side; twice as many, as far as registers go,
for so many rows of C, or from afar for one row. Sums take 6/8 of the registers there, else 5/8.
"""

PARTS = 4
"""Lanes that are added up one by one, after whole parts of a wider vector."""

HEIGHTS = (4, 3, 5, 7, 2, 6, 11, 1)
"""Rows of C, or of a piece of it, that are kept in registers, the best first."""

BUSY = 2
"""Rows of C whose arithmetic leaves time for B's way from the third level."""

DEPTH = 8
"""Rows of B that each pass over C adds."""


def few_rows(
    sch: Draft, product: Product, target: Target, cores: int
) -> tuple[Draft, str, list[str]]:
    """Few rows of C: go down B once, adding some of its rows to all of C at a time.

    C stays in the first-level cache, and a piece of some of its rows in registers. Each block of
    B is summed up separately, which keeps rounding errors small. Where no cache keeps B, its next
    rows are asked for ahead of time. Also returns the block that writes C at last, and the loop
    over strips of columns around it, if `cores` share them.
    """
    name, step = product.block, 2 * lanes_of(target, product.dtypes[2])
    sch, shared = in_strips(sch, product, step, cores)
    block = summed_apart(product)
    if block < product.sums:
        sch, name = sums_apart(sch, name, block)
    rows, columns = (sch.loops_along(name, axis) for axis in (-2, -1))
    strips, columns = columns[:shared], columns[shared:]
    summed = sch.loops_of(name, "R")
    complete = summed and columns and (rows or product.rows == 1)
    if not complete or {*summed} & {*rows, *columns}:
        why = f'matmul: rows, columns and sums of block "{name}" have no loops of their own'
        raise refusal(why)
    k = summed[-1]
    depths = (divisor(block, most) for most in (DEPTH, 1, 2, 4, 16))
    sch, depth = choose(sch, "depth", depths)
    sch = sch.split(k, [None, depth])
    *_, down, deep = sch.loops_of(name, "R")
    group: list[str] = []
    if product.rows > 1:
        heights = (size for size in HEIGHTS if product.rows % size == 0)
        sch, height = choose(sch, "rows", heights)
        sch = sch.split(rows[-1], [None, height])
        group = sch.loops_along(name, -2)[-2:]
    sch = sch.reorder(down, *group[:1], *columns, deep, *group[1:])
    lane = columns[-1]
    if sch.extent(name, lane) % step == 0:
        sch, ahead = choose_ahead(sch, product, target)
        if ahead:
            sch, (column, lane) = sch.cut(name, lane, step)
            sch = sch.annotate(column, "prefetch", (product.right.buffer, down))
    sch = sch.decompose_reduction(name, at=down)
    sch = sch.vectorize(lane).vectorize(sch.loops_along(f"{name}_init", -1)[-1])
    last = f"{name}_update" if name == product.block else product.block
    return sch.unrolled((deep, *group[1:])), last, strips


def in_strips(sch: Draft, product: Product, step: int, cores: int) -> tuple[Draft, int]:
    """Columns in even strips, about as many as there are cores, in a loop around rows and sums; how
    many such loops there are. No strip is narrower than `step`; where batches are enough for the
    cores, or nothing comes out even, there are none.
    """
    name, columns = product.block, product.columns
    loops, rows = (sch.loops_along(name, axis) for axis in (-1, -2))
    counts = [n for n in range(2, 4 * cores) if columns % n == 0 and columns // n >= step]
    whole = [n for n in counts if columns // n % step == 0]
    enough = max(product.batches, default=1) >= cores
    if enough or not counts or len(loops) != 1 or loops[0] in rows:
        return sch, 0
    count = min(whole or counts, key=lambda n: (n < cores, abs(n - cores)))
    inner = [*rows, *sch.loops_of(name, "R")]
    sch, (strip, lane) = sch.cut(name, loops[0], columns // count)
    inside = [loop for loop in sch.loops(name) if loop in (*inner, lane)]
    return sch.reorder(strip, *inside), 1


def goes_along_rows(product: Product, lanes: int, unit: bool) -> bool:
    """Whether sums in lanes are worth it: for some rows, sums of up to `LONGER` products in a lane
    and not of few, which are soon added up; a machine's unit for the dtypes takes less time then.
    """
    if product.rows == 1:
        return True
    steps = product.sums / lanes
    most = product.rows <= MOST_ROWS and not unit
    return most and steps == product.sums // lanes and FEWEST_STEPS <= steps <= LONGER


def along_rows(sch: Draft, product: Product, target: Target) -> tuple[Draft, str]:
    """Few rows of C, with B's columns side by side along k: some of both at a time, each sum in the
    lanes of a vector, which are added up at the end. Also returns the loop over columns.
    """
    name, parts, lanes = product.block, "", lanes_of(target, product.dtypes[2])
    sch, sums = sums_in_lanes(sch, name, lanes)
    if lanes > PARTS:
        sch, parts = sums_in_lanes(sch, name, PARTS)
    whole = product.rows if divisor(product.rows, 4) == 1 else 4  # 5 or 7 at a time
    sch, height = choose(sch, "rows", (divisor(product.rows, size) for size in (whole, 1, 2, 3)))
    many = height >= MANY
    most = vector_registers(target) * (6 if many else 5) // 8 // height
    twice = many or (product.rows == 1 and is_far(product, target))
    usual = 2 * COLUMNS if twice else COLUMNS
    widths = (divisor(product.columns, min(size, most)) for size in (usual, 1, 2, 4, 8, 12, 16))
    sch, width = choose(sch, "columns", widths)
    sch, (outer, column) = sch.cut(name, sch.loops_along(name, -1)[0], width)
    around = outer
    if product.rows > 1:
        sch, (around, row) = sch.cut(name, sch.loops_along(name, -2)[0], height)
        sch = sch.reorder(outer, around, row, column)
    for block in (parts, sums) if parts else (sums,):
        sch = sch.compute_at(block, around)
    sch, down, tile = tile_of_sums(sch, sums, around)
    sch = sch.in_registers(tile)
    sch, ahead = choose_ahead(sch, product, target)
    if ahead:
        sch = sch.annotate(down, "prefetch", (product.right.buffer, outer))
    if parts:
        sch, down, tile = tile_of_sums(sch, parts, around)
        sch = sch.in_registers([down, *tile])
    return sch.unrolled(sch.loops_below(name, around)), outer


def choose_ahead(sch: Draft, product: Product, target: Target) -> tuple[Draft, bool]:
    """Whether the next part of B is prefetched."""
    far = is_far(product, target)
    return choose(sch, "prefetch", (far, not far))


def is_far(product: Product, target: Target) -> bool:
    """Whether the third level, which other cores share, does not keep B; or hardly, where there is
    arithmetic beside which it can come.
    """
    copies = prod(product.batches) if "b" in product.right.axes else 1
    held = copies * product.columns * product.sums * bytes_of(product.dtypes[1])
    return held * (3 if product.rows >= BUSY else 2) > target.l3


def sums_in_lanes(sch: Draft, name: str, lanes: int) -> tuple[Draft, str]:
    """A sum as the sum of several, which lie side by side; and the block that makes these."""
    sch = sch.split(sch.loops_of(name, "R")[0], [None, lanes])
    sch, (sums,) = sch.making("rfactor", sch.loops_of(name, "R")[-1])
    return lanes_last(sch, sums), sums


def tile_of_sums(sch: Draft, sums: str, around: str) -> tuple[Draft, str, list[str]]:
    """One step of all sums of a tile at a time, from zero; the loop over steps, and the others."""
    (down,) = sch.loops_of(sums, "R")
    tile = [loop for loop in sch.loops_below(sums, around) if loop != down]
    sch = sch.reorder(down, *tile).decompose_reduction(sums, at=down)
    return sch.in_registers(sch.loops_below(f"{sums}_init", around)), down, tile


def summed_apart(product: Product) -> int:
    """How many products a partial sum has: all alike, or for awkward numbers a guarded last one."""
    sums, most = product.sums, most_summed(product)
    fitting = divisor(sums, most)
    if fitting * fitting >= sums:
        return fitting
    return ceil(ceil(sums / ceil(sums / most)) / DEPTH) * DEPTH


def most_summed(product: Product) -> int:
    """How many of a product's terms may be added up one after the other."""
    few = prod(product.batches) * product.rows * product.columns <= FEW_ELEMENTS
    sums, alone = product.sums, LONGER if few else SHORT
    most = LONGER if product.rows <= FEW_ROWS else MOST_SUMMED
    return min(most, sums if sums <= alone else ceil(sums / 2))


def sums_apart(sch: Draft, name: str, block: int) -> tuple[Draft, str]:
    """Partial sums of `block` products each, made where they are added to C."""
    (k,) = sch.loops_of(name, "R")
    sch = sch.split(k, [None, block])
    parts, (sums,) = sch.making("rfactor", sch.loops_of(name, "R")[0])
    (outer,) = parts.loops_of(name, "R")
    spatial = parts.loops_of(name, "S")
    batches = [loop for loop in spatial if loop not in spatial[-2:]]
    parts = parts.reorder(*batches, outer, *[loop for loop in spatial if loop not in batches])
    return parts.compute_at(sums, outer).vectorize(spatial[-1]), sums
