"""The threads of a block: they share memory, combine values, and do together what each would do."""

import pytest

import minimlc as mlc
from tests.corpus.test_corpus import assert_right
from tests.helpers import refuses

MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32"),
         C: T.Buffer((16, 16), "int32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
STENCIL = """
@T.prim_func
def main(A: T.Buffer((30,), "int32"), B: T.Buffer((28,), "int32")):
    for i in range(28):
        with T.block("B"):
            vi = T.axis.spatial(28, i)
            B[vi] = A[vi] + A[vi + 1] * 3 + A[vi + 2]
"""


def tiled(scope="shared"):
    """Tiles of C by blocks, an element of each by a thread, A and B by tiles of k."""
    sch = mlc.Schedule(mlc.parse(MATMUL)).cache_write("C", "C").split("k", [None, 4])
    sch = sch.split("i", [None, 4]).split("j", [None, 4])
    sch = sch.reorder("i_0", "j_0", "i_1", "j_1", "k_0", "k_1").reverse_compute_at("C_local", "j_1")
    sch = sch.bind("i_0", "blockIdx.y").bind("j_0", "blockIdx.x").fuse("i_1", "j_1", name="t")
    return sch.cache_read("C", "A", scope).cache_read("C", "B", scope)


def test_threads_fetch_together_what_all_of_them_read():
    sch = tiled().bind("t", "threadIdx.x")
    for name in ("A_shared", "B_shared"):
        sch, flat = sch.compute_at(name, "k_0"), f"{name}_flat"
        sch = sch.fuse(*sch.loops(name)[-2:], name=flat).bind(flat, "threadIdx.x")
    sch = sch.decompose_reduction("C", "k_0")
    assert sch.loops("A_shared")[-1] == "A_shared_flat" and sch.loops("A_shared")[2] == "t"
    assert_right(mlc.parse(MATMUL), sch.mod)
    assert mlc.structural_equal(mlc.parse(sch.mod.script()), sch.mod)


def test_lanes_of_threads_fetch_together():
    sch = tiled().bind("t", "threadIdx.x").compute_at("A_shared", "k_0")
    sch = sch.fuse(*sch.loops("A_shared")[-2:], name="f").split("f", [None, 16, 4])
    sch = sch.vectorize("f_2").bind("f_1", "threadIdx.x")
    assert_right(mlc.parse(MATMUL), sch.mod)


def test_of_shared_memory_a_thread_computes_what_all_need():
    late, early = tiled().compute_at("A_shared", "k_0"), tiled().bind("t", "threadIdx.x")
    early = early.compute_at("A_shared", "k_0")
    apart = tiled("local").bind("t", "threadIdx.x").compute_at("A_local", "k_0")
    around = ["i_0", "j_0", "t", "k_0"]
    for sch, block, count in ((late, "A_shared", 1), (early, "A_shared", 2), (apart, "A_local", 1)):
        assert sch.loops(block)[:4] == around and len(sch.loops(block)) == 4 + count
        assert_right(mlc.parse(MATMUL), sch.mod)


def test_what_differs_between_threads_is_not_done_together():
    sch = tiled().compute_at("A_shared", "k_0").bind("t", "threadIdx.x")
    sch = sch.split(sch.loops("A_shared")[-1], [1, 4]).add_unit_loop("A_shared")
    wide = sch.split("unit", [1, 16])
    refuses("E141", lambda: wide.bind("unit_1", "threadIdx.x"), "not the same for all threads")


def test_a_step_may_not_take_apart_what_threads_do_together():
    sch = tiled().bind("t", "threadIdx.x").compute_at("A_shared", "k_0")
    sch = sch.fuse(*sch.loops("A_shared")[-2:], name="f").bind("f", "threadIdx.x")
    refuses("E141", lambda: sch.set_scope("A_shared", "A_shared", "local"), "is not shared")


TOGETHER = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), N: T.Buffer((1,), "int64"), C: T.Buffer((4, 8), "int32")):
    X = T.alloc_buffer((8,), "int32", scope="{scope}")
    Y = T.alloc_buffer((8,), "int32")
    for b in range(4):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            Y[0] = A[3]
            {condition}
                for r in range({extent}):
                    for u in range(8):
                        X[u] = {value}
                    {other}
                    C[b, t] = X[7 - t] + X[t] + Y[0]
