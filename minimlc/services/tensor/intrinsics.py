"""The tensor intrinsics that are built in: each a description and an implementation."""

# mypy: disable-error-code="valid-type"

from collections.abc import Callable
from functools import partial
from typing import Any

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.schedule import Schedule
from minimlc.loops.values.node import replace
from minimlc.script import T

Pair = tuple[PrimFunc, PrimFunc]


def scheduled(description: Any, steps: Callable[[Schedule], Schedule]) -> Pair:
    """A description, and the implementation that these steps make of it."""
    func = steps(Schedule(description, check=False)).func
    return description, replace(func, attrs=(("global_symbol", "implementation"),))


def dot4() -> Pair:
    """c += the product of two vectors of 4 floats."""

    @T.prim_func
    def description(
        a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((1,), "float32")
    ):
        for k in range(4):
            with T.block("dot4"):
                vk = T.axis.reduce(4, k)
                c[0] = c[0] + a[vk] * b[vk]

    return scheduled(description, lambda sch: sch.unroll("k"))


def _lanes(left: str, right: str, result: str, depth: int) -> Pair:
    """16 sums of `depth` products each, as a vector instruction adds them up."""

    @T.prim_func
    def description(
        a: T.Buffer((depth,), left), b: T.Buffer((16, depth), right), c: T.Buffer((16,), result)
    ):
        for lane, k in T.grid(16, depth):
            with T.block("dot"):
                vl, vk = T.axis.remap("SR", [lane, k])
                c[vl] = c[vl] + T.cast(a[vk], result) * T.cast(b[vl, vk], result)

    return scheduled(
        description, lambda sch: sch.reorder("k", "lane").unroll("k").vectorize("lane")
    )


def mma_16x16x16() -> Pair:
    """c += a @ b of 16 by 16 floats, a row of c at a time."""

    @T.prim_func
    def description(
        a: T.Buffer((16, 16), "float32"),
        b: T.Buffer((16, 16), "float32"),
        c: T.Buffer((16, 16), "float32"),
    ):
        for i, j, k in T.grid(16, 16, 16):
            with T.block("mma"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]

    return scheduled(description, lambda sch: sch.reorder("i", "k", "j").vectorize("j"))


