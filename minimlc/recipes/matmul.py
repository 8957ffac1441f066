"""Matrix products at the speed of the vendor's library.

The plan is that of K. Goto and R. van de Geijn (Anatomy of High-Performance Matrix Multiplication,
2008): a tile of C stays in registers while a panel of A from the first-level cache and a panel of B
from the second level stream by, both copied beforehand so that they are read in order and without a
guard. Unlike theirs, the loop over k is inside those over tiles: C leaves the first level once.
"""

from math import ceil, prod
from typing import NamedTuple

from minimlc.recipes import skinny
from minimlc.recipes.general import attempt
from minimlc.recipes.lowprec import FLOATS, Unit, are_multiplied, converted, grouped, unit_for
from minimlc.recipes.product import Factor, Product, factors_of, find_product, is_constant
from minimlc.recipes.tile_unit import SIDE, on_tiles, sum_in_tiles
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    lanes_of,
    recipe,
    refusal,
    vector_registers,
)
from minimlc.target import Target
from minimlc.tir.nodes import Expr, Store

MOST_BY_A_UNIT = 384
"""Products that a tensor unit adds up in a tile: bytes exactly, 16-bit floats in its own order.
Vectors add up bytes as far as a panel goes.
"""

SHORTEST = 16
"""Products in a panel at the least, however small a cache is."""

UNROLLED = 4
"""Products along k that are written out: a shared core has less to do besides arithmetic."""

FEW_TILES = 4
"""Tiles side by side in C up to which elements of A are not used often enough to copy them."""

SAME_SET = 4096
"""Bytes after which addresses take turns for the same few places in the first-level cache."""

TILES_TO_SHARE = 4
"""Tiles for each thread at the least, side by side: it goes through all of A for them."""

MOST_VECTORS = 8
"""Vectors side by side in a tile of few rows: so many sums don't wait for each other."""

PART = 4
"""Adding up a tile's part costs about as much as this many more products."""

WORTH_THREADS = 4_000_000
"""Multiplications from which on starting threads pays: about a fifth of a millisecond."""


class Tiles(NamedTuple):
    """Parameters: a tile of registers, and the block of each side that a cache keeps.

    `row_block` is a multiple of `rows`, `column_block` of `columns`, and that of the unit's lanes;
    `sum_block` is one of `sums`, which is how much of k a tile adds up before it goes into C. (Long
    sums in one go lose digits.) `steps` along k are straight code.
    """

    rows: int
    columns: int
    sums: int
    row_block: int
    column_block: int
    sum_block: int
    unit: Unit = FLOATS
    by_columns: bool = True
    steps: int = 1
    prefetch: bool = True


