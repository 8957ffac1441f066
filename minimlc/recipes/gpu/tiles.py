"""Products by tiles: matrix products in any layout, and convolutions as products over windows.

A block of threads sums up a tile of the result. The parts of both factors that a step along the sum
takes are fetched together into memory that the threads share; each thread has a tile of sums in its
registers (V. Volkov, J. Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, 2008). A warp has
about a square of the block's tile, so that it reads few different elements of either factor.
"""

from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

from minimlc.loops.ir.nodes import Buffer, Load, Store
from minimlc.loops.proofs.arith import variables
from minimlc.loops.values.node import nodes_of
from minimlc.recipes.elementwise import is_elementwise
from minimlc.recipes.general import attempt
from minimlc.recipes.gpu.each import is_cheap
from minimlc.recipes.matmul import with_epilogue
from minimlc.recipes.product import loads_of
from minimlc.recipes.views import Draft, bytes_of, refusal, tiled
from minimlc.services.checks.threads import SWIZZLED

Pair = tuple[int, int]
"""Numbers of rows and columns."""
Threads = dict[str, int]
"""The number of threads along each axis."""


class Tiles(NamedTuple):
    """Tiles of the result: a block of threads has one of `size`, a warp a part of it of the size
    `warp`, a thread a part of that of the size `thread`. A step takes `depth` products of each sum,
    of as many neighbours as `lanes` at once.
    """

    size: Pair
    warp: Pair
    thread: Pair
    depth: int = 0
    lanes: int = 1

    @property
    def threads(self) -> Threads:
        """The threads along each axis; a warp is x and y."""
        y, x = (of // part for of, part in zip(self.warp, self.thread, strict=True))
        return {"threadIdx.z": self.warps, "threadIdx.y": y, "threadIdx.x": x}

    @property
    def warps(self) -> int:
        """The number of warps."""
        return prod(self.size) // prod(self.warp)


TILES = (
    Tiles((128, 128), (64, 32), (8, 8), 8),
    Tiles((64, 64), (32, 32), (4, 8), 16),
    Tiles((32, 32), (16, 16), (2, 4), 16),
)
"""The largest first, which reads the least for each sum."""
VECTORS = Tiles((64, 128), (32, 64), (4, 32), 16, lanes=16)
"""For CPUs, whose registers are vectors of float32."""
FEWEST = 8
"""Rows, columns and products from which on tiles pay."""
IN_FLIGHT = 8
"""Elements that a thread may wait for at a time: each takes registers."""
BLOCKS = 128
"""Blocks of threads that a large device runs at once."""
AHEAD = 2
"""Steps between what is fetched and what is used."""
STAGES, ASYNC = "software_pipeline_stage", "software_pipeline_async_stages"
ROLES = {"S11": "b", "S10": "m", "S01": "n", "R11": "k"}
"""An iter's role by its kind, and by whether each of the two factors depends on it."""


class Contraction(NamedTuple):
    """A sum of products: the block, and the role of each iter: b, m, n or k, as in
    C[b, m, n] += A[b, m, k] * B[b, k, n], or 1 for one of extent 1. Several iters of a role
    count as one.
    """

    block: str
    roles: str
    sizes: tuple[int, ...]
    buffers: tuple[Buffer, ...]

    def size(self, role: str) -> int:
        """The number of a role's values."""
        return prod(size for kind, size in zip(self.roles, self.sizes, strict=True) if kind == role)

    def layout(self, roles: str) -> str:
        """The map of the iters to one number for each of `roles`."""
        numbers = dict.fromkeys(roles, "0")
        for at, (role, size) in enumerate(zip(self.roles, self.sizes, strict=True)):
            if role in numbers:
                numbers[role] = f"({numbers[role]}) * {size} + i{at}"
        iters = ", ".join(f"i{at}" for at in range(len(self.roles)))
        return f"{iters} -> {', '.join(numbers.values())}"


def find_contraction(sch: Draft, name: str) -> Contraction:
    """The sum of products that a block computes. Raises `ScheduleError` where there is none of
    enough rows, columns and products.
    """
    block = sch.block(name)
    loads = loads_of(block) or ()
    uses = [set().union(*map(variables, load.indices)) for load in loads]
    kinds = ("".join([it.kind, *(f"{it.var in use:d}" for use in uses)]) for it in block.iters)
    others = ("1" if it.extent == 1 else "?" for it in block.iters)
    roles = "".join(map(ROLES.get, kinds, others))
    sizes = tuple(it.extent for it in block.iters)
    buffers = *(load.buffer for load in loads), sch.store(name).buffer
    found = Contraction(name, roles, sizes, buffers)
    fits = set("mnk") <= set(roles) <= set("bmnk1") and len(set(buffers)) == 3
    if not fits or block.init is None or min(map(found.size, "mnk")) < FEWEST:
        raise refusal(f'product: block "{name}" adds up too few products of rows and columns')
    return found


def largest(found: Contraction, choices: Sequence[Tiles]) -> Tiles:
    """The first choice that has enough blocks for a large device, or the last."""
    m, n, b = map(found.size, "mnb")
    many = (it for it in choices if b * ceil(m / it.size[0]) * ceil(n / it.size[1]) >= BLOCKS)
    return next(many, choices[-1])


def product(sch: Draft, name: str, wide: bool) -> Draft:
    """A sum of products by tiles, with the element-wise work before and after it."""
    found = find_contraction(sch, name)
    # Elements of other types are converted one by one.
    wide = wide and all(buffer.dtype == "float32" for buffer in found.buffers)
    tiles = VECTORS if wide else largest(found, TILES)
    sch, result = in_matrices(sch, found, "mk" if wide else "km")
    sch = rounded(sch, name, tiles.size, tiles.depth)
    loops = sch.loops(result)[-2:]
    sch, (m0, n0, m1, n1, m2, n2, *pair) = in_parts(sch, result, loops, tiles[:3])
    warp = f"{name}_warp"
    axes = ("blockIdx.y", m0), ("blockIdx.x", n0), *zip(tiles.threads, (warp, m2, n2), strict=True)
    sch = bound(sch.fuse(m1, n1, name=warp), result, axes)
    sch, inner = in_registers(sch, name, n2, tiles)
    for row, column in (*inner, pair):
        sch = straight(sch.unroll(row), column, tiles.lanes)
    return sch


def in_matrices(sch: Draft, found: Contraction, left: str) -> tuple[Draft, str]:
    """Both factors copied as matrices, the `left` one with axes "mk" or "km"; the block over
    matrices, too. Also returns the block that writes the result.
    """
    name, batch = found.block, "b" * ("b" in found.roles)
    for buffer, axes in zip(found.buffers, (left, "kn"), strict=False):
        makers = [other for other in sch.producers(name) if sch.buffer(other) == buffer.name]
        layout = found.layout(batch + axes)
        sch, (copy,) = sch.making("reindex_cache_read", name, buffer.name, "shared", layout)
        for maker in makers:
            if is_elementwise(sch, maker) and is_cheap(sch, maker):
                sch = attempt(sch, "compute_inline", maker)
        sch = by_indices(sch, copy, sch.store(copy))
    layout = found.layout(f"{batch}mn")
    made = sch.making("reindex_cache_write", name, found.buffers[2].name, "local", layout)
    sch, result = with_epilogue(made[0], made[1][0])
    sch = sch.transform_block_layout(name, found.layout(f"{batch}mnk"))
    reads = nodes_of(sch.block(result).body, Load)
    (read,) = (load for load in reads if load.buffer.name == sch.buffer(name))
    return by_indices(sch, result, read), result


def by_indices(sch: Draft, name: str, access: Load | Store) -> Draft:
    """A block over the indices of one of its accesses."""
    old = ", ".join(it.var.name for it in sch.block(name).iters)
    new = ", ".join(index.script() for index in access.indices)
    return sch if old == new else sch.transform_block_layout(name, f"{old} -> {new}")


def rounded(sch: Draft, name: str, size: Pair, depth: int) -> Draft:
    """Sizes that are whole tiles: zeros are fetched beyond the ends, and no sums are written."""
    *batch, _, _, _ = sch.block(name).iters
    padded = sch.pad_einsum(name, [*(1 for _ in batch), *size, depth])
    for copy in padded.added(sch):
        source = source_of(padded, copy).buffer.name
        inner = next(block for block in padded.blocks() if padded.buffer(block) == source)
        padded = padded.compute_inline(copy if inner == name else inner)
    return padded


def in_parts(
    sch: Draft, name: str, loops: Sequence[str], sizes: Sequence[Pair]
) -> tuple[Draft, list[str]]:
    """Loops over rows and columns in parts of such sizes, each in parts of the next; all loops."""
    sides = []
    for at, (loop, side) in enumerate(zip(loops, ("row", "column"), strict=True)):
        factors = [a[at] // b[at] for a, b in zip(sizes, [*sizes[1:], (1, 1)], strict=True)]
        sides.append([f"{name}_{side}{level}" for level in range(len(factors) + 1)])
        sch = sch.split(loop, [None, *factors], names=sides[-1])
    order = [loop for pair in zip(*sides, strict=True) for loop in pair]
    return sch.reorder(*order), order


def bound(sch: Draft, name: str, axes: Sequence[tuple[str, str]]) -> Draft:
    """Loops around a block bound to axes, those over batches to the last of blocks."""
    outer = sch.loops(name)
    batch = outer[: outer.index(axes[0][1])]
    for axis, loop in (*axes, *(("blockIdx.z", loop) for loop in batch)):
        sch = sch.bind(loop, axis)
    return sch


def straight(sch: Draft, loop: str, lanes: int) -> Draft:
    """A loop as straight code, so many iterations at once."""
    if lanes == 1:
        return sch.unroll(loop)
    rest, inner = names = [f"{loop}_rest", f"{loop}_lanes"]
    return sch.split(loop, [None, lanes], names=names).unroll(rest).vectorize(inner)


def in_registers(sch: Draft, name: str, thread: str, tiles: Tiles) -> tuple[Draft, list[list[str]]]:
    """A thread's sums, step by step from what is fetched; also the loops over their rows and
    columns, to begin them and to go on.
    """
    sch = sch.compute_at(name, thread).set_scope(name, sch.buffer(name), "local")
    *_, row, column, k = sch.loops(name)
    sch, (step, deep) = sch.cut(name, k, tiles.depth)
    sch = sch.reorder(step, deep, row, column)
    copies = [other for other in sch.producers(name) if other != name]
    for copy in copies:
        sch = fetched(sch, copy, step, tiles.threads)
    sch = sch if tiles.lanes > 1 else ahead(sch, copies, step)
    sch, (init, _) = sch.making("decompose_reduction", name, at=step)
    return sch.unroll(deep), [sch.loops_below(init, thread), [row, column]]


def fetched(sch: Draft, copy: str, step: str, threads: Threads, how: str = "") -> Draft:
    """A part of a factor, fetched by all threads together: neighbours at once by neighbours. Its
    rows begin in different banks where threads write several of them at once; or where they read
    so, "apart"; or they are "swizzled".
    """
    sch = sch.set_scope(copy, sch.buffer(copy), "shared").compute_at(copy, step)
    first, second = sch.loops_below(copy, step)[-2:]
    turned = sch.block(copy).iters[-1].var not in variables(source_of(sch, copy).indices[-1])
    size = sch.extent(copy, first), sch.extent(copy, second)
    if turned:
        sch, first, second = sch.reorder(second, first), second, first
    lane, lanes = f"{copy}_lane", lanes_for(sch, copy, second)
    if lanes > 1 and sch.iterations(copy, (first, second)) % (lanes * prod(threads.values())) == 0:
        sch = sch.split(second, [None, lanes], names=[f"{copy}_lanes", lane]).vectorize(lane)
        second = f"{copy}_lanes"
    tile, word = sch.store(copy).buffer, 16 // bytes_of(sch.store(copy).buffer.dtype)
    if how == "swizzled":
        sch = in_tiles(sch, copy, (size[0], 8 * word)).set_scope(copy, tile.name, SWIZZLED)
    elif turned or how:  # an odd number of 16 bytes from row to row
        sch = in_tiles(sch, copy, size).storage_align(copy, tile.name, -2, 2 * word, word)
    return together(sch, copy, (first, second), threads)


def in_tiles(sch: Draft, name: str, size: Sequence[int]) -> Draft:
    """The output of a block in tiles of such a size along the last axes, each in one piece."""
    store = sch.store(name).buffer
    return sch.transform_layout(name, store.name, tiled(store.ndim, size))


def ahead(sch: Draft, copies: Sequence[str], step: str, most: int = AHEAD) -> Draft:
    """The copies for a step made `most` steps before it at the most, while threads work."""
    stages = min(most, sch.extent(copies[0], step) - 1)
    if stages < 1:
        return sch
    return sch.annotate(step, STAGES, (*(0 for _ in copies), stages)).annotate(step, ASYNC, (0,))


def together(sch: Draft, name: str, loops: Sequence[str], threads: Threads) -> Draft:
    """Loops around a block shared out to all threads together."""
    whole, rest = f"{name}_all", f"{name}_rest"
    names = [rest, *(f"{name}_{axis[-1]}" for axis in threads)]
    sch = sch.fuse(*loops, name=whole).split(whole, [None, *threads.values()], names=names)
    sch = sch.unroll(rest) if sch.extent(name, rest) <= IN_FLIGHT else sch
    for loop, axis in zip(names[1:], threads, strict=True):
        sch = sch.bind(loop, axis)
    return sch


def source_of(sch: Draft, copy: str) -> Load:
    """The load that a block copies, maybe under a condition."""
    return nodes_of(sch.store(copy).value, Load)[0]


def lanes_for(sch: Draft, copy: str, loop: str) -> int:
    """How many neighbours along a loop a thread may move at once: 1 where they are none."""
    store, source = sch.store(copy), source_of(sch, copy)
    along = sch.block(copy).iters[-1].var
    lanes = 16 // bytes_of(source.dtype)
    straight = store.value is source and source.indices[-1] is store.indices[-1] is along
    sizes = source.buffer.shape[-1], sch.extent(copy, loop)
    return lanes if straight and not any(size % lanes for size in sizes) else 1
