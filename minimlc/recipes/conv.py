"""Convolutions of images: a tile of pixels and output channels in registers.

Lanes are output channels, so every load of a weight is a whole vector and every pixel is one
number for all lanes: windows, strides and borders cost nothing (as in E. Georganas et al., Anatomy
of High-Performance Deep Learning Convolutions on SIMD Architectures, 2018).
"""

from math import ceil, gcd, prod
from typing import NamedTuple

from minimlc.loops.ir.nodes import Load, Var
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target
from minimlc.recipes.convolution import Convolution, find_convolution
from minimlc.recipes.general import attempt
from minimlc.recipes.matmul import with_epilogue
from minimlc.recipes.tiles import MULTIPLICATIONS
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    is_long,
    lanes_of,
    recipe,
    refusal,
    through_registers,
    vector_registers,
    worth_threads,
)

# The facts of the decisions below. "x 1.2" is how much longer the worst layer of ResNet-18 or
# MobileNet took without the rule, where that was more than timing errors of 5 % (Zen 3, 16 vector
# registers of 8 floats, one thread).

LEAST_STRAIGHT = 4
"""Minimum products of a sum in straight code, without which a loop's counter is felt."""

WIDEST_STRAIGHT = 9
"""Maximum width of a window whose products are straight code."""

LINE = 128
"""Bytes of the image that a row of a tile's pixels brings into the first-level cache, which a block
of channels leaves room for (x 1.2 at 1x1, 512 channels, 7x7 pixels).
"""

REUSES = 7
"""Minimum pixels of a tile for which weights may come from the second-level cache: each is used so
often (x 1.2 where all may, x 1.1 where none may).
"""

PLACES = 7
"""Maximum pixels of a tile that lie in several rows of the image, where short sums or windows wait
for their addresses (x 1.8 at 3x3, 256 channels, 14x14 pixels with tiles in one row only).
"""

WINDOW_SUMS = 16
"""Maximum vectors of sums of a window with several columns: other registers are for its columns."""

LEAST_LANES = 4
"""Minimum numbers in half a vector that channels may fill."""

AHEAD_TILES = 32
"""Maximum tiles per block of weights for which the next weights are prefetched (x 1.1 at 3x3, 512
channels, 7x7 pixels without it; x 1.2 at 3x3, 64 channels, 56x56 with it for more tiles).
"""

COPIED_SUMS = 32
"""Maximum products of a sum for which a copy of windows with pixels in lanes pays (x 1.2 at 3x3, 3
channels, stride 2 without it).
"""

LEAST_SIDE_BY_SIDE = 4
"""Minimum tiles of pixels that are copied side by side: fewer leave a page before it is used up
(x 1.2 at 3x3, 3 channels, stride 2).
"""

SQUARES = (8, 4, 7, 6, 5)
"""Pixels that are turned in registers and written to the output at a time, the best first; they may
lie in several rows of the image (x 1.3 at 7x7, 3 channels, stride 2 without it).
"""

MOST_SUMMED = 300
"""Maximum products in one sum: longer sums are of partial ones, whose errors are smaller."""

LONG_SUMS = 512
"""Minimum products of a sum for which the copy to the output may be a loop, which is less code:
the copy is a small part of the time then.
"""


class Tiles(NamedTuple):
    """Parameters: a tile of `pixels` by `channels`, whose sums stay in registers.

    All tiles take a `block` of input channels before the next one, whose weights a cache holds.
    Straight code takes `steps` of them, and the `written_out` innermost ones of the loops over them
    and over the window.
    """

    pixels: int
    channels: int
    block: int
    steps: int
    written_out: int


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


def is_by_pixels(conv: Convolution, target: Target) -> bool:
    """Whether pixels fill whole vectors, and those of a tile stay in the first level: then they are
    lanes, and nothing is turned. With windows, a copy of those is worth it where few are summed.
    """
    size, (rows, lanes) = conv.sizes, tile_of_pixels(conv, target)
    row, summed = lanes * bytes_of(conv.dtypes[2]), size["c"] * size["p"] * size["q"]
    whole = size["i"] * size["j"] if conv.in_order else size["j"]
    fits = whole % lanes == 0 and size["n"] == 1 and rows <= size["o"] == conv.alike
    most = target.l1 // 2 // row if conv.in_order else COPIED_SUMS
    return fits and len(set(conv.dtypes)) == 1 and 1 < summed <= most


def tile_of_pixels(conv: Convolution, target: Target) -> tuple[int, int]:
    """Output channels, and pixels, of a tile whose lanes are pixels: sums enough to keep the
    arithmetic busy, in one vector where that is a line of the cache. A copy of windows is not read
    ahead of time as an image is, so each vector of it serves more of them.
    """
    most = 8 if conv.in_order or conv.sizes["o"] % 16 else 16
    rows, vectors = (most, 1) if target.vector_bits > 256 else (6, 2)
    return rows, vectors * lanes_of(target, conv.dtypes[2])


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


