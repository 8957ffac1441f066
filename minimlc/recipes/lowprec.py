"""Products of small numbers: which unit of the machine multiplies them, and in which form.

Every CPU multiplies pairs of 16-bit integers and adds them up, twice as fast as it does with
floats; the newer ones take four bytes at a time. 16-bit floats without a unit of their own become
float32 while they are copied, so that they cost what float32 does and half of its memory traffic.
"""

from typing import NamedTuple

from minimlc.recipes.product import Product
from minimlc.recipes.views import added
from minimlc.schedule import Schedule
from minimlc.target import Target


class Unit(NamedTuple):
    """A tensor intrinsic that adds `depth` products to each of `lanes` sums; none, if unnamed.

    It takes factors of these dtypes, which hold the values of the program's own; without names,
    of the dtype that is added up.
    """

    left: str = ""
    right: str = ""
    intrin: str = ""
    depth: int = 1
    lanes: int = 1


BYTES = ("int8", "uint8")
HALVES = ("float16", "bfloat16")

FLOATS = Unit()
"""Vectors of floats, multiplied and added without an intrinsic."""

UNITS: tuple[tuple[str, Unit], ...] = (
    ("+avxvnniint8", Unit("int8", "int8", "dot_i8i8i32", 4, 16)),
    ("+avx512vnni", Unit("uint8", "int8", "dot_u8i8i32", 4, 16)),
    ("+avxvnni", Unit("uint8", "int8", "dot_u8i8i32", 4, 16)),
)
"""The units for products of bytes by the feature that tells of them, the best first."""

WORDS = Unit("int16", "int16", "dot_i16i16i32", 2, 16)
"""What every CPU can do with bytes, and how the portable form of it is written."""


def are_multiplied(dtypes: tuple[str, str, str]) -> bool:
    """Whether there is a plan for factors and sums of these dtypes."""
    left, right, result = dtypes
    if result == "int32":
        return {left, right} <= {*BYTES, "int16"}
    if result == "float32":
        return {left, right} <= {*HALVES, "float32"}
    return left == right == result == "float64"


def unit_for(found: Product, target: Target) -> Unit:
    """The best unit that the target has for a product's dtypes."""
    left, right, result = found.dtypes
    if result != "int32":
        return FLOATS
    features = target.features.split(",")
    for feature, unit in UNITS:
        if feature in features and (unit.left, unit.right) == (left, right):
            return unit
    return WORDS


def converted(sch: Schedule, found: Product, unit: Unit) -> tuple[Schedule, list[str]]:
    """Factors as copies of the dtypes that the unit takes, and the blocks that make the copies.

    They are to be computed where the copies are copied into panels: `compute_inline`.
    """
    copies: list[str] = []
    for side, dtype, old in zip(
        (found.left, found.right), (unit.left, unit.right), found.dtypes[:2], strict=True
    ):
        wanted = dtype or found.dtypes[2]
        if wanted != old:
            after = sch.cache_read(found.block, side.buffer, dtype=wanted)
            copies += added(sch, after)
            sch = after
    return sch, copies
