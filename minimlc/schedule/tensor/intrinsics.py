"""The tensor intrinsics that are built in: each a description and an implementation."""

# mypy: disable-error-code="valid-type"

from collections.abc import Callable
from functools import partial
from typing import Any

from minimlc.schedule.tensor.intrinsics_x86 import X86
from minimlc.script import T

Pair = tuple[Any, Any]


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

    @T.prim_func
    def implementation(
        a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((1,), "float32")
    ):
        for k in T.unroll(4):
            with T.block("dot4"):
                vk = T.axis.reduce(4, k)
                c[0] = c[0] + a[vk] * b[vk]

    return description, implementation


def dot_u8i8i32() -> Pair:
    """16 sums of 4 products of an unsigned and a signed byte, as AVX-512 VNNI adds them up."""

    @T.prim_func
    def description(
        a: T.Buffer((4,), "uint8"), b: T.Buffer((16, 4), "int8"), c: T.Buffer((16,), "int32")
    ):
        for lane, k in T.grid(16, 4):
            with T.block("dot"):
                vl, vk = T.axis.remap("SR", [lane, k])
                c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    @T.prim_func
    def implementation(
        a: T.Buffer((4,), "uint8"), b: T.Buffer((16, 4), "int8"), c: T.Buffer((16,), "int32")
    ):
        for k in T.unroll(4):
            for lane in T.vectorized(16):
                with T.block("dot"):
                    vl, vk = T.axis.remap("SR", [lane, k])
                    c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    return description, implementation


def dot_i8u8i32() -> Pair:
    """16 sums of 4 products of a signed and an unsigned byte: `dot_u8i8i32`, turned around."""

    @T.prim_func
    def description(
        a: T.Buffer((4,), "int8"), b: T.Buffer((16, 4), "uint8"), c: T.Buffer((16,), "int32")
    ):
        for lane, k in T.grid(16, 4):
            with T.block("dot"):
                vl, vk = T.axis.remap("SR", [lane, k])
                c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    @T.prim_func
    def implementation(
        a: T.Buffer((4,), "int8"), b: T.Buffer((16, 4), "uint8"), c: T.Buffer((16,), "int32")
    ):
        for k in T.unroll(4):
            for lane in T.vectorized(16):
                with T.block("dot"):
                    vl, vk = T.axis.remap("SR", [lane, k])
                    c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    return description, implementation


def dot_i8i8i32() -> Pair:
    """16 sums of 4 products of signed bytes, as the newest CPUs add them up."""

    @T.prim_func
    def description(
        a: T.Buffer((4,), "int8"), b: T.Buffer((16, 4), "int8"), c: T.Buffer((16,), "int32")
    ):
        for lane, k in T.grid(16, 4):
            with T.block("dot"):
                vl, vk = T.axis.remap("SR", [lane, k])
                c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    @T.prim_func
    def implementation(
        a: T.Buffer((4,), "int8"), b: T.Buffer((16, 4), "int8"), c: T.Buffer((16,), "int32")
    ):
        for k in T.unroll(4):
            for lane in T.vectorized(16):
                with T.block("dot"):
                    vl, vk = T.axis.remap("SR", [lane, k])
                    c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    return description, implementation


def dot_i16i16i32() -> Pair:
    """16 sums of 2 products of 16-bit integers, which every x86 CPU has an instruction for."""

    @T.prim_func
    def description(
        a: T.Buffer((2,), "int16"), b: T.Buffer((16, 2), "int16"), c: T.Buffer((16,), "int32")
    ):
        for lane, k in T.grid(16, 2):
            with T.block("dot"):
                vl, vk = T.axis.remap("SR", [lane, k])
                c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    @T.prim_func
    def implementation(
        a: T.Buffer((2,), "int16"), b: T.Buffer((16, 2), "int16"), c: T.Buffer((16,), "int32")
    ):
        for k in T.unroll(2):
            for lane in T.vectorized(16):
                with T.block("dot"):
                    vl, vk = T.axis.remap("SR", [lane, k])
                    c[vl] = c[vl] + T.cast(a[vk], "int32") * T.cast(b[vl, vk], "int32")

    return description, implementation


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

    @T.prim_func
    def implementation(
        a: T.Buffer((16, 16), "float32"),
        b: T.Buffer((16, 16), "float32"),
        c: T.Buffer((16, 16), "float32"),
    ):
        for i, k in T.grid(16, 16):
            for j in T.vectorized(16):
                with T.block("mma"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]

    return description, implementation


