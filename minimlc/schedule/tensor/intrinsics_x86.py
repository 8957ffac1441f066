"""Tensor intrinsics after x86's tile registers (AMX).

A tile is 16 rows of 64 bytes. Of a factor it holds 16 rows of 16 groups, a group being as many
elements as are multiplied and added at a time: 2 of bfloat16, 4 of bytes. Both factors are stored
so, `a` by its rows and `b` by its columns: b[k, j, p] is row 16 * k + p of column j.
"""

# mypy: disable-error-code="valid-type"

from collections.abc import Callable
from functools import partial
from typing import Any

from minimlc.node import replace
from minimlc.schedule.schedule import Schedule
from minimlc.script import T
from minimlc.tir.nodes import PrimFunc

Pair = tuple[PrimFunc, PrimFunc]


def scheduled(description: Any, steps: Callable[[Schedule], Schedule]) -> Pair:
    """A description, and what these steps make of it: the implementation."""
    func = steps(Schedule(description, check=False)).func
    return description, replace(func, attrs=(("global_symbol", "implementation"),))


def zero_tile(dtype: str, zero: float) -> Pair:
    """A tile of zeros."""

    @T.prim_func
    def description(c: T.Buffer((16, 16), dtype)):
        for i, j in T.grid(16, 16):
            with T.block("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = zero

    return scheduled(description, lambda sch: sch.vectorize("j"))


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


TILES: dict[str, Callable[[], Pair]] = {
    "amx_zero_f32": partial(zero_tile, "float32", 0.0),
    "amx_zero_i32": partial(zero_tile, "int32", 0),
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
"""Each intrinsic's maker by name."""
