"""Convolutions of images: a tile of pixels and output channels in registers.

Lanes are output channels, so every load of a weight is a whole vector and every pixel is one
number for all lanes: windows, strides and borders cost nothing (as in E. Georganas et al., Anatomy
of High-Performance Deep Learning Convolutions on SIMD Architectures, 2018).
"""

from typing import NamedTuple

from minimlc.dtypes import DTYPES
from minimlc.errors import ScheduleError
from minimlc.recipes.matmul import WORTH_THREADS
from minimlc.recipes.product import loads_of
from minimlc.recipes.views import HINT, added, block_of, buffer_of, divisor, loops_below
from minimlc.schedule import Schedule
from minimlc.target import Target
from minimlc.tir.nodes import Block, Load, Store, Var


class Convolution(NamedTuple):
    """out[n, o, i, j] += image[...] * weights[o, c, p, q]; `iters` in the block's order."""

    iters: str
    sizes: dict[str, int]
    output: str
    weights: str
    dtype: str


def conv2d(sch: Schedule, block: str | None = None, *, target: Target | None = None) -> Schedule:
    """A fast out[n, o, i, j] += image[n, c, i*s + p, j*t + q] * w[o, c, p, q] in floats.

    The pixels of all images form one row, of which 4 to 6 make a tile. The channels o must fill
    whole vectors. `block` names the convolution, by default the first there is. Raises
    `ScheduleError` where there is none.
    """
    target = target or Target.host()
    name, found = find_convolution(sch, block)
    lanes = target.vector_bits // DTYPES[found.dtype].bits
    size = found.sizes
    pixels, channels = tile_for(name, found, lanes)
    sch, result = one_row_of_pixels(sch, name, found)
    sch, weights = channels_last(sch, name, found, channels)
    o, f = sch.loops(result)
    sch = sch.split(o, [None, channels]).split(f, [None, pixels])
    o, channel, f, pixel = sch.loops(result)
    sch = sch.reorder(o, f, channel, pixel).compute_at(name, f)
    pixel_in, channel_in, *sums = loops_below(sch, name, f)
    sch = sch.reorder(*sums, pixel_in, channel_in).decompose_reduction(name, at=sums[0])
    starts = loops_below(sch, f"{name}_init", f)
    for *unrolled, lane in (starts, (pixel_in, channel_in), (channel, pixel)):
        sch = sch.vectorize(lane)
        for loop in unrolled:
            sch = sch.unroll(loop)
    if size["n"] * size["o"] * size["i"] * size["j"] * size["c"] >= WORTH_THREADS // 8:
        sch = sch.parallel(o).parallel(sch.loops(weights)[0])
    return sch


def tile_for(name: str, found: Convolution, lanes: int) -> tuple[int, int]:
    """Pixels and channels of a tile: 8 to 14 vectors of sums, which hides the latency of adding."""
    size = found.sizes
    count = size["n"] * size["i"] * size["j"]
    pixels, vectors = divisor(count, 6), 2
    if pixels < 4 and divisor(count, 14) >= 7:
        pixels, vectors = divisor(count, 14), 1
    elif pixels < 4:
        vectors = 4
    why = f"{size['o']} output channels do not fill vectors of {lanes}" if size["o"] % lanes else ""
    why = why or (f"{count} pixels cannot be cut into tiles" if pixels == 1 else "")
    why = why or ("one product is no sum" if size["c"] * size["p"] * size["q"] == 1 else "")
    if why:
        raise ScheduleError(f'conv2d: block "{name}": {why}', code="E170", hint=HINT)
    return pixels, lanes * divisor(size["o"] // lanes, vectors)


def one_row_of_pixels(sch: Schedule, name: str, found: Convolution) -> tuple[Schedule, str]:
    """Number the pixels of all images through; sums get a buffer of their own, pixels by channels.

    Gives the name of the block that copies them to the output.
    """
    size = found.sizes
    pixel = f"(n * {size['i']} + i) * {size['j']} + j"
    sch = sch.transform_block_layout(name, f"{', '.join(found.iters)} -> o, {pixel}, c, p, q")
    alone = sch.reindex(name, found.output)
    (copy,) = added(sch, alone)
    return alone.transform_layout(name, buffer_of(alone, name), "o, f -> f, o"), copy


def channels_last(
    sch: Schedule, name: str, found: Convolution, channels: int
) -> tuple[Schedule, str]:
    """Copy the weights so that the channels of a tile lie side by side."""
    cached = sch.cache_read(name, found.weights)
    (copy,) = added(sch, cached)
    layout = f"o, c, p, q -> o // {channels}, c, p, q, o % {channels}"
    sch = cached.transform_layout(copy, buffer_of(cached, copy), layout)
    o, *rest = sch.loops(copy)
    sch = sch.split(o, [None, channels])
    outer, lane = sch.loops(copy)[:2]
    return sch.reorder(outer, *rest, lane).vectorize(lane), copy


def find_convolution(sch: Schedule, block: str | None) -> tuple[str, Convolution]:
    """The convolution that a block computes: the named one, or the first that is one."""
    for name in [block] if block is not None else sch.blocks():
        if (found := _convolution(block_of(sch, name))) is not None:
            return name, found
    what = f'block "{block}" is' if block is not None else "no block is"
    raise ScheduleError(
        f"conv2d: {what} out[n, o, i, j] += image[...] * w[o, c, p, q] in floats",
        code="E170",
        hint=HINT,
    )


def _convolution(block: Block) -> Convolution | None:
    loads = loads_of(block)
    if loads is None or not isinstance(block.body, Store):
        return None
    kinds: dict[Var, str] = {it.var: it.kind for it in block.iters}
    output = block.body
    for weights, image in (loads, loads[::-1]):
        roles = _roles(output, weights, kinds)
        types = {output.buffer.dtype, weights.buffer.dtype, image.buffer.dtype}
        if roles is None or len(types) != 1 or output.buffer.dtype not in ("float32", "float64"):
            continue
        iters = "".join(roles[it.var] for it in block.iters)
        sizes = {roles[it.var]: it.extent for it in block.iters}
        return Convolution(
            iters, sizes, output.buffer.name, weights.buffer.name, output.buffer.dtype
        )
    return None


def _roles(output: Store, weights: Load, kinds: dict[Var, str]) -> dict[Var, str] | None:
    """Each iter's letter: n, o, i, j by the output's axes and c, p, q by the weights'."""
    if len(output.indices) != 4 or len(weights.indices) != 4:
        return None
    places = [*zip(output.indices, "noij", strict=True)]
    places += zip(weights.indices[1:], "cpq", strict=True)
    roles = {index: letter for index, letter in places if isinstance(index, Var)}
    plain = len(roles) == 7 and set(roles) == set(kinds)
    right = plain and all(
        kinds[var] == ("S" if letter in "noij" else "R") for var, letter in roles.items()
    )
    return roles if right and weights.indices[0] is output.indices[1] else None
