"""decompose_padding."""

import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses

PAD = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((10, 10), "float32")
    for i, j in T.grid(10, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {value}
    for k, m in T.grid(8, 8):
        with T.block("C"):
            vk, vm = T.axis.remap("SS", [k, m])
            C[vk, vm] = B[vk, vm] + B[vk + 2, vm + 2]
"""
KEPT = PAD.format(value="T.if_then_else(vi < 8 and vj < 8, A[vi, vj], B[vi, vj])").replace(
    "    for i, j", "    for f, g in T.grid(10, 10):\n        B[f, g] = 7.0\n    for i, j"
)
INSIDE = "vi >= 1 and vi < 9 and vj >= 1 and vj < 9"
OUTSIDE = "vi < 1 or vi >= 9 or vj < 1 or vj >= 9"


def padded(value: str) -> mlc.IRModule:
    return mlc.parse(PAD.format(value=value))


Usual = padded(f"T.if_then_else({INSIDE}, A[vi - 1, vj - 1], T.float32(-1))")


def test_the_padding_is_filled_first_and_the_inside_copied():
    text = mlc.Schedule(Usual).decompose_padding("B", "i").mod.script()
    assert "for i_pad, j_pad in T.grid(10, 10):" in text
    assert 'with T.block("B_pad"):' in text and "= T.float32(-1)" in text
    assert "T.where(i >= 1 and i < 9 and j >= 1 and j < 9)" in text
    assert "B[vi, vj] = A[vi - 1, vj - 1]" in text


@pytest.mark.parametrize("loop", ["i", "j"])
def test_decompose_padding_means_the_same_at_each_loop(loop):
    sch = mlc.Schedule(Usual).decompose_padding("B", loop)
    assert sch.blocks() == ["B_pad", "B", "C"]
    assert_same(Usual, sch.mod, exact=True)
    assert_same(Usual, mlc.Schedule(Usual).parallel("i").decompose_padding("B", loop).mod)


@pytest.mark.parametrize(
    "value",
    [
        f"T.if_then_else({OUTSIDE}, T.float32(2), A[vi - 1, vj - 1])",
        f"T.if_then_else(not ({INSIDE}), T.float32(2), A[vi - 1, vj - 1])",
        "T.if_then_else(vi + vj < 8, A[vi, vj] * T.float32(2), T.float32(0))",
    ],
)
def test_the_condition_may_be_of_any_form(value):
    module = padded(value)
    after = mlc.Schedule(module).decompose_padding("B", "j").mod
    assert "T.where(" in after.script()
    assert_same(module, after, exact=True)


def test_the_loops_may_be_cut_unevenly_before():
    sch = mlc.Schedule(Usual).split("i", [None, 4]).reorder("j", "i_1")
    for loop in ("i_0", "j", "i_1"):
        assert_same(Usual, sch.decompose_padding("B", loop).mod, exact=True)


def test_the_inside_may_then_be_vectorized_or_partitioned():
    sch = mlc.Schedule(Usual).decompose_padding("B", "j").vectorize("j_pad")
    assert_same(Usual, sch.loop_partition("j", points=[1, 9]).mod, exact=True)


def test_decompose_padding_refuses_what_is_no_padding():
    for value, word in (
        ("A[vi // 2, vj // 2]", "a value or a constant"),
        ("T.if_then_else(vi < 8 and vj < 8, A[vi, vj], A[0, 0])", "a value or a constant"),
        ("T.if_then_else(A[0, 0] < T.float32(0), A[0, 0], T.float32(0))", "reads a buffer"),
    ):
        sch = mlc.Schedule(padded(value))
        refuses("E153", lambda sch=sch: sch.decompose_padding("B", "i"), word)
    sch = mlc.Schedule(mlc.parse(KEPT))
    refuses("E153", lambda: sch.decompose_padding("B", "i"), "a value or a constant")
    sch = mlc.Schedule(Usual)
    refuses("E153", lambda: sch.decompose_padding("B", "k"), "not a loop of block")
    refuses("E153", lambda: sch.decompose_padding("C", "k"), "a value or a constant")


def test_padding_is_filled_before_the_loop_of_a_reader_too():
    sch = mlc.Schedule(Usual).compute_at("B", "k")
    assert_same(Usual, sch.decompose_padding("B", "k").mod, exact=True)
    inner = sch.loops("B")[1]
    assert_same(Usual, sch.decompose_padding("B", inner).mod, exact=True)


def test_the_reader_may_read_buffers_of_any_rank_besides():
    @I.ir_module
    class Weighted:
        @T.prim_func
        def main(
            A: T.Buffer((2, 6), "float32"),
            W: T.Buffer((3, 2, 3), "float32"),
            s: T.Buffer((3,), "float32"),
            C: T.Buffer((3, 6), "float32"),
        ):
            P = T.alloc_buffer((2, 8), "float32")
            for c, x in T.grid(2, 8):
                with T.block("P"):
                    vc, vx = T.axis.remap("SS", [c, x])
                    P[vc, vx] = T.if_then_else(vx < 1 or vx >= 7, T.float32(0), A[vc, vx - 1])
            for x, c, r, o in T.grid(6, 2, 3, 3):
                with T.block("C"):
                    vx, vc, vr, vo = T.axis.remap("SRRS", [x, c, r, o])
                    with T.init():
                        C[vo, vx] = T.float32(0)
                    C[vo, vx] = C[vo, vx] + P[vc, vx + vr] * W[vo, vc, vr] * s[vo]

    sch = mlc.Schedule(Weighted).compute_at("P", "c1")
    assert_same(Weighted, sch.decompose_padding("P", sch.loops("P")[-1]).mod)
    assert_same(Weighted, sch.decompose_padding("P", "c1").mod)


def test_a_running_value_is_no_padding():
    @I.ir_module
    class Running:
        @T.prim_func
        def main(A: T.Buffer((9,), "int32")):
            for i in range(9):
                with T.block("A"):
                    vi = T.axis.opaque(9, i)
                    A[vi] = T.if_then_else(vi >= 1, A[vi - 1], 7)

    refuses("E153", lambda: mlc.Schedule(Running).decompose_padding("A", "i"), "reads A")


def test_several_values_for_one_element_keep_their_order():
    @I.ir_module
    class Last:
        @T.prim_func
        def main(A: T.Buffer((9,), "int32"), C: T.Buffer((1,), "int32")):
            for i in range(9):
                with T.block("C"):
                    vi = T.axis.opaque(9, i)
                    C[0] = T.if_then_else(vi < 3, A[vi], 0)

    refuses("E153", lambda: mlc.Schedule(Last).decompose_padding("C", "i"), "one element for each")
