"""Loops that end when their condition does."""

import numpy as np
import pytest

import minimlc as mlc
from tests.helpers import refuses
from tests.roundtrip import assert_round_trips
from tests.script_dialect.cases import Case, check_call, module, numbered, vectors

I32 = vectors("int32")
COUNT = """
for i in range(16):
    with T.block("B"):
        vi = T.axis.spatial(16, i)
        B[vi] = 0
        while B[vi] < A[vi]:
            B[vi] = B[vi] + 3
"""
SEARCH = """
for i in range(16):
    with T.block("search"):
        vi = T.axis.spatial(16, i)
        lo = T.alloc_buffer((1,), "int32")
        hi = T.alloc_buffer((1,), "int32")
        lo[0] = 0
        hi[0] = 16
        while lo[0] < hi[0]:
            mid: T.int32 = (lo[0] + hi[0]) // 2
            if A[mid] < vi * 2:
                lo[0] = mid + 1
            else:
                hi[0] = mid
        B[vi] = lo[0]
"""
SORTED = np.arange(16, dtype="int32") * 3 - 5


def steps(a, b):
    """Rounds of `x = x // 2 or 3 * x + 1` until x is 1."""
    counts = []
    for x in a.tolist():
        count, x = 0, abs(x) + 1
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            count += 1
        counts.append(count)
    return np.array(counts)


COLLATZ = """
X = T.alloc_buffer((16,), "int32")
for i in range(16):
    X[i] = T.abs(A[i]) + 1
    B[i] = 0
    while X[i] != 1 and B[i] < 1000:
        B[i] += 1
        if X[i] % 2 == 0:
            X[i] = X[i] // 2
        else:
            X[i] = 3 * X[i] + 1
"""
CASES: dict[str, list[Case]] = {
    "while": [
        (I32, COUNT, lambda a, b: -(-np.maximum(a, 0) // 3) * 3),
        (I32, SEARCH, lambda a, b: np.searchsorted(a, np.arange(16) * 2)),
        (I32, COLLATZ, steps),
    ]
}


@pytest.mark.parametrize(("name", "params", "body", "expected"), numbered(CASES))
@pytest.mark.parametrize("target", ["llvm", "c", "python"])
def test_runs_as_long_as_it_says(name, params, body, expected, target):
    mod = mlc.verify(module(params, body))
    assert_round_trips(mod)
    args = [SORTED, np.arange(16, dtype="int32")]
    check_call(mod, args, expected)
    result = np.empty(16, "int32")
    mlc.build(mod, target)["main"](SORTED, result)
    np.testing.assert_array_equal(result, expected(SORTED, result))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (COUNT, "parallel"),
        (COUNT, "vectorize"),
        (COUNT, "unroll"),
        (SEARCH, "parallel"),
        (SEARCH, "unroll"),
    ],
)
def test_its_block_is_scheduled_around_it(body, kind):
    start = mlc.Schedule(module(I32, body))
    sch = start.split("i", [None, 4])
    for target in ("llvm", "c"):
        results = [np.empty(16, "int32") for _ in range(2)]
        for each, result in zip((start, getattr(sch, kind)("i_1")), results, strict=True):
            mlc.build(each.mod, target)["main"](SORTED, result)
        np.testing.assert_array_equal(*results)


def test_what_it_carries_is_seen():
    body = """
for i in range(15):
    with T.block("B"):
        vi = T.axis.opaque(15, i)
        while B[vi + 1] < B[vi]:
            B[vi + 1] = B[vi + 1] + 1
"""
    sch = mlc.Schedule(module(I32, body))
    refuses("E104", lambda: sch.parallel("i"), "carries a dependence through B")
    refuses("E104", lambda: sch.vectorize("i"))
    wrong = body.replace("opaque", "spatial")
    refuses("E103", lambda: mlc.verify(module(I32, wrong)), "vi is declared spatial")


def test_a_value_that_it_may_write_is_not_surely_written():
    body = """
X = T.alloc_buffer((16,), "int32")
for i in range(16):
    while A[i] > 100:
        X[i] = 1
    B[i] = X[i]
"""
    mod = module(I32, body)
    with pytest.raises(mlc.CompileError) as caught:
        mlc.interpret(mod, "main", SORTED, np.empty(16, "int32"))
    assert caught.value.code == "E131"


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("while A[0]:\n    B[0] = 1", "E108", "must be bool"),
        ("while A[0] < 1:\n    for i in range(4):\n        B[i] = 1", "E125", "not a For"),
        ("while A[0] < 1:\n    with T.block():\n        B[0] = 1", "E125", "not a Block"),
        ("while A[0] < 1:\n    B[0] = 1\nelse:\n    pass", "E124", "no else"),
        ("while A[20] < 1:\n    B[0] = 1", "E107", "out of range"),
        ("while A[0] < 1:\n    B[16] = 1", "E107", "out of range"),
    ],
)
def test_refusals(body, code, words):
    refuses(code, lambda: mlc.verify(module(I32, body)), words)