def zero_16x16() -> Pair:
    """16 by 16 zeros."""

    @T.prim_func
    def description(c: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(16, 16):
            with T.block("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = T.float32(0)

    @T.prim_func
    def implementation(c: T.Buffer((16, 16), "float32")):
        for i in range(16):
            for j in T.vectorized(16):
                with T.block("zero"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    c[vi, vj] = T.float32(0)

    return description, implementation


def _interleave(source: str, target: str, depth: int) -> Pair:
    """A few rows of 16 elements become 16 groups, one of each row: a packed factor's layout."""
    if source == target:

        @T.prim_func
        def copied(rows: T.Buffer((depth, 16), source), groups: T.Buffer((16, depth), target)):
            for p, j in T.grid(depth, 16):
                with T.block("interleave"):
                    vp, vj = T.axis.remap("SS", [p, j])
                    groups[vj, vp] = rows[vp, vj]

        return copied, copied

    @T.prim_func
    def converted(rows: T.Buffer((depth, 16), source), groups: T.Buffer((16, depth), target)):
        for p, j in T.grid(depth, 16):
            with T.block("interleave"):
                vp, vj = T.axis.remap("SS", [p, j])
                groups[vj, vp] = T.cast(rows[vp, vj], target)

    return converted, converted


def _interleave_shifted(source: str, target: str, offset: int) -> Pair:
    """Four rows of 16 bytes become 16 groups of bytes of the other sign, an offset away."""
    if offset > 0:

        @T.prim_func
        def raised(rows: T.Buffer((4, 16), source), groups: T.Buffer((16, 4), target)):
            for p, j in T.grid(4, 16):
                with T.block("interleave"):
                    vp, vj = T.axis.remap("SS", [p, j])
                    groups[vj, vp] = T.cast(T.cast(rows[vp, vj], "int64") + offset, target)

        return raised, raised
    taken_off = -offset

    @T.prim_func
    def lowered(rows: T.Buffer((4, 16), source), groups: T.Buffer((16, 4), target)):
        for p, j in T.grid(4, 16):
            with T.block("interleave"):
                vp, vj = T.axis.remap("SS", [p, j])
                groups[vj, vp] = T.cast(T.cast(rows[vp, vj], "int64") - taken_off, target)

    return lowered, lowered


SHIFTED = {
    "interleave_i8u8": ("int8", "uint8", 128),
    "interleave_u8i8": ("uint8", "int8", -128),
}
"""What is interleaved and gets an offset: the dtype read, the one written, and the offset."""

INTERLEAVED = {
    "interleave_bf16": ("bfloat16", "bfloat16", 2),
    "interleave_i16": ("int16", "int16", 2),
    "interleave_i8i16": ("int8", "int16", 2),
    "interleave_u8i16": ("uint8", "int16", 2),
    "interleave_i8": ("int8", "int8", 4),
    "interleave_u8": ("uint8", "uint8", 4),
}
"""What is interleaved: the dtype that is read, the one that is written, and how many rows."""

BUILT_IN: dict[str, Callable[[], Pair]] = {
    part.__name__: part
    for part in (
        dot4,
        dot_u8i8i32,
        dot_i8u8i32,
        dot_i8i8i32,
        dot_i16i16i32,
        mma_16x16x16,
        zero_16x16,
    )
}
BUILT_IN |= {name: partial(_interleave, *kind) for name, kind in INTERLEAVED.items()}
BUILT_IN |= {name: partial(_interleave_shifted, *kind) for name, kind in SHIFTED.items()} | X86
"""Each built-in intrinsic's makers by name; a test registers and so verifies all of them."""
