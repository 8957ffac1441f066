"""split, fuse, reorder, parallel, vectorize, unroll, annotate."""

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import Chain, MatmulRelu, Scan


def test_split_names_its_loops_and_keeps_the_meaning():
    sch = mlc.Schedule(MatmulRelu).split("j", factors=[None, 4])
    assert sch.loops("Y") == ["i", "j_0", "j_1", "k"]
    assert "vj = T.axis.spatial(8, j_0 * 4 + j_1)" in sch.mod.script()
    assert_same(MatmulRelu, sch.mod)


def test_split_guards_what_does_not_divide():
    sch = mlc.Schedule(Chain).split("i", factors=[None, 4], names=["io", "ii"])
    assert "T.where(io * 4 + ii < 10)" in sch.mod.script()
    assert_same(Chain, sch.mod)


def test_split_refuses_factors_that_do_not_cover():
    sch = mlc.Schedule(Chain)
    refuses("E118", lambda: sch.split("i", factors=[2, 4]), "8 iterations", "10")
    refuses("E118", lambda: sch.split("i", factors=[None, 4], tail="error"), "not a multiple")
    refuses("E118", lambda: sch.split("i", factors=[None, None]))
    refuses("E105", lambda: sch.split("i", factor=[None, 4]), "factors")


def test_fuse_prints_and_means_the_same():
    sch = mlc.Schedule(MatmulRelu).fuse("i", "j")
    assert sch.loops("Y") == ["i_j_fused", "k"]
    assert "i_j_fused // 8" in sch.mod.script()
    assert_same(MatmulRelu, sch.mod)
    assert_same(MatmulRelu, sch.split("i_j_fused", [None, 16]).mod)


def test_fuse_refuses_loops_out_of_order_or_apart():
    sch = mlc.Schedule(MatmulRelu)
    refuses("E116", lambda: sch.fuse("j", "i"))
    refuses("E116", lambda: sch.fuse("i", "i1"))
    refuses("E102", lambda: mlc.Schedule(Triangle).fuse("i", "j"))


@I.ir_module
class Triangle:
    @T.prim_func
    def main(A: T.Buffer((5, 5), "int32"), C: T.Buffer((5, 5), "int32")):
        for i in range(5):
            for j in range(i + 1):
                with T.block("C"):
                    vi = T.axis.spatial(5, i)
                    vj = T.axis.spatial(5, j)
                    C[vi, vj] = A[vi, vj] + 1


def test_reorder_moves_a_reduction_outside():
    sch = mlc.Schedule(MatmulRelu).reorder("k", "i")
    assert sch.loops("Y") == ["k", "j", "i"]
    assert_same(MatmulRelu, sch.mod)


def test_reorder_refuses_to_turn_a_dependence_around():
    @I.ir_module
    class Skewed:
        @T.prim_func
        def main(C: T.Buffer((6, 6), "int32")):
            for i, j in T.grid(5, 5):
                with T.block("C"):
                    vi, vj = T.axis.remap("OO", [i, j])
                    C[vi + 1, vj] = C[vi, vj + 1] + 1

    error = refuses("E109", lambda: mlc.Schedule(Skewed).reorder("j", "i"))
    assert "i=" in error.example
    refuses("E109", lambda: mlc.Schedule(Triangle).reorder("j", "i"))


def test_reorder_keeps_a_scan_apart_from_its_independent_axis():
    sch = mlc.Schedule(Scan).reorder("t", "i")
    assert_same(Scan, sch.mod)


def test_parallel_refuses_a_reduction_with_two_iterations():
    error = refuses("E104", lambda: mlc.Schedule(MatmulRelu).parallel("k"), "reduction loop")
    assert error.example == "iterations k=0 and k=1 both update Y[0, 0]"
    refuses("E104", lambda: mlc.Schedule(Scan).parallel("t"))
    assert_same(Scan, mlc.Schedule(Scan).parallel("i").mod)


def test_a_verified_module_has_no_racing_loop():
    racing = """
@T.prim_func
def main(C: T.Buffer((4,), "int32")):
    for i in range(4):
        for k in T.parallel(3):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + 1
"""
    refuses("E104", lambda: mlc.verify(mlc.parse(racing)), "both update C[0]")


def test_vectorize_refuses_lanes_that_share_a_private_buffer():
    sch = mlc.Schedule(Chain).compute_at("Y", "i1")
    assert_same(Chain, sch.parallel("i1").mod)

    @I.ir_module
    class Private:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
            X = T.alloc_buffer((1,), "float32")
            for i in range(8):
                X[0] = A[i] + T.float32(1)
                C[i] = X[0] * T.float32(2)

    refuses("E111", lambda: mlc.Schedule(Private).vectorize("i"), "private")
    assert_same(Private, mlc.Schedule(Private).parallel("i").mod)


def test_unroll_needs_a_constant_extent():
    assert "T.unroll(8)" in mlc.Schedule(MatmulRelu).unroll("j").mod.script()
    refuses("E102", lambda: mlc.Schedule(Triangle).unroll("j"))


def test_a_loop_that_is_something_already_is_not_split():
    refuses("E119", lambda: mlc.Schedule(Chain).parallel("i").split("i", [None, 2]))


def test_annotate_writes_on_loops_and_blocks():
    sch = mlc.Schedule(Chain).annotate("i", "pragma", 4).annotate("C", "kind", "copy")
    script = sch.mod.script()
    assert "pragma" in script and "copy" in script
    assert_same(Chain, sch.mod)
    refuses("E118", lambda: sch.annotate("i", "bad", {1: 2}))


def test_a_replaced_name_says_what_became_of_it():
    sch = mlc.Schedule(Chain).split("i", [None, 5])
    refuses("E105", lambda: sch.split("i", [None, 5]), "i_0, i_1")
