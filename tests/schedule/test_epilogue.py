"""fuse_reduction_epilogue."""

import numpy as np
import pytest

import minimlc as mlc
from tests.helpers import assert_same, refuses
from tests.schedule.programs import MatmulRelu

SUM = """
@T.prim_func
def main(
    A: T.Buffer((6, 5), "{dtype}"), b: T.Buffer((6,), "{dtype}"), C: T.Buffer((6,), "{dtype}")
):
    Y = T.alloc_buffer((6,), "{dtype}")
    for i, k in T.grid(6, 5):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = {start}
            Y[vi] = {combined}
    for j in range(6):
        with T.block("C"):
            vj = T.axis.spatial(6, j)
            C[vj] = {value}
"""


def reduction(value: str, combined: str = "Y[vi] + A[vi, vk]", start: str = "T.{t}(0)", t="int32"):
    return mlc.parse(SUM.format(dtype=t, start=start.format(t=t), combined=combined, value=value))


def fused(module: mlc.IRModule) -> mlc.Schedule:
    return mlc.Schedule(module).fuse_reduction_epilogue("Y", "C")


def test_the_reduction_starts_from_the_bias():
    sch = fused(reduction("Y[vj] + b[vj]"))
    text = sch.mod.script()
    assert sch.blocks() == ["C"] and "Y" not in text
    assert "C[vi] = b[vi]" in text and "C[vi] = C[vi] + A[vi, vk]" in text


@pytest.mark.parametrize(
    ("value", "combined", "start"),
    [
        ("b[vj] + Y[vj]", "Y[vi] + A[vi, vk]", "0"),
        ("b[vj] * 2 + Y[vj] - b[0]", "Y[vi] + A[vi, vk]", "3"),
        ("Y[vj] - b[vj]", "A[vi, vk] * A[vi, 0] + Y[vi]", "0"),
        ("Y[vj]", "Y[vi] + A[vi, vk]", "0"),
        ("T.max(b[vj], Y[vj])", "T.max(Y[vi], A[vi, vk])", "-3"),
        ("T.min(Y[vj], 4)", "T.min(Y[vi], A[vi, vk])", "b[vi]"),
        ("b[vj] * Y[vj]", "Y[vi] * A[vi, vk]", "1"),
        ("Y[vj] ^ b[vj]", "Y[vi] ^ A[vi, vk]", "0"),
    ],
)
def test_fuse_reduction_epilogue_means_the_same(value, combined, start):
    for dtype in ("int32", "float32"):
        if dtype == "float32" and "^" in value:
            continue
        as_type = start if "b" in start else f"T.{dtype}({start})"
        text = value.replace("2", f"T.{dtype}(2)") if "* 2" in value else value
        text = text.replace(", 4)", f", T.{dtype}(4))")
        before = reduction(text, combined, as_type, dtype)
        assert_same(before, fused(before).mod, exact=dtype == "int32")


def test_indices_may_be_exchanged_and_loops_cut():
    before = mlc.parse("""
@T.prim_func
def main(A: T.Buffer((6, 7), "float32"), B: T.Buffer((7, 10), "float32"),
         b: T.Buffer((10,), "float32"), C: T.Buffer((10, 6), "float32")):
    Y = T.alloc_buffer((6, 10), "float32")
    for i, j, k in T.grid(6, 10, 7):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for x, y in T.grid(10, 6):
        with T.block("C"):
            vx, vy = T.axis.remap("SS", [x, y])
            C[vx, vy] = Y[vy, vx] + b[vx]
""")
    assert "C[vj, vi] = C[vj, vi] + A[vi, vk] * B[vk, vj]" in fused(before).mod.script()
    sch = mlc.Schedule(before).split("j", [None, 4]).split("x", [None, 3]).reorder("j_0", "k", "i")
    assert_same(before, sch.fuse_reduction_epilogue("Y", "C").mod)
    assert_same(before, sch.parallel("j_0").fuse_reduction_epilogue("Y", "C").mod)


def test_an_epilogue_may_read_the_other_way_round():
    before = reduction("Y[5 - vj] + b[vj]")
    assert_same(before, fused(before).mod)


def test_a_zero_keeps_its_sign():
    before = reduction("Y[vj] + b[vj]", t="float32")
    zeros = [np.full(shape, -0.0, "float32") for shape in ((6, 5), (6,), (6,))]
    for module in (before, fused(before).mod):
        mlc.interpret(module, "main", *zeros)
        assert not np.signbit(zeros[2]).any()


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("T.max(Y[vj] + b[vj], 0)", "does not store Y[...] + e"),
        ("Y[vj] * 2", "does not store Y[...] + e"),
        ("b[vj] - Y[vj]", "does not store Y[...] + e"),
        ("Y[vj] + Y[vj]", "does not store Y[...] + e"),
        ("Y[vj] + C[vj]", "C, which it writes"),
        ("b[vj]", "does not read Y"),
    ],
)
def test_other_epilogues_are_refused(value, word):
    refuses("E115", lambda: fused(reduction(value)), word)


def test_relu_is_refused_with_a_step_that_works():
    error = refuses("E115", lambda: fused(MatmulRelu), "ReLU of half a sum")
    assert "sch.reverse_compute_at" in "\n".join(error._render_traceback_())


def changed(old: str, new: str) -> mlc.IRModule:
    """The sum with a bias, somewhat different."""
    usual = {"value": "Y[vj] + b[vj]", "combined": "Y[vi] + A[vi, vk]", "start": "0"}
    text = SUM.format(dtype="int32", **usual)
    assert old in text
    return mlc.parse(text.replace(old, new))


BETWEEN = """    for n in range(6):
        with T.block("between"):
            vn = T.axis.spatial(6, n)
            {store}
    for j in range(6):"""


@pytest.mark.parametrize(
    ("store", "word"),
    [
        ("b[vn] = 1", "b is used between"),
        ("C[vn] = 1", "C is used between"),
        ("b[vn] = C[vn]", "is used between"),
        ("b[vn] = Y[vn]", "another reader"),
        ("Y[vn] = 1", "writes Y too"),
    ],
)
def test_nothing_may_happen_in_between(store, word):
    with_store = changed("    for j in range(6):", BETWEEN.format(store=store))
    refuses("E115", lambda: fused(with_store), word)


def test_a_reduction_that_reads_the_output_is_refused():
    before = reduction("Y[vj] + b[vj]", "Y[vi] + A[vi, vk] * C[vi]")
    refuses("E115", lambda: fused(before), "C is used between")


def test_an_epilogue_that_takes_only_some_elements_is_refused():
    line = "vj = T.axis.spatial(6, j)\n"
    some = changed(line, f"{line}            T.where(j < 4)\n")
    refuses("E115", lambda: fused(some), "runs only where j < 4")
    few = changed("for j in range(6):", "for j in range(4):")
    refuses("E113", lambda: fused(few), "run through all")


def test_a_decomposed_reduction_is_refused():
    sch = mlc.Schedule(reduction("Y[vj] + b[vj]")).decompose_reduction("Y", "k")
    refuses("E115", lambda: sch.fuse_reduction_epilogue("Y_update", "C"))
