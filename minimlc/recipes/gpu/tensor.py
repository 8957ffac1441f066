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
"""Dtypes that tensor cores multiply and add up: words of intrinsics, and products at once."""
SIZES = ((128, 128), (64, 64)), ((64, 64), (32, 32)), ((32, 64), (32, 32))
OWN = 16, 8
TILES = tuple(tiles.Tiles(size, warp, OWN) for size, warp in SIZES)
"""The sums of a block, the largest first; of a warp in it, and of an instruction."""
GROUPS = tiles.Tiles((128, 128), (16, 128), OWN, 64)
"""The sums of a block whose warps work in fours, of 16-bit floats."""
HALF = 64
"""Columns that are neighbours in memory for them."""
STEPS = 2
"""Instructions for each sum between two barriers."""


def tensor_product(sch: Draft, name: str) -> Draft:
    """A sum of products of 16-bit floats or of bytes, with the element-wise work around it."""
    found = tiles.find_contraction(sch, name)
    dtypes = tuple(buffer.dtype for buffer in found.buffers)
    if dtypes not in UNITS:
        raise refusal(f'tensor_product: block "{name}" multiplies {dtypes[0]} by {dtypes[1]}')
    kind, total, depth = UNITS[dtypes]
    choices = [GROUPS if kind != "i8" and item.size == GROUPS.size else item for item in TILES]
    tile = tiles.largest(found, choices)
    threads = {"threadIdx.y": tile.warps, "threadIdx.x": 32}
    sch, result = tiles.in_matrices(sch, found, "mk")
    sch = tiles.rounded(sch, name, tile.size, tile.depth or STEPS * depth)
    sch, store = in_warps(sch, name, result, tile)
    copies = [item for item in sch.producers(name) if item != name]
    if tile is GROUPS:
        sch, step, unit = in_group(sch, name, copies, threads)
    else:
        sch, step, unit = in_units(sch, name, copies, threads, depth, kind)
    sch, (init, _) = sch.making("decompose_reduction", name, at=step)
    sch, loops = tiles.in_parts(sch, init, sch.loops(init)[-2:], (tile.thread,))
    sch = tiles.ahead(sch, copies, step, 1 if tile is GROUPS else tiles.AHEAD)
    sch = sch.tensorize(loops[2], f"mma_zero_{total}")
    sch = sch.tensorize(unit, f"mma_group_{kind}" if tile is GROUPS else f"mma_{kind}")
    sch = sch.tensorize(sch.loops(store)[-2], f"mma_store_{total}")
    return tiles.together(sch, result, sch.loops(result)[-2:], threads)


def in_warps(sch: Draft, name: str, result: str, tile: tiles.Tiles) -> tuple[Draft, str]:
    """Loops over blocks of the result, and in them over what a warp sums up and stores.

    Also returns the block that stores.
    """
    sums, warp = sch.buffer(name), f"{name}_warp"
    sch, (store,) = sch.making("cache_write", name, sums, "wmma.accumulator")
    sch, (m, n, *_) = tiles.in_parts(sch, result, sch.loops(result)[-2:], tile[:1])
    sch = tiles.bound(sch, result, (("blockIdx.y", m), ("blockIdx.x", n)))
    sch = sch.compute_at(store, n).set_scope(store, sums, "shared")
    sch, (m, n, *_) = tiles.in_parts(sch, store, sch.loops(store)[-2:], tile[1:3])
    return sch.fuse(m, n, name=warp).bind(warp, "threadIdx.y").compute_at(name, warp), store


def in_units(
    sch: Draft, name: str, copies: Sequence[str], threads: tiles.Threads, depth: int, kind: str
) -> tuple[Draft, str, str]:
    """The sums of a warp as instructions; the loops over steps, and over the rows of one. A factor
    is fetched by all threads together in each step, and by each warp as tiles.
    """
    *_, row, column, k = sch.loops(name)
    ks = step, unit, _ = [f"{name}_k{n}" for n in range(3)]
    sch = sch.split(k, [None, STEPS, depth], names=ks)
    sch, (m, n, i, j) = tiles.in_parts(sch, name, [row, column], (OWN,))
    sch = sch.reorder(*ks[:2], m, n, i, j, ks[2])
    shapes = (OWN[0], depth), (depth, OWN[1])
    for side, factor, copy, shape in zip("ab", factors_of(sch, name), copies, shapes, strict=True):
        sch, (part,) = sch.making("cache_read", name, factor, f"wmma.matrix_{side}")
        sch = tiles.fetched(sch.compute_at(part, unit), copy, step, threads, "apart")
        sch, loops = tiles.in_parts(sch, part, sch.loops(part)[-2:], (shape,))
        sch = sch.tensorize(loops[2], f"mma_load_{side}_{kind}")
    return sch, step, i


def in_group(
    sch: Draft, name: str, copies: Sequence[str], threads: tiles.Threads
) -> tuple[Draft, str, str]:
    """The sums of a warp of four in steps; the loops over steps, and over parts of 64 columns."""
    sch = tiles.in_tiles(sch, name, (OWN[0], HALF))
    *_, row, column, k = sch.loops(name)
    sch, (step, deep) = sch.cut(name, k, GROUPS.depth)
    part, rest = parts = [f"{column}_part", f"{column}_rest"]
    sch = sch.split(column, [None, HALF], names=parts).reorder(step, part, row, rest, deep)
    for copy in copies:
        sch = tiles.fetched(sch, copy, step, threads, "swizzled")
    return sch, step, part