def tiles_for(product: Product, target: Target, unit: Unit = FLOATS) -> Tiles:
    """The tile that fills the vector registers and leaves three for A and B; blocks for caches.

    A panel of A fills most of the first level, a block of B has half of the second level, a block
    of A an eighth of the third, which other cores share. Blocks are cut evenly, so that the
    last is about as large as the others.
    """
    m, n, k = product.rows, product.columns, product.sums
    size = bytes_of(product.dtypes[0])
    lanes = lanes_of(target, product.dtypes[2])
    held = vector_registers(target) - 4
    vectors = max(2, min(MOST_VECTORS, held // m))
    columns = max(min(vectors, ceil(n / lanes)) * lanes, unit.lanes)
    most = held * lanes // columns
    rows = min(range(min(most, m), 0, -1), key=lambda r: ceil(m / r) * (r + 0.5))
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
    steps = divisor(sums // unit.depth, UNROLLED)
    return Tiles(rows, columns, sums, row_block, column_block, sum_block, unit, by_columns, steps)


def choose_tiles(
    sch: Draft, product: Product, target: Target, unit: Unit = FLOATS
) -> tuple[Draft, Tiles]:
    """Tiles near those of `tiles_for`, which come first; no sums are longer than its."""
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
        own = (rows,) if columns == best.columns or rows <= most else ()
        sch, rows = choose(sch, "rows", (*own, *range(max(most, 1), 0, -1)))
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
    by_columns = best.by_columns
    if target.cores > 1:
        sch, by_columns = choose(sch, "by_columns", (by_columns, not by_columns))
    deep = sums // unit.depth
    straight = (each for each in (1, 2, 4, 8) if deep % each == 0)
    sch, steps = choose(sch, "steps", (divisor(deep, best.steps), *straight))
    sch, prefetch = choose(sch, "prefetch", (True, False))
    return sch, Tiles(
        *(rows, columns, sums, row_block, column_block, sum_block, unit),
        *(by_columns, steps, prefetch),
    )


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


@recipe
def matmul(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast C[..., i, j] += A[..., i, k] * B[..., k, j] of floats, or of bytes into int32.

    16-bit floats are added up in float32. A and B may be stored transposed, in batches, and in any
    sizes. `block` names the product, by default the first there is. Raises `ScheduleError` where
    there is none.
    """
    product = find_product(sch, block)
    lanes = lanes_of(target, product.dtypes[2])
    in_order, ahead = product.right.axes.endswith("n"), is_constant(sch, product.right.buffer)
    few = product.rows <= skinny.FEW_ROWS and in_order and not ahead
    least = skinny.FEWEST_COLUMNS
    least = min(lanes, least) if not in_order else least if few else 1
    check_kind(sch, product, least, lanes, ahead)
    if few:
        return skinny.few_rows(sch, product)
    if product.rows == 1 and not in_order and not ahead:
        return skinny.one_row(sch, product, lanes)
    if product.columns < lanes and in_order:
        sch = pad(sch, product.block, {"n": lanes})
        product = find_product(sch, product.block)
    alike = product.sums % skinny.summed_apart(product) == 0
    alike = alike and not unit_for(product, target).intrin
    if product.columns <= 2 * lanes and in_order and alike:
        return few_columns(sch, product, lanes)
    return packed(sch, product, target)


def check_kind(sch: Draft, product: Product, columns: int, lanes: int, ahead: bool) -> None:
    """Refuse what these plans do not fit, such as few columns; B may be packed `ahead` of time."""
    name, (left, right, result) = product.block, product.dtypes
    if not are_multiplied(product.dtypes):
        why = f"multiplies {left} by {right} and adds up in {result}"
    elif product.columns < columns or product.sums < 2:
        why = f"is {product.rows}x{product.columns}x{product.sums}, too small for vectors"
    elif sch.block(name).init is None:
        why = f"adds to what is in {product.output} before; it would have to begin with T.init()"
    elif ahead or product.rows > 1 or product.right.axes.endswith("n"):
        return
    elif product.sums % lanes or product.columns % skinny.FEWEST_COLUMNS:
        why = "takes products of one vector with rows, which is a reduction along each row"
    else:
        return
    raise refusal(f'matmul: block "{name}" {why}')


def packed(sch: Draft, product: Product, target: Target) -> Draft:
    """Blocks for the caches, copied as panels, and a tile of C in registers."""
    unit = unit_for(product, target)
    source = product.left.buffer
    sch, block, conversions = converted(sch, product, unit, target)
    product = find_product(sch, block)
    sch, tiles = choose_tiles(sch, product, target, unit)
    rows = rows_in_place(product, tiles, target) if product.left.buffer == source else 0
    sch, rows = choose(sch, "rows_in_place", (rows, 0))
    if rows:
        tiles = tiles._replace(rows=rows, row_block=product.rows)
    sch, sums, result = divide(sch, product, tiles)
    left = ""
    if not rows:
        sch, left = copied(sch, sums, product.left)
    sch, right = copied(sch, sums, product.right)
    for copy in conversions:
        sch = sch.compute_inline(copy)
    sch, left_at, right_at, row_tile = tile(sch, sums, result, tiles)
    sch = finished(sch, result, sch.loops_below(result, row_tile)[0])
    shared = [right_at if tiles.by_columns else row_tile]
    if left:
        sch, row_panel = in_panels(sch, left, left_at, product.left, "m", tiles)
        shared += [row_panel] if row_panel else []
    sch, _ = in_panels(sch, right, right_at, product.right, "n", tiles)
    if unit.loads:
        sch = on_tiles(sch, sums, sch.loops(result)[-3], unit)
    elif unit.intrin:
        sch = on_unit(sch, f"{sums}_update", tiles)
    if prod(product.batches) * product.rows * product.columns * product.sums < WORTH_THREADS:
        return sch
    for loop in sch.loops_of(result, "S")[: len(product.batches)]:
        if sch.extent(result, loop) >= target.cores:
            return sch.parallel(loop)
    for loop in shared:
        sch = sch.parallel(loop)
    return sch


def rows_in_place(product: Product, tiles: Tiles, target: Target) -> int:
    """How many rows a tile has that reads A where it lies; 0 where a copy of A is worth it.

    It is not where A is seldom read, or stays in the first cache; nor for a tensor unit, which
    takes several elements of a row at a time, unless they keep out each other's rows. Without a
    copy, nothing rounds A's sizes up.
    """
    unit = tiles.unit
    aligned = product.sums % tiles.sum_block == 0 and product.sums % unit.step == 0
    row = product.sums * bytes_of(product.dtypes[0])
    seldom = product.columns <= FEW_TILES * tiles.columns or row * product.rows <= target.l1
    in_place = (seldom or row % SAME_SET != 0) if unit.intrin else seldom
    if not product.left.axes.endswith("mk") or not aligned or not in_place or unit.loads:
        return 0
    sizes = range(tiles.rows, tiles.rows // 2, -1)
    return next((rows for rows in sizes if product.rows % rows == 0), 0)


def few_columns(sch: Draft, product: Product, lanes: int) -> Draft:
    """Few columns of C: each element of A is read once, so nothing is copied."""
    most = 12 if product.columns <= lanes else 6
    sch, rows = choose(sch, "rows", (divisor(product.rows, size) for size in (most, 4, 2, 8, 1)))
    part = skinny.summed_apart(product)
    sch, steps = choose(sch, "steps", (divisor(part, size) for size in (UNROLLED, 1, 2, 8)))
    sizes = (rows, product.columns, part, product.rows, product.columns, product.sums)
    tiles = Tiles(*sizes, steps=steps)
    sch, sums, result = divide(sch, product, tiles)
    sch, *_ = tile(sch, sums, result, tiles)
    return sch


def divide(sch: Draft, product: Product, tiles: Tiles) -> tuple[Draft, str, str]:
    """Round the sizes up to whole blocks, and sum up one block of k at a time.

    Also returns the block that sums up tiles in their own buffer, and the one that writes C from
    them.
    """
    name = product.block
    roles = {"m": tiles.row_block, "n": tiles.column_block, "k": tiles.unit.step}
    if product.sums <= tiles.sums:
        padded = pad(sch, name, roles)
        ends = [block for block in padded.added(sch) if product.output == padded.buffer(block)]
        if not ends:
            padded, ends = padded.making("cache_write", name, product.output)
        padded, end = with_epilogue(padded, ends[0])
        return padded, name, end
    rounded = pad(sch, name, {"k": tiles.sum_block})
    (sums_loop,) = rounded.loops_of(name, "R")
    divided = rounded.split(sums_loop, [None, tiles.sums])
    (outer, _) = divided.loops_of(name, "R")
    parts, (sums, *_) = divided.making("rfactor", outer)
    padded = pad(parts, sums, roles)
    kept = factors_of(padded, sums)
    for copy in [*rounded.added(sch), *padded.added(parts)]:
        if padded.buffer(copy) not in kept:
            padded = padded.compute_inline(copy)
    return padded, sums, name


def with_epilogue(sch: Draft, result: str) -> tuple[Draft, str]:
    """Element-wise consumers of C, computed when a tile of C is written.

    Also returns the block that then writes.
    """
    for name in sch.consumers(result):
        done = attempt(sch, "reverse_compute_inline", name)
        if done is not sch:
            return with_epilogue(done, name)
    return sch, result


def finished(sch: Draft, result: str, loop: str) -> Draft:
    """Element-wise consumers of C, computed in `loop` when a tile of C is complete."""
    for consumer in sch.consumers(result):
        merged, name = with_epilogue(sch, consumer)
        done = attempt(merged, "reverse_compute_at", name, loop)
        if done is not merged:
            sch = finished(done.in_registers(done.loops_below(name, loop)), name, loop)
    return sch


def pad(sch: Draft, block: str, multiples: dict[str, int]) -> Draft:
    """Copies of A and B that end in zeros, so that sizes are multiples of those in `multiples`."""
    item = sch.block(block)
    assert isinstance(item.body, Store)
    rows, columns = item.body.indices[-2:]
    roles: dict[Expr, str] = {it.var: "k" for it in item.iters if it.kind == "R"}
    roles |= {rows: "m", columns: "n"}
    return sch.pad_einsum(block, [multiples.get(roles.get(it.var, "b"), 1) for it in item.iters])


def copied(sch: Draft, sums: str, side: Factor) -> tuple[Draft, str]:
    """The block that copies a factor: the one that pads it, else a new one."""
    buffer = factors_of(sch, sums)[side.place]
    if buffer != side.buffer:
        return sch, next(name for name in sch.producers(sums) if sch.buffer(name) == buffer)
    sch, (copy,) = sch.making("cache_read", sums, buffer)
    return sch, copy


def tile(sch: Draft, sums: str, result: str, tiles: Tiles) -> tuple[Draft, str, str, str]:
    """Loops over blocks, over tiles in them, and over k with one tile in registers.

    Gives the names of the loops that a block of A, and of B, is for, and of that over rows of
    tiles.
    """
    *_, i, j = sch.loops_of(result, "S")
    for loop in sch.loops_of(result, "R"):
        sch = sch.split(loop, [None, tiles.sum_block // tiles.sums])
    sum_loops = sch.loops_of(result, "R")
    sch = sch.split(i, [None, tiles.row_block // tiles.rows, tiles.rows])
    *_, row_block, row_tile, row, _ = sch.loops_of(result, "S")
    sch = sch.split(j, [None, tiles.column_block // tiles.columns, tiles.columns])
    *_, column_block, column_tile, column = sch.loops_of(result, "S")
    blocks, parts = [row_block, *sum_loops[:1]], [column_tile, *sum_loops[1:]]
    sch = sch.reorder(*blocks, column_block, row_tile, *parts, row, column)
    sch = sch.compute_at(sums, parts[-1])
    inside = sch.loops_below(sums, parts[-1])
    (summed,) = [loop for loop in inside if loop in sch.loops_of(sums, "R")]
    rest = [loop for loop in inside if loop != summed]
    sch = sch.reorder(summed, *rest)
    if tiles.unit.loads:
        sch = sum_in_tiles(sch, sums)
    sch = sch.decompose_reduction(sums, at=summed).in_registers([row, column])
    if not tiles.unit.loads:
        sch = sch.in_registers(sch.loops_below(f"{sums}_init", parts[-1]))
    if not tiles.unit.intrin:
        sch = sch.in_registers(rest)
        sch = written_out(sch, f"{sums}_update", summed, tiles.steps)
    if tiles.prefetch:
        sch = sch.annotate(column_tile, "prefetch", sch.buffer(result))
    return sch, blocks[-1], column_block, row_tile


def written_out(sch: Draft, block: str, loop: str, steps: int) -> Draft:
    """`steps` iterations of a loop as straight code."""
    if steps == 1:
        return sch
    sch, (_, step) = sch.cut(block, loop, steps)
    return sch.unroll(step)


def on_unit(sch: Draft, block: str, tiles: Tiles) -> Draft:
    """The tile's rows are written out, each as products that a tensor intrinsic adds up."""
    unit = tiles.unit
    summed = sch.loops_of(block, "R")[-1]
    *rows, column = sch.loops_below(block, summed)
    sch, (outer, deep) = sch.cut(block, summed, unit.depth)
    sch, (columns, lane) = sch.cut(block, column, unit.lanes)
    sch = sch.reorder(outer, *rows, columns, deep, lane).tensorize(deep, unit.intrin)
    sch = sch.unrolled((*rows, columns))
    return written_out(sch, f"{block}_o", outer, tiles.steps)


def in_panels(
    sch: Draft, copy: str, loop: str, side: Factor, role: str, tiles: Tiles
) -> tuple[Draft, str]:
    """Copy a block of a factor inside `loop`, as panels that are read in order.

    Rows of A that lie along k are copied in short runs, not element by element: a tile reads them
    one at a time whatever lies beside them. Gives the name of the loop over panels, too.
    """
    axes = [f"{axis}{number}" for number, axis in enumerate(side.axes)]
    (wide,) = [axis for axis in axes if axis[0] == role]
    batch = [axis for axis in axes if axis[0] == "b"]
    (deep,) = [axis for axis in axes if axis[0] == "k"]
    unit = tiles.unit
    if not unit.loads and role == "m" and side.axes[-1] == "k":
        unit = Unit(depth=unit.depth * tiles.steps)
    width, inner_axes = unit.panel(role, tiles.rows if role == "m" else tiles.columns)
    layout = [*batch, *(each.format(wide=wide, deep=deep) for each in inner_axes)]
    buffer = sch.buffer(copy)
    sch = sch.compute_at(copy, loop)
    sch = sch.transform_layout(copy, buffer, f"{', '.join(axes)} -> {', '.join(layout)}")
    inner = sch.loops_below(copy, loop)
    if len(inner) < 2:  # one row
        return sch.vectorize(inner[-1]), ""
    own = side.axes.replace("b", "")
    across, along = (inner[-2:][own.index(axis)] for axis in (role, "k"))
    sch = sch.split(across, [None, width])
    panel, lane = [name for name in sch.loops_below(copy, loop) if name not in inner]
    if side.axes[-1] != role:
        sch = sch.reorder(panel, along, lane)
    if unit.depth > 1:
        return grouped(sch, copy, (panel, along, lane), role, unit), panel
    return sch.vectorize(lane), panel
