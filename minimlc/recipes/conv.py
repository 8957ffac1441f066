"""Convolutions of images: a tile of pixels and output channels in registers.

Lanes are output channels, so every load of a weight is a whole vector and every pixel is one
number for all lanes: windows, strides and borders cost nothing (as in E. Georganas et al., Anatomy
of High-Performance Deep Learning Convolutions on SIMD Architectures, 2018).
"""

from math import gcd, prod

from minimlc.loops.ir.nodes import Load, Var
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target
from minimlc.recipes.conv_tiles import (
    LEAST_SIDE_BY_SIDE,
    LEAST_STRAIGHT,
    LONG_SUMS,
    SQUARES,
    Tiles,
    awaited,
    choose_tiles,
    group_of,
    is_by_pixels,
    tile_of_pixels,
    widths_of,
)
from minimlc.recipes.convolution import Convolution, find_convolution
from minimlc.recipes.general import attempt
from minimlc.recipes.matmul import with_epilogue
from minimlc.recipes.tiles import MULTIPLICATIONS
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    divisor,
    is_long,
    recipe,
    through_registers,
    vector_registers,
    worth_threads,
)


@recipe
def conv2d(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast out[n, o, i, j] += image[n, c, i*s + p, j*t + q] * w[o, c, p, q].

    All three are float32 or float64; 16-bit floats may be multiplied and are added up in float32.
    The pixels of all images form one row, which is cut into tiles. Channels o that fill no vectors
    are rounded up. `block` names the convolution, by default the first there is. Raises
    `ScheduleError` where there is none.
    """
    name, conv = find_convolution(sch, block)
    if is_by_pixels(conv, target):
        return by_pixels(sch, name, conv, target)
    sch, padded, end = whole_channels(sch, name, conv, target)
    name, conv = find_convolution(sch, name)
    size = conv.sizes
    sch, tiles = choose_tiles(sch, name, conv, target)
    sch, conversions = widened(sch, name, conv)
    name, conv = find_convolution(sch, name)
    pixels = f"(n * {size['i']} + i) * {size['j']} + j"
    sch, result = with_pixels(sch, name, conv, pixels, f"{pixels}, o", end)
    sch, weights = channels_last(sch, name, conv, tiles.channels)
    for copy in (*conversions, *padded):
        sch = sch.compute_inline(copy)
    sums, partial = sch.buffer(name), name
    if tiles.block < size["c"] and tiles.pixels > 1:
        sch, (part, _) = sch.cut(name, sch.loops_of(name, "R")[0], tiles.block)
        sch, (partial, *_) = sch.making("rfactor", part)
    sch, (o, channel) = sch.cut(result, sch.loops(result)[0], tiles.channels)
    group, at = group_of(conv, tiles, target), o
    if group:
        sch, (at, _) = sch.cut(result, sch.loops(result)[-1], group)
        sch = sch.reorder(at, channel)
    sch, c, part = sum_in_tiles(sch.compute_at(name, at), name, partial, at, tiles)
    later = awaited(conv, tiles, target, o, part)
    sch = sch.annotate(c, "prefetch", (sch.buffer(weights), later)) if later else sch
    turned = size["c"] * size["p"] * size["q"] < LONG_SUMS and vector_registers(target) == 16
    sch = in_squares(sch, result, at, sums if turned else "", gcd(size["i"] * size["j"], group))
    if worth_threads(prod(size.values()), target, MULTIPLICATIONS):
        sch = sch.parallel(o).parallel(sch.loops(weights)[0])
    return sch


def by_pixels(sch: Draft, name: str, conv: Convolution, target: Target) -> Draft:
    """Rows of output channels times a few vectors of pixels, whose sums stay in registers; a copy
    of those pixels of all channels is next to each other.
    """
    size, (rows, lanes) = conv.sizes, tile_of_pixels(conv, target)
    in_a_row = conv.in_order or size["i"] == 1
    pixels = f"i * {size['j']} + j" if in_a_row else "i, j"
    sch, result = with_pixels(sch, name, conv, pixels, f"o, {pixels}")
    sch, weights = channels_last(sch, name, conv, rows)
    sch, (image,) = sch.making("reindex", name, conv.image)
    iters = [it.var for it in sch.block(name).iters]
    letters = dict(zip(iters, "ofcpq" if in_a_row else "oijcpq", strict=True))
    loads = nodes_of(sch.block(name).body, Load)
    (indices,) = [load.indices for load in loads if load.buffer.name == sch.buffer(image)]
    axes = [letters[index] for index in indices if isinstance(index, Var)]  # none of size 1
    layout = f"{', '.join(axes)} -> {', '.join(sorted(axes, key='cpqijf'.index))}"
    sch = sch.transform_layout(image, sch.buffer(image), layout)
    o, *outer, f = sch.loops(result)
    sch, (f, lane) = sch.cut(result, f, lanes)
    copied = size["c"] * size["p"] * size["q"] * lanes * bytes_of(conv.dtypes[2])
    most = target.l1 // 2 // copied
    side = divisor(sch.extent(result, f), most) if most >= LEAST_SIDE_BY_SIDE else 1
    sch, (f, tile) = sch.cut(result, f, side)
    sch, (o, row) = sch.cut(result, o, rows)
    sch = sch.reorder(*outer, f, o, tile, row, lane).compute_at(name, tile).compute_at(image, f)
    sch = sch.vectorize(sch.loops(image)[-1])
    c, p, q = sch.loops_of(name, "R")
    sums = [loop for loop in sch.loops_below(name, tile) if loop not in (c, p, q)]
    window = size["p"] * size["q"]
    sch, (c, step) = sch.cut(name, c, divisor(size["c"], max(LEAST_STRAIGHT // window, 1)))
    before = sch.reorder(c, step, p, q, *sums)
    sch = before.decompose_reduction(name, at=c)
    if is_long(sch, result):  # in a loop over rows, whose sums are in memory by then
        sch = sch.cache_read(result, before.buffer(name))
    sch = sch.loop_partition(o) if size["o"] % rows else sch
    for block in [result, *sch.added(before)]:
        inner = sch.loops(block)[-2:]
        sch = sch.in_registers(inner[-1:] if is_long(sch, block) else inner)
        sch = sch.unrolled(sch.loops_of(block, "R")[1:2])  # but not over a window
    if worth_threads(prod(size.values()), target, MULTIPLICATIONS):
        sch = sch.parallel(outer[0] if outer else f).parallel(sch.loops(weights)[0])
    return sch


def whole_channels(
    sch: Draft, name: str, conv: Convolution, target: Target
) -> tuple[Draft, list[str], str]:
    """Channels rounded up to vectors, or to a half where they are no more; the blocks that add
    zeros to the weights, and the one that writes the output without them.
    """
    count, (lanes, half) = conv.sizes["o"], widths_of(conv, target)
    if conv.alike < count or count % half == 0 or count < 2:
        return sch, [], ""
    part = lanes if count > half else half
    after = sch.pad_einsum(name, [part if letter == "o" else 1 for letter in conv.iters])
    (end,) = after.consumers(name)
    return after, [added for added in after.added(sch) if added not in (name, end)], end


def widened(sch: Draft, name: str, conv: Convolution) -> tuple[Draft, list[str]]:
    """Image and weights in the dtype of the sums; what pads the image writes it so at once.

    Also returns the block that converts the weights, to be inlined into the one that packs them.
    """
    image, weights, sums = conv.dtypes
    if image != sums:
        sch, (copy,) = sch.making("cache_read", name, conv.image, dtype=sums)
        for pads in sch.producers(copy):
            if sch.consumers(pads) == [copy]:
                sch = attempt(sch, "compute_inline", pads)
    if weights == sums:
        return sch, []
    return sch.making("cache_read", name, conv.weights, dtype=sums)


def sum_in_tiles(
    sch: Draft, name: str, partial: str, at: str, tiles: Tiles
) -> tuple[Draft, str, str]:
    """Tile after tile in registers; the last one, if it is not whole, has code of its own. Sums are
    `partial` ones of a block of input channels, or all. Gives the loops over steps of those, and
    over blocks ("" for none), too.
    """
    f, o, *rest = sch.loops_below(name, at)
    ends = sch.extent(name, f) % tiles.pixels
    sch, (tile, pixel) = sch.cut(name, f, tiles.pixels)
    before, part, outside = sch, "", [tile]
    if partial != name:
        (part,) = rest
        sch = sch.reorder(part, tile, pixel, o).compute_at(partial, tile)
        sch = sch.set_scope(partial, sch.buffer(partial), "local")
        sch = sch.decompose_reduction(name, at=part)
        outside, (pixel, o, *rest) = [], sch.loops_below(partial, tile)
    c, p, q = rest
    sch, (c, step) = sch.cut(partial, c, tiles.steps)
    sch = sch.reorder(*outside, c, step, p, q, pixel, o).decompose_reduction(partial, at=c)
    sch = sch.loop_partition(tile) if ends else sch
    for block in sch.added(before):
        sch = sch.in_registers(sch.loops(block)[-2:])
        summed = [loop for loop in sch.loops_of(block, "R")[::-1] if loop != part]
        sch = sch.unrolled(summed[: tiles.written_out])
    return sch, c, part


def in_squares(sch: Draft, result: str, outer: str, sums: str, image: int) -> Draft:
    """Copy the sums to the output, where pixels lie side by side: the buffer `sums` by way of
    registers, others ("") in a loop over channels.
    """
    channel, f = sch.loops_below(result, outer)
    side = next((side for side in SQUARES if image % side == 0), None)
    if side is None:
        return sch.vectorize(f)
    sch, (square, pixel) = sch.cut(result, f, side)
    sch = sch.reorder(square, channel, pixel)
    if not sums:
        return sch.vectorize(pixel)
    return through_registers(sch, result, sums, square, [channel, pixel])


def with_pixels(
    sch: Draft, name: str, conv: Convolution, pixels: str, layout: str, end: str = ""
) -> tuple[Draft, str]:
    """Number the pixels, perhaps in one row; sums get a buffer of their own, laid out like that.

    Also returns the block that copies them to the output, and does what is done element by element;
    the copy may be there, as `end`.
    """
    if not end:
        sch, (end,) = sch.making("cache_write", name, conv.output, scope="global")
    sch, result = with_epilogue(sch, end)
    sch = sch.transform_block_layout(name, f"{', '.join(conv.iters)} -> o, {pixels}, c, p, q")
    sch = sch.transform_block_layout(result, f"n, o, i, j -> o, {pixels}")
    return sch.transform_layout(name, sch.buffer(name), f"n, o, i, j -> {layout}"), result


def channels_last(sch: Draft, name: str, conv: Convolution, channels: int) -> tuple[Draft, str]:
    """Copy the weights so that the channels of a tile lie side by side."""
    sch, (copy,) = sch.making("cache_read", name, conv.weights)
    rest = "c, p, q" if len(sch.loops(copy)) == 4 else "c, q"
    layout = f"o, {rest} -> o // {channels}, {rest}, o % {channels}"
    sch = sch.transform_layout(copy, sch.buffer(copy), layout)
    sch = sch.split(sch.loops(copy)[0], [None, channels])
    outer, lane, *others = sch.loops(copy)
    return sch.reorder(outer, *others, lane).vectorize(lane), copy
