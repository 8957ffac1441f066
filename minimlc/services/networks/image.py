"""Images: blocks of pixels as channels, and other sizes."""

from collections.abc import Callable
from typing import Any

from minimlc.graphs.ops.checks import ALL, NUMBERS, axis_of, refuse, sizes_of
from minimlc.graphs.ops.elementwise import cast
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.shape import permute_dims, reshape
from minimlc.graphs.ops.values import iota, named, spread
from minimlc.loops.values.dtypes import DTYPES
from minimlc.services.arrays.slicing import take


def _check_blocks(x: Any, block_size: object) -> int:
    if x.ndim != 4:
        refuse(f"x has {x.ndim} dimension(s), it must be (batch, channels, height, width)")
    if not isinstance(block_size, int) or block_size < 1:
        refuse(f"block_size is an integer >= 1, got {block_size!r}", "E204")
    return block_size


def _depth_to_space(x: Any, *, block_size: int, mode: str = "DCR") -> Any:
    """Channels as blocks of pixels, with x: (n, c, h, w); the channel's digits are block row, block
    column, channel ("DCR"), or channel first ("CRD", which PyTorch calls a pixel shuffle).
    """
    b = _check_blocks(x, block_size)
    n, c, h, w = x.shape
    if c % (b * b) or mode not in ("DCR", "CRD"):
        refuse(
            f'mode is "DCR" or "CRD", got {mode!r}, and {b * b} divides the {c} channels', "E204"
        )
    deep = c // (b * b)
    digits, axes = ((b, b, deep), (0, 3, 4, 1, 5, 2))
    if mode == "CRD":
        digits, axes = (deep, b, b), (0, 1, 4, 2, 5, 3)
    blocks = permute_dims(reshape(x, shape=(n, *digits, h, w)), axes=axes)
    return reshape(blocks, shape=(n, deep, h * b, w * b))


def _space_to_depth(x: Any, *, block_size: int) -> Any:
    """Blocks of pixels as channels, with x: (n, c, h, w): the inverse of depth_to_space."""
    b = _check_blocks(x, block_size)
    n, c, h, w = x.shape
    if h % b or w % b:
        refuse(f"the image {(h, w)} is not cut into blocks of {b} x {b}")
    blocks = reshape(x, shape=(n, c, h // b, b, w // b, b))
    return reshape(
        permute_dims(blocks, axes=(0, 3, 5, 1, 2, 4)), shape=(n, c * b * b, h // b, w // b)
    )


depth_to_space = composite("depth_to_space", _depth_to_space, dtypes=ALL, rounds=False)
space_to_depth = composite("space_to_depth", _space_to_depth, dtypes=ALL, rounds=False)


# Other sizes. Where an output's pixel lies in the input is a fraction of integers, so that every
# target rounds it to the same pixel.


def _half_pixel(i: Any, size: int, new: int) -> tuple[Any, int]:
    return (i * 2 + 1) * size - new, 2 * new


def _align_corners(i: Any, size: int, new: int) -> tuple[Any, int]:
    return i * (size - 1 if new > 1 else 0), max(new - 1, 1)


COORDINATES: dict[str, Callable[[Any, int, int], tuple[Any, int]]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": lambda i, size, new: (_half_pixel if new > 1 else _align_corners)(
        i, size, new
    ),
    "asymmetric": lambda i, size, new: (i * size, new),
    "align_corners": _align_corners,
}
ROUNDING: dict[str, Callable[[Any, int], Any]] = {
    "floor": lambda place, over: place // over,
    "ceil": lambda place, over: (place + (over - 1)) // over,
    "round_prefer_floor": lambda place, over: (place * 2 + (over - 1)) // (2 * over),
    "round_prefer_ceil": lambda place, over: (place * 2 + over) // (2 * over),
}


def _linear(t: Any) -> dict[int, Any]:
    return {0: 1.0 - t, 1: t}


def _cubic(t: Any) -> dict[int, Any]:
    """The weights of the four nearest (Keys 1981), with a = -3 / 4."""

    def near(d: Any) -> Any:
        return (d * 1.25 - 2.25) * d * d + 1.0

    def far(d: Any) -> Any:
        return ((d * -0.75 + 3.75) * d - 6.0) * d + 3.0

    return {-1: far(t + 1.0), 0: near(t), 1: near(1.0 - t), 2: far(2.0 - t)}


WEIGHTS = {"linear": _linear, "cubic": _cubic}


def _resized(x: Any, axis: int, new: int, method: str, coordinates: str, rounding: str) -> Any:
    """`x` with another size of one axis."""
    place, over = COORDINATES[coordinates](iota(new, x), x.shape[axis], new)
    if method == "nearest":
        return take(x, ROUNDING[rounding](place, over), axis=axis, mode="clip")
    below = place // over
    left_over = cast(place - below * over, dtype=str(x.dtype)) / float(over)
    t = spread(named(left_over, "resize_place"), (axis,), x.ndim)
    parts = [take(x, below + k, axis=axis, mode="clip") * w for k, w in WEIGHTS[method](t).items()]
    return sum(parts[1:], parts[0])


def _resize(
    x: Any,
    *,
    size: Any,
    axes: Any = (2, 3),
    method: str = "linear",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
) -> Any:
    """x with another `size` of each of `axes`: the "nearest" elements, or "linear" or "cubic"
    combinations of its neighbours, which beyond the ends are the last ones. `coordinates` sets
    where an element lies ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"),
    `rounding` which one is the nearest ("floor", "ceil", "round_prefer_floor", "..._ceil").
    """
    sizes, places = (
        sizes_of(size, "size"),
        [axis_of(a, x.ndim, "axes") for a in sizes_of(axes, "axes")],
    )
    modes = {"method": method, "coordinates": coordinates, "rounding": rounding}
    for table, key in (
        ({"nearest", *WEIGHTS}, "method"),
        (COORDINATES, "coordinates"),
        (ROUNDING, "rounding"),
    ):
        if modes[key] not in table:
            refuse(f"{key} is one of {', '.join(sorted(table))}; got {modes[key]!r}", "E204")
    if len(sizes) != len(places) or min(sizes, default=1) < 1 or len({*places}) != len(places):
        refuse(f"size={size!r} and axes={axes!r} are a size for each of some axes", "E204")
    if method != "nearest" and DTYPES[str(x.dtype)].kind != "float":
        refuse(f"x is {x.dtype}, and only floats are interpolated", "E202", 'method="nearest"')
    for axis, new in zip(places, sizes, strict=True):
        x = named(_resized(x, axis, new, **modes), f"resize_{axis}")
    return x


resize = composite("resize", _resize, dtypes=NUMBERS)
