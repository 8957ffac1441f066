"""A loop may have no iterations: what never ran must not run after a step."""

import pytest

import minimlc as mlc
from tests.helpers import assert_same, refuses

CHAIN = """
@T.prim_func
def main(A: T.Buffer((1,), "int32"), C: T.Buffer((1,), "int32")):
    Y = T.alloc_buffer((1,), "int32")
    for i in range({first}):
        with T.block("Y"):
            vi = T.axis.spatial(1, i)
            Y[vi] = A[vi] + 100
    for j in range({second}):
        with T.block("C"):
            vj = T.axis.spatial(1, j)
            C[vj] = Y[vj]
"""


def chain(first: int = 1, second: int = 0) -> mlc.Schedule:
    return mlc.Schedule(mlc.parse(CHAIN.format(first=first, second=second)), check=False)


@pytest.mark.parametrize(
    "step",
    [
        ("transform_block_layout", "C", "i -> i"),
        ("reverse_compute_inline", "C"),
        ("reverse_compute_at", "C", "i"),
    ],
)
def test_a_block_that_never_ran_stays_where_it_is(step):
    refuses("E113", lambda: chain().apply(*step), "j", "constant >= 1")


@pytest.mark.parametrize("step", [("compute_inline", "Y"), ("compute_at", "Y", "j")])
def test_a_producer_that_never_ran_stays_where_it_is(step):
    refuses("E113", lambda: chain(0, 0).apply(*step), "i", "constant >= 1")


OUTSIDE = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    Y = T.alloc_buffer((4,), "int32")
    for i in range(4):
        with T.block("Y"):
            vi = T.axis.spatial(4, i)
            Y[vi] = A[vi] + 100
    for t in range(0):
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[vj] = Y[vj]
        for k in range(4):
            with T.block("D"):
                vk = T.axis.spatial(4, k)
                D[vk] = A[vk]
"""


@pytest.mark.parametrize(
    "step", [("reverse_compute_inline", "C"), ("reverse_compute_at", "C", "i")]
)
def test_nor_does_it_leave_an_outer_loop_without_iterations(step):
    sch = mlc.Schedule(mlc.parse(OUTSIDE), check=False)
    refuses("E113", lambda: sch.apply(*step), "the extent of t")


def test_loops_without_iterations_fuse_to_one():
    sch = mlc.Schedule(
        mlc.parse("""
@T.prim_func
def main(N: T.Buffer((1,), "int64"), A: T.Buffer((8,), "int32")):
    if N[0] > 0:
        for i in range(8):
            for j in range(0):
                with T.block("b"):
                    vj = T.axis.spatial(1, j)
                    A[vj] = 1
""")
    )
    fused = sch.fuse("i", "j")
    assert "range(0)" in fused.mod.script()
    assert_same(sch.mod, fused.mod)


def test_a_sum_without_iterations_takes_no_epilogue():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((1,), "int32")):
    Y = T.alloc_buffer((1,), "int32")
    for i, k in T.grid(1, 4):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + A[vk]
    for t in range(0):
        for j in range(1):
            with T.block("C"):
                vj = T.axis.spatial(1, j)
                C[vj] = Y[vj] + 1
        for l in range(1):
            with T.block("D"):
                vl = T.axis.spatial(1, l)
                A[vl] = A[vl] * 2
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E113", lambda: sch.fuse_reduction_epilogue("Y", "C"), "the extent of t")


def test_a_producer_under_a_condition_stays_where_it_is():
    text = CHAIN.format(first=1, second=1).replace(
        "    for i in", "    if A[0] > 0:\n     for i in"
    )
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E113", lambda: sch.compute_inline("Y"), "a condition")


def test_more_iterations_than_there_are_numbers_are_not_fused():
    text = """
@T.prim_func
def main(C: T.Buffer((2,), "int32")):
    for i in range(2**40):
        for j in range(2**40):
            C[i % 2] = 1
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E118", lambda: sch.fuse("i", "j"), "int64")
