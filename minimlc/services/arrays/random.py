"""Random numbers by explicit key: the same key and shape give the same numbers, on every target.

Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011): each element is a function of the key and of its place, so none waits for
another. Places, keys and floats are laid out as in JAX, whose bits these are.
"""

from math import pi, prod
from typing import Any

from minimlc.graphs.ops.broadcast import add, bitwise_or, bitwise_xor, left_shift, right_shift
from minimlc.graphs.ops.checks import refuse, sizes_of
from minimlc.graphs.ops.elementwise import cos, log, sqrt
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.shape import reshape
from minimlc.graphs.ops.values import iota, named
from minimlc.services.arrays.slicing import stack, strided_slice

KEY = ("uint32",)
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
"""The constant of Skein's key schedule in 32 bits."""


def _rotated(x: Any, by: int) -> Any:
    return bitwise_or(left_shift(x, by), right_shift(x, 32 - by))


def _threefry2x32(key: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The pairs (x, y) of 32-bit numbers, enciphered with a key of two: 20 rounds of Threefry."""
    if key.shape != (2,) or x.shape != y.shape:
        refuse(f"key has shape {key.shape}, (2,) is expected; x and y {x.shape} and {y.shape}")
    first, second = (
        reshape(strided_slice(key, begin=n, end=n + 1), shape=(1,) * x.ndim) for n in (0, 1)
    )
    keys = (first, second, named(bitwise_xor(bitwise_xor(first, second), PARITY), "threefry_key"))
    x, y = add(x, first), add(y, second)
    for group in range(5):
        for number, by in enumerate(ROTATIONS[group % 2]):
            x = add(x, y)
            y = bitwise_xor(_rotated(y, by), x)
            if number == 1:  # stored: written out anew wherever they are read, they would grow
                x, y = named(x, f"threefry_a{group}"), named(y, f"threefry_b{group}")
        x = named(add(x, keys[(group + 1) % 3]), f"threefry_x{group}")
        y = named(add(add(y, keys[(group + 2) % 3]), group + 1), f"threefry_y{group}")
    return x, y


threefry2x32 = composite("threefry2x32", _threefry2x32, dtypes=KEY, rounds=False)


def _pairs(key: Any, shape: Any) -> tuple[Any, Any]:
    """A pair of 32-bit numbers for each element: its place, enciphered."""
    sizes = sizes_of(shape, "shape")
    place = iota(prod(sizes), key)
    halves = (place // 2**32, place % 2**32)
    high, low = (reshape(half.astype("uint32"), shape=sizes) for half in halves)
    return threefry2x32(key, high, low)


def _bits(key: Any, *, shape: Any) -> Any:
    """Random 32-bit numbers of `shape`."""
    return bitwise_xor(*_pairs(key, shape))


def _split(key: Any, *, num: int = 2) -> Any:
    """`num` keys, the rows of the result, for independent random numbers."""
    return stack(_pairs(key, (num,)), axis=1)


def _fraction(bits: Any, digits: int) -> Any:
    """The first binary digits of bits as a float from 0 to 1 (exclusive)."""
    return right_shift(bits, 32 - digits).astype("float32") * 2.0**-digits


def _uniform(key: Any, *, shape: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """Random numbers of `shape` from `low` to `high` (exclusive), float32 with 23 binary digits."""
    return _fraction(_bits(key, shape=shape), 23) * (high - low) + low


def _normal(key: Any, *, shape: Any) -> Any:
    """Random numbers of `shape` with mean 0 and variance 1, float32 (Box and Muller 1958)."""
    radius, angle = _pairs(key, shape)
    size = sqrt(log(1.0 - _fraction(radius, 24)) * -2.0)
    return size * cos(_fraction(angle, 24) * (2 * pi))


random_bits = composite("random_bits", _bits, dtypes=KEY, rounds=False)
random_split = composite("random_split", _split, dtypes=KEY, rounds=False)
random_uniform = composite("random_uniform", _uniform, dtypes=KEY, rounds=False)
random_normal = composite("random_normal", _normal, dtypes=KEY, rounds=False)
