"""Matrix products at the speed of the vendor's library.

The plan is that of K. Goto and R. van de Geijn (Anatomy of High-Performance Matrix Multiplication,
2008): a tile of C stays in registers while a panel of A from the first-level cache and a panel of B
from the second level stream by, both copied beforehand so that they are read in order and without a
guard. Unlike theirs, the loop over k is inside those over tiles: C leaves the first level once.
"""

from collections.abc import Iterable

from minimlc.loops.ir.nodes import Expr, Store
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.target import Target
from minimlc.recipes import skinny
from minimlc.recipes.general import attempt
from minimlc.recipes.lowprec import Unit, are_multiplied, converted, grouped, unit_for
from minimlc.recipes.product import Factor, Product, factors_of, find_product, is_constant
from minimlc.recipes.tile_unit import on_tiles, sum_in_tiles
from minimlc.recipes.tiles import (
    SAME_SET,
    UNROLLED,
    Tiles,
    choose_shared,
    choose_steps,
    choose_tiles,
    is_shared,
)
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    carefully,
    choose,
    divisor,
    is_long,
    lanes_of,
    recipe,
    refusal,
    through_registers,
    vector_registers,
)

FEW_TILES = 4
"""Tiles side by side in C up to which elements of A are not used often enough to copy them."""

SQUARE = 8
"""Rows of B along k, and elements of each, that are transposed in registers at a time."""