"""
PLAIN = {
    "scope": "shared",
    "extent": "2",
    "condition": "if True:",
    "value": "A[u] * 2 + T.cast(r + b, 'int32')",
    "other": "C[b, t] = 0",
}


def test_threads_fetch_together_in_plain_loops():
    mod = mlc.parse(TOGETHER.format(**PLAIN))
    for scope in ("shared", "shared.dyn"):
        mod = mlc.parse(TOGETHER.format(**{**PLAIN, "scope": scope}))
        assert_right(mod, mlc.Schedule(mod).bind("u", "threadIdx.x").mod)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"scope": "local"}, "the local buffer X is not shared"),
        ({"scope": "global"}, "the global buffer X is not shared"),
        ({"value": "A[u] + T.cast(t, 'int32')"}, "not the same for all threads"),
        ({"value": "A[(u + t) % 8]"}, "not the same for all threads"),
        ({"condition": "if t < 4:"}, "whether a thread comes"),
        ({"condition": "if A[0] > 0:"}, "whether a thread comes"),
        ({"extent": "t + 1"}, "whether a thread comes"),
        ({"extent": "N[0] % 2 + 1"}, "whether a thread comes"),
        ({"value": "A[u] + Y[0]"}, "reads Y, which single threads write"),
        ({"other": "X[t] = A[t]"}, "single threads write X"),
        ({"other": "X[0] = 5"}, "single threads write X"),
    ],
)
def test_what_threads_may_not_do_together(change, why):
    parts = {**PLAIN, **change}
    sch = mlc.Schedule(mlc.parse(TOGETHER.format(**parts)), check=False)
    refuses("E141", lambda: sch.bind("u", "threadIdx.x"), "are both threadIdx.x", why)


@pytest.mark.parametrize("axis", ["blockIdx.x", "vthread.x"])
def test_only_threads_of_a_block_meet(axis):
    text = TOGETHER.format(**PLAIN).replace("threadIdx.x", axis)
    refuses("E141", lambda: mlc.Schedule(mlc.parse(text)).bind("u", axis), "run there already")


def test_all_threads_of_all_axes_fetch_together():
    sch = tiled().split("t", [4, 4]).bind("t_0", "threadIdx.y").bind("t_1", "threadIdx.x")
    sch = sch.compute_at("A_shared", "k_0")
    rows, columns = sch.loops("A_shared")[-2:]
    assert_right(mlc.parse(MATMUL), sch.bind(columns, "threadIdx.x").mod)
    both = sch.bind(rows, "threadIdx.y").bind(columns, "threadIdx.x")
    assert_right(mlc.parse(MATMUL), both.mod)


THRICE = """
@T.prim_func
def main(A: T.Buffer((4,), "int32"), C: T.Buffer((2,), "int32")):
    X = T.alloc_buffer((4,), "int32", scope="shared")
    for t in T.thread_binding(2, thread="threadIdx.x"):
        for r in T.thread_binding(2, thread="threadIdx.x"):
            for u in range(2):
                X[r * 2 + u] = A[r * 2 + u]
        C[t] = X[3 - t]
"""


def test_in_a_nest_that_threads_run_together_an_axis_is_bound_once():
    """Else a thread would be two of its iterations at once."""
    sch = mlc.Schedule(mlc.parse(THRICE), check=False)
    refuses("E141", lambda: sch.bind("u", "threadIdx.x"), "u runs is not the same for all")


@pytest.mark.parametrize(("size", "threads"), [(28, 8), (28, 5), (25, 8), (7, 3)])
def test_each_block_reads_what_its_uneven_fetch_wrote(size, threads):
    mod = mlc.parse(STENCIL.replace("30", str(size + 2)).replace("28", str(size)))
    sch = mlc.Schedule(mod).split("i", [None, threads])
    sch = sch.bind("i_0", "blockIdx.x").bind("i_1", "threadIdx.x")
    sch = sch.cache_read("B", "A", "shared").compute_at("A_shared", "i_0")
    sch = sch.split("ax0", [None, threads]).bind("ax0_1", "threadIdx.x")
    assert_right(mod, sch.mod)
    assert_right(mod, sch.unroll("ax0_0").mod)


FETCHED = """
@T.prim_func
def main(A: T.Buffer((4, {size}), "int32"), C: T.Buffer((4, {size}), "int32")):
    X = T.alloc_buffer((4, {size}), "int32", scope="shared")
    for b in range({blocks}):
        for f in range({fetched}):
            if {guard}:
                X[{at}] = A[{at}]
        for t in range({size}):
            {read}
