"""compute_at, reverse_compute_at, compute_inline, reverse_compute_inline."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses
from tests.schedule.programs import Chain, MatmulRelu, Stencil


def test_compute_at_computes_what_an_iteration_needs():
    sch = mlc.Schedule(Stencil).compute_at("Y", "i1")
    assert sch.loops("Y") == ["i1", "ax0"]
    assert "T.axis.spatial(10, i1 + ax0)" in sch.mod.script()
    assert_same(Stencil, sch.mod)


def test_compute_at_a_tile_of_a_matmul():
    sch = mlc.Schedule(MatmulRelu).split("i1", [None, 3]).compute_at("Y", "i1_0")
    assert sch.loops("Y") == ["i1_0", "ax0", "ax1", "k"]
    assert_same(MatmulRelu, sch.mod)


def test_compute_at_computes_one_element_for_an_index_of_any_form():
    """Six and nine have no common digits; the index stands still in an iteration all the same."""
    sch = (
        mlc.Schedule(Uneven).fuse("i1", "j1", name="all").split("all", [None, 9], names=["a", "b"])
    )
    sch = sch.compute_at("Y", "b")
    assert sch.loops("Y") == ["a", "b"] and "(a * 9 + b) // 6" in sch.mod.script()
    assert_same(Uneven, sch.mod)


@I.ir_module
class Uneven:
    @T.prim_func
    def main(A: T.Buffer((6, 6), "int32"), C: T.Buffer((6, 6), "int32")):
        Y = T.alloc_buffer((6, 6), "int32")
        for i, j in T.grid(6, 6):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = A[vi, vj] + 1
        for i1, j1 in T.grid(6, 6):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i1, j1])
                C[vi, vj] = Y[vi, vj] * 2


@pytest.mark.parametrize("index", ["va // vb", "va % vb", "va // T.min(vb, 3)"])
def test_compute_at_divides_nowhere_else(index):
    """By zero where the element is not read."""
    mod = mlc.parse(GUARDED.format(index=index))
    sch = mlc.Schedule(mod).compute_at("Y", "b")
    assert_same(mod, sch.mod)


GUARDED = """
@T.prim_func
def main(A: T.Buffer((36,), "int32"), C: T.Buffer((36,), "int32")):
    Y = T.alloc_buffer((36,), "int32")
    for i in range(36):
        with T.block("Y"):
            vi = T.axis.spatial(36, i)
            Y[vi] = A[vi] + 1
    for a, b in T.grid(4, 9):
        with T.block("C"):
            va, vb = T.axis.remap("SS", [a, b])
            C[va * 9 + vb] = T.if_then_else(vb > 0, Y[{index}] * 2, T.int32(0))
"""


def test_compute_at_refuses_the_wrong_direction_and_outputs():
    sch = mlc.Schedule(MatmulRelu)
    refuses("E115", lambda: sch.compute_at("C", "k"), "output")
    refuses("E113", lambda: sch.compute_at("Y", "i"), "around")


def test_compute_at_refuses_inputs_that_change_in_between():
    @I.ir_module
    class Overwritten:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
            Y = T.alloc_buffer((4,), "int32")
            for i in range(4):
                with T.block("Y"):
                    vi = T.axis.spatial(4, i)
                    Y[vi] = A[vi] + 1
            for i in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = 0
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    C[vi] = Y[vi]

    sch = mlc.Schedule(Overwritten)
    refuses("E113", lambda: sch.compute_at("Y", "i2"), "changes")
    refuses("E113", lambda: sch.compute_inline("Y"), "changes")
    assert_same(Overwritten, sch.reverse_compute_inline("C").mod)


def test_reverse_compute_at_uses_what_was_just_computed():
    sch = mlc.Schedule(MatmulRelu).reverse_compute_at("C", "j")
    assert sch.loops("C") == ["i", "j"]
    assert_same(MatmulRelu, sch.mod)


def test_reverse_compute_at_refuses_unfinished_values():
    error = refuses(
        "E113", lambda: mlc.Schedule(MatmulRelu).reverse_compute_at("C", "k"), "finished"
    )
    assert "k=0" in error.example
    refuses("E113", lambda: mlc.Schedule(MatmulRelu).reverse_compute_at("Y", "j1"))
    outside = mlc.Schedule(MatmulRelu).reorder("k", "i", "j")
    refuses("E113", lambda: outside.reverse_compute_at("C", "i"), "finished")


def test_reverse_compute_at_refuses_a_neighbour_that_is_not_ready():
    refuses("E113", lambda: mlc.Schedule(Stencil).reverse_compute_at("C", "i"))


def test_reverse_compute_at_waits_for_writers_beside_the_loop():
    @I.ir_module
    class Beside:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
            X = T.alloc_buffer((4,), "int32")
            Y = T.alloc_buffer((4,), "int32")
            for o in range(4):
                X[o] = A[o] + 1
                for j in range(1):
                    with T.block("Y"):
                        vi = T.axis.spatial(4, o + j)
                        Y[vi] = A[vi] * 2
            for i in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    C[vi] = Y[vi] + X[3 - vi]

    refuses("E113", lambda: mlc.Schedule(Beside).reverse_compute_at("C", "j"))


def test_compute_inline_keeps_no_intermediate():
    sch = mlc.Schedule(Stencil).compute_inline("Y")
    assert sch.blocks() == ["C"]
    assert sch.func.allocs == ()
    assert_same(Stencil, sch.mod)
    refuses("E115", lambda: mlc.Schedule(MatmulRelu).compute_inline("Y"), "reduction")
    refuses("E115", lambda: mlc.Schedule(Chain).compute_inline("C"))


def test_reverse_compute_inline_feeds_the_producer_into_its_reader():
    sch = mlc.Schedule(Chain).reverse_compute_inline("C")
    assert sch.blocks() == ["C"]
    assert_same(Chain, sch.mod)
    refuses("E115", lambda: mlc.Schedule(MatmulRelu).reverse_compute_inline("C"), "reduction")
    refuses("E115", lambda: mlc.Schedule(Stencil).reverse_compute_inline("C"), "element")


def test_moves_keep_concurrent_loops_right():
    sch = mlc.Schedule(Stencil).parallel("i1").compute_at("Y", "i1")
    assert_same(Stencil, sch.mod)
    lib = mlc.build(sch.mod, cache=False)
    a, c = np.arange(10, dtype="float32"), np.zeros(8, "float32")
    lib["main"](a, c)
    np.testing.assert_array_equal(c, 3 * (a[:-2] + a[1:-1] + a[2:]))


TWO_SOURCES = """
@T.prim_func
def main(A: T.Buffer((6,), "int32"), Z: T.Buffer((6,), "int32")):
    Y = T.alloc_buffer((6,), "int32")
    X = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("X"):
            vi = T.axis.spatial(6, i)
            X[vi] = A[vi] + 2
    for i in range(6):
        with T.block("Y"):
            vi = T.axis.spatial(6, i)
            Y[vi] = A[vi] * 3
    for i in range(6):
        with T.block("Z"):
            vi = T.axis.spatial(6, i)
            Z[vi] = Y[vi] * X[5 - vi]
