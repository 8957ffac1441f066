"""decompose_reduction, cache_read, cache_write."""

import minimlc as mlc
from minimlc.codegen.lower import lower
from minimlc.script import I, T
from minimlc.tir.access import accesses
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu, Stencil


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


def test_cache_write_then_register_tile():
    sch = mlc.Schedule(MatmulRelu).cache_write("Y", "Y")
    assert sch.blocks() == ["Y", "Y_local", "C"]
    tiled = (
        sch.split("i", [None, 4])
        .split("j", [None, 4])
        .reorder("i_0", "j_0", "k", "i_1", "j_1")
        .reverse_compute_at("Y_local", "j_0")
        .decompose_reduction("Y", at="k")
        .unroll("i_1")
        .vectorize("j_1")
    )
    assert_same(MatmulRelu, tiled.mod)
    lowered = lower(tiled.func)
    local = next(i.buffer for i in accesses(lowered) if i.buffer.name == "Y_local")
    assert local.shape == (4, 4)


def test_cache_read_feeds_a_block():
    sch = mlc.Schedule(MatmulRelu).cache_read("Y", "B", "local").compute_at("B_local", "j")
    assert sch.loops("B_local")[:2] == ["i", "j"]
    assert_same(MatmulRelu, sch.mod)
    refuses("E117", lambda: mlc.Schedule(MatmulRelu).cache_read("C", "A"), "does not read")
    refuses("E117", lambda: mlc.Schedule(MatmulRelu).cache_read("Y", "A", "registers"))


def test_caches_refuse_stale_and_partial_copies():
    moved = mlc.Schedule(Stencil).compute_at("Y", "i1")
    refuses("E117", lambda: moved.cache_read("C", "Y"), "stale")
    decomposed = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="k")
    refuses("E117", lambda: decomposed.cache_write("Y_update", "Y"))

    @I.ir_module
    class Partial:
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(8, i * 2)
                    C[vi] = A[vi]

    refuses("E117", lambda: mlc.Schedule(Partial).cache_write("C", "C"), "every element")
