"""Products by tensor cores: warps multiply tiles that their threads hold together.

A block of threads fetches parts of both factors into memory that it shares, as for other products.
The sums go there, too, in the end: from there on, threads do the element-wise work and write.
"""

from collections.abc import Sequence

from minimlc.recipes.gpu import tiles
from minimlc.recipes.product import factors_of
from minimlc.recipes.views import Draft, refusal

UNITS = {
    ("float16", "float16", "float32"): ("f16", "f32", 16),
    ("bfloat16", "bfloat16", "float32"): ("bf16", "f32", 16),
    ("int8", "int8", "int32"): ("i8", "i32", 32),
}
"""What tensor cores multiply and add up: names of intrinsics, and how many products at once."""
SIZES = ((128, 128), (64, 64)), ((64, 64), (32, 32)), ((32, 64), (32, 32))
TILES = tuple(tiles.Tiles(size, warp, (16, 8)) for size, warp in SIZES)
"""What a block sums up, the largest first; a warp of it, and an instruction of that."""
STEPS = 2
"""Instructions for each sum between two barriers."""


def tensor_product(sch: Draft, name: str) -> Draft:
    """A sum of products of 16-bit floats or of bytes, with the element-wise work around it."""
    found = tiles.find_contraction(sch, name, tiles.FEWEST)
    dtypes = tuple(buffer.dtype for buffer in found.buffers)
    if dtypes not in UNITS:
        raise refusal(f'tensor_product: block "{name}" multiplies {dtypes[0]} by {dtypes[1]}')
    kind, total, depth = UNITS[dtypes]
    tile = tiles.largest(found, TILES)
    (rows, columns), threads = tile.own, {"threadIdx.y": tile.warps, "threadIdx.x": 32}
    sch, result = tiles.in_matrices(sch, found, "mk")
    sch = tiles.rounded(sch, name, tile.size, STEPS * depth)
    sch, store, warp = in_warps(sch, name, result, tile)
    sch, step, unit, row = in_units(sch, name, warp, (rows, columns, depth))
    copies = [copy_into(sch, name, factor) for factor in factors_of(sch, name)]
    for side, shape in (("a", (rows, depth)), ("b", (depth, columns))):
        sch = brought(sch, name, (step, unit), threads, f"mma_load_{side}_{kind}", shape)
    sch, (init, _) = sch.making("decompose_reduction", name, at=step)
    sch = tiles.ahead(sch, copies, step)
    sch = sch.tensorize(sch.loops(init)[-2], f"mma_zero_{total}").tensorize(row, f"mma_{kind}")
    sch = sch.tensorize(sch.loops(store)[-2], f"mma_store_{total}")
    return tiles.together(sch, result, sch.loops(result)[-2:], threads)


def in_warps(sch: Draft, name: str, result: str, tile: tiles.Tiles) -> tuple[Draft, str, str]:
    """Loops over blocks of the result, and in them over what a warp sums up and stores.

    Also returns the block that stores, and the loop over warps.
    """
    sums, warp = sch.buffer(name), f"{name}_warp"
    sch, (store,) = sch.making("cache_write", name, sums, "wmma.accumulator")
    sch, (m, n, *_) = tiles.in_parts(sch, result, sch.loops(result)[-2:], tile[:1])
    sch = tiles.bound(sch, result, (("blockIdx.y", m), ("blockIdx.x", n)))
    sch = sch.compute_at(store, n).set_scope(store, sums, "shared")
    sch, (m, n, *_) = tiles.in_parts(sch, store, sch.loops(store)[-2:], tile[1:3])
    return sch.fuse(m, n, name=warp).bind(warp, "threadIdx.y"), store, warp


def in_units(
    sch: Draft, name: str, warp: str, unit: tuple[int, int, int]
) -> tuple[Draft, str, str, str]:
    """What a warp sums up as instructions; the loops over steps, over the instructions of one, and
    over the rows of an instruction.
    """
    sch = sch.compute_at(name, warp)
    *_, row, column, k = sch.loops(name)
    sch = sch.split(k, [None, STEPS, unit[2]], names=(ks := [f"{name}_k{n}" for n in range(3)]))
    sch, (m, n, i, j) = tiles.in_parts(sch, name, [row, column], (unit[:2],))
    return sch.reorder(*ks[:2], m, n, i, j, ks[2]), ks[0], ks[1], i


def brought(
    sch: Draft, name: str, at: Sequence[str], threads: dict[str, int], intrin: str, tile: tiles.Pair
) -> Draft:
    """A factor: fetched by all threads together in each step, and by each warp as tiles."""
    first, second = factors_of(sch, name)
    buffer, scope = (first, "matrix_a") if "_a_" in intrin else (second, "matrix_b")
    copy = copy_into(sch, name, buffer)
    sch, (part,) = sch.making("cache_read", name, buffer, f"wmma.{scope}")
    sch = tiles.fetched(sch.compute_at(part, at[1]), copy, at[0], threads, apart=True)
    sch, loops = tiles.in_parts(sch, part, sch.loops(part)[-2:], (tile,))
    return sch.tensorize(loops[2], intrin)


def copy_into(sch: Draft, name: str, buffer: str) -> str:
    """The block that writes a factor of the sum that a block computes."""
    (copy,) = [each for each in sch.producers(name) if sch.buffer(each) == buffer]
    return copy
