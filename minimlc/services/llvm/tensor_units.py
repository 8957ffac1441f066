"""Machine instructions for tensor intrinsics: the LLVM form of each, and the features it needs.

An instruction is listed where its result is the implementation's, bit for bit. Those for 16-bit
floats are not quite: they take the place of sums whose order is open anyway, and they count
numbers below 2**-126 (subnormal ones) as zero, factors and sums alike.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from minimlc.loops.ir.nodes import Buffer
from minimlc.loops.llvm.ops import Ops
from minimlc.loops.llvm.value import MEMORY, Code, Typed, Value, element_size


class Fragment(NamedTuple):
    """Where a parameter lies: its first element, and the strides in elements.

    In a tile register, `tile` is its number and there is no pointer.
    """

    pointer: str
    strides: tuple[int, ...]
    buffer: Buffer
    tile: int = -1

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return element_size(self.buffer)


Emitter = Callable[[Ops, list[Fragment]], None]
Strides = tuple[int | None, ...]


class Instruction(NamedTuple):
    """A machine's instruction for an intrinsic.

    `features` are LLVM's names of needed features, `strides` the only layout of the operands that
    it takes, in the order of the intrinsic's parameters (None for any). The parameters at the
    places `tiles` are in tile registers, all others in memory.
    """

    features: frozenset[str]
    strides: tuple[Strides, ...]
    emit: Emitter
    tiles: tuple[int, ...] = ()


def _dot(name: str, lanes: int, operand: str, adds: bool = True, turned: bool = False) -> Emitter:
    """16 sums of a few products each: `a` as one 32-bit number in all lanes, times `b`.

    The instruction works on `lanes` sums at a time. One that only multiplies (`adds` is False)
    is followed by an addition; one that is `turned` takes `b` first.
    """

    def emit(ops: Ops, parts: list[Fragment]) -> None:
        (a, b, c), code = parts, ops.code
        result = f"<{lanes} x {MEMORY[c.buffer.dtype]}>"
        one = code.value(f"load i32, ptr {a.pointer}, align {a.size}")
        wide = ops.spread(Value(one, "int32"), lanes)
        left = wide.text
        if operand != wide.type:
            left = code.value(f"bitcast {wide.type} {left} to {operand}")
        for first in range(0, 16, lanes):
            at, place = (_moved(code, part.pointer, 4 * first) for part in (b, c))
            right = code.value(f"load {operand}, ptr {at}, align {b.size}")
            sums = code.value(f"load {result}, ptr {place}, align 4")
            factors = [(operand, left), (operand, right)]
            if turned:
                factors.reverse()
            if adds:
                total = code.call(result, name, (result, sums), *factors)
            else:
                product = code.call(result, name, *factors)
                total = code.value(f"add {result} {sums}, {product}")
            code.do(f"store {result} {total}, ptr {place}, align 4")

    return emit


def _moved(code: Code, pointer: str, count: int) -> str:
    """A pointer that many bytes further on."""
    return code.place("i8", pointer, count) if count else pointer


TILES = 8
"""The number of tile registers."""

TILE_BYTES = 1024
"""Bytes of a tile register: 16 rows of 64."""

_SHAPES = ", ".join(
    f"i8 {number}"
    for number in [1, *[0] * 15, *[64, 0] * TILES, *[0] * 16, *[16] * TILES, *[0] * 8]
)
"""The first palette; 64 bytes in a row (16 bits each); 16 rows."""


def configure(code: Code) -> None:
    """At a function's begin, set up all tile registers in full size for the running thread."""
    code.module.declarations["mlc.tiles"] = (
        f"@mlc.tiles = internal constant [64 x i8] [{_SHAPES}], align 64"
    )
    code.module.declare("llvm.x86.ldtilecfg", "void", "ptr")
    code.entry.append("  call void @llvm.x86.ldtilecfg(ptr @mlc.tiles)")


def release(code: Code) -> None:
    """At a function's end, release the tile registers, so that threads switch fast again."""
    code.call("void", "llvm.x86.tilerelease")


def _on_tiles(name: str, order: tuple[int, ...]) -> Emitter:
    """An instruction on tiles, whose operands are the intrinsic's parameters in this order. One
    in memory is a pointer and the bytes from row to row.
    """

    def operands(part: Fragment) -> list[Typed]:
        if part.tile >= 0:
            return [("i8", str(part.tile))]
        return [("ptr", part.pointer), ("i64", str(part.strides[0] * part.size))]

    def emit(ops: Ops, parts: list[Fragment]) -> None:
        listed = [operand for number in order for operand in operands(parts[number])]
        ops.code.call("void", f"llvm.x86.{name}", *listed)

    return emit


def _interleave(ops: Ops, parts: list[Fragment], shifted: bool = False) -> None:
    """A few rows of 16 elements become 16 groups, one of each row: shuffles, on any machine.

    Bytes that are `shifted` change signedness, 128 away: their first bit turns over.
    """
    (rows, groups), code = parts, ops.code
    depth = groups.strides[0]
    kind, wide = MEMORY[rows.buffer.dtype], MEMORY[groups.buffer.dtype]
    values = []
    for row in range(depth):
        place = _moved(code, rows.pointer, row * rows.strides[0] * rows.size)
        value = code.value(f"load <16 x {kind}>, ptr {place}, align {rows.size}")
        if kind != wide:
            extend = "zext" if rows.buffer.dtype == "uint8" else "sext"
            value = code.value(f"{extend} <16 x {kind}> {value} to <16 x {wide}>")
        values.append(value)
    lanes = 16
    while len(values) > 1:
        order = range(2 * lanes) if len(values) > 2 else _groups(depth)
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [_shuffle(code, f"<{lanes} x {wide}>", a, b, order) for a, b in pairs]
        lanes *= 2
    together = values[0]
    if shifted:
        bits = ", ".join([f"{wide} -128"] * lanes)
        together = code.value(f"xor <{lanes} x {wide}> {together}, <{bits}>")
    code.do(f"store <{lanes} x {wide}> {together}, ptr {groups.pointer}, align {groups.size}")


