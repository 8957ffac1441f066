"""pad_einsum."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import I, T
from tests.helpers import assert_same, refuses

SUM = """
@T.prim_func
def main(A: T.Buffer((6, 30), "{t}"), B: T.Buffer((30, 7), "{t}"), C: T.Buffer((6, 7), "{t}")):
    for i, j, k in T.grid(6, 7, 30):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {start}
            C[vi, vj] = C[vi, vj] + ({value})
"""
PRODUCT = "A[vi, vk] * B[vk, vj]"


def einsum(value: str = PRODUCT, t: str = "float32", start: str = "") -> mlc.IRModule:
    return mlc.parse(SUM.format(value=value, t=t, start=start or f"T.{t}(0)"))


@I.ir_module
class RowSum:
    @T.prim_func
    def main(A: T.Buffer((8, 30), "float32"), C: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 30):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]


def test_a_padded_reduction_reads_a_padded_input():
    sch = mlc.Schedule(RowSum).pad_einsum("C", [1, 8])
    text = sch.mod.script()
    assert sch.blocks() == ["A_pad", "C"]
    assert "A_pad[v0, v1] = T.if_then_else(v1 < 30, A[v0, v1], T.float32(0))" in text
    assert "for i, k in T.grid(8, 32):" in text and "C[vi] = C[vi] + A_pad[vi, vk]" in text
    assert_same(RowSum, sch.mod, exact=True)


def test_a_padded_output_is_copied_where_it_counts():
    sch = mlc.Schedule(einsum()).pad_einsum("C", [4, 4, 16])
    assert sch.blocks() == ["A_pad", "B_pad", "C", "C_pad"]
    assert 'C_pad = T.alloc_buffer((8, 8), "float32")' in sch.mod.script()
    assert_same(einsum(), sch.mod, exact=True)
    tiled = sch.split("i", [None, 4]).split("j", [None, 4]).vectorize("j_1").parallel("i_0")
    assert_same(einsum(), tiled.mod, exact=True)


@pytest.mark.parametrize("padding", [[1, 1, 4], [5, 1, 1], [1, 3, 1], [5, 3, 7]])
@pytest.mark.parametrize("t", ["int32", "int8", "float32", "float16", "uint8"])
def test_pad_einsum_means_the_same(t, padding):
    before = einsum(t=t)
    assert_same(before, mlc.Schedule(before).pad_einsum("C", padding).mod, exact=True)


def test_special_values_stay_what_they_are():
    rng = np.random.default_rng(0)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0], "float32")
    before = einsum()
    after = mlc.Schedule(before).pad_einsum("C", [4, 4, 16]).mod
    for _ in range(4):
        given = [rng.choice(special, p.shape) for p in before["main"].params]
        again = [array.copy() for array in given]
        mlc.interpret(before, "main", *given)
        mlc.interpret(after, "main", *again)
        np.testing.assert_array_equal(given[2], again[2])
        np.testing.assert_array_equal(np.signbit(given[2]), np.signbit(again[2]))


def test_zero_times_infinity_would_be_a_number_no_more():
    free = "A[vi, 0] * B[vk, vj]"
    error = refuses(
        "E154", lambda: mlc.Schedule(einsum(free)).pad_einsum("C", [1, 1, 8]), "vk = 29", "inf"
    )
    assert "at vk = 30" in str(error)
    assert_same(einsum(free), mlc.Schedule(einsum(free)).pad_einsum("C", [4, 4, 1]).mod)
    whole = einsum(free, "int32")
    assert_same(whole, mlc.Schedule(whole).pad_einsum("C", [4, 4, 8]).mod)


@pytest.mark.parametrize(
    ("value", "t", "padding", "word"),
    [
        ("A[vi, vk] + T.float32(1)", "float32", [1, 1, 4], "something else than 0"),
        ("A[vi, vk] * T.float32(2) + B[0, vj]", "float32", [1, 1, 4], "something else than 0"),
        ("T.exp(A[vi, vk])", "float32", [4, 1, 1], "not a sum of products"),
        ("A[vi, vk] // T.max(B[vk, vj], 1)", "int32", [1, 1, 4], "not a sum of products"),
        ("A[vi, (vk + vi) // 2]", "int32", [4, 1, 1], "not an index by itself"),
    ],
)
def test_what_padding_could_change_is_refused(value, t, padding, word):
    refuses("E154", lambda: mlc.Schedule(einsum(value, t)).pad_einsum("C", padding), word)


def test_a_sum_from_minus_zero_is_refused():
    before = einsum(start="T.float32(-0.0)")
    refuses("E154", lambda: mlc.Schedule(before).pad_einsum("C", [1, 1, 4]), "-0.0")
    assert_same(before, mlc.Schedule(before).pad_einsum("C", [4, 4, 1]).mod, exact=True)


def test_a_maximum_and_a_scheduled_sum_are_refused():
    top = mlc.parse(
        einsum()
        .script()
        .replace("C[vi, vj] + A[vi, vk] * B[vk, vj]", "T.max(C[vi, vj], A[vi, vk])")
    )
    refuses("E154", lambda: mlc.Schedule(top).pad_einsum("C", [4, 1, 1]), "not of the form")
    sch = mlc.Schedule(einsum())
    refuses("E154", lambda: sch.split("k", [None, 4]).pad_einsum("C", [1, 1, 4]), "runs only where")
    refuses("E154", lambda: sch.split("k", [None, 5]).pad_einsum("C", [1, 1, 4]), "not alone")
    refuses("E119", lambda: sch.parallel("i").pad_einsum("C", [1, 1, 4]), "parallel already")
    decomposed = sch.decompose_reduction("C", "k")
    refuses("E154", lambda: decomposed.pad_einsum("C_update", [4, 1, 1]))
    refuses("E118", lambda: sch.pad_einsum("C", [1, 1]), "3 iter(s)")
    refuses("E118", lambda: sch.pad_einsum("C", [1, 1, 0]), ">= 1")
    refuses("E154", lambda: sch.pad_einsum("C", [1, 1, 1_000_000]), "padded copy of A")


def test_channels_of_a_convolution_are_padded_and_the_window_is_not():
    conv = mlc.parse("""
