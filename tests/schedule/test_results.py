"""The result of a step is proven like any program: every axis, index and concurrent loop."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.values.module import IRModule
from tests.helpers import assert_same, random_args, refuses


def parsed(text: str, **values: object) -> mlc.Schedule:
    return mlc.Schedule(mlc.parse(text.format(**values)), check=False)


def assert_same_everywhere(before: IRModule, after: IRModule) -> None:
    mlc.verify(after)
    assert_same(before, after)
    args = random_args(before["main"], np.random.default_rng(0))
    want = [arg.copy() for arg in args]
    mlc.interpret(before, "main", *want)
    for target in ("llvm", "python"):
        got = [arg.copy() for arg in args]
        mlc.build(after, target, cache=False)["main"](*got)
        assert all((a == b).all() for a, b in zip(got, want, strict=True)), target


ROWS = """
@T.prim_func
def main(A: T.Buffer((7, 8), "int32"), C: T.Buffer((7, 8), "int32")):
    X = T.alloc_buffer((8,), "int32")
    for i in range({count}):
        for j in range(8):
            for k in range(8):
                with T.block("X"):
                    vj, vk = T.axis.remap("SR", [j, k])
                    with T.init():
                        X[vj] = -9
                    X[vj] = T.max(X[vj], A[{row}, vk])
            with T.block("C"):
                vi, wj = T.axis.remap("SS", [i, j])
                C[vi, wj] = A[vi, wj] - X[wj]
"""


def test_the_error_names_both_loops():
    text = """