"""
ROW = {"size": 10, "blocks": 4, "fetched": 16, "guard": "f < 10", "at": "b, f"}
ROW["read"] = "C[b, t] = X[b, t] * 2"
TILE = {"size": 10, "blocks": 2, "fetched": 24, "guard": "f < 20", "at": "b * 2 + f // 10, f % 10"}
TILE["read"] = "C[b * 2, t] = X[b * 2, t] + X[b * 2 + 1, 9 - t]"


@pytest.mark.parametrize(
    "program",
    [
        ROW,
        {**ROW, "guard": "f * 2 < 20"},
        {**ROW, "guard": "f < 11 and f < 10"},
        TILE,
        {**TILE, "guard": "f // 10 < 2"},
        {**TILE, "guard": "b * 0 + f < 20"},
        {**TILE, "guard": "f < 20 and f % 10 < 10"},
        {**TILE, "size": 9, "guard": "f < 18", "at": "b * 2 + f // 9, f % 9",
         "read": "C[b * 2, t] = X[b * 2, t] + X[b * 2 + 1, 8 - t]"},
    ],
)  # fmt: skip
def test_a_guard_ends_what_a_fetch_writes(program):
    mod = mlc.parse(FETCHED.format(**program))
    sch = mlc.Schedule(mod).bind("b", "blockIdx.x")
    assert_right(mod, sch.bind("t", "threadIdx.x").mod)


@pytest.mark.parametrize(
    "program",
    [
        {**ROW, "guard": "f < 9"},
        {**ROW, "guard": "f * 2 < 19 and f < 9"},
        {**ROW, "guard": "f + b < 10"},
        {**ROW, "guard": "f + 1 < 10"},
        {**ROW, "guard": "f >= 1 and f < 10"},
        {**ROW, "at": "0, f", "read": "C[b, t] = X[0, 9 - t] + X[1, t]"},
        {**TILE, "guard": "f < 19"},
        {**TILE, "guard": "f // 10 < 1"},
        {**TILE, "guard": "f % 10 < 9 and f < 20"},
        {**TILE, "guard": "f // 10 + f % 10 < 9 and f < 20"},
    ],
)
def test_a_guard_that_ends_too_early(program):
    """Each block may read what another one wrote, or nobody."""
    program = {**program, "at": program["at"].replace("b * 2 + ", "").replace("b, ", "0, ")}
    read = program["read"].replace("b * 2 + 1,", "1,").replace("X[b * 2,", "X[0,")
    read = read.replace("X[b,", "X[0,")
    try:
        mod = mlc.parse(FETCHED.format(**{**program, "read": read}))
        sch = mlc.Schedule(mod, check=False)
    except mlc.VerifyError as error:
        assert error.code == "E131"
        return
    refuses("E104", lambda: sch.bind("b", "blockIdx.x"), "carries a dependence through X")


SUMS = """
@T.prim_func
def main(A: T.Buffer((4, 12), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("S{kind}", [i, k]){where}{init}
            C[vi] = {value}{more}
"""
INIT = "\n            with T.init():\n                C[vi] = {}"
SUM = {"kind": "R", "where": "", "init": INIT.format(0), "value": "C[vi] + A[vi, vk]", "more": ""}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"value": "C[vi] + A[vi, vk] + 2"},
        {"value": "T.max(C[vi], A[vi, vk])", "init": INIT.format(-99)},
        {"init": ""},
        {"where": "\n            T.where(k < 7)"},
    ],
)
def test_threads_combine_values(change):
    mod = mlc.parse(SUMS.format(**{**SUM, **change}))
    sch = mlc.Schedule(mod).bind("i", "blockIdx.x")
    assert_right(mod, sch.bind("k", "threadIdx.x").mod)
    part = sch.split("k", [None, 5])
    assert_right(mod, part.bind("k_0", "threadIdx.x").bind("k_1", "threadIdx.y").mod)


@pytest.mark.parametrize(("shape", "threads"), [((5, 9), 8), ((6, 4), 7), ((3, 2), 8)])
def test_threads_combine_what_a_fused_loop_was_cut_into(shape, threads):
    rows, columns = shape
    mod = mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer(({rows}, {columns}), "int32"), C: T.Buffer((1,), "int32")):
    for i, j, k in T.grid(1, {rows}, {columns}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vj, vk]
""")
    sch = mlc.Schedule(mod).fuse("j", "k", name="jk").split("jk", [None, threads])
    assert_right(mod, sch.bind("jk_1", "threadIdx.x").mod)
    assert_right(mod, sch.reorder("jk_1", "jk_0").bind("jk_1", "threadIdx.x").mod)
    assert_right(mod, sch.decompose_reduction("C", "jk_0").bind("jk_1", "threadIdx.x").mod)


@pytest.mark.parametrize(
    "change",
    [
        {"value": "A[vi, vk] - C[vi]", "kind": "O"},
        {"value": "C[vi] * 2 + A[vi, vk]", "kind": "O"},
        {"value": "C[vi] + A[vi, vk]", "kind": "O"},
        {"more": "\n            D[vi] = C[vi]", "kind": "O"},
        {"where": "\n            T.where(C[i] < 9)"},
        {"where": "\n            T.where(k >= 2)"},
    ],
)
def test_what_threads_cannot_combine(change):
    mod = mlc.parse(SUMS.format(**{**SUM, **change}))
    refuses("E104", lambda: mlc.Schedule(mod, check=False).bind("k", "threadIdx.x"))


@pytest.mark.parametrize("axis", ["blockIdx.x", "vthread.x", "blockIdx.z"])
def test_only_threads_of_a_block_combine(axis):
    sch = mlc.Schedule(mlc.parse(SUMS.format(**SUM)))
    error = refuses("E104", lambda: sch.bind("k", axis), "k is a reduction loop")
    assert f'sch.bind("i", "{axis}")' in str(error)
    refuses("E104", lambda: sch.bind("i", "blockIdx.y").parallel("k"))


def test_a_sum_is_not_read_before_all_threads_came():
    text = SUMS.format(**SUM) + "        D[i] = C[i] + D[i]\n"
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E104", lambda: sch.bind("k", "threadIdx.x"))


def test_a_sum_that_runs_anew_in_each_thread_is_not_one_sum():
    text = SUMS.format(**SUM).replace("i, k in T.grid(4, 12)", "i, u, k in T.grid(4, 3, 12)")
    refuses("E104", lambda: mlc.Schedule(mlc.parse(text), check=False).bind("u", "threadIdx.x"))


OWNED = """
@T.prim_func
def main(A: T.Buffer((4, 10), "int32"), C: T.Buffer((4, 10), "int32")):
    X = T.alloc_buffer((4, 4), "int32")
    for b in range(4):
        for f in range({written}):
            {guard}
                X[{at}] = A[b, f]
        for t in range({read}):
            C[b, t] = {value}
"""
UNEVEN = {"written": 10, "guard": "if True:", "at": "f // 4, f % 4", "read": 10}
UNEVEN["value"] = "X[t // 4, t % 4]"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"value": "X[(9 - t) // 4, (9 - t) % 4]"},
        {"read": 6, "value": "X[(t + 4) // 4, (t + 4) % 4] + X[t // 4, t % 4]"},
        {"written": 12, "guard": "if f < 10:"},
        {"at": "(f + 3) // 4, (f + 3) % 4", "value": "X[(t + 3) // 4, (t + 3) % 4]"},
        {"at": "f % 3, f // 3", "value": "X[t % 3, t // 3]"},
    ],
)
def test_what_is_read_in_the_form_that_it_was_written_in(change):
    mod = mlc.parse(OWNED.format(**{**UNEVEN, **change}))
    assert_right(mod, mlc.Schedule(mod).parallel("b").mod)


