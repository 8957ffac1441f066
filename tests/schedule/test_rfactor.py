"""rfactor."""

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu


@I.ir_module
class RowSum:
    @T.prim_func
    def main(A: T.Buffer((3, 10), "int32"), C: T.Buffer((3,), "int32")):
        for i, k in T.grid(3, 10):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.int32(0)
                C[vi] = C[vi] + A[vi, vk]


def test_rfactor_makes_partial_results_and_combines_them():
    sch = mlc.Schedule(RowSum).split("k", [None, 5]).rfactor("k_1")
    assert sch.blocks() == ["C_rf", "C"]
    assert 'C_rf = T.alloc_buffer((5, 3), "int32")' in sch.mod.script()
    assert_same(RowSum, sch.mod)


def test_the_factored_loop_may_be_parallel_or_vectorized():
    sch = mlc.Schedule(RowSum).split("k", [None, 5])
    refuses("E104", lambda: sch.parallel("k_0"))
    assert_same(RowSum, sch.rfactor("k_0").parallel("k_0").mod)
    assert_same(RowSum, sch.rfactor("k_1", axis=1).vectorize("k_1").mod)


def test_partial_results_of_left_out_iterations_are_the_identity():
    sch = mlc.Schedule(RowSum).split("k", [None, 4]).split("i", [None, 2])
    assert_same(RowSum, sch.rfactor("k_1").mod)
    assert_same(RowSum, sch.rfactor("k_0", axis=1).mod)


def test_rfactor_of_one_of_two_blocks_keeps_the_other():
    sch = mlc.Schedule(MatmulRelu).split("k", [2, None]).reorder("k_0", "i", "j")
    assert_same(MatmulRelu, sch.rfactor("k_0").mod)


def test_rfactor_refuses_spatial_loops_and_other_starts():
    @I.ir_module
    class FromOne:
        @T.prim_func
        def main(A: T.Buffer((3, 4), "int32"), C: T.Buffer((3,), "int32")):
            for i, k in T.grid(3, 4):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.int32(1)
                    C[vi] = C[vi] + A[vi, vk]

    sch = mlc.Schedule(RowSum)
    refuses("E150", lambda: sch.rfactor("i"), "no reduction loop")
    refuses("E118", lambda: sch.rfactor("k", axis=2), "0 to 1")
    refuses("E150", lambda: sch.fuse("i", "k").rfactor("i_k_fused"), "i_k_fused")
    refuses("E150", lambda: mlc.Schedule(FromOne).rfactor("k"), "not the identity")


def test_a_start_of_max_counts_once_however_often():
    @I.ir_module
    class Top:
        @T.prim_func
        def main(A: T.Buffer((3, 7), "float32"), C: T.Buffer((3,), "float32")):
            for i, k in T.grid(3, 7):
                with T.block("C"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        C[vi] = T.float32(-1)
                    C[vi] = T.max(C[vi], A[vi, vk])

    sch = mlc.Schedule(Top).split("k", [None, 3])
    assert_same(Top, sch.rfactor("k_0").mod)
    assert_same(Top, sch.rfactor("k_1").mod)
