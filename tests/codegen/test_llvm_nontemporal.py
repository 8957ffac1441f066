"""Stores past the caches: which ones, and that nothing else changes."""

import numpy as np
import pytest

from minimlc.loops.schedule import Schedule
from minimlc.script import parse
from minimlc.services.build import build

TWO = """@T.prim_func
def main(
    A: T.Buffer((6, 40), "float32"),
    B: T.Buffer((6, 40), "float32"),
    C: T.Buffer((6, 40), "float32"),
):
    for i, j in T.grid(6, 40):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for m, n in T.grid(6, 40):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [m, n])
            T.where(n < 37)
            C[vi, vj] = B[vi, vj] + T.float32(1)
"""


def noted(loop, buffer, kind="serial"):
    sch = Schedule(parse(TWO), check=False).vectorize("j").vectorize("n")
    sch = sch.parallel("i") if kind == "parallel" else sch
    return build(sch.annotate(loop, "nontemporal", buffer).mod, cache=False)


@pytest.mark.parametrize(
    ("loop", "buffer", "kind", "stores"),
    [
        ("j", "B", "serial", True),
        ("i", "B", "serial", True),
        ("j", "A", "serial", False),  # it is only read there
        ("m", "B", "serial", False),
        ("i", "B", "parallel", False),  # whose end each thread reaches by itself
        ("j", "B", "parallel", True),
    ],
)
def test_only_vectors_for_the_buffer_inside_of_the_loop(loop, buffer, kind, stores):
    lib = noted(loop, buffer, kind)
    text = lib.source("llvm")
    assert ("!nontemporal" in text) == stores
    assert ("fence seq_cst" in text) == ((loop, kind) != ("i", "parallel"))
    a = np.random.default_rng(0).standard_normal((6, 40), np.float32)
    b, c = np.zeros_like(a), np.zeros_like(a)
    lib["main"](a, b, c)
    np.testing.assert_array_equal(b, 2 * a)
    np.testing.assert_array_equal(c[:, :37], 2 * a[:, :37] + 1)
    assert not c[:, 37:].any()


def test_lanes_under_a_condition_are_stored_as_ever():
    text = noted("n", "C").source("llvm")
    assert all("masked" not in line for line in text.splitlines() if "!nontemporal" in line)
