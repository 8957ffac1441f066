"""set_scope, transform_layout, storage_align, transform_block_layout, reorder_block_iter_var."""

import pytest

import minimlc as mlc
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.access import accesses
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import Chain, MatmulRelu, Scan, Stencil


@I.ir_module
class Sums:
    @T.prim_func
    def main(A: T.Buffer((6, 9), "int32"), C: T.Buffer((6,), "int32")):
        for i, k in T.grid(6, 9):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 7
                C[vi] = C[vi] + A[vi, vk]


@I.ir_module
class Gather:
    @T.prim_func
    def main(K: T.Buffer((6,), "int64"), C: T.Buffer((6, 4), "int64")):
        E = T.alloc_buffer((6, 8), "int64")
        for i, j in T.grid(6, 8):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = vi * 8 + vj
        for i, j in T.grid(6, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = E[T.max(T.min(K[vi], T.int64(5)), T.int64(0)), 7 - vj * 2]


def storage_of(sch: mlc.Schedule, name: str) -> tuple[int, ...]:
    """The shape of a buffer as it is stored after lowering."""
    return next(i.buffer.shape for i in accesses(lower(sch.func)) if i.buffer.name == name)


def test_set_scope_says_where_a_buffer_lives():
    sch = mlc.Schedule(MatmulRelu).set_scope("Y", "Y", "shared")
    assert 'Y = T.alloc_buffer((8, 8), "float32", scope="shared")' in sch.mod.script()
    assert_same(MatmulRelu, sch.mod)
    assert "scope" not in sch.set_scope("Y", "Y", "global").mod.script()


def test_set_scope_refuses_what_is_not_ours():
    error = refuses("E147", lambda: mlc.Schedule(MatmulRelu).set_scope("C", "C", "local"))
    assert "cache_write" in error.hint
    refuses("E117", lambda: mlc.Schedule(MatmulRelu).set_scope("C", "Y", "local"), '"Y" writes it')
    refuses("E117", lambda: mlc.Schedule(MatmulRelu).set_scope("Y", "Y", "fast"), "scope")


def test_transform_layout_rewrites_every_access():
    sch = mlc.Schedule(MatmulRelu).transform_layout("Y", "Y", "i, j -> j // 4, i, j % 4")
    script = sch.mod.script()
    assert 'Y = T.alloc_buffer((2, 8, 4), "float32")' in script
    assert "C[vi, vj] = T.max(Y[vj // 4, vi, vj % 4], T.float32(0))" in script
    assert_same(MatmulRelu, sch.mod)
    assert_same(MatmulRelu, sch.parallel("i").decompose_reduction("Y", at="k").mod)


def test_packing_is_a_schedule():
    sch = (
        mlc.Schedule(MatmulRelu)
        .cache_read("Y", "B")
        .transform_layout("B_local", "B_local", lambda k, j: (j // 4, k, j % 4))
        .transform_block_layout("B_local", lambda k, j: (j // 4, k, j % 4))
        .split("j", [None, 4])
        .reorder("j_0", "i", "k", "j_1")
        .compute_at("B_local", "j_0")
        .vectorize("j_1")
        .parallel("j_0")
    )
    assert "B_local[v01, v11, v2] = B[v11, v2 + v01 * 4]" in sch.mod.script()
    assert_same(MatmulRelu, sch.mod)
    assert storage_of(sch, "B_local") == (1, 6, 4)
    again = mlc.Schedule.replay(MatmulRelu, sch.trace.to_json())
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


def test_transform_layout_leaves_gaps_that_nothing_reads():
    sch = mlc.Schedule(Chain).transform_layout("Y", "Y", "i -> i // 4, 3 - i % 4")
    assert sch.func.allocs[0].shape == (3, 4)
    assert_same(Chain, sch.mod)
    apart = mlc.Schedule(Chain).transform_layout("Y", "Y", "i -> i * 3")
    assert apart.func.allocs[0].shape == (28,)
    assert_same(Chain, apart.mod)


def test_transform_layout_moves_data_dependent_accesses():
    sch = mlc.Schedule(Gather).transform_layout("E", "E", "i, j -> j, i")
    assert_same(Gather, sch.mod)
    assert_same(Gather, mlc.Schedule(Gather).storage_align("E", "E", 0, 4, 1).mod)


def test_transform_layout_refuses():
    sch = mlc.Schedule(MatmulRelu)
    refuses("E147", lambda: sch.transform_layout("Y", "A", "i, j -> j, i"), "belongs to the caller")
    refuses("E146", lambda: sch.transform_layout("Y", "Y", "i -> i"), "1 input(s)", "2 dim")
    refuses("E146", lambda: sch.transform_layout("Y", "Y", "i, j -> i + j"), "[0, 1] and [1, 0]")
    refuses("E146", lambda: sch.transform_layout("Y", "Y", "i, j -> i, j - 1"), "negative")
    refuses("E146", lambda: sch.transform_layout("Y", "Y", "i, j -> i * 90000, j"), "grow")
    refuses("E145", lambda: sch.transform_layout("Y", "Y", "i, j -> k"), "not an input")


def test_storage_align_pads_rows():
    sch = mlc.Schedule(MatmulRelu).storage_align("Y", "Y", 0, 8, 1)
    assert "Y[vi * 9 + vj]" in sch.mod.script()
    assert storage_of(sch, "Y") == (7 * 9 + 8,)
    assert_same(MatmulRelu, sch.mod)
    assert mlc.Schedule(MatmulRelu).storage_align("Y", "Y", 0, 4).func is MatmulRelu["main"]


def test_rows_of_shared_memory_become_longer():
    sch = mlc.Schedule(MatmulRelu).set_scope("Y", "Y", "shared").storage_align("Y", "Y", 0, 8, 1)
    assert 'Y = T.alloc_buffer((8, 9), "float32", scope="shared")' in sch.mod.script()
    refuses("E146", lambda: sch.storage_align("Y", "Y", 0, 10**9, 1), "grow")
    assert_same(MatmulRelu, sch.mod)


def test_padded_rows_stay_private_to_an_iteration():
    sch = mlc.Schedule(MatmulRelu).cache_read("Y", "B").split("j", [None, 4])
    sch = sch.reorder("j_0", "i", "j_1").compute_at("B_local", "j_0")
    sch = sch.storage_align("B_local", "B_local", 0, 8, 3).parallel("j_0")
    assert storage_of(sch, "B_local") == (5 * 11 + 4,)
    assert_same(MatmulRelu, sch.mod)


def test_storage_align_refuses():
    sch = mlc.Schedule(MatmulRelu)
    refuses("E147", lambda: sch.storage_align("C", "C", 0, 8), "belongs to the caller")
    refuses("E118", lambda: sch.storage_align("Y", "Y", 1, 8), "no row")
    refuses("E118", lambda: sch.storage_align("Y", "Y", 0, 8, 8), "offset")
    refuses("E118", lambda: mlc.Schedule(Chain).storage_align("Y", "Y", 0, 8), "is one row")


def test_transform_block_layout_turns_the_iterations():
    sch = mlc.Schedule(MatmulRelu).transform_block_layout("Y", "i, j, k -> j, i // 4, k, i % 4")
    assert sch.loops("Y") == ["ax0", "ax1", "ax2", "ax3"]
    script = sch.mod.script()
    assert 'v0, v1, v2, v3 = T.axis.remap("SSRS", [ax0, ax1, ax2, ax3])' in script
    assert "Y[v3 + v1 * 4, v0] = T.float32(0)" in script
    assert_same(MatmulRelu, sch.mod)
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="ax2").parallel("ax0").mod)


def test_transform_block_layout_fuses_and_takes_guards_away():
    sch = mlc.Schedule(MatmulRelu).split("i1", [None, 3])
    sch = sch.transform_block_layout("C", "i, j -> i * 8 + j")
    assert "T.where" not in sch.mod.script()
    assert sch.loops("C") == ["ax0"]
    assert_same(MatmulRelu, sch.vectorize("ax0").mod)


def test_transform_block_layout_of_a_reduction_starts_where_it_did():
    sch = mlc.Schedule(Sums)
    assert_same(Sums, sch.transform_block_layout("C", "i, k -> k // 3, 5 - i, k % 3").mod)
    refuses("E149", lambda: sch.transform_block_layout("C", "i, k -> i, 8 - k"), "start at 0")
    refuses("E149", lambda: sch.transform_block_layout("C", "i, k -> i * 9 + k"), "mixes")


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("i, j -> i // 3, i % 3, j", "E146", "does not fill"),
        ("i, j -> i, j * 2", "E146", "does not fill"),
        ("i, j -> i // 2, j", "E146", "would both become"),
        ("i -> i", "E146", "1 input(s)"),
        ("i, j -> j, (i * 3) % 8", "E146", "inverse"),
    ],
)
def test_transform_block_layout_refuses_maps(text: str, code: str, word: str):
    refuses(code, lambda: mlc.Schedule(MatmulRelu).transform_block_layout("C", text), word)


def test_transform_block_layout_refuses_blocks():
    refuses("E149", lambda: mlc.Schedule(Scan).transform_block_layout("C", "i, t -> t, i"), "order")
    moved = mlc.Schedule(Stencil).compute_at("Y", "i1")
    refuses("E113", lambda: moved.transform_block_layout("C", "i -> i // 2, i % 2"), "all of vi")
    lanes = mlc.Schedule(Stencil).vectorize("i1")
    refuses("E119", lambda: lanes.transform_block_layout("C", "i -> i // 2, i % 2"), "vectorized")


def test_transform_block_layout_refuses_a_block_that_runs_again():
    @I.ir_module
    class Again:
        @T.prim_func
        def main(C: T.Buffer((4,), "int32")):
            for again, i in T.grid(3, 4):  # noqa: B007
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    C[vi] = C[vi] * 2

    sch = mlc.Schedule(Again)
    refuses("E149", lambda: sch.transform_block_layout("C", "i -> i // 2, i % 2"), "anew")


def test_reorder_block_iter_var_only_names_them_anew():
    sch = mlc.Schedule(MatmulRelu).reorder_block_iter_var("Y", [2, 0, 1])
    assert 'vk, vi, vj = T.axis.remap("RSS", [k, i, j])' in sch.mod.script()
    assert_same(MatmulRelu, sch.decompose_reduction("Y", at="k").mod)
    refuses("E118", lambda: sch.reorder_block_iter_var("Y", [0, 1]), "each of 0..2 once")
    refuses("E118", lambda: sch.reorder_block_iter_var("Y", [0, 1, 1]))


def test_steps_that_make_a_buffer_larger_than_memory_are_refused():
    sch = mlc.Schedule(
        mlc.parse("""
@T.prim_func
def main(A: T.Buffer((8,), "float64"), C: T.Buffer((8,), "float64")):
    Y = T.alloc_buffer((8,), "float64")
    for i in range(8):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            Y[vi] = A[vi]
    for j in range(8):
        with T.block("C"):
            vj = T.axis.spatial(8, j)
            C[vj] = Y[7 - vj]
"""),
        check=False,
    )
    for _ in range(10):
        sch = sch.transform_layout("Y", "Y", "i -> i * 16 + 15")
    with pytest.raises(mlc.ScheduleError) as caught:
        for _ in range(2):
            sch = sch.transform_layout("Y", "Y", "i -> i * 16 + 15")
    assert caught.value.code == "E135"
    mlc.verify(sch.mod)
