"""rolling_buffer."""

import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu, Stencil


@I.ir_module
class Pool:
    @T.prim_func
    def main(A: T.Buffer((14,), "int32"), C: T.Buffer((6,), "int32")):
        Y = T.alloc_buffer((14,), "int32")
        for i in range(14):
            with T.block("Y"):
                vi = T.axis.spatial(14, i)
                Y[vi] = A[vi] * 3
        for i, r in T.grid(6, 4):
            with T.block("C"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    C[vi] = -1000
                C[vi] = T.max(C[vi], Y[vi * 2 + vr])


@I.ir_module
class Blur:
    @T.prim_func
    def main(A: T.Buffer((8, 9), "int32"), C: T.Buffer((6, 7), "int32")):
        X = T.alloc_buffer((8, 9), "int32")
        for i, j in T.grid(8, 9):
            with T.block("X"):
                vi, vj = T.axis.remap("SS", [i, j])
                X[vi, vj] = A[vi, vj] * 3 + 1
        for i, j in T.grid(6, 7):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = X[vi, vj] + X[vi + 1, vj + 2] * 5 - X[vi + 2, vj + 1]


@I.ir_module
class Padded:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        Y = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("Y"):
                vi = T.axis.spatial(8, i)
                Y[vi] = A[vi] + 1
        for i, r in T.grid(8, 3):
            with T.block("C"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + T.if_then_else(
                    vi + vr - 1 >= 0 and vi + vr - 1 < 8, Y[vi + vr - 1], 0
                )


@I.ir_module
class Rows:
    @T.prim_func
    def main(A: T.Buffer((10, 4), "int32"), C: T.Buffer((8,), "int32")):
        S = T.alloc_buffer((10,), "int32")
        for i, k in T.grid(10, 4):
            with T.block("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = 0
                S[vi] = S[vi] + A[vi, vk]
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = S[vi] * S[vi + 2]


def test_a_window_keeps_what_it_has():
    sch = mlc.Schedule(Stencil).compute_at("Y", "i1").rolling_buffer("Y", "Y")
    script = sch.mod.script()
    assert 'Y = T.alloc_buffer((3,), "float32")' in script
    assert "T.where(i1 < 1 or ax0 >= 2)" in script
    assert "Y[vi % 3] = A[vi] * T.float32(3)" in script
    assert "C[vi] = Y[vi % 3] + Y[(vi + 1) % 3] + Y[(vi + 2) % 3]" in script
    assert_same(Stencil, sch.mod)


def test_a_window_may_move_by_more_than_one():
    sch = mlc.Schedule(Pool).compute_at("Y", "i1").rolling_buffer("Y", "Y")
    assert "T.where(i1 < 1 or ax0 >= 2)" in sch.mod.script()
    assert sch.func.allocs[0].shape == (4,)
    assert_same(Pool, sch.mod)


@pytest.mark.parametrize("loop", ["i1", "j1"])
def test_a_window_rolls_along_one_dimension(loop: str):
    sch = mlc.Schedule(Blur).compute_at("X", loop).rolling_buffer("X", "X")
    assert sch.func.allocs[0].shape == ((3, 9) if loop == "i1" else (8, 3))
    assert_same(Blur, sch.mod)
    tiled = mlc.Schedule(Blur).split(loop, [None, 4]).compute_at("X", f"{loop}_1")
    assert_same(Blur, tiled.rolling_buffer("X", "X").mod)


def test_a_window_over_the_edge_and_one_of_sums():
    padded = mlc.Schedule(Padded).compute_at("Y", "i1").rolling_buffer("Y", "Y")
    assert_same(Padded, padded.mod)
    sums = mlc.Schedule(Rows).compute_at("S", "i1").rolling_buffer("S", "S")
    assert sums.func.allocs[0].shape == (3,)
    assert_same(Rows, sums.mod)


def test_iterations_then_depend_on_each_other():
    sch = mlc.Schedule(Stencil).split("i1", [None, 4]).compute_at("Y", "i1_1")
    assert_same(Stencil, sch.parallel("i1_0").mod)
    rolled = sch.rolling_buffer("Y", "Y")
    refuses("E104", lambda: rolled.parallel("i1_1"), "Y")
    refuses("E104", lambda: rolled.vectorize("i1_1"), "Y")
    refuses("E109", lambda: rolled.reorder("i1_1", "i1_0"))
    refuses("E104", lambda: sch.parallel("i1_0").rolling_buffer("Y", "Y"))


def test_rolling_buffer_refuses_what_does_not_slide():
    sch = mlc.Schedule(Stencil)
    refuses("E148", lambda: sch.rolling_buffer("Y", "Y"), "no loop of its readers")
    refuses("E115", lambda: sch.rolling_buffer("C", "C"), "output")
    whole = mlc.Schedule(MatmulRelu).compute_at("Y", "j1")
    refuses("E148", lambda: whole.rolling_buffer("Y", "Y"), "nothing stays")
    apart = mlc.Schedule(Pool).split("i1", [None, 2]).compute_at("Y", "i1_0")
    assert_same(Pool, apart.rolling_buffer("Y", "Y").mod)
    twice = apart.rolling_buffer("Y", "Y")
    refuses("E115", lambda: twice.rolling_buffer("Y", "Y"), "in order")


def test_rolling_buffer_refuses_inputs_that_change():
    @I.ir_module
    class Changing:
        @T.prim_func
        def main(A: T.Buffer((10,), "int32"), C: T.Buffer((8,), "int32")):
            Y = T.alloc_buffer((10,), "int32")
            for i in range(8):
                for w in range(3):
                    with T.block("Y"):
                        vi = T.axis.spatial(10, i + w)
                        Y[vi] = A[vi] * 3
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = Y[vi] + Y[vi + 1] + Y[vi + 2]
                with T.block("A"):
                    vi = T.axis.spatial(10, i)
                    A[vi + 1] = C[vi]

    refuses("E148", lambda: mlc.Schedule(Changing).rolling_buffer("Y", "Y"), "A", "changes with i")


def test_rolling_buffer_refuses_a_window_that_moves_back():
    @I.ir_module
    class Back:
        @T.prim_func
        def main(A: T.Buffer((10,), "int32"), C: T.Buffer((8,), "int32")):
            Y = T.alloc_buffer((10,), "int32")
            for i in range(8):
                for w in range(3):
                    with T.block("Y"):
                        vi = T.axis.spatial(10, 7 - i + w)
                        Y[vi] = A[vi] * 3
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = Y[7 - vi] + Y[9 - vi]

    refuses("E148", lambda: mlc.Schedule(Back).rolling_buffer("Y", "Y"), "moves it by -1")


def test_a_loop_of_one_iteration_is_passed_over():
    sch = mlc.Schedule(
        mlc.parse("""
@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for o, u in T.grid(2, 1):
        for ax, r in T.grid(6, 3):
            with T.block("B"):
                v = T.axis.spatial(10, o * 4 + ax)
                vr = T.axis.reduce(3, r)
                with T.init():
                    B[v] = 0
                B[v] = T.max(B[v], A[v + vr])
        for i, r in T.grid(4, 3):
            with T.block("C"):
                v = T.axis.spatial(8, o * 4 + i)
                vr = T.axis.reduce(3, r)
                with T.init():
                    C[v] = 0
                C[v] = T.max(C[v], B[v + vr])
""")
    )
    rolled = sch.rolling_buffer("B", "B")
    assert rolled.func.allocs[0].shape == (6,)
    assert_same(sch.mod, rolled.mod)
