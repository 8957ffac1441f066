"""Programs on which a primitive or the lowering once lied."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.lower.lower import lower
from minimlc.loops.values.module import IRModule
from tests.helpers import assert_close, assert_same, copies, random_args, refuses

HEAD = '@T.prim_func\ndef main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):\n'
SUM = """
{pad}with T.block("C"):
{pad}    vi, vk = T.axis.remap("{kinds}", [i, k])
{pad}    with T.init():
{pad}        C[{start}] = {first}
{pad}    C[vi] = C[vi] + A[vi, vk]
"""


def reduction(pad: int, kinds: str = "SR", start: str = "vi", first: str = "0") -> str:
    return SUM.format(pad=" " * pad, kinds=kinds, start=start, first=first)


def assert_compiles_to_the_same(before: IRModule, after: IRModule) -> None:
    main = before["main"]
    assert isinstance(main, PrimFunc)
    args = random_args(main, np.random.default_rng(0))
    expected = copies(args)
    mlc.interpret(before, "main", *expected)
    for target in ("llvm", "python"):
        got = copies(args)
        mlc.build(after, target=target, cache=False)["main"](*got)
        for a, b in zip(got, expected, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("condition", ["k > 1", "A[i, 0] > 0"])
def test_decompose_refuses_an_init_under_a_condition(condition):
    text = f"{HEAD}    for i, k in T.grid(8, 4):\n        if {condition}:{reduction(12)}"
    refuses("E113", lambda: mlc.Schedule(mlc.parse(text)).decompose_reduction("C", at="k"))


def test_decompose_refuses_an_init_that_reads_what_the_loop_writes():
    text = (
        HEAD.replace("C:", 'D: T.Buffer((8,), "int32"), C:')
        + "    for i in range(8):\n"
        + '        with T.block("D"):\n'
        + "            v = T.axis.spatial(8, i)\n"
        + "            D[v] = A[v, 0] * 3\n"
        + f"        for k in range(4):{reduction(12, first='D[vi]')}"
    )
    sch = mlc.Schedule(mlc.parse(text))
    refuses("E114", lambda: sch.decompose_reduction("C", at="i"), "D is used")
    assert_same(sch.mod, sch.decompose_reduction("C", at="k").mod)


def test_decompose_refuses_to_gather_the_inits_of_ordered_instances():
    text = f"{HEAD}    for i, k in T.grid(8, 4):{reduction(8, kinds='OR', start='7 - vi')}"
    sch = mlc.Schedule(mlc.parse(text))
    refuses("E114", lambda: sch.decompose_reduction("C", at="i"), "in order")


def test_cache_write_refuses_an_init_that_reads_the_output():
    text = f"{HEAD}    for i, k in T.grid(8, 4):{reduction(8, first='C[vi] * 2')}"
    sch = mlc.Schedule(mlc.parse(text))
    refuses("E117", lambda: sch.cache_write("C", "C"), "starts from")


def test_reverse_compute_inline_refuses_to_lose_a_condition():
    text = """@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    Y = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = A[v] * 3
    if A[0] > 100:
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = Y[v] + 1
"""
    refuses("E113", lambda: mlc.Schedule(mlc.parse(text)).reverse_compute_inline("C"))


UNDER_ONE_CONDITION = """@T.prim_func
def main(F: T.Buffer((8,), "int32"), A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    X = T.alloc_buffer((1,), "int32")
    for i in range(8):
        if F[i] > 0:
            X[0] = A[i]
        F[i] = {new}
        if F[i] > 0:
            C[i] = X[0]
"""


def test_a_buffer_is_not_private_by_a_condition_that_changes():
    text = UNDER_ONE_CONDITION.format(new="F[i] + 1")
    refuses("E104", lambda: mlc.Schedule(mlc.parse(text)).parallel("i"))
    kept = mlc.parse(text.replace("        F[i] = F[i] + 1\n", ""))
    assert_same(kept, mlc.Schedule(kept).parallel("i").mod)


def test_a_buffer_is_not_private_by_an_init_that_may_not_run():
    text = """@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32")):
    X = T.alloc_buffer((1,), "int32")
    for i in range(8):
        for k in range(4):
            if i == 0 or k > 0:
                with T.block("X"):
                    v = T.axis.spatial(1, 0)
                    vk = T.axis.reduce(4, k)
                    with T.init():
                        X[v] = 0
                    X[v] = X[v] + A[i, vk]
                C[i, k] = X[0]
"""
    mod = mlc.parse(text)
    refuses("E104", lambda: mlc.Schedule(mod).parallel("i"))
    assert_compiles_to_the_same(mod, mod)


IN_PARTS = """@T.prim_func
def main(A: T.Buffer((4, 4, 10), "int32"), C: T.Buffer((4, 4, 10), "int32")):
    X = T.alloc_buffer((4, 10), "int32")
    for i in range(4):
        if i == 0:
            for k, j in T.grid(4, 10):
                X[k, j] = 7
        for k, j in T.grid({first}):
            X[k, j] = A[i, k, j]
        for k, j in T.grid({second}):
            if {guard}:
                X[k + {down}, j + {right}] = A[i, k + {down}, j + {right}]
        for k, j in T.grid(4, 10):
            C[i, k, j] = X[k, j]
"""


@pytest.mark.parametrize(
    "first, second, down, right, guard",
    [
        ("4, 6", "4, 4", 0, 6, "j < 4"),
        ("4, 6", "4, 5", 0, 5, "k < 4"),
        ("4, 6", "4, 6", 0, 6, "j + 6 < 10"),
        ("3, 10", "1, 10", 3, 0, "True"),
    ],
)
def test_a_buffer_is_private_by_writes_side_by_side(first, second, down, right, guard):
    sizes = {"first": first, "second": second, "down": down, "right": right, "guard": guard}
    mod = mlc.parse(IN_PARTS.format(**sizes))
    sch = mlc.Schedule(mod).parallel("i")
    assert "X = T.alloc_buffer" in lower(sch.func).script().split("T.parallel")[1]
    assert_same(mod, sch.mod)


@pytest.mark.parametrize(
    "first, second, down, right, guard",
    [
        ("4, 6", "4, 3", 0, 7, "True"),
        ("4, 6", "4, 4", 0, 6, "j + 6 < 9"),
        ("4, 6", "3, 4", 0, 6, "True"),
        ("4, 6", "2, 10", 2, 0, "True"),
        ("4, 6", "4, 4", 0, 6, "A[i, 0, 0] > 0"),
    ],
)
def test_a_buffer_is_not_private_by_writes_with_a_gap(first, second, down, right, guard):
    sizes = {"first": first, "second": second, "down": down, "right": right, "guard": guard}
    mod = mlc.parse(IN_PARTS.format(**sizes))
    refuses("E104", lambda: mlc.Schedule(mod).parallel("i"))
    assert_compiles_to_the_same(mod, mod)


GUARDED_READ = """@T.prim_func
def main(A: T.Buffer((6, 10), "int32"), C: T.Buffer((6, 12), "int32")):
    X = T.alloc_buffer((60,), "int32")
    for i in range(6):
        for a, b in T.grid(3, 4):
            if a * 4 + b < {written}:
                X[i * 10 + a * 4 + b] = A[i, a * 4 + b]
        for a, b in T.grid(4, 3):
            if {guard}:
                C[i, a * 3 + b] = X[i * 10 + a * 3 + b]
"""


@pytest.mark.parametrize("guard", ["a * 3 + b < 10", "a * 3 + b < 9", "a * 6 + b * 2 < 20"])
def test_a_guard_says_how_far_a_read_reaches(guard):
    mod = mlc.parse(GUARDED_READ.format(written=10, guard=guard))
    text = lower(mlc.Schedule(mod).parallel("i").func).script()
    assert (
        "X = T.alloc_buffer((60,)" not in text
        and "X = T.alloc_buffer" in text.split("T.parallel")[1]
    )
    assert_compiles_to_the_same(mod, mlc.Schedule(mod).parallel("i").mod)


def test_a_read_that_reaches_too_far_needs_what_came_before():
    """Of its own ten elements nine are written, the tenth is not: X stays that of the function."""
    text = GUARDED_READ.replace(
        "    for i in range(6):",
        """    for k in range(60):
        X[k] = 5
    for i in range(6):""",
    )
    mod = mlc.parse(text.format(written=9, guard="a * 3 + b < 10"))
    sch = mlc.Schedule(mod).parallel("i")
    assert "T.alloc_buffer((60,)" in lower(sch.func).script().split("T.parallel")[0]
    assert_compiles_to_the_same(mod, sch.mod)


def test_a_loop_that_feeds_no_iter_repeats_a_block_whatever_its_guard_says():
    mod = mlc.parse("""@T.prim_func
def main(A: T.Buffer((3, 1), "int32"), C: T.Buffer((3,), "int32")):
    for b, c in T.grid(3, 3):
        with T.block("C"):
            v0 = T.axis.spatial(3, b)
            v1 = T.axis.reduce(1, 0)
            T.where(c * 2 >= 3)
            with T.init():
                C[v0] = 0
            C[v0] = C[v0] + A[v0, v1]
""")
    sch = mlc.Schedule(mod, check=False)
    refuses("E114", lambda: sch.decompose_reduction("C", "b"), 'each iteration of "c"')


def test_what_a_condition_says_is_forgotten_when_its_data_change():
    text = """@T.prim_func
def main(A: T.Buffer((1,), "int64"), C: T.Buffer((1,), "int32")):
    if A[0] < 20 and A[0] >= -20:
        A[0] = 30
        if A[0] < 20:
            C[0] = 100
"""
    assert_compiles_to_the_same(mlc.parse(text), mlc.parse(text))


SPLIT = """@T.prim_func
def main(P: T.Buffer((8,), "int64"), C: T.Buffer((8,), "int32")):
    for i in range(8):
{body}"""


@pytest.mark.parametrize(
    "body",
    [
        "        for j in range(P[i] % 3):\n            C[i] = C[i] - 1\n",
        '        with T.block("C"):\n'
        "            v = T.axis.spatial(8, i)\n"
        "            T.where(P[i] > 0)\n"
        "            C[v] = C[v] - 1\n",
        '        with T.block("C"):\n'
        "            T.where(P[i] >= 0 and P[i] < 8)\n"
        "            v = T.axis.opaque(8, P[i])\n"
        "            C[v] = C[v] - 1\n",
    ],
)
def test_split_reads_nothing_beyond_its_loop(body):
    mod = mlc.parse(SPLIT.format(body=body))
    uneven = mlc.Schedule(mod).split("i", [None, 3])
    assert_same(mod, uneven.mod)
    assert_compiles_to_the_same(mod, uneven.mod)


def test_a_block_may_not_write_what_its_iters_read():
    text = """@T.prim_func
def main(N: T.Buffer((7,), "int64"), C: T.Buffer((9,), "int32")):
    for i in range(7):
        with T.block("C"):
            T.where(N[i] < 9 and N[i] >= 0)
            v = T.axis.opaque(9, N[i])
            N[i] = 2
            C[v] = C[v] * 2 - 1
"""
    refuses("E106", lambda: mlc.Schedule(mlc.parse(text)), "writes what")


def test_an_init_of_another_element_starts_nothing():
    text = """@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32"), D: T.Buffer((1,), "int32")):
    X = T.alloc_buffer((2,), "int32")
    for i, j in T.grid(4, 6):
        if i == 0 and j == 0:
            X[0] = 0
        with T.block("X"):
            vj = T.axis.reduce(6, j)
            with T.init():
                X[1] = 3
            X[0] = X[0] + A[i, vj]
        C[i, j] = X[0]
    for k in range(6):
        with T.block("D"):
            vk = T.axis.reduce(6, k)
            with T.init():
                C[0, 0] = 3
            D[0] = D[0] + A[0, vk]
"""
    sch = mlc.Schedule(mlc.parse(text))
    refuses("E104", lambda: sch.parallel("i"))
    refuses("E117", lambda: sch.cache_write("D", "D"), "starts from")
    assert_compiles_to_the_same(sch.mod, sch.mod)


def test_a_sum_that_starts_anew_in_order_stays_in_order():
    text = f"{HEAD}    for i, k in T.grid(8, 4):{reduction(8, kinds='OR', start='0')}"
    mod = mlc.parse(text.replace("C[vi]", "C[0]"))
    refuses("E109", lambda: mlc.Schedule(mod).reorder("k", "i"))


def test_arguments_of_another_kind_are_refused():
    sch = mlc.Schedule(mlc.parse(SPLIT.format(body="        C[i] = 3\n")))
    refuses("E118", lambda: sch.apply("split", "i", 4), "a list")
    refuses("E118", lambda: sch.apply("vectorize", ["i"]), "must be a name")
    refuses("E118", lambda: sch.apply("cache_read", "C", ["A"]), "must be a name")


def test_a_split_loop_of_one_iteration_stays_in_range_under_a_condition_on_data():
    text = """@T.prim_func
def main(A: T.Buffer((6, 2), "int32"), C: T.Buffer((6, 2), "int32")):
    if A[0, 0] > 0:
        for i, j in T.grid(6, 2):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + 2
"""
    before = mlc.parse(text)
    sch = mlc.Schedule(before, check=False).split("i", [1, 6]).split("i_0", [None, 2])
    mlc.verify(sch.mod)
    assert_same(before, sch.mod)


def test_reverse_compute_inline_refuses_to_take_a_diagonal_for_the_whole():
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    Y = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = A[vi, vj] + 1
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = Y[vi, vi]
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E115", lambda: sch.reverse_compute_inline("C"), "in between")


FUSED_PARTS = """@T.prim_func
def main(A: T.Buffer((2, 8), "int32"), C: T.Buffer((2, 2), "int32")):
    X = T.alloc_buffer((2, 2), "int32")
    for i, ko, f in T.grid(2, 2, 8):
        with T.block("X"):
            vi = T.axis.spatial(2, i)
            vj = T.axis.spatial(2, f // 4)
            vk = T.axis.reduce(8, ko * 4 + f % 4)
            with T.init():
                X[vi, vj] = 0
            X[vi, vj] = X[vi, vj] + A[vi, vk]
    for x, y in T.grid(2, 2):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = X[vx, vy]
"""


def test_compute_at_repeats_no_value_of_a_loop_that_is_spatial_and_reduce():
    sch = mlc.Schedule(mlc.parse(FUSED_PARTS), check=False)
    refuses("E115", lambda: sch.compute_at("X", "y"), '"f"', "both")


def test_a_layout_of_what_an_inner_block_writes():
    text = """@T.prim_func
def main(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    X = T.alloc_buffer((4, 8), "int32")
    for io, jo in T.grid(2, 2):
        with T.block("X_tile"):
            vio, vjo = T.axis.remap("SS", [io, jo])
            for ii, ji in T.grid(2, 4):
                with T.block("X"):
                    wi, wj = T.axis.remap("SS", [ii, ji])
                    X[vio * 2 + wi, vjo * 4 + wj] = A[vio * 2 + wi, vjo * 4 + wj] * 2
    for i, j in T.grid(4, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = X[vi, vj]
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    for step in (
        lambda: sch.transform_layout("X", "X", "i, j -> j, i"),
        lambda: sch.storage_align("X", "X", 0, 4, offset=3),
    ):
        assert_compiles_to_the_same(sch.mod, step().mod)


def test_a_turned_block_proves_its_axes():
    text = """@T.prim_func
def main(C: T.Buffer((3, 4), "int32")):
    for i, j in T.grid(3, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = 2
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    flat = sch.transform_block_layout("C", "i, j -> i * 4 + j")
    try:
        mlc.verify(flat.transform_block_layout("C", "i -> i // 3, i % 3").mod)
    except mlc.ScheduleError as error:
        assert error.code == "E149"


@pytest.mark.parametrize(
    ("extents", "where", "steps"),
    [
        ("2, 1", "", [("split", "k", [8]), ("loop_partition", "k_0")]),
        ("0, 0", "", [("split", "k", [4])]),
        ("2, 1", "T.where(i >= 1)", [("split", "i", [2, 4]), ("loop_partition", "i_1")]),
    ],
)
def test_iters_of_a_block_that_never_runs_may_say_anything(extents, where, steps):
    text = f"""@T.prim_func
def main(A: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
    if A[0] > T.int32(0):
        for i, k in T.grid({extents}):
            with T.block("C"):
                vi = T.axis.spatial(2, i)
                vk = T.axis.reduce(2, k)
                {where}
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vk]
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    after = sch
    for primitive, *arguments in steps:
        after = after.apply(primitive, *arguments)
    mlc.verify(after.mod)
    assert_compiles_to_the_same(sch.mod, after.mod)


def test_a_copy_of_a_scalar_moves_into_a_loop():
    text = """@T.prim_func
def main(S: T.Buffer((), "int32"), D: T.Buffer((2,), "int32")):
    for j in range(2):
        with T.block("D"):
            vj = T.axis.spatial(2, j)
            D[vj] = S[()] + T.cast(vj, "int32")
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    moved = sch.cache_read("D", "S").compute_at("S_local", "j")
    assert len(moved.loops("S_local")) == 1
    assert_compiles_to_the_same(sch.mod, moved.mod)


def test_new_loops_are_named_apart_from_those_inside_their_block():
    text = """@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    block = sch.cache_read("C", "A").blockize("ax1")
    after = block.transform_block_layout("A_local_o", "i -> i // 2, i % 2")
    mlc.verify(after.mod)
    assert_compiles_to_the_same(sch.mod, after.mod)


def test_reindex_does_not_lose_which_write_came_last():
    text = """@T.prim_func
def main(I: T.Buffer((9,), "int64"), A: T.Buffer((9,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(9):
        with T.block("C"):
            vi = T.axis.opaque(9, i)
            C[I[vi] % 4] = A[vi]
"""
    sch = mlc.Schedule(mlc.parse(text), check=False)
    refuses("E117", lambda: sch.reindex("C", "C"), "several values of vi", "cache_inplace")
    assert_same(sch.mod, sch.cache_inplace("C", "C").mod)


LATE_INIT = """
@T.prim_func
def main(A: T.Buffer((4, 5, 5), "int32"), N: T.Buffer((5,), "int64"), C: T.Buffer((4, 5, 5), "int32")):
    X = T.alloc_buffer((5,), "int32")
    for t in range(4):
        if t == 0:
            for z in range(5):
                with T.block("first"):
                    vz = T.axis.spatial(5, z)
                    X[vz] = 0
        for i in range(5):
            for j in range({extent}):
                with T.block("sum"):
                    T.where(j < 5)
                    vj = T.axis.spatial(5, j)
                    vr = T.axis.reduce(5, i)
                    with T.init():
                        X[vj] = 100
                    X[vj] = X[vj] + A[t, i, vj]
                with T.block("C"):
                    T.where(j < 5)
                    wt = T.axis.spatial(4, t)
                    wi = T.axis.spatial(5, i)
                    wj = T.axis.spatial(5, j)
                    C[wt, wi, wj] = X[wj]
"""  # noqa: E501


@pytest.mark.parametrize("extent", ["i + 1", "N[i] % 2 + i"])
def test_an_init_that_a_loop_without_iterations_leaves_out_starts_nothing(extent):
    mod = mlc.parse(LATE_INIT.format(extent=extent))
    assert_compiles_to_the_same(mod, mod)
    refuses("E104", lambda: mlc.Schedule(mod).parallel("t"), "carries a dependence through X")


def test_an_init_whose_loop_has_the_most_iterations_at_first_comes_first():
    mod = mlc.parse(LATE_INIT.format(extent="5 - i"))
    assert_compiles_to_the_same(mod, mlc.Schedule(mod).parallel("t").mod)


CLIPPED = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        for j in range(8):
            if i == 0:
                B[j] = A[i, j] + T.float32(5)
        for j in range(8):
            if {guard}:
                B[j] = A[i, j]
        for j in range(8):
            C[i, j] = B[j]
"""
NEVER_CLIPS = [
    "T.float32(0.3) >= T.float32(0.5)",
    "T.int8(100) + T.int8(100) >= T.int8(0)",
    "j + 9223372036854775807 >= 9223372036854775807",
    "j - 9223372036854775807 - 3 < -9223372036854775800",
    "A[i, j] < T.float32('inf')",
    "A[i, j] < T.float32('nan')",
]
"""Conditions that exact arithmetic of whole numbers would take for a test of the buffer's ends."""


@pytest.mark.parametrize("guard", NEVER_CLIPS)
def test_a_guard_whose_arithmetic_wraps_or_rounds_clips_nothing(guard):
    mod = mlc.parse(CLIPPED.format(guard=guard))
    refuses("E104", lambda: mlc.Schedule(mod).parallel("i"))


def test_a_guard_of_the_ends_clips_only():
    assert mlc.Schedule(mlc.parse(CLIPPED.format(guard="j < 8"))).parallel("i")


@pytest.mark.parametrize("guard", NEVER_CLIPS)
def test_a_blocks_guard_that_wraps_or_rounds_stays(guard):
    mod = mlc.parse(
        '@T.prim_func\ndef main(A: T.Buffer((1, 8), "float32"), D: T.Buffer((8,), "float32")):\n'
        '    for i, j in T.grid(1, 8):\n        with T.block("D"):\n'
        '            vi, vj = T.axis.remap("SS", [i, j])\n'
        f"            T.where({guard})\n            D[vj] = A[vi, vj]\n"
    )
    sch = mlc.Schedule(mod, check=False)
    try:
        after = sch.transform_block_layout("D", lambda i, j: (i, j // 2, j % 2)).mod
    except mlc.ScheduleError:
        return
    assert_same(mod, after)


def test_an_inlined_value_reads_what_exists_where_it_goes():
    mod = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4, 4), "float32")):
    X = T.alloc_buffer((4, 4), "float32")
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            L = T.alloc_buffer((4,), "float32")
            for j in range(4):
                with T.block("L"):
                    vj = T.axis.spatial(4, j)
                    L[vj] = A[vj] + A[vi]
            for j in range(4):
                with T.block("X"):
                    v = T.axis.spatial(4, vi)
                    vj = T.axis.spatial(4, j)
                    X[v, vj] = L[vj]
    for i, j in T.grid(4, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = X[vi, vj]
""")
    sch = mlc.Schedule(mod, check=False)
    refuses("E115", lambda: sch.merge("i", "i1").compute_inline("X"))


def test_a_reindexed_copy_finds_its_index():
    mod = mlc.parse("""
@T.prim_func
def main(N: T.Buffer((4,), "int64"), A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    M = T.alloc_buffer((4,), "int64")
    for i in range(4):
        with T.block("M"):
            vi = T.axis.spatial(4, i)
            M[vi] = N[vi]
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[M[vi] % 4]
""")
    refuses("E117", lambda: mlc.Schedule(mod, check=False).reindex("C", "A"))


SCOPED = """
@T.prim_func
def main(A: T.Buffer((8, 6), "int32"), E: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    Y = T.alloc_buffer((8,), "int32")
    Z = T.alloc_buffer((8,), "int32")
    for i, k in T.grid(8, 6):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + A[vi, vk]
    with T.alloc_buffer((8,), "int32") as X:
        for i in range(8):
            with T.block("X"):
                vi = T.axis.spatial(8, i)
                X[vi] = Y[vi] + E[vi]
        for i in range(8):
            with T.block("Z"):
                vi = T.axis.spatial(8, i)
                Z[vi] = X[vi] * 2
    for j in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, j)
            C[vi] = Z[vi]
"""
RESTARTED = """
@T.prim_func
def main(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.alloc_buffer((8,), "int32") as X:
            for k in range(6):
                with T.block("X"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        X[vi] = 0
                    X[vi] = X[vi] + A[vi, vk]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = 0
"""


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (SCOPED, ("fuse_reduction_epilogue", "Y", "X")),
        (SCOPED, ("reverse_compute_at", "X", "i")),
        (SCOPED, ("compute_at", "Z", "j")),
        (RESTARTED, ("decompose_reduction", "X", "i")),
    ],
)
def test_no_block_leaves_the_scope_of_a_buffer(text, step):
    refuses("E101", lambda: mlc.Schedule(mlc.parse(text), check=False).apply(*step))


def test_what_is_not_finished_is_said_before_a_scope():
    sch = mlc.Schedule(mlc.parse(SCOPED), check=False)
    refuses("E113", lambda: sch.reverse_compute_at("X", "k"), "before it is finished")


@pytest.mark.parametrize("at", ["i", "k"])
@pytest.mark.parametrize(
    "first", ["A[i, 0]", "A[vi, k]", "A[vi, vk]", "T.Select(k < 1, A[vi, 1], 7)"]
)
def test_an_init_apart_knows_where_it_is(first, at):
    mod = mlc.parse(f"{HEAD}    for i, k in T.grid(8, 4):{reduction(8, first=first)}")
    assert_same(mod, mlc.Schedule(mod, check=False).decompose_reduction("C", at).mod)


@pytest.mark.parametrize("loop", ["i", "k"])
def test_the_init_of_a_tile_knows_where_it_is(loop):
    mod = mlc.parse(f"{HEAD}    for i, k in T.grid(8, 4):{reduction(8, first='A[vi, vk] * 3')}")
    assert_same(mod, mlc.Schedule(mod, check=False).blockize(loop).mod)


def test_an_extent_is_asked_for_when_it_was():
    mod = mlc.parse("""
@T.prim_func
def main(N: T.Buffer((24,), "int64")):
    for i in range(3):
        for j in range(T.min(N[9], 8)):
            with T.block("N"):
                vi = T.axis.spatial(3, i)
                vj = T.axis.spatial(8, j)
                N[vi * 8 + vj] = 1
""")
    refuses("E109", lambda: mlc.Schedule(mod, check=False).reorder("j", "i"), "extent")
