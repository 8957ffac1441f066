"""decompose_reduction."""

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu


def test_decompose_makes_init_a_block():
    sch = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="k")
    assert sch.blocks() == ["Y_init", "Y_update", "C"]
    assert "T.init" not in sch.mod.script()
    assert_same(MatmulRelu, sch.mod)
    outer = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="i")
    assert outer.loops("Y_init") == ["i_init", "j_init"]
    assert_same(MatmulRelu, outer.mod)


def test_decompose_keeps_guards():
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 3]).split("k", [None, 4])
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="i_1").mod)


def test_decompose_refuses_a_reduction_loop_outside():
    sch = mlc.Schedule(MatmulRelu).reorder("k", "i", "j")
    refuses("E114", lambda: sch.decompose_reduction("Y", at="i"), "outside")
    refuses("E114", lambda: sch.decompose_reduction("C", at="i1"), "no init")


def test_decompose_inside_of_a_reduction_loop_that_runs_once():
    sch = mlc.Schedule(MatmulRelu).split("k", [1, None]).reorder("k_0", "i", "j", "k_1")
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="k_1").mod)


def test_a_condition_may_speak_of_a_loop_that_runs_once():
    """The init's condition has 0 for it, as it has for the sum's loops."""
    sch = mlc.Schedule(MatmulRelu).add_unit_loop("k").split("unit", [2, None])
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="unit_1").mod)


def test_decompose_refuses_a_loop_that_runs_the_sum_anew():
    @I.ir_module
    class Again:
        @T.prim_func
        def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4,), "int32")):
            for i, again, k in T.grid(4, 2, 3):  # noqa: B007
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]

    sch = mlc.Schedule(Again)
    refuses("E114", lambda: sch.decompose_reduction("C", at="again"), "anew")
    refuses("E109", lambda: sch.reorder("k", "again"))
    assert_same(Again, sch.decompose_reduction("C", at="k").mod)