"""


def test_of_several_producers_the_one_read_element_for_element_takes_the_reader():
    before = mlc.parse(TWO_SOURCES)
    sch = mlc.Schedule(before).reverse_compute_inline("Z")
    assert sch.blocks() == ["X", "Z"] and "Z[vi] = A[vi] * " in sch.mod.script()
    assert_same(before, sch.mod, exact=True)
    both = mlc.parse(TWO_SOURCES.replace("X[5 - vi]", "X[vi]"))
    refuses("E115", lambda: mlc.Schedule(both).reverse_compute_inline("Z"), "one producer")


AGAIN = """
@T.prim_func
def main(A: T.Buffer((6,), "int32"), W: T.Buffer((3,), "int32"), Z: T.Buffer((6,), "int32")):
    Y = T.alloc_buffer((6,), "int32")
    X = T.alloc_buffer((6,), "int32")
"""
FILL = """
{pad}for i in range(6):
{pad}    with T.block("{name}"):
{pad}        vi = T.axis.spatial(6, i)
{pad}        {name}[vi] = {value}
"""


def repeated(*parts: tuple[str, str, str]) -> mlc.IRModule:
    """Loops that fill arrays, some of them in a loop t: (where, what is filled, value)."""
    text, looping = AGAIN, False
    for where, name, value in parts:
        if where == "t" and not looping:
            text += "    for t in range(3):\n"
        looping = where == "t"
        pad = "        " if looping else "    "
        if name == "W":
            text += f"{pad}with T.block('W'):\n{pad}    vt = T.axis.spatial(3, t)\n"
            text += f"{pad}    W[vt] = {value}\n"
        else:
            text += FILL.format(pad=pad, name=name, value=value).lstrip("\n")
    return mlc.parse(text)


@pytest.mark.parametrize(
    "parts",
    [
        (("t", "X", "Z[vi] + 2"), ("t", "Y", "A[vi]"), ("", "Z", "Y[vi] * X[5 - vi]")),
        (("t", "W", "Z[vt]"), ("t", "Y", "A[vi] * 3"), ("", "Z", "Y[vi] + 1")),
        (("", "Y", "A[vi] * 3"), ("t", "Z", "Y[vi] + A[5 - vi]"), ("t", "A", "A[vi] + 5")),
    ],
)
def test_reverse_compute_inline_refuses_where_a_loop_comes_again(parts):
    mod = repeated(*parts)
    refuses("E115", lambda: mlc.Schedule(mod).reverse_compute_inline("Z"), "between")


def test_what_nothing_reads_is_left_out():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""
    sch = mlc.Schedule(mlc.parse(text))
    left = sch.compute_inline("B")
    assert (left.blocks(), left.func.allocs) == (["C"], ())
    assert_same(sch.mod, left.mod)


RESHAPED = """
@T.prim_func
def main(A: T.Buffer((128,), "int32"), C: T.Buffer((8, 16), "int32")):
    B = T.alloc_buffer((128,), "int32")
    for i in range(128):
        with T.block("B"):
            vi = T.axis.spatial(128, i)
            B[vi] = A[vi] * 2
    for i, j in T.grid(8, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[{index}] + T.cast(vi * 100 + vj, "int32")
"""


@pytest.mark.parametrize("index", ["vi * 16 + vj", "vi + vj * 8", "(7 - vi) * 16 + (15 - vj)"])
def test_a_reader_in_another_shape_is_inlined(index):
    sch = mlc.Schedule(mlc.parse(RESHAPED.format(index=index)))
    merged = sch.reverse_compute_inline("C")
    assert (merged.blocks(), merged.func.allocs) == (["C"], ())
    assert_same(sch.mod, merged.mod)


@pytest.mark.parametrize("index", ["vi * 16", "vi * 8 + vj", "vi * 16 + vj // 2", "vi + vj"])
def test_a_reader_of_some_elements_is_not(index):
    sch = mlc.Schedule(mlc.parse(RESHAPED.format(index=index)))
    refuses("E115", lambda: sch.reverse_compute_inline("C"))
