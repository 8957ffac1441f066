"""loop_partition and merge: consecutive loops from one, and one from neighbours."""

import pytest

import minimlc as mlc
from minimlc.loops.values.module import IRModule
from tests.corpus.test_corpus import assert_right
from tests.helpers import refuses


def program(body: str, params: str = 'A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32")'):
    return mlc.Schedule(mlc.parse(f"@T.prim_func\ndef main({params}):\n{body}"), check=False)


DOUBLE = """
    for i in range(10):
        with T.block("C"):
            v = T.axis.spatial(10, i)
            C[v] = A[v] * 2
"""
PADDED = """
    for i in range(10):
        with T.block("C"):
            v = T.axis.spatial(10, i)
            C[v] = T.if_then_else(v >= 2 and v < 9, A[v - 2], 0)
"""
TOTAL = """
    for k in range(10):
        with T.block("C"):
            v = T.axis.reduce(10, k)
            with T.init():
                C[0] = 0
            C[0] = C[0] + A[v]
"""
TRIANGLE = """
    for i in range(10):
        for j in range(10):
            if j <= i:
                C[i] = C[i] + A[j]
"""
LARGE = 9_000_000_000_000_000_000


def body_of(mod: IRModule) -> str:
    return mod["main"].script().split(":\n", 1)[1]


def test_partition_frees_the_main_loop_of_its_guard():
    sch = program(DOUBLE).split("i", [None, 4])
    new = sch.loop_partition("i_0")
    assert body_of(new.mod) == (
        "    for i_0, i_1 in T.grid(2, 4):\n"
        '        with T.block("C"):\n'
        "            v = T.axis.spatial(10, i_0 * 4 + i_1)\n"
        "            C[v] = A[v] * T.int32(2)\n"
        "    for i_0_tail, i_1_tail in T.grid(1, 4):\n"
        '        with T.block("C_tail"):\n'
        "            v1 = T.axis.spatial(10, i_1_tail + 8)\n"
        "            T.where(i_1_tail + 8 < 10)\n"
        "            C[v1] = A[v1] * T.int32(2)"
    )
    assert_right(sch.mod, new.mod)
    assert_right(sch.mod, new.vectorize("i_1").parallel("i_0").mod)


def test_partition_finds_both_ends_of_a_padding():
    sch = program(PADDED)
    new = sch.loop_partition("i")
    assert new.blocks() == ["C_head", "C", "C_tail"]
    assert [loop.extent.value for loop in mlc_loops(new)] == [2, 7, 1]
    assert_right(sch.mod, new.mod)


def mlc_loops(sch: mlc.Schedule) -> list:
    return list(sch.func.body.stmts)


@pytest.mark.parametrize("points", [[1], [9], [3, 4], [2, 5, 8]])
@pytest.mark.parametrize("body", [DOUBLE, PADDED, TOTAL, TRIANGLE])
def test_partition_keeps_the_meaning(body, points):
    sch = program(body)
    assert_right(sch.mod, sch.loop_partition(sch.loops(sch.blocks()[0])[0] if sch.blocks() else "i",
                                             points).mod)  # fmt: skip


def test_a_sum_starts_in_its_first_part_only():
    new = program(TOTAL).loop_partition("k", [4])
    assert new.mod.script().count("T.init") == 1
    assert new.blocks() == ["C_head", "C"]


def test_partition_of_a_triangle_counts_on_what_holds_for_every_row():
    sch = program(TRIANGLE)
    new = sch.loop_partition("j")
    assert "for j_head in range(1)" in new.mod.script()
    assert_right(sch.mod, new.mod)
    assert_right(sch.mod, sch.loop_partition("i", [5]).mod)