def _zero(dtype: str, zero: float, columns: int = 16) -> Pair:
    """A tile of zeros."""

    @T.prim_func
    def description(c: T.Buffer((16, columns), dtype)):
        for i, j in T.grid(16, columns):
            with T.block("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = zero

    return scheduled(description, lambda sch: sch.vectorize("j"))


def _interleave(source: str, target: str, depth: int, offset: int = 0) -> Pair:
    """A few rows of 16 elements become 16 groups, one of each row: a packed factor's layout. With
    an offset, bytes become bytes of the other sign.
    """

    @T.prim_func
    def description(rows: T.Buffer((depth, 16), source), groups: T.Buffer((16, depth), target)):
        for p, j in T.grid(depth, 16):
            with T.block("interleave"):
                vp, vj = T.axis.remap("SS", [p, j])
                groups[vj, vp] = (
                    T.cast(T.cast(rows[vp, vj], "int64") + offset, target)
                    if offset
                    else rows[vp, vj]
                    if source == target
                    else T.cast(rows[vp, vj], target)
                )

    description = finish(description)  # x - 128, as a step writes x + -128
    return description, description


def _load(dtype: str, depth: int) -> Pair:
    @T.prim_func
    def description(
        memory: T.Buffer((16, 16, depth), dtype), tile: T.Buffer((16, 16, depth), dtype)
    ):
        for i, k, p in T.grid(16, 16, depth):
            with T.block("load"):
                vi, vk, vp = T.axis.remap("SSS", [i, k, p])
                tile[vi, vk, vp] = memory[vi, vk, vp]

    return description, description


def _store(dtype: str) -> Pair:
    @T.prim_func
    def description(tile: T.Buffer((16, 16), dtype), memory: T.Buffer((16, 16), dtype)):
        for i, j in T.grid(16, 16):
            with T.block("store"):
                vi, vj = T.axis.remap("SS", [i, j])
                memory[vi, vj] = tile[vi, vj]

    return scheduled(description, lambda sch: sch.vectorize("j"))


def _dot(left: str, right: str, result: str, depth: int) -> Pair:
    """c += a @ b, on tiles."""

    @T.prim_func
    def description(
        a: T.Buffer((16, 16, depth), left),
        b: T.Buffer((16, 16, depth), right),
        c: T.Buffer((16, 16), result),
    ):
        for i, j, k, p in T.grid(16, 16, 16, depth):
            with T.block("dot"):
                vi, vj, vk, vp = T.axis.remap("SSRR", [i, j, k, p])
                c[vi, vj] = c[vi, vj] + T.cast(a[vi, vk, vp], result) * T.cast(
                    b[vk, vj, vp], result
                )

    return scheduled(
        description, lambda sch: sch.reorder("i", "k", "p", "j").unroll("p").vectorize("j")
    )


def _move(source: str, target: str, rows: int, columns: int) -> Pair:
    """A copy of a tile, in the dtype of its target."""

    @T.prim_func
    def description(a: T.Buffer((rows, columns), source), b: T.Buffer((rows, columns), target)):
        for i, j in T.grid(rows, columns):
            with T.block("move"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] if source == target else T.cast(a[vi, vj], target)

    return description, description


def _mma(factor: str, result: str, depth: int, turned: bool = False) -> Pair:
    """c += a @ b, on the tiles of a warp; `turned`, c += a @ b.T."""

    @T.prim_func
    def description(
        a: T.Buffer((16, depth), factor),
        b: T.Buffer((8, depth) if turned else (depth, 8), factor),
        c: T.Buffer((16, 8), result),
    ):
        for i, j, k in T.grid(16, 8, depth):
            with T.block("mma"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                c[vi, vj] = c[vi, vj] + T.cast(a[vi, vk], result) * T.cast(
                    b[vj, vk] if turned else b[vk, vj], result
                )

    return description, description


def _group(factor: str) -> Pair:
    """c += a @ b, on the 16 rows of a warp among four; both halves of `b` are 64 columns."""

    @T.prim_func
    def description(
        a: T.Buffer((16, 64), factor),
        b: T.Buffer((2, 64, 64), factor),
        c: T.Buffer((2, 16, 64), "float32"),
    ):
        for g, i, j, k in T.grid(2, 16, 64, 64):
            with T.block("mma"):
                vg, vi, vj, vk = T.axis.remap("SSSR", [g, i, j, k])
                c[vg, vi, vj] = c[vg, vi, vj] + T.cast(a[vi, vk], "float32") * T.cast(
                    b[vg, vk, vj], "float32"
                )

    return description, description


def _warp(short: str, factor: str, result: str, depth: int) -> dict[str, Callable[[], Pair]]:
    """The intrinsics of a GPU's unit: to load its tiles, multiply them, and store the result."""
    total = {"float32": "f32", "int32": "i32"}[result]
    return {
        f"mma_zero_{total}": partial(_zero, result, 0, 8),
        f"mma_load_a_{short}": partial(_move, factor, factor, 16, depth),
        f"mma_load_b_{short}": partial(_move, factor, factor, depth, 8),
        f"mma_load_b_{short}_turned": partial(_move, factor, factor, 8, depth),
        f"mma_{short}": partial(_mma, factor, result, depth),
        f"mma_{short}_turned": partial(_mma, factor, result, depth, True),
        f"mma_store_{total}": partial(_move, result, result, 16, 8),
        f"mma_store_{short}": partial(_move, result, factor, 16, 8),
    }


SHIFTED = {"interleave_i8u8": ("int8", "uint8", 128), "interleave_u8i8": ("uint8", "int8", -128)}
"""Interleaved bytes with an offset: the dtype read, the dtype written, and the offset."""

INTERLEAVED = {
    "interleave_bf16": ("bfloat16", "bfloat16", 2),
    "interleave_i16": ("int16", "int16", 2),
    "interleave_i8i16": ("int8", "int16", 2),
    "interleave_u8i16": ("uint8", "int16", 2),
    "interleave_i8": ("int8", "int8", 4),
    "interleave_u8": ("uint8", "uint8", 4),
}
"""Interleaved rows: the dtype read, the dtype written, and the number of rows."""

LANES = {
    "dot_u8i8i32": ("uint8", "int8", "int32", 4),
    "dot_i8u8i32": ("int8", "uint8", "int32", 4),
    "dot_i8i8i32": ("int8", "int8", "int32", 4),
    "dot_i16i16i32": ("int16", "int16", "int32", 2),
}
"""Sums of products in lanes: the factors' dtypes, the sums', and how many products each adds up.

AVX-512 VNNI has the first two (turned around), the newest CPUs the third, every x86 CPU the last.
"""

TILES: dict[str, Callable[[], Pair]] = {
    "amx_zero_f32": partial(_zero, "float32", 0.0),
    "amx_zero_i32": partial(_zero, "int32", 0),
    "amx_load_bf16": partial(_load, "bfloat16", 2),
    "amx_load_i8": partial(_load, "int8", 4),
    "amx_load_u8": partial(_load, "uint8", 4),
    "amx_dot_bf16": partial(_dot, "bfloat16", "bfloat16", "float32", 2),
    "amx_dot_i8i8": partial(_dot, "int8", "int8", "int32", 4),
    "amx_dot_i8u8": partial(_dot, "int8", "uint8", "int32", 4),
    "amx_dot_u8i8": partial(_dot, "uint8", "int8", "int32", 4),
    "amx_dot_u8u8": partial(_dot, "uint8", "uint8", "int32", 4),
    "amx_store_f32": partial(_store, "float32"),
    "amx_store_i32": partial(_store, "int32"),
}
"""After x86's tile registers (AMX): each intrinsic's maker by name.

A tile is 16 rows of 64 bytes. Of a factor it holds 16 rows of 16 groups, a group being as many
elements as are multiplied and added at a time: 2 of bfloat16, 4 of bytes. Both factors are stored
so, `a` by its rows and `b` by its columns: b[k, j, p] is row 16 * k + p of column j.
"""

WARPS: dict[str, Callable[[], Pair]] = {
    **_warp("f16", "float16", "float32", 16),
    **_warp("bf16", "bfloat16", "float32", 16),
    **_warp("i8", "int8", "int32", 32),
    "mma_group_f16": partial(_group, "float16"),
    "mma_group_bf16": partial(_group, "bfloat16"),
}
"""After the tensor cores of GPUs (`mma.sync`): each intrinsic's maker by name.

A warp has tiles in registers of its threads, in the scopes "wmma.matrix_a" (16 by 16, of bytes 16
by 32), "wmma.matrix_b" (16 or 32 by 8) and "wmma.accumulator" (16 by 8). Its threads are the 32 of
"threadIdx.x", to which no loop around is bound. A tile of `b` that is `turned` is by its columns,
8 by 16 or 32: for `a @ b.T`.

Four warps, neighbours along "threadIdx.y", do "mma_group_..." together (`wgmma`), each with the
16 rows after the previous warp's. Both factors are in memory of the scope "shared.swizzled".
"""

BUILT_IN: dict[str, Callable[[], Pair]] = {
    "dot4": dot4,
    **{name: partial(_lanes, *kind) for name, kind in LANES.items()},
    "mma_16x16x16": mma_16x16x16,
    "zero_16x16": partial(_zero, "float32", 0.0),
    **{name: partial(_interleave, *kind) for name, kind in INTERLEAVED.items()},
    **{
        name: partial(_interleave, source, target, 4, offset)
        for name, (source, target, offset) in SHIFTED.items()
    },
    "dot_bf16bf16f32": partial(_lanes, "bfloat16", "bfloat16", "float32", 2),
    **TILES,
    **WARPS,
}
"""Each built-in intrinsic's maker by name; a test registers and so verifies all of them."""

_SMALL = "factors and sums below 2**-126 count as zero, and sums are rounded in another order"
_ORDER = "sums have at least single precision; their order and rounding are the hardware's"
DIFFERS = {
    "dot_bf16bf16f32": _SMALL,
    "amx_dot_bf16": _SMALL,
    **{f"mma_{kind}": _ORDER for kind in ("f16", "f16_turned", "bf16", "bf16_turned")},
    **{f"mma_group_{kind}": _ORDER for kind in ("f16", "bf16")},
}
"""How the machine's result differs from the implementation's; all others are the same."""
