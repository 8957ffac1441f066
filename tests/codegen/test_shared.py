"""Parts of an expression with several uses are computed once, where they are sure to be needed."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.nodes import Let, Select, Store
from minimlc.loops.llvm.shared import Share
from minimlc.loops.lower.lower import lower
from minimlc.loops.values.node import nodes_of

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((37,), "float32"), N: T.Buffer((37,), "int64"), C: T.Buffer((37,), "float32")):
    for i in T.{kind}(37):
        C[i] = {value}
"""


def program(value: str, kind: str = "serial") -> mlc.IRModule:
    return mlc.parse(PROGRAM.format(value=value, kind=kind))


def lets(value: str) -> int:
    return len(nodes_of(Share().visit(lower(program(value)["main"]).body), Let))


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("A[i] + 1.0", 0),
        ("A[i] * A[i]", 1),
        ("T.exp(A[i]) * T.exp(A[i])", 1),
        ("T.exp(A[i]) * T.exp(A[i]) + A[i]", 2),
        ("A[i] * 0.0 - A[i] * -0.0", 1),
        ("T.if_then_else(N[i] < 0, A[i] * A[i], 0.0)", 1),
        ("T.if_then_else(N[i] < 0, A[i], A[i])", 0),
        ("T.if_then_else(A[i] < 0.0, A[i] * A[i], 0.0) + A[i]", 1),
    ],
)
def test_what_gets_a_name(value, count):
    assert lets(value) == count


def test_what_may_be_skipped_is_not_read_before():
    """An index that leaves the array where the choice is not taken."""
    value = "T.if_then_else(N[i] < 37, A[N[i]] * A[N[i]], 0.0)"
    (store,) = nodes_of(Share().visit(lower(program(value)["main"]).body), Store)
    assert isinstance(store.value, Select) and isinstance(store.value.a, Let)


VALUES = [
    "A[i] * 0.0 - A[i] * -0.0",
    "T.if_then_else(A[i] < 0.0, T.exp(A[i]) - 1.0, A[i]) * A[i]",
    "T.if_then_else(A[i] < 0.0, A[T.min(N[i], 36)] * A[i], A[36 - i] + A[i]) + A[i] * A[i]",
    "T.if_then_else(A[i] > 1.0, A[N[i]] * A[N[i]], A[i] * A[i])",
    "T.cast(N[i] // (N[i] - 3) + N[i] % (N[i] - 3), 'float32') * A[i] if N[i] > 3 else A[i]",
]


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("value", VALUES)
def test_the_meaning_stays(value, kind):
    rng = np.random.default_rng(0)
    a, n = rng.standard_normal(37).astype("float32"), rng.integers(0, 37, 37)
    a[[0, 5]] = np.nan, -0.0
    mod = program(value, kind)
    meant, native = np.zeros((2, 37), "float32")
    mlc.interpret(mod, "main", a, n, meant)
    mlc.build(mod, cache=False)["main"](a, n, native)
    np.testing.assert_allclose(native, meant, 1e-6)
    zeros = meant == 0
    np.testing.assert_array_equal(np.signbit(native[zeros]), np.signbit(meant[zeros]))


def test_a_choice_between_what_was_read_needs_no_branch():
    value = "T.if_then_else(A[i] < 0.0, A[i] * 2.0, A[i])"
    text = mlc.build(program(value, "vectorized"), cache=False).source("llvm")
    assert "select <" in text and "vector.reduce" not in text