@pytest.mark.parametrize(
    "change",
    [
        {"written": 9},
        {"value": "X[(t + 1) // 4, (t + 1) % 4]"},
        {"value": "X[t // 4, (t + 1) % 4]"},
        {"value": "X[t // 5, t % 5 % 4]"},
        {"written": 12, "guard": "if f < 9:", "at": "f // 4, f % 4"},
        {"guard": "if A[b, 0] > 0:"},
        {"guard": "if f > 0:"},
        {"written": "b + 7"},
        {"at": "f // 4, (f + b) % 4"},
    ],
)
def test_another_form_or_fewer_elements(change):
    text = OWNED.format(**{**UNEVEN, **change})
    try:
        mod = mlc.parse(text.replace("A[b, f]", "A[b, f % 10]"))
        sch = mlc.Schedule(mod, check=False)
    except mlc.VerifyError as error:
        assert error.code == "E131"
        return
    refuses("E104", lambda: sch.parallel("b"), "carries a dependence through X")


EXCHANGE = """
@T.prim_func
def main(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32")):
    s = T.alloc_buffer((64,), "int32", scope="shared")
    for t in T.thread_binding(64, thread="{axis}"):
        with T.block("s"):
            v = T.axis.spatial(64, t)
            s[v] = x[v]
        with T.block("y"):
            v = T.axis.spatial(64, t)
            y[v] = s[63 - v]
"""


@pytest.mark.parametrize(
    ("axis", "hint"),
    [("threadIdx.x", "two loops bound to threadIdx.x"), ("blockIdx.x", "make t a serial loop")],
)
def test_threads_that_exchange_elements_need_a_loop_before_and_after(axis, hint):
    """There they wait for each other; blocks do not."""
    refuses("E104", lambda: mlc.verify(mlc.parse(EXCHANGE.format(axis=axis))), hint)
