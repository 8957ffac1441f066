"""An uneven split beyond the end: guards, padding, and extents that are not constant."""

import pytest

import minimlc as mlc
from tests.corpus.test_corpus import assert_right
from tests.helpers import refuses

CHAIN = """@T.prim_func
def main(A: T.Buffer((10, 6), "int32"), C: T.Buffer((10, 6), "int32")):
    X = T.alloc_buffer((10, 6), "int32")
    Y = T.alloc_buffer((10, 6), "int32")
    for i, j in T.grid(10, 6):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = A[vi, vj] + 1
    for i, j in T.grid(10, 6):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = X[vi, vj] * X[vi, 0]
    for i, j in T.grid(10, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = Y[vi, vj] - 3
"""
MATMUL = """@T.prim_func
def main(A: T.Buffer((10, 5), "float32"), B: T.Buffer((5, 7), "float32"),
         C: T.Buffer((10, 7), "float32")):
    for i, j, k in T.grid(10, 7, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def schedule(text: str) -> mlc.Schedule:
    return mlc.Schedule(mlc.parse(text), check=False)


def test_a_padded_loop_runs_without_a_guard():
    sch = schedule(CHAIN)
    new = sch.split("i1", [None, 4], tail="pad")
    text = new.mod.script()
    assert "T.where" not in text and 'Y = T.alloc_buffer((12, 6), "int32")' in text
    assert 'X = T.alloc_buffer((12, 6), "int32")' in text
    assert "= T.axis.spatial(12, i1_0 * 4 + i1_1)" in text
    assert_right(sch.mod, new.mod)
    assert_right(sch.mod, new.vectorize("i1_1").parallel("i1_0").mod)


def test_padding_leaves_guards_where_parameters_are_touched():
    sch = schedule(MATMUL).cache_read("C", "A").cache_read("C", "B").cache_write("C", "C")
    padded = sch.split("i", [None, 4], tail="pad").split("j", [None, 4], tail="pad")
    assert "T.where" not in padded.mod.script()
    assert 'C_local = T.alloc_buffer((12, 8), "float32"' in padded.mod.script()
    tiles = padded.reorder("i_0", "j_0", "k", "i_1", "j_1").decompose_reduction("C", at="k")
    assert_right(sch.mod, tiles.vectorize("j_1").mod)
    refuses("E140", lambda: sch.split("ax0", [None, 4], tail="pad"), "parameter A")
    refuses("E140", lambda: sch.split("k", [None, 2], tail="pad"), "spatial")


def test_padding_refuses_what_would_be_seen():
    sch = schedule(CHAIN)
    refuses("E140", lambda: sch.split("i", [None, 4], tail="pad"), "reads the parameter A")
    refuses("E140", lambda: sch.split("i2", [None, 4], tail="pad"), "writes the parameter C")
    twice = sch.split("i1", [None, 4], tail="pad")
    assert twice.split("i1_0", [None, 3], tail="pad").mod is not None
    refuses("E118", lambda: sch.split("i", [None, 4], tail="padded"), '"pad"')


OVERLAP = """@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((12,), "int32")):
    X = T.alloc_buffer((12,), "int32")
    for i in range(12):
        with T.block("X"):
            v = T.axis.spatial(12, i)
            X[v] = A[v]
    for i in range(10):
        with T.block("Y"):
            v = T.axis.spatial(10, i)
            X[v] = X[v] * 2
    for i in range(12):
        with T.block("C"):
            v = T.axis.spatial(12, i)
            C[v] = X[v]
"""


def test_padding_does_not_write_over_what_is_there():
    refuses("E140", lambda: schedule(OVERLAP).split("i1", [None, 4], tail="pad"), "X holds more")


@pytest.mark.parametrize(
    "value",
    [
        "X[P[vi]]",
        "A[0] // X[vi]",
        "T.if_then_else(X[vi] > 0, A[0], A[1])",
        "X[9 - vi]",
        "X[vi] + A[vi]",
        'X[vi] // T.cast(10 - vi, "int32")',
        'X[vi] % T.cast(10 - vi, "int32")',
        'X[vi] + T.cast(12 // (10 - vi), "int32")',
        "T.if_then_else(vi < 10, X[vi], A[0] // A[1])",
    ],
)
def test_padding_keeps_garbage_to_itself(value):
    text = f"""@T.prim_func
