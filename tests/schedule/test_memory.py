"""cache_read, cache_write, cache_inplace, reindex."""

import minimlc as mlc
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.access import accesses
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import Chain, MatmulRelu, Scan, Stencil


@I.ir_module
class Evens:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for i in range(4):
            with T.block("C"):
                vi = T.axis.spatial(8, i * 2)
                C[vi] = A[vi]


@I.ir_module
class Positive:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                if A[vi] > 0:
                    C[vi] = A[vi]


@I.ir_module
class Update:
    @T.prim_func
    def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
        for i in range(4):
            for j in range(6):
                with T.block("first"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = C[vi, vj] + A[vi, vj]
            for j in range(3):
                with T.block("second"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj + 2] = C[vi, vj + 2] * 3


@I.ir_module
class Conv:
    @T.prim_func
    def main(
        A: T.Buffer((2, 6, 6), "int32"),
        W: T.Buffer((3, 2, 3, 3), "int32"),
        C: T.Buffer((3, 4, 4), "int32"),
    ):
        for o, h, w, c, r, s in T.grid(3, 4, 4, 2, 3, 3):
            with T.block("C"):
                vo, vh, vw, vc, vr, vs = T.axis.remap("SSSRRR", [o, h, w, c, r, s])
                with T.init():
                    C[vo, vh, vw] = 0
                C[vo, vh, vw] = C[vo, vh, vw] + A[vc, vh + vr, vw + vs] * W[vo, vc, vr, vs]


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


@I.ir_module
class Mixed:
    @T.prim_func
    def main(
        A: T.Buffer((8,), "int8"), X: T.Buffer((8,), "bfloat16"), C: T.Buffer((8,), "float32")
    ):
        for i in range(8):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = T.cast(X[vi], "float32") * T.cast(A[vi] + A[7 - vi], "float32")


def test_cache_read_can_widen_what_it_copies():
    sch = mlc.Schedule(Mixed).cache_read("C", "X", dtype="float32")
    assert 'X_local[v0] = T.cast(X[v0], "float32")' in sch.mod.script()
    assert "C[vi] = X_local[vi] * " in sch.mod.script()
    assert_same(Mixed, sch.mod, exact=True)
    sums = mlc.Schedule(Mixed).cache_read("C", "A", dtype="int16")
    assert 'T.cast(A_local[vi], "int8") + T.cast(A_local[' in sums.mod.script()
    assert_same(Mixed, sums.mod, exact=True)
    narrow = refuses("E117", lambda: mlc.Schedule(Mixed).cache_read("C", "X", dtype="float16"))
    assert narrow.hint == "float64 or float32"
    refuses("E117", lambda: mlc.Schedule(Mixed).cache_read("C", "A", dtype="uint8"), "every value")
    refuses("E108", lambda: mlc.Schedule(Mixed).cache_read("C", "A", dtype="int"))


def test_cache_read_inside_shared_loops_copies_what_is_read_there():
    moved = mlc.Schedule(Stencil).compute_at("Y", "i1").cache_read("C", "Y")
    assert moved.loops("Y_local") == ["i1", "ax01"]
    assert "Y_local[v0] = Y[v0]" in moved.mod.script()
    assert_same(Stencil, moved.parallel("i1").mod)


def test_cache_read_refuses_a_block_that_writes_the_buffer_itself():
    error = refuses("E117", lambda: mlc.Schedule(Update).cache_read("first", "C"), "stale")
    assert "sch.cache_inplace" in error.hint
    refuses("E117", lambda: mlc.Schedule(Scan).cache_read("C", "C"), "stale")


def test_cache_write_inside_shared_loops_copies_what_is_written_there():
    moved = mlc.Schedule(Stencil).compute_at("Y", "i1").cache_write("Y", "Y")
    assert moved.loops("Y_local") == ["i1", "ax01"]
    assert_same(Stencil, moved.mod)
    evens = mlc.Schedule(Evens).cache_write("C", "C")
    assert evens.loops("C_local") == ["i"]
    assert_same(Evens, evens.mod)


def test_cache_write_keeps_guards_of_uneven_tiles():
    sch = mlc.Schedule(MatmulRelu).split("i", [None, 3]).split("k", [None, 4])
    assert_same(MatmulRelu, sch.cache_write("Y", "Y").parallel("i_0").mod)


def test_cache_write_refuses_elements_that_may_not_be_written():
    refuses("E117", lambda: mlc.Schedule(Positive).cache_write("C", "C"), "every element")
    decomposed = mlc.Schedule(MatmulRelu).decompose_reduction("Y", at="k")
    refuses("E117", lambda: decomposed.cache_write("Y_update", "Y"), "used elsewhere")
    assert_same(MatmulRelu, decomposed.cache_inplace("Y_update", "Y").mod)


def test_cache_inplace_copies_in_and_out():
    sch = mlc.Schedule(Positive).cache_inplace("C", "C")
    assert sch.blocks() == ["C_local_in", "C", "C_local_out"]
    assert_same(Positive, sch.mod)
    assert_same(Scan, mlc.Schedule(Scan).cache_inplace("C", "C", "global").mod)


def test_cache_inplace_in_shared_loops_takes_what_the_block_touches():
    sch = mlc.Schedule(Update).cache_inplace("second", "C")
    assert sch.loops("C_local_in")[0] == "i"
    assert "v1 = T.axis.spatial(6, ax1 + 2)" in sch.mod.script()
    assert_same(Update, sch.parallel("i").mod)


def test_cache_inplace_refuses_a_block_that_only_reads():
    refuses("E117", lambda: mlc.Schedule(MatmulRelu).cache_inplace("C", "Y"), "does not write")
    refuses("E105", lambda: mlc.Schedule(MatmulRelu).cache_inplace("C", "Z"), "no buffer")


def test_reindex_makes_a_convolution_a_matrix_product():
    sch = mlc.Schedule(Conv).reindex("C", "A")
    (cache,) = sch.func.allocs
    assert cache.shape == (4, 4, 2, 3, 3)
    assert "A_reindex[v0, v1, v2, v3, v4] = A[v2, v0 + v3, v1 + v4]" in sch.mod.script()
    assert_same(Conv, sch.mod)
    tiled = sch.transform_layout(
        "A_reindex", "A_reindex", lambda h, w, c, r, s: (h * 4 + w, (c * 3 + r) * 3 + s)
    )
    assert tiled.func.allocs[0].shape == (16, 18)
    assert_same(Conv, tiled.mod)


def test_reindex_of_an_output_copies_out():
    sch = mlc.Schedule(Conv).reindex("C", "C")
    assert sch.blocks() == ["C", "C_reindex"]
    assert_same(Conv, sch.mod)
    assert_same(Conv, sch.reverse_compute_at("C_reindex", "o").mod)


def test_reindex_refuses_what_has_no_single_index():
    refuses("E117", lambda: mlc.Schedule(Stencil).reindex("C", "Y"), "3 different indices")
    refuses("E117", lambda: mlc.Schedule(Chain).reindex("C", "A"), "does not use")
    refuses("E117", lambda: mlc.Schedule(Evens).reindex("C", "C"), "all its iters")
    refuses("E117", lambda: mlc.Schedule(Positive).reindex("C", "C"), "all its iters")


def test_reindex_refuses_an_index_that_only_a_condition_keeps_inside():
    @I.ir_module
    class Shift:
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
            for i in range(8):
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    C[vi] = T.if_then_else(vi > 0, A[vi - 1], 0)

    refuses("E117", lambda: mlc.Schedule(Shift).reindex("C", "A"), "leaves its bounds", "A[-1]")
    assert_same(Shift, mlc.Schedule(Shift).cache_read("C", "A").mod)


def test_the_traces_of_caches_replay():
    sch = mlc.Schedule(Update).cache_inplace("second", "C", scope="shared").reindex("first", "A")
    again = mlc.Schedule.replay(Update, sch.trace.to_json())
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
