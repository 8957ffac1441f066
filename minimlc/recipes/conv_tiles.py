"""The decisions of the recipe for convolutions: form, tiles, prefetches; and the facts for them."""

from math import ceil
from typing import NamedTuple

from minimlc.loops.values.target import Target
from minimlc.recipes.convolution import Convolution
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    lanes_of,
    refusal,
    vector_registers,
)

# The facts of the decisions below. "x 1.2" is how much longer a layer took without the rule, the
# worst of 14 layers, where that was more than timing errors of 5 to 10 % (Zen 3, one thread, 16
# vector registers of 8 floats).

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