def widths_of(conv: Convolution, target: Target) -> tuple[int, int]:
    """Numbers in a vector, and in a half that is worth it."""
    lanes = lanes_of(target, conv.dtypes[2])
    return lanes, max(lanes // 2, min(lanes, LEAST_LANES))


def lanes_for(conv: Convolution, target: Target) -> int:
    """How many lanes are output channels: those of whole vectors, or of halves that they fill."""
    lanes, half = widths_of(conv, target)
    return half if conv.alike % lanes and conv.alike % half == 0 else lanes


def tiles_for(name: str, conv: Convolution, target: Target) -> Tiles:
    """The tile that fills the vector registers and leaves some for pixels and weights.

    Four of 16 will do, or six of 32: wider machines have more operands in flight.
    With 16 registers of 8 floats that is 6 pixels by 16 channels.
    """
    size, lanes = conv.sizes, lanes_for(conv, target)
    o, count, window = conv.alike, size["n"] * size["i"] * size["j"], size["p"] * size["q"]
    summed = size["c"] * window
    why = f"{o} output channels do not fill vectors of {lanes}" if o % lanes else ""
    why = why or (f"{count} pixels cannot be cut into tiles" if count < 2 else "")
    why = why or ("there is only one product to sum" if summed < 2 else "")
    if why:
        raise refusal(f'conv2d: block "{name}": {why}')
    vectors = divisor(o // lanes, 2)
    pixels = _pixels_of(conv, vectors, target)
    row = lanes * vectors * window * bytes_of(conv.dtypes[2])  # of weights, for a channel
    row += 0 if window > 1 else LINE  # other tiles read the rest of the line
    held = _choice((pixels >= REUSES, target.l2 // 2), (True, target.l1 * 4 // 5)) // row
    block = divisor(size["c"], most := max(min(held, MOST_SUMMED // window), 1))
    if block < min(most, size["c"]) // 4:  # a number that has no such parts
        block = divisor(size["c"], max(held, 1))
    steps = divisor(block, max(LEAST_STRAIGHT // window, 1))
    straight = _choice(
        (window < LEAST_STRAIGHT, 3),  # all of channels, rows and columns
        (size["q"] == 1 and size["p"] <= WIDEST_STRAIGHT, 2),
        (1 < size["q"] <= WIDEST_STRAIGHT, 1),
        (True, 0),
    )
    return Tiles(pixels, lanes * vectors, block, steps, straight)


def _pixels_of(conv: Convolution, vectors: int, target: Target) -> int:
    """The pixels of a tile with so many vectors of channels: those whose sums fit the registers,
    with the fewest loads and unused pixels in all.
    """
    size, registers = conv.sizes, vector_registers(target)
    count, wide = size["n"] * size["i"] * size["j"], size["q"] > 1
    held = registers - max(4, registers * 3 // 16)
    most = min((min(held, WINDOW_SUMS) if wide else held) // vectors, count)
    summed = size["c"] * size["p"] * size["q"]
    waits = wide or (not conv.in_order and summed < LONG_SUMS)

    def cost(side: int) -> float:
        crosses = waits and side > PLACES and size["j"] % side > 0
        return ceil(count / side) * (side + 0.5 + crosses)

    return min(range(most, 0, -1), key=cost)


def _choice(*rows: tuple[bool, int]) -> int:
    """The number in the first row of a decision table whose condition holds."""
    return next(number for holds, number in rows if holds)


def group_of(conv: Convolution, tiles: Tiles, target: Target) -> int:
    """Pixels whose sums stay in the first level until they are copied to the output: whole tiles;
    0 for all, where those stay in the second.
    """
    size, sums = conv.sizes, tiles.channels * bytes_of(conv.dtypes[2])
    count = size["n"] * size["i"] * size["j"]
    if count * sums <= target.l2 // 4:
        return 0
    most = range(target.l1 // 4 // sums, 0, -1)
    return next((n for n in most if n % tiles.pixels == count % n == 0), 0)


def choose_tiles(sch: Draft, name: str, conv: Convolution, target: Target) -> tuple[Draft, Tiles]:
    """Tiles near those of `tiles_for`, which come first."""
    best = tiles_for(name, conv, target)
    if sch.chance is None:
        return sch, best
    size, lanes = conv.sizes, lanes_for(conv, target)
    count, window = size["n"] * size["i"] * size["j"], size["p"] * size["q"]
    vectors = (divisor(conv.alike // lanes, most) for most in (1, 2, 3, 4))
    widths = (best.channels, *(lanes * count for count in vectors))
    sch, channels = choose(sch, "channels", widths)
    most = min(vector_registers(target) // (channels // lanes) - 1, count)
    first = (best.pixels,) if channels == best.channels or best.pixels <= most else ()
    sch, pixels = choose(sch, "pixels", (*first, *range(max(most, 1), 0, -1)))
    blocks = (divisor(best.block, max(best.block // parts, 1)) for parts in (2, 4))
    sch, block = choose(sch, "block", (best.block, *blocks))
    steps = (divisor(block, most) for most in (1, 2, 4, 8) if most * window <= 32)
    sch, step = choose(sch, "steps", (divisor(block, best.steps), *steps))
    sch, written_out = choose(sch, "written_out", (best.written_out, *range(4)))
    return sch, Tiles(pixels, channels, block, step, written_out)


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


def awaited(conv: Convolution, tiles: Tiles, target: Target, o: str, part: str) -> str:
    """Where tiles are so few that the first of them would wait for its weights: the loop whose next
    iteration's weights stay in the second level beside its own, that over output channels or over
    blocks of input channels; else "".
    """
    size = conv.sizes
    if size["n"] * size["i"] * size["j"] > AHEAD_TILES * tiles.pixels:
        return ""
    held = tiles.channels * size["c"] * size["p"] * size["q"] * bytes_of(conv.dtypes[2])
    return o if held <= target.l2 // 4 else part


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