def _groups(depth: int) -> list[int]:
    return [16 * row + lane for lane in range(16) for row in range(depth)]


def _shuffle(code: Code, kind: str, a: str, b: str, order: Iterable[int]) -> str:
    places = [f"i32 {number}" for number in order]
    mask = f"<{len(places)} x i32> <{', '.join(places)}>"
    return code.value(f"shufflevector {kind} {a}, {kind} {b}, {mask}")


def _side_by_side(depth: int, shifted: bool = False) -> tuple[Instruction, ...]:
    emit = partial(_interleave, shifted=shifted)
    return (Instruction(frozenset(), ((None, 1), (depth, 1)), emit),)


def _sums(products: int, features: str, emit: Emitter) -> Instruction:
    """An instruction for 16 sums of some products; all operands are contiguous."""
    return Instruction(frozenset(features.split()), ((1,), (products, 1), (1,)), emit)


AMX = "+amx-tile"


def _tiles(strides: tuple[Strides, ...], emit: Emitter, *tiles: int) -> tuple[Instruction, ...]:
    return (Instruction(frozenset({AMX}), strides, emit, tiles),)


def _product(depth: int, feature: str, name: str) -> tuple[Instruction, ...]:
    """A product of tiles, which are the parameters a, b, c; the instruction takes c first."""
    factor = (16 * depth, depth, 1)
    strides = (factor, factor, (16, 1))
    emit = _on_tiles(name, (2, 0, 1))
    return (Instruction(frozenset({AMX, feature}), strides, emit, (0, 1, 2)),)


_ZERO = _tiles(((16, 1),), _on_tiles("tilezero", (0,)), 0)
_STORE = _tiles(((16, 1), (None, 1)), _on_tiles("tilestored64", (0, 1)), 0)


def _load(group: int) -> tuple[Instruction, ...]:
    strides = ((None, group, 1), (16 * group, group, 1))
    return _tiles(strides, _on_tiles("tileloadd64", (1, 0)), 1)


INSTRUCTIONS: dict[str, tuple[Instruction, ...]] = {
    "dot_u8i8i32": (
        _sums(4, "+avx512vnni", _dot("llvm.x86.avx512.vpdpbusd.512", 16, "<16 x i32>")),
        _sums(4, "+avxvnni", _dot("llvm.x86.avx512.vpdpbusd.256", 8, "<8 x i32>")),
    ),
    "dot_i8u8i32": (
        _sums(
            4, "+avx512vnni", _dot("llvm.x86.avx512.vpdpbusd.512", 16, "<16 x i32>", turned=True)
        ),
        _sums(4, "+avxvnni", _dot("llvm.x86.avx512.vpdpbusd.256", 8, "<8 x i32>", turned=True)),
    ),
    "dot_i8i8i32": (_sums(4, "+avxvnniint8", _dot("llvm.x86.avx2.vpdpbssd.256", 8, "<8 x i32>")),),
    "dot_i16i16i32": (
        _sums(2, "+avx512vnni", _dot("llvm.x86.avx512.vpdpwssd.512", 16, "<16 x i32>")),
        _sums(2, "+avx512bw", _dot("llvm.x86.avx512.pmaddw.d.512", 16, "<32 x i16>", False)),
        _sums(2, "+avx2", _dot("llvm.x86.avx2.pmadd.wd", 8, "<16 x i16>", False)),
        _sums(2, "+sse2", _dot("llvm.x86.sse2.pmadd.wd", 4, "<8 x i16>", False)),
    ),
    "dot_bf16bf16f32": (
        _sums(2, "+avx512bf16", _dot("llvm.x86.avx512bf16.dpbf16ps.512", 16, "<32 x bfloat>")),
    ),
    "interleave_bf16": _side_by_side(2),
    "interleave_i16": _side_by_side(2),
    "interleave_i8i16": _side_by_side(2),
    "interleave_u8i16": _side_by_side(2),
    "interleave_i8": _side_by_side(4),
    "interleave_u8": _side_by_side(4),
    "interleave_i8u8": _side_by_side(4, shifted=True),
    "interleave_u8i8": _side_by_side(4, shifted=True),
    "amx_zero_f32": _ZERO,
    "amx_zero_i32": _ZERO,
    "amx_load_bf16": _load(2),
    "amx_load_i8": _load(4),
    "amx_load_u8": _load(4),
    "amx_dot_bf16": _product(2, "+amx-bf16", "tdpbf16ps"),
    "amx_dot_i8i8": _product(4, "+amx-int8", "tdpbssd"),
    "amx_dot_i8u8": _product(4, "+amx-int8", "tdpbsud"),
    "amx_dot_u8i8": _product(4, "+amx-int8", "tdpbusd"),
    "amx_dot_u8u8": _product(4, "+amx-int8", "tdpbuud"),
    "amx_store_f32": _STORE,
    "amx_store_i32": _STORE,
}
"""The instructions for each intrinsic, the best first; sums have 16 lanes."""
