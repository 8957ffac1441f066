"""compute_inline of unread blocks; reverse_compute_inline of readers of another shape."""

import pytest

import minimlc as mlc
from tests.corpus.test_corpus import assert_right
from tests.helpers import assert_same, refuses

READ = """
@T.prim_func
def main(A: T.Buffer(({whole},), "int32"), C: T.Buffer(({part},), "int32")):
    B = T.alloc_buffer(({whole},), "int32")
    for i, j in T.grid({whole}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for x, y in T.grid({part}):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = {value}
"""


def read(whole, part, value):
    shapes = {"whole": ", ".join(map(str, whole)), "part": ", ".join(map(str, part))}
    return mlc.parse(READ.format(**shapes, value=value))


@pytest.mark.parametrize(
    ("whole", "part", "value"),
    [
        ((8, 6), (8, 6), "B[7 - vx, vy] + 1"),
        ((8, 6), (5, 6), "B[vx, vy] + 1"),
        ((8, 6), (5, 4), "B[vx + 3, vy + 1] - B[vx + 3, vy + 1]"),
        ((8, 6), (3, 6), "B[7 - vx, vy] + vx"),
        ((8, 6), (6, 5), "B[vy, vx] + 1"),
        ((1, 6), (6, 1), "B[0, vx]"),
        ((1, 6), (4, 1), "B[vy, vx + 2]"),
        ((8, 6), (4, 12), "B[vx * 2 + vy // 6, vy % 6]"),
        ((8, 6), (3, 12), "B[vx * 2 + vy // 6, vy % 6] + 1"),
    ],
)
def test_a_reader_of_some_elements(whole, part, value):
    mod = read(whole, part, value.replace("+ vx", "+ T.cast(vx, 'int32')"))
    new = mlc.Schedule(mod).reverse_compute_inline("C")
    assert new.blocks() == ["C"] and not new.func.allocs
    assert_same(mod, new.mod)


def test_a_reader_of_some_elements_on_every_target():
    mod = read((8, 6), (5, 4), "B[vx + 3, vy + 1] + 1")
    cut = mlc.Schedule(mod).split("i", [None, 3]).reverse_compute_inline("C")
    assert_right(mod, cut.mod)
    assert_right(mod, cut.parallel("i_0").vectorize("j").mod)


@pytest.mark.parametrize(
    ("whole", "part", "value", "why"),
    [
        ((8, 6), (4, 6), "B[vx * 2, vy]", "in between"),
        ((8, 6), (6, 1), "B[2, vx]", "in between"),
        ((8, 6), (8, 6), "B[vx // 2, vy]", "element for element"),
        ((8, 6), (16, 6), "B[vx % 8, vy]", "element for element"),
        ((8, 6), (5, 6), "B[vx, vy] + B[vx + 1, vy]", "element for element"),
        ((8, 6), (6, 6), "B[vx, vx]", "element for element"),
    ],
)
def test_a_reader_that_takes_elements_apart(whole, part, value, why):
    refuses("E115", lambda: mlc.Schedule(read(whole, part, value)).reverse_compute_inline("C"), why)


def test_a_reader_that_goes_on_beyond_its_producer():
    text = READ.format(whole="8, 6", part="8, 6", value="T.Select(vx < 5, B[vx, vy], 7)")
    mod = mlc.parse(
        text.replace("T.grid(8, 6)", "T.grid(5, 6)", 1).replace(
            "for x, y in T.grid(5", "for x, y in T.grid(8"
        )
    )
    refuses("E115", lambda: mlc.Schedule(mod).reverse_compute_inline("C"), "not within [5, 6]")


DEAD = """
@T.prim_func
def main(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    X = T.alloc_buffer((8,), "int32")
    Y = T.alloc_buffer((8,), "int32")
    for i, k in T.grid(8, 4):
        with T.block("X"):
            {block}
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = {value}
"""
SUM = """vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                X[vi] = 0
            X[vi] = X[vi] + A[vi, vk]"""
TWO = """vi, vk = T.axis.remap("SO", [i, k])
            X[vi] = A[vi, vk]
            Y[vi] = X[vi] + 1"""
SOME = """vi, vk = T.axis.remap("SO", [i, k])
            T.where(A[i, k] > 2)
            X[vi] = 1"""
OUT = """vi, vk = T.axis.remap("SO", [i, k])
            X[vi] = A[vi, vk]
            D[vi] = 1"""


@pytest.mark.parametrize("block", [SUM, TWO, SOME])
def test_what_nothing_reads_is_left_out(block):
    mod = mlc.parse(DEAD.format(block=block, value="A[vi, 1]"))
    for sch in (mlc.Schedule(mod), mlc.Schedule(mod).split("i", [None, 3]).unroll("k")):
        new = sch.compute_inline("X")
        assert new.blocks() == ["C"] and not new.func.allocs
        assert_same(mod, new.mod)


@pytest.mark.parametrize(
    ("block", "value"),
    [(SUM, "X[vi]"), (TWO, "Y[vi]"), (SOME, "T.Select(A[vi, 0] > 2, X[vi], 0)"), (OUT, "A[vi, 1]")],
)
def test_what_something_reads_stays(block, value):
    mod = mlc.parse(DEAD.format(block=block, value=value))
    refuses("E115", lambda: mlc.Schedule(mod).compute_inline("X"))


def programs(use: str, tail: str = "pass") -> mlc.IRModule:
    """Rows that are copied in the loop that works on them."""
    return mlc.parse(f"""
@T.prim_func
def main(A: T.Buffer((3, 4), "int32"), C: T.Buffer((3, 4), "int32"), D: T.Buffer((4,), "int32")):
    X = T.alloc_buffer((4,), "int32")
    for p in range(3):
        for i in range(4):
            with T.block("X"):
                vi = T.axis.spatial(4, i)
                X[vi] = A[p, vi] * 2
        for j in range(4):
            with T.block("C"):
                vj = T.axis.spatial(4, j)
                C[p, vj] = X[{use}] + X[vj]
    {tail}
""")


def test_a_value_of_a_loop_around_is_inlined_in_it():
    sch = mlc.Schedule(programs("3 - vj"))
    new = sch.compute_inline("X")
    assert new.blocks() == ["C"] and not new.func.allocs
    assert_same(sch.mod, new.mod)


def test_a_value_of_a_loop_is_not_inlined_behind_it():
    mod = programs("vj", "for m in range(4):\n        D[m] = X[m]")
    refuses("E115", lambda: mlc.Schedule(mod).compute_inline("X"), "loop variables directly")