@T.prim_func
def main(A: T.Buffer((7, 8), "int32"), C: T.Buffer((7, 8), "int32")):
    X = T.alloc_buffer((7,), "int32")
    for i, j in T.grid(7, 8):
        for k in range(8):
            with T.block("X"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    X[vi] = -9
                X[vi] = T.max(X[vi], A[vi, vk])
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] - X[vi]
"""
    sch = parsed(text).parallel("j")
    words = ('"j" cannot be parallel', 'the vectorized loop "i"', "the private buffer X")
    refuses("E111", lambda: sch.vectorize("i"), *words)


def test_one_lane_shares_nothing():
    sch = parsed(ROWS, count=1, row="0").add_unit_loop("i").parallel("j").vectorize("unit")
    assert_same_everywhere(parsed(ROWS, count=1, row="0").mod, sch.mod)


RING = """
@T.prim_func
def main(A: T.Buffer((72, 8), "int32"), D: T.Buffer((72, 8), "int32")):
    for t in range(1):
        for i, j in T.grid(72, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[(vi + 2) % 72, 7 - vj] = A[vi, vj]
"""


@pytest.mark.parametrize(
    "steps",
    [
        [("split", "t", [8, 5, 4])],
        [("blockize", "j")],
        [("split", "i", [None, 8]), ("blockize", "i_1"), ("parallel", "i_0")],
        [("fuse", "i", "j"), ("split", "i_j_fused", [None, 32]), ("vectorize", "i_j_fused_1")],
    ],
)
def test_stores_around_a_ring_stay_apart(steps):
    start = sch = parsed(RING)
    for step in steps:
        sch = sch.apply(*step)
    assert_same_everywhere(start.mod, sch.mod)


def test_large_rings_are_proven_too():
    sch = parsed(RING.replace("72", "{n}"), n=720_000).split("i", [None, 1000])
    mlc.verify(sch.parallel("i_0").vectorize("i_1").mod)


TILES = """
@T.prim_func
def main(A: T.Buffer(({n}, {n}), "int32"), B: T.Buffer(({n}, {n}), "int32")):
    for i_o, j_o in T.grid({n} // 16, {n} // 16):
        with T.block("outer"):
            vio, vjo = T.axis.remap("SS", [i_o, j_o])
            for i_i, j_i in T.grid(16, 16):
                with T.block("inner"):
                    vi = T.axis.spatial({n}, vio * 16 + i_i)
                    vj = T.axis.spatial({n}, vjo * 16 + j_i)
                    B[vi, vj] = A[vi, vj] * 2
"""


def test_an_uneven_split_stays_inside_its_tile():
    start = parsed(TILES, n=32)
    sch = start.split("j_i", [None, 10]).split("i_i", [3, 7]).vectorize("j_i_1").parallel("j_o")
    assert_same_everywhere(start.mod, sch.mod)
    mlc.verify(parsed(TILES, n=1024).split("j_i", [None, 10]).split("i_i", [3, 7]).mod)


def test_what_is_not_proven_any_more_is_refused():
    """There is no digit in an exclusive or: it is tried out, where there are few iterations."""
    text = """
@T.prim_func
def main(A: T.Buffer((131072,), "int32"), D: T.Buffer((131072,), "int32")):
    for i in range(131072):
        with T.block("D"):
            vi = T.axis.spatial(131072, i)
            D[vi ^ 1] = A[vi]
"""
    sch = parsed(text).split("i", [None, 8]).blockize("i_1")
    mlc.verify(sch.mod)
    refuses("E103", lambda: sch.split("i_1", [8, 8]), "after this step", "as far as is known")


def test_blocks_beside_buffers_of_a_block_are_found():
    text = """
@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            C = T.alloc_buffer((8,), "int32")
            for k in range(8):
                with T.block("inner"):
                    vk = T.axis.spatial(8, k)
                    C[vk] = A[vi, vk]
            B[vi] = C[0] + C[7]
"""
    sch = parsed(text)
    assert sch.blocks() == ["outer", "inner"]
    assert sch.loops("inner") == ["i", "k"]
    assert_same_everywhere(sch.mod, sch.split("k", [None, 3]).unroll("k_1").parallel("i").mod)
    parts = sch.loop_partition("i", [1])
    assert parts.blocks() == ["outer_head", "inner_head", "outer", "inner"]
    assert_same_everywhere(sch.mod, parts.mod)


def test_a_copy_is_made_inside_the_block_that_writes_what_is_copied():
    text = """
@T.prim_func
def main(B: T.Buffer((16, 16), "int32")):
    A = T.alloc_buffer((16, 16), "int32")
    for i0, j0 in T.grid(4, 4):
        with T.block("scope"):
            i, j = T.axis.remap("SS", [i0, j0])
            for x, y in T.grid(4, 4):
                with T.block("A"):
                    vi = T.axis.spatial(16, i * 4 + x)
                    vj = T.axis.spatial(16, j * 4 + y)
                    A[vi, vj] = vi32(vi * 16 + vj)
            for x, y in T.grid(4, 4):
                with T.block("B"):
                    vi = T.axis.spatial(16, i * 4 + x)
                    vj = T.axis.spatial(16, j * 4 + y)
                    B[vi, vj] = A[vi, vj] + 1
"""
    sch = parsed(text.replace("vi32(vi * 16 + vj)", 'T.cast(vi * 16 + vj, "int32")'))
    copied = sch.cache_read("B", "A")
    assert copied.blocks() == ["scope", "A", "A_local", "B"]
    assert copied.loops("A_local")[-2:] == ["ax0", "ax1"]
    assert_same_everywhere(sch.mod, copied.parallel("i0").mod)


def test_the_inits_of_a_blockized_sum_become_a_block():
    text = """
@T.prim_func
def main(A: T.Buffer((32, 32), "int32"), C: T.Buffer((32,), "int32")):
    for i, k in T.grid(32, 32):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
    start = parsed(text)
    sch = start.split("i", [None, 16]).split("k", [None, 16]).reorder("i_0", "k_0", "i_1", "k_1")
    blocks = sch.blockize("i_1")
    apart = blocks.decompose_reduction("C_o", "k_0")
    assert apart.blocks() == ["C_o_init", "C_init", "C_o_update", "C"]
    assert_same_everywhere(start.mod, apart.parallel("i_0").mod)
    turned = sch.reorder("k_0", "i_0").blockize("i_1")
    refuses("E114", lambda: turned.decompose_reduction("C_o", "i_0"), "k_0")
    assert_same_everywhere(start.mod, turned.decompose_reduction("C_o", "k_0").mod)