def main(A: T.Buffer((10,), "int32"), P: T.Buffer((10,), "int64"), C: T.Buffer((10,), "int32")):
    X = T.alloc_buffer((10,), "int32")
    Y = T.alloc_buffer((10,), "int32")
    for i in range(10):
        X[i] = A[i] * 0 + 3
    for i in range(10):
        with T.block("Y"):
            vi = T.axis.spatial(10, i)
            Y[vi] = {value}
    for i in range(10):
        C[i] = Y[i]
"""
    refuses("E140", lambda: schedule(text).split("i1", [None, 4], tail="pad"))


def test_what_padding_reads_beyond_the_end_is_not_inlined():
    sch = schedule(CHAIN)
    padded = sch.split("i1", [None, 4], tail="pad")
    refuses("E115", lambda: padded.compute_inline("X"), "may be read", '"X" does not write')
    inlined = sch.compute_inline("X").split("i1", [None, 4])
    assert_right(sch.mod, inlined.mod)
    assert_right(sch.mod, padded.compute_inline("Y").mod)
    assert_right(sch.mod, padded.compute_at("X", "i1_0").mod)


RAGGED = """@T.prim_func
def main(N: T.Buffer((6,), "int64"), A: T.Buffer((6, 9), "int32"), C: T.Buffer((6, 9), "int32")):
    for i in range(6):
        for j in range({extent}):
            with T.block("C"):
                vi = T.axis.spatial(6, i)
                vj = T.axis.spatial(9, j)
                C[vi, vj] = A[vi, vj] * 2
"""


@pytest.mark.parametrize("extent", ["i + 1", "N[i] % 9", "i - 3", "T.min(i * 2, 9)", "9 - i"])
@pytest.mark.parametrize("factors", [[None, 4], [None, 2, 2], [None, 1]])
def test_a_split_of_a_loop_whose_extent_varies(extent, factors):
    sch = schedule(RAGGED.format(extent=extent))
    new = sch.split("j", factors)
    assert_right(sch.mod, new.mod)
    assert_right(sch.mod, new.parallel("i").mod)


@pytest.mark.parametrize("first", [4, 7])
def test_an_uneven_split_of_a_part_of_a_large_nest_is_known_to_stay_inside(first):
    text = """@T.prim_func
def main(A: T.Buffer((3000, 1000), "int32"), C: T.Buffer((3000, 1000), "int32")):
    for i, j in T.grid(3000, 1000):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + 1
"""
    sch = mlc.Schedule(mlc.parse(text)).split("j", [None, first]).split("j_0", [None, 32])
    mlc.verify(sch.mod)
    assert "T.where(" in sch.mod.script()


def test_a_varying_extent_is_the_outer_loops():
    sch = schedule(RAGGED.format(extent="i + 1"))
    text = sch.split("j", [None, 4]).mod.script()
    assert (
        "for j_0, j_1 in T.grid((i + 4) // 4, 4)" in text
        and "T.where(j_0 * 4 + j_1 < i + 1)" in text
    )
    refuses("E102", lambda: sch.split("j", [4, None]), "[None, 4]")
    refuses("E102", lambda: sch.split("j", [None, 4], tail="pad"))
    refuses("E102", lambda: sch.split("j", [None, 4], tail="error"))


def test_an_extent_that_the_loop_changes_stays():
    text = """@T.prim_func
def main(N: T.Buffer((6,), "int64"), C: T.Buffer((6,), "int32")):
    for i in range(6):
        for j in range(N[i] % 7):
            N[i] = 0
            C[i] = C[i] + 1
"""
    refuses("E140", lambda: schedule(text).split("j", [None, 4]), "N[i] % 7")


def test_names_stay_short():
    sch = schedule(CHAIN)
    for _ in range(12):
        sch = sch.split(sch.loops("X")[0], [None, 1])
        sch = sch.fuse(*sch.loops("X")[:2])
    assert max(map(len, sch.loops("X"))) <= 40
