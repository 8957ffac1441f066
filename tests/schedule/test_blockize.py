"""blockize: blocks of blocks."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, random_args, refuses
from tests.schedule.programs import Chain, MatmulRelu, Scan, Stencil


def tiled(tail: int = 3) -> mlc.Schedule:
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 4]).split("j", [None, 4])
    return sch.split("k", [None, tail]).reorder("i_0", "j_0", "k_0", "i_1", "j_1", "k_1")


def test_a_tile_becomes_a_block_with_the_old_one_inside():
    sch = tiled().blockize("i_1")
    assert sch.blocks() == ["Y_o", "Y_init", "Y", "C"]
    assert sch.loops("Y_o") == ["i_0", "j_0", "k_0"]
    assert sch.loops("Y") == ["i_0", "j_0", "k_0", "i_1", "j_1", "k_1"]
    text = sch.mod.script()
    assert 'vio, vjo, vko = T.axis.remap("SSR", [i_0, j_0, k_0])' in text
    assert "vi = T.axis.spatial(8, vio * 4 + i_1)" in text
    assert "vk = T.axis.reduce(6, vko * 3 + k_1)" in text
    assert_same(MatmulRelu, sch.mod)


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_nested_blocks_compile(target: str):
    sch = tiled().blockize("j_1").parallel("i_0")
    args = random_args(sch.func, np.random.default_rng(0))
    mlc.build(sch.mod, target=target, cache=False)["main"](*args)
    np.testing.assert_allclose(
        args[2], np.maximum(args[0].astype(float) @ args[1], 0), rtol=1e-4, atol=1e-5
    )


def test_blocks_of_blocks_of_blocks():
    sch = tiled().blockize("i_1").blockize("k_1", name="dot")
    assert sch.blocks() == ["Y_o", "Y_init", "dot", "Y", "C"]
    assert_same(MatmulRelu, sch.mod)


def test_the_rest_of_the_schedule_goes_on():
    sch = tiled().blockize("i_1").reorder("k_0", "i_0", "j_0").split("i_1", [2, 2])
    sch = sch.vectorize("j_1").parallel("i_0").unroll("k_1")
    assert_same(MatmulRelu, sch.mod)


def test_what_would_cross_a_block_is_refused():
    sch = tiled().blockize("i_1")
    refuses("E116", lambda: sch.reorder("i_1", "i_0"), "more than one loop")
    refuses("E116", lambda: sch.fuse("k_0", "i_1"))
    refuses("E113", lambda: sch.reverse_compute_at("C", "j_1"), 'inside block "Y_o"')
    refuses("E104", lambda: sch.parallel("k_0"), "Y[0, 0]")
    refuses("E104", lambda: sch.vectorize("k_1"))


def test_a_tile_that_is_cut_off_is_refused():
    sch = mlc.Schedule(Chain).split("i", [None, 4])
    refuses("E155", lambda: sch.blockize("i_1"), "runs only where", "divide the extent")
    apart = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="j")
    refuses("E155", lambda: apart.blockize("i"), "more than")


def test_loops_that_are_not_a_tile_are_refused():
    fused = mlc.Schedule(MatmulRelu).fuse("j", "k")
    refuses("E155", lambda: fused.blockize("j_k_fused"), "serves spatial and reduce iters")
    uneven = mlc.Schedule(MatmulRelu).split("i", [2, 4]).reorder("i_1", "i_0")
    refuses("E155", lambda: uneven.blockize("i_0"), "whole tiles")
    refuses("E118", lambda: tiled().blockize("i_1", name="C"), "taken")
    refuses("E105", lambda: tiled().blockize("i_9"))


def test_a_sum_that_runs_again_is_refused():
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
    refuses("E155", lambda: sch.blockize("again"), "runs anew")
    assert_same(Again, sch.blockize("k").mod)


def test_loops_in_order_keep_their_order():
    for program in (Scan, Stencil):
        sch = mlc.Schedule(program)
        loop = sch.loops(sch.blocks()[0])[-1]
        assert_same(program, sch.blockize(loop).mod)
    inner = mlc.Schedule(Scan).blockize(mlc.Schedule(Scan).loops("C")[0])
    assert_same(Scan, inner.mod)
