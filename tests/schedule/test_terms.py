"""decompose_sum, and copies with an offset: bytes of one sign become bytes of the other."""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.schedule import Schedule
from tests.helpers import assert_same, refuses

SUM = """
@T.prim_func
def main(A: T.Buffer((6, 5), "{a}"), B: T.Buffer((5, 7), "{b}"), C: T.Buffer((6, 7), "{c}")):
    for i, j, k in T.grid(6, 7, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {start}
            C[vi, vj] = C[vi, vj] + ({value})
"""
A, B = 'T.cast(A[vi, vk], "int32")', 'T.cast(B[vk, vj], "int32")'
PRODUCT = f"{A} * {B}"


def sums(value: str = PRODUCT, a: str = "int8", b: str = "int8", c: str = "int32", start: int = 0):
    return mlc.parse(SUM.format(value=value, a=a, b=b, c=c, start=f"T.{c}({start})"))


def test_a_term_is_summed_up_over_the_axes_that_it_speaks_of():
    sch = Schedule(sums(f"({A} - 8) * {B}")).decompose_sum("C")
    assert sch.blocks() == ["C_j", "C_i_j", "C"] and sch.checked == "compared"
    assert [buffer.shape for buffer in sch.func.allocs] == [(7,), (6, 7)]
    text = sch.mod.script()
    assert 'C_j[vj1] = C_j[vj1] + T.cast(B[vk1, vj1], "int32") * T.int32(-8)' in text
    assert "C[vi2, vj3] = C_j[vj3] + C_i_j[vi2, vj3]" in text
    assert_same(sums(f"({A} - 8) * {B}"), sch.mod, exact=True)


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize(
    ("value", "blocks"),
    [
        (f"({A} - 3) * ({B} + 2)", ["C_i", "C_j", "C_i_j", "C"]),
        (f"{A} * 7 - {B} * (2 - 3 * 4)", ["C_i", "C_j", "C"]),
        (f"-({A} - ({B} - 1)) * {B}", ["C_j", "C_i_j", "C"]),
        (f"({A} + 1) * ({A} - 1) * {B}", ["C_j", "C_i_j", "C"]),
        (f"{A} * {B} - {A} * {B} + {A}", ["C_i", "C_i_j", "C"]),
    ],
)
def test_it_means_the_same(value, blocks, start):
    before = sums(value, start=start)
    sch = Schedule(before).decompose_sum("C")
    assert sch.blocks() == blocks
    assert_same(before, sch.mod, exact=True)
    again = Schedule.replay(before, sch.trace.to_json())
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


def test_a_term_counts_as_often_as_the_sum_takes_it():
    before = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((6, 5), "int32"), B: T.Buffer((3, 7), "int32"), C: T.Buffer((6, 7), "int32")):
    for i, j, k, l in T.grid(6, 7, 5, 3):
        with T.block("C"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + (A[vi, vk] + B[vl, vj] + 4)
""")
    sch = Schedule(before).decompose_sum("C")
    assert sch.blocks() == ["C_i", "C_j", "C"]
    assert_same(before, sch.mod, exact=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_sums_wrap_around_as_before(dtype):
    before = sums("(A[vi, vk] - 100) * B[vk, vj]", dtype, dtype, dtype)
    after = Schedule(before, check=False).decompose_sum("C").mod
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    a, b = (rng.integers(info.min, info.max, s, dtype, endpoint=True) for s in ((6, 5), (5, 7)))
    found = []
    for mod in (before, after):
        for run in (mlc.build(mod)["main"], partial(interpret, mod, "main")):
            c = np.zeros((6, 7), dtype)
            run(a, b, c)
            found.append(c)
    with np.errstate(over="ignore"):
        expected = ((a - np.array(100, dtype)) @ b).astype(dtype)
    for c in found:
        np.testing.assert_array_equal(c, expected)


def test_it_refuses_what_would_change_or_is_no_such_sum():
    floats = sums("(A[vi, vk] - T.float32(8)) * B[vk, vj]", "float32", "float32", "float32")
    refuses("E154", lambda: Schedule(floats).decompose_sum("C"), "lose what cancels")
    sch = Schedule(sums(f"({A} - 8) * {B}"))
    refuses("E154", lambda: sch.split("k", [None, 5]).decompose_sum("C"), "not alone in loops")
    refuses("E119", lambda: sch.parallel("i").decompose_sum("C"), "parallel already")
    apart = sch.decompose_reduction("C", at="k")
    refuses("E154", lambda: apart.decompose_sum("C_update"), "not alone in loops")
    refuses("E105", lambda: sch.decompose_sum("D"))
    alike = sums(f"{PRODUCT} + 9")
    refuses("E154", lambda: Schedule(alike).decompose_sum("C"), "the same axes", "rfactor")
    largest = sums(f"T.max({A}, 0) * {B}")
    refuses("E154", lambda: Schedule(largest).decompose_sum("C"), "not a sum of products")
    many = sums(" * ".join([f"({A} + {B} + 1)"] * 3))
    refuses("E154", lambda: Schedule(many).decompose_sum("C"), "more than 16 terms")


def test_a_copy_with_an_offset_gives_it_back_where_it_is_used():
    sch = Schedule(sums()).cache_read("C", "A", dtype="uint8", offset=128)
    assert sch.checked == "compared" and sch.func.allocs[0].dtype == "uint8"
    text = sch.mod.script()
    assert 'A_local[v0, v1] = T.cast(T.cast(A[v0, v1], "int64") + 128, "uint8")' in text
    assert '(T.cast(A_local[vi, vk], "int32") - T.int32(128)) * ' in text
    assert_same(sums(), sch.mod, exact=True)
    unsigned = sums(a="uint8")
    back = Schedule(unsigned).cache_read("C", "A", dtype="int8", offset=-128)
    assert_same(unsigned, back.mod, exact=True)
    both = sch.cache_read("C", "B", dtype="uint8", offset=128).decompose_sum("C")
    assert both.blocks() == ["A_local", "B_local", "C_i", "C_j", "C_i_j", "C"]
    assert_same(sums(), both.mod, exact=True)


def test_an_offset_is_refused_where_a_value_would_not_fit():
    sch = Schedule(sums())
    refuses("E117", lambda: sch.cache_read("C", "A", dtype="uint8", offset=127), "plus 127")
    refuses("E117", lambda: sch.cache_read("C", "A", offset=1), "int8 plus 1")
    refuses("E117", lambda: sch.cache_read("C", "A", dtype="int16", offset=2**40), "plus 1099")
    refuses("E117", lambda: sch.cache_read("C", "A", dtype="float32", offset=1), "for integers")
    refuses("E118", lambda: sch.cache_read("C", "A", dtype="uint8", offset=True), "integer")
    narrow = Schedule(sums("A[vi, vk] * B[vk, vj]", c="int8"))
    refuses("E117", lambda: narrow.cache_read("C", "A", dtype="uint8", offset=128), "used as int8")