def test_partition_refuses_wrong_points():
    sch = program(DOUBLE)
    for points in ([], [0], [10], [5, 5], [6, 2], [True], "3", 3, [2.0], [None]):
        refuses("E118", lambda p=points: sch.loop_partition("i", p), "loop_partition")
    refuses("E118", lambda: sch.loop_partition("i"), "no condition")
    refuses("E119", lambda: sch.parallel("i").loop_partition("i", [3]))
    refuses("E105", lambda: sch.loop_partition("x", [3]))


def test_conditions_that_overflow_tell_nothing():
    body = f"""
    for i in range(10):
        if i * {LARGE} + {LARGE} < 5:
            C[i] = A[i]
"""
    sch = program(body)
    for step in (lambda: sch.loop_partition("i"), lambda: sch.loop_partition("i", [4])):
        try:
            assert_right(sch.mod, step().mod)
        except mlc.ScheduleError as error:
            assert error.code == "E118"


NEXT = """
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            A[v] = A[v] + 1
    for j in range(10):
        with T.block("C"):
            v = T.axis.spatial(10, j)
            C[v] = A[{index}] * 2
"""


def test_merge_runs_two_loops_as_one():
    sch = program(NEXT.format(index="v"))
    new = sch.merge("i", "j")
    assert body_of(new.mod) == (
        "    for i in range(10):\n"
        '        with T.block("B"):\n'
        "            v = T.axis.spatial(10, i)\n"
        "            A[v] = A[v] + T.int32(1)\n"
        '        with T.block("C"):\n'
        "            v = T.axis.spatial(10, i)\n"
        "            C[v] = A[v] * T.int32(2)"
    )
    assert_right(sch.mod, new.mod)
    assert_right(sch.mod, new.parallel("i").mod)


def test_merge_looks_behind_and_never_ahead():
    behind = program(NEXT.format(index="T.max(v - 1, 0)"))
    assert_right(behind.mod, behind.merge("i", "j").mod)
    ahead = program(NEXT.format(index="T.min(v + 1, 9)"))
    refuses("E109", lambda: ahead.merge("i", "j"), "A[1]", "i=1", "i=0")
    data = program(
        NEXT.format(index="P[v]"),
        'P: T.Buffer((10,), "int64"), A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32")',
    )
    refuses("E109", lambda: data.merge("i", "j"), "is not known")


SCRATCH = """
    for i in range(10):
        X[0] = A[i]
        C[i] = X[0]
    for j in range(10):
        C[j] = C[j] + X[0]
"""


def test_merge_keeps_a_shared_element_apart():
    params = 'A: T.Buffer((10,), "int32"), C: T.Buffer((10,), "int32"), X: T.Buffer((1,), "int32")'
    refuses("E109", lambda: program(SCRATCH, params).merge("i", "j"), "X")


def test_merge_of_nests_goes_from_outside_in():
    nests = """
    for i, j in T.grid(4, 6):
        A[i, j] = A[i, j] + 1
    for x, y in T.grid(4, 6):
        C[x, y] = A[x, y] * A[x, 0]
"""
    sch = program(nests, 'A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")')
    refuses("E116", lambda: sch.merge("x", "i"), "directly behind")
    assert_right(sch.mod, sch.merge("j", "y").mod)
    rows = sch.merge("i", "x")
    assert_right(sch.mod, rows.mod)
    assert_right(sch.mod, rows.merge("j", "y").mod)


def test_merge_of_three():
    body = "".join(
        f"    for {loop} in range(10):\n        C[{loop}] = C[{loop}] * 3 + A[{loop}]\n"
        for loop in "ijk"
    )
    sch = program(body)
    assert_right(sch.mod, sch.merge("i", "j", "k").mod)
    refuses("E116", lambda: sch.merge("i", "k", "j"))
    refuses("E118", lambda: sch.merge("i"))
    refuses("E118", lambda: sch.merge("i", "i"))


def test_merge_wants_one_extent():
    body = "    for i in range(10):\n        C[i] = 1\n    for j in range(9):\n        C[j] = 2\n"
    refuses("E118", lambda: program(body).merge("i", "j"), "10", "9")