@T.prim_func
def main(X: T.Buffer((3, 8, 8), "float32"), W: T.Buffer((5, 3, 3, 3), "float32"),
         Y: T.Buffer((5, 6, 6), "float32")):
    for o, h, w, c, r, s in T.grid(5, 6, 6, 3, 3, 3):
        with T.block("Y"):
            vo, vh, vw, vc, vr, vs = T.axis.remap("SSSRRR", [o, h, w, c, r, s])
            with T.init():
                Y[vo, vh, vw] = T.float32(0)
            Y[vo, vh, vw] = Y[vo, vh, vw] + X[vc, vh + vr, vw + vs] * W[vo, vc, vr, vs]
""")
    sch = mlc.Schedule(conv)
    assert_same(conv, sch.pad_einsum("Y", [8, 1, 1, 4, 1, 1]).mod, exact=True)
    refuses("E154", lambda: sch.pad_einsum("Y", [1, 1, 1, 1, 4, 1]), "vr is not an index by itself")


def test_one_buffer_read_in_two_ways_has_a_copy_for_each():
    gram = einsum("A[vi, vk] * A[5 - vi, vk] + A[vj % 6, vk]", "int32")
    sch = mlc.Schedule(gram).pad_einsum("C", [1, 1, 4])
    assert sch.blocks() == ["A_pad", "C"]
    assert_same(gram, sch.mod)
    two = einsum("A[vi, vk] * A[0, vk]", "int32")
    sch = mlc.Schedule(two).pad_einsum("C", [4, 1, 4])
    assert sch.blocks() == ["A_pad", "A_pad1", "C", "C_pad"]
    assert_same(two, sch.mod)


def test_constants_count_as_their_dtype_has_them():
    sch = mlc.Schedule(einsum("A[vi, vk] * T.float16(70000)", "float16"))
    refuses("E154", lambda: sch.pad_einsum("C", [1, 1, 4]), "inf")
    sch = mlc.Schedule(einsum(start="T.float32(-1e-60)"))
    refuses("E154", lambda: sch.pad_einsum("C", [1, 1, 4]), "-0.0")
    twice = einsum("A[vi, vk] * T.float32(2)")
    assert_same(twice, mlc.Schedule(twice).pad_einsum("C", [1, 1, 4]).mod, exact=True)


@pytest.mark.parametrize(
    ("wide", "value"),
    [
        ("int32", 'T.cast(A[vi, vk], "int32") * T.cast(B[vk, vj], "int32")'),
        ("float32", 'T.cast(A[vi, vk], "float32") * T.cast(B[0, vj], "float32")'),
    ],
)
def test_factors_may_be_cast(wide, value):
    text = SUM.format(t="int8", start=f"T.{wide}(0)", value=value)
    before = mlc.parse(
        text.replace('C: T.Buffer((6, 7), "int8")', f'C: T.Buffer((6, 7), "{wide}")')
    )
    assert_same(before, mlc.Schedule(before).pad_einsum("C", [4, 4, 4]).mod, exact=True)