@recipe
def matmul(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast C[..., i, j] += A[..., i, k] * B[..., k, j] of floats, or of bytes into int32.

    16-bit floats are added up in float32. A and B may be stored transposed, in batches, and in any
    sizes. `block` names the product, by default the first there is. Raises `ScheduleError` where
    there is none.
    """
    product, plans = fitting_plans(sch, block, target)
    lanes, in_order = lanes_of(target, product.dtypes[2]), product.right.axes.endswith("n")
    unit = bool(unit_for(product, target).intrin)
    sch, plan = choose(sch, "plan", plans) if len(plans) > 1 else (sch, plans[0])
    if plan == "few rows":
        one = product._replace(batches=())
        cores = target.cores if is_shared(one, target) else 1
        sch, last, strips = skinny.few_rows(sch, product, target, cores)
        return shared_out(sch, product, last, strips, target)
    if plan == "along rows":
        sch, columns = skinny.along_rows(sch, product, target)
        return shared_out(sch, product, product.block, [columns], target)
    if product.columns < lanes and in_order:
        sch = pad(sch, product.block, {"n": lanes})
        product = find_product(sch, product.block)
    alike = product.sums % skinny.summed_apart(product) == 0
    if product.columns <= 2 * lanes and in_order and alike and not unit:
        sch, plan = choose(sch, "plan", ("few columns", "packed"))
        if plan == "few columns":
            return few_columns(sch, product, lanes)
    return packed(sch, product, target)


def fitting_plans(sch: Draft, block: str | None, target: Target) -> tuple[Product, list[str]]:
    """The product of a block, by default the first, and the plans that fit it, the usual one first.

    Raises `ScheduleError` where there is none.
    """
    product = find_product(sch, block)
    lanes = lanes_of(target, product.dtypes[2])
    in_order, ahead = product.right.axes.endswith("n"), is_constant(sch, product.right.buffer)
    few = product.rows <= skinny.FEW_ROWS and in_order and not ahead
    unit = bool(unit_for(product, target).intrin)
    least = skinny.FEWEST_COLUMNS
    least = min(lanes, least) if not in_order else least if few else 1
    check_kind(sch, product, least, lanes, ahead)
    plans = ["packed"]
    if few:
        plans = ["few rows", *plans]
    elif not in_order and not ahead and skinny.goes_along_rows(product, lanes, unit):
        plans = ["along rows", *plans]
    return product, plans


def check_kind(sch: Draft, product: Product, columns: int, lanes: int, ahead: bool) -> None:
    """Refuse products that no plan fits, such as few columns; B may be packed `ahead` of time."""
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
    sch, left_at, right_at, tile_at, summed = tile(sch, sums, result, tiles)
    row_tile, column_tile = tile_at
    sch = finished(sch, result, sch.loops_below(result, row_tile)[0])
    sch, _ = in_panels(sch, right, right_at, product.right, "n", tiles)
    sch, steps = choose_steps(sch, tiles)
    row_panel = ""
    if left:
        sch, row_panel = in_panels(sch, left, left_at, product.left, "m", tiles, steps)
    if unit.loads:
        sch = on_tiles(sch, sums, sch.loops(result)[-3], unit)
    elif unit.intrin:
        sch = on_unit(sch, f"{sums}_update", tiles, steps)
    else:
        sch = written_out(sch, f"{sums}_update", summed, steps)
    sch, by_columns = choose_shared(sch, tiles, target)
    shared = [right_at if by_columns else row_tile, *filter(None, [row_panel])]
    sch = shared_out(sch, product, result, shared, target)
    sch, prefetch = choose(sch, "prefetch", (True, False))
    return sch.annotate(column_tile, "prefetch", sch.buffer(result)) if prefetch else sch


def shared_out(
    sch: Draft, product: Product, result: str, loops: Iterable[str], target: Target
) -> Draft:
    """Loops shared out over threads, where these are worth it; or one over batches around them."""
    if not is_shared(product, target):
        return sch
    for loop in sch.loops_of(result, "S")[: len(product.batches)]:
        if sch.extent(result, loop) >= target.cores:
            return sch.parallel(loop)
    once = {item.var.name for item in loops_in(sch.func.body) if constant_value(item.extent) == 1}
    for loop in loops:
        sch = sch if loop in once else sch.parallel(loop)
    return sch


def rows_in_place(product: Product, tiles: Tiles, target: Target) -> int:
    """How many rows a tile has that reads A where it lies; 0 where a copy of A is worth it.

    It is not where A is seldom read, or stays in the first cache; nor for a tensor unit, which
    takes several elements of a row at a time, or a tile of 32 registers, which reads each element
    less often, unless they keep out each other's rows. Without a copy, nothing rounds A's sizes up.
    """
    unit = tiles.unit
    aligned = product.sums % tiles.sum_block == 0 and product.sums % unit.step == 0
    row = product.sums * bytes_of(product.dtypes[0])
    seldom = product.columns <= FEW_TILES * tiles.columns or row * product.rows <= target.l1
    in_place = seldom or (row % SAME_SET and (unit.intrin or vector_registers(target) > 16))
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
    tiles = Tiles(*sizes)
    sch, sums, result = divide(sch, product, tiles)
    sch, *_, (_, column_tile), summed = tile(sch, sums, result, tiles)
    sch = written_out(sch, f"{sums}_update", summed, steps)
    return sch.annotate(column_tile, "prefetch", sch.buffer(result))


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
    """Element-wise consumers of C, computed in `loop` when a tile of C is complete: in straight
    code, but for those that are much code for each row.
    """
    for consumer in sch.consumers(result):
        merged, name = with_epilogue(sch, consumer)
        done = attempt(merged, "reverse_compute_at", name, loop)
        if done is not merged:
            inner = done.loops_below(name, loop)
            done = done.in_registers(inner[-1:] if is_long(done, name) else inner)
            sch = finished(done, name, loop)
    return sch


def pad(sch: Draft, block: str, multiples: dict[str, int]) -> Draft:
    """Copies of A and B that end in zeros, so that sizes are multiples as in `multiples`."""
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


def tile(
    sch: Draft, sums: str, result: str, tiles: Tiles
) -> tuple[Draft, str, str, tuple[str, str], str]:
    """Loops over blocks, over tiles in them, and over k with one tile in registers.

    Also returns the names of the loops that a block of A, and of B, is for, of the loops over rows
    and columns of tiles, and of the loop over k.
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
    return sch, blocks[-1], column_block, (row_tile, column_tile), summed


def written_out(sch: Draft, block: str, loop: str, steps: int) -> Draft:
    """`steps` iterations of a loop as straight code."""
    if steps == 1:
        return sch
    sch, (_, step) = sch.cut(block, loop, steps)
    return sch.unroll(step)


def on_unit(sch: Draft, block: str, tiles: Tiles, steps: int) -> Draft:
    """The tile's rows are written out, each as products that a tensor intrinsic adds up."""
    unit = tiles.unit
    summed = sch.loops_of(block, "R")[-1]
    *rows, column = sch.loops_below(block, summed)
    sch, (outer, deep) = sch.cut(block, summed, unit.depth)
    sch, (columns, lane) = sch.cut(block, column, unit.lanes)
    sch = sch.reorder(outer, *rows, columns, deep, lane).tensorize(deep, unit.intrin)
    sch = sch.unrolled((*rows, columns))
    return written_out(sch, f"{block}_o", outer, steps)


def in_panels(
    sch: Draft, copy: str, loop: str, side: Factor, role: str, tiles: Tiles, steps: int = 1
) -> tuple[Draft, str]:
    """Copy a block of a factor inside `loop`, as panels that are read in order, `steps` at a time.

    Rows of A that lie along k are copied in short runs, not element by element: a tile reads them
    one at a time whatever lies beside them. Rows of B that do are turned around, square by square.
    Also returns the name of the loop over panels.
    """
    axes = [f"{axis}{number}" for number, axis in enumerate(side.axes)]
    (wide,) = [axis for axis in axes if axis[0] == role]
    batch = [axis for axis in axes if axis[0] == "b"]
    (deep,) = [axis for axis in axes if axis[0] == "k"]
    unit = tiles.unit
    if not unit.loads and role == "m" and side.axes[-1] == "k":
        unit = Unit(depth=unit.depth * steps)
    width, inner_axes = unit.panel(role, tiles.rows if role == "m" else tiles.columns)
    layout = [*batch, *(axis.format(wide=wide, deep=deep) for axis in inner_axes)]
    buffer = sch.buffer(copy)
    sch = sch.compute_at(copy, loop)
    sch = sch.transform_layout(copy, buffer, f"{', '.join(axes)} -> {', '.join(layout)}")
    inner = sch.loops_below(copy, loop)
    if len(inner) < 2:  # one row, or one element
        return sch.in_registers(inner), ""
    roles = side.axes.replace("b", "")
    across, along = (inner[-2:][roles.index(axis)] for axis in (role, "k"))
    sch = sch.split(across, [None, width])
    panel, lane = [name for name in sch.loops_below(copy, loop) if name not in inner]
    if unit.depth > 1:
        return grouped(sch, copy, (panel, along, lane), role, unit), panel
    if side.axes[-1] != role:
        sch = sch.reorder(panel, along, lane)
    whole = width % SQUARE == sch.extent(copy, along) % SQUARE == 0
    if side.axes[-1] == role or not whole or sch.producers(copy) or is_constant(sch, side.buffer):
        return sch.vectorize(lane), panel
    return in_squares(sch, copy, side.buffer, along, lane), panel


def in_squares(sch: Draft, copy: str, source: str, along: str, lane: str) -> Draft:
    """Turn a panel around by way of registers, where that is legal at its edges."""
    plain = sch.vectorize(lane)
    sch, (along, row) = sch.cut(copy, along, SQUARE)
    sch, (part, lane) = sch.cut(copy, lane, SQUARE)
    sch = sch.reorder(part, along, row, lane)
    try:
        return carefully(sch, lambda s: through_registers(s, copy, source, along, [row, lane]))
    except ScheduleError:
        return plain
