"""Products of narrow numbers: which unit of the machine multiplies them, and in which layout.

Every CPU multiplies pairs of 16-bit integers and adds them up, twice as fast as it does with
floats; the newer ones take four bytes at a time. 16-bit floats without their own unit become
float32 while they are copied, so that they cost what float32 does and half of its memory traffic.
Most units for bytes take a signed one times an unsigned one. Where A and B are alike, B's get an
offset of 128 while they are copied; what that adds to the sums (128 times each element of a row of
A) is summed up separately and subtracted at the end.
"""

from typing import NamedTuple

from minimlc.loops.ir.nodes import Load, Store
from minimlc.loops.values.node import nodes_of, walk
from minimlc.loops.values.target import Target
from minimlc.recipes.general import attempt, row_wise
from minimlc.recipes.product import Product
from minimlc.recipes.rowwise import is_along_rows, row_by_row
from minimlc.recipes.views import Draft
from minimlc.services.tensor.intrinsics import INTERLEAVED, SHIFTED


class Unit(NamedTuple):
    """A tensor intrinsic that adds `depth` products to each of `lanes` sums; none, if unnamed.

    It takes factors of the dtypes `left` and `right`, which hold the values of the program's;
    without names, of the dtype that is added up. One on tile registers takes `groups` times
    `depth` products at a time; other intrinsics clear and store a tile of sums and load one of
    each factor.
    """

    left: str = ""
    right: str = ""
    intrin: str = ""
    depth: int = 1
    lanes: int = 1
    groups: int = 1
    zero: str = ""
    loads: tuple[str, ...] = ()
    store: str = ""

    @property
    def step(self) -> int:
        """How many products are added to each sum at a time."""
        return self.depth * self.groups

    def panel(self, role: str, width: int) -> tuple[int, list[str]]:
        """A panel of a factor: how wide it is, and its layout over the axes `wide` and `deep`.

        `role` is "m" for rows of A or "n" for columns of B.
        """
        if self.loads:
            width = self.lanes
        sides = [f"{{wide}} // {width}", f"{{deep}} // {self.step}"]
        lane, rest = f"{{wide}} % {width}", f"{{deep}} % {self.depth}"
        if self.loads:
            group = f"{{deep}} % {self.step} // {self.depth}"
            return width, [*sides, *((lane, group) if role == "m" else (group, lane)), rest]
        return width, [*sides, lane, *([rest] if self.depth > 1 else [])]


def _tiles(left: str, right: str, result: str, depth: int) -> Unit:
    """A unit on tiles, for the dtypes that parts of names stand for."""
    long = {"bf16": "bfloat16", "i8": "int8", "u8": "uint8"}
    name = "amx_dot_bf16" if left == "bf16" else f"amx_dot_{left}{right}"
    loads = (f"amx_load_{left}", f"amx_load_{right}")
    zero, store = f"amx_zero_{result}", f"amx_store_{result}"
    return Unit(long[left], long[right], name, depth, 16, 16, zero, loads, store)


BYTES = ("int8", "uint8")
HALVES = ("float16", "bfloat16")

FLOATS = Unit()
"""Vectors of floats, multiplied and added without an intrinsic."""

UNITS: tuple[tuple[str, Unit], ...] = (
    ("+amx-bf16", _tiles("bf16", "bf16", "f32", 2)),
    *(("+amx-int8", _tiles(a, b, "i32", 4)) for a in ("i8", "u8") for b in ("i8", "u8")),
    ("+avxvnniint8", Unit("int8", "int8", "dot_i8i8i32", 4, 16)),
    *(
        (feature, unit)
        for feature in ("+avx512vnni", "+avxvnni")
        for unit in (
            Unit("uint8", "int8", "dot_u8i8i32", 4, 16),
            Unit("int8", "uint8", "dot_i8u8i32", 4, 16),
        )
    ),
    ("+avx512bf16", Unit("bfloat16", "bfloat16", "dot_bf16bf16f32", 2, 16)),
)
"""The units for factors of certain dtypes by the CPU feature they need, the best first."""

OFFSETS = {(source, result): offset for source, result, offset in SHIFTED.values()}
"""The offsets that convert bytes of one signedness to the other."""

INTERLEAVES = {kind: name for name, kind in INTERLEAVED.items()}
INTERLEAVES |= {(*kind[:2], 4): name for name, kind in SHIFTED.items()}
"""The intrinsics that pack rows of B, by what they read, write, and how many rows it is."""

WORDS = Unit("int16", "int16", "dot_i16i16i32", 2, 16)
"""The unit that every CPU has for bytes; also the portable form."""


def are_multiplied(dtypes: tuple[str, str, str]) -> bool:
    """Whether there is a plan for factors and sums of these dtypes."""
    left, right, result = dtypes
    if result == "int32":
        return {left, right} <= {*BYTES, "int16"}
    if result == "float32":
        return {left, right} <= {*HALVES, "float32"}
    return left == right == result == "float64"


def unit_for(product: Product, target: Target) -> Unit:
    """The best unit that the target has for a product's dtypes.

    Where B's bytes have the other sign than it wants, an offset costs less than 16 bits do.
    """
    left, right, result = product.dtypes
    units = [unit for feature, unit in UNITS if feature in target.features.split(",")]
    exact = [unit for unit in units if (unit.left, unit.right) == (left, right)]
    shifted = [unit for unit in units if unit.left == left and (right, unit.right) in OFFSETS]
    return next(iter(exact + shifted), WORDS if result == "int32" else FLOATS)


def converted(
    sch: Draft, product: Product, unit: Unit, target: Target
) -> tuple[Draft, str, list[str]]:
    """Factors as copies in the dtypes that the unit takes.

    Where these have an offset, a separate block sums up what the offset adds. Also returns the
    names of the product's block and of the blocks that make the copies, to be inlined where the
    copies are packed into panels.
    """
    copies: list[str] = []
    shifted = False
    for side, dtype, old in zip(
        (product.left, product.right), (unit.left, unit.right), product.dtypes[:2], strict=True
    ):
        new = dtype or product.dtypes[2]
        if new != old:
            offset = OFFSETS.get((old, new), 0)
            sch, copy = sch.making(
                "cache_read", product.block, side.buffer, dtype=new, offset=offset
            )
            copies, shifted = copies + copy, shifted or offset != 0
    if not shifted:
        return sch, product.block, copies
    sch, (*others, block) = sch.making("decompose_sum", product.block)
    for name in others:
        sch = summed_up(sch, name, target)
    return sch, block, copies


def summed_up(sch: Draft, name: str, target: Target) -> Draft:
    """A sum over one factor alone: along its rows, or of all of them at a time."""
    if is_along_rows(sch, name):
        return row_by_row(sch, [name], target)
    return row_wise(sch, name)


def grouped(sch: Draft, copy: str, loops: tuple[str, str, str], role: str, unit: Unit) -> Draft:
    """Fill a panel whose elements lie in groups: loops over panels, along k, and across a panel.

    `copy` is the block that fills it. What lies side by side along k is copied so; rows of B are
    interleaved, by an intrinsic where nothing guards them.
    """
    panel, along, lane = loops
    order = sch.loops(copy)
    in_order = order.index(panel) < order.index(along)
    depth = unit.step if in_order and role == "m" else unit.depth
    sch, (outer, inner) = sch.cut(copy, along, depth)
    if in_order:
        return sch.vectorize(inner)
    if role == "m":
        return sch.vectorize(lane)
    sch, (lanes, lane) = sch.cut(copy, lane, unit.lanes)
    sch = sch.reorder(outer, panel, lanes, inner, lane)
    block = sch.block(copy)
    kinds = [part.buffer.dtype for part in walk(block.body) if isinstance(part, Load | Store)]
    intrin = INTERLEAVES.get((kinds[-1], kinds[0], unit.depth))
    done = attempt(sch, "tensorize", inner, intrin) if intrin else sch
    if done is sch:
        return sch.vectorize(lane)
    return done.annotate(panel, "prefetch", (nodes_of(block.body, Load)[0].buffer.name, outer))
