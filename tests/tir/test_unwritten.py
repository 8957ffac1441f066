"""Uses of unwritten elements: refused with the element where they are certain, accepted where
everything is written after all, and found by the interpreter where the data decides.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.interpreter.execute import execute
from minimlc.loops.ir.nodes import Block, PrimFunc, Seq, Stmt, Store
from minimlc.loops.values.node import Mutator, Node, replace, walk
from minimlc.services.equivalence.compare import BUDGET, cost, inputs
from tests.corpus.case import Case
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.schedules import subject_of
from tests.helpers import assert_same, copies, refuses


class Odd(NamedTuple):
    """A right program that looks wrong, and what it computes: C of the other parameters."""

    name: str
    params: str
    allocs: str
    body: str
    expected: Callable[..., np.ndarray]


class Wrong(NamedTuple):
    """A program that uses what was never written: words that its error must have."""

    name: str
    params: str
    allocs: str
    body: str
    words: tuple[str, ...]


def program(item: Odd | Wrong) -> mlc.IRModule:
    return Case("", item.name, item.params, item.body, (), "", item.allocs).module()


ROWS = "A: f32[4, 8], C: f32[4]"
LINE = "A: f32[8], C: f32[8]"
COPY_X = """
    for j in range(8):
        C[j] = X[j]
"""

RIGHT = (
    Odd(
        "a scatter by a permutation",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        with T.block("scatter"):
            vi = T.axis.opaque(8, i)
            X[vi * 3 % 8] = A[vi]
"""
        + COPY_X,
        lambda a: a[[0, 3, 6, 1, 4, 7, 2, 5]],
    ),
    Odd(
        "two triangles",
        "A: f32[4, 4], C: f32[4, 4]",
        "X: f32[4, 4]",
        """
    for i in range(4):
        for j in range(i + 1):
            X[i, j] = A[i, j]
    for i in range(4):
        for j in range(3 - i):
            X[i, i + 1 + j] = 0.0
    for i, j in T.grid(4, 4):
        C[i, j] = X[i, j]
""",
        np.tril,
    ),
    Odd(
        "guarded writes that complete each other",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        with T.block("low"):
            T.where(i < 5)
            vi = T.axis.spatial(8, i)
            X[vi] = A[vi]
    for i in range(8):
        with T.block("high"):
            T.where(i >= 5)
            vi = T.axis.spatial(8, i)
            X[vi] = 0.0
"""
        + COPY_X,
        lambda a: np.where(np.arange(8) < 5, a, 0),
    ),
    Odd(
        "buffers that take turns",
        LINE,
        "X: f32[8], Y: f32[8]",
        """
    for i in range(8):
        X[i] = A[i]
    for t in range(3):
        for i in range(8):
            Y[i] = X[i] + 1.0
        for i in range(8):
            X[i] = Y[i] * 2.0
"""
        + COPY_X,
        lambda a: ((a * 2 + 2) * 2 + 2) * 2 + 2,
    ),
    Odd(
        "a ring",
        LINE,
        "R: f32[2]",
        """
    for i in range(8):
        R[i % 2] = A[i]
        if i >= 1:
            C[i] = R[i % 2] + R[(i + 1) % 2]
        else:
            C[i] = R[0]
""",
        lambda a: a + np.concatenate([[0], a[:-1]]).astype("f4"),
    ),
    Odd(
        "both branches write",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        if A[i] > 0.0:
            X[i] = A[i]
        else:
            X[i] = -A[i]
"""
        + COPY_X,
        np.abs,
    ),
    Odd(
        "written and read where the data says so",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        if A[i] > 0.0:
            X[i] = A[i]
    for i in range(8):
        C[i] = 0.0
        if A[i] > 0.0:
            C[i] = X[i]
""",
        lambda a: np.maximum(a, 0),
    ),
    Odd(
        "each from the one before",
        LINE,
        "X: f32[8]",
        """
    X[0] = A[0]
    for i in range(7):
        X[i + 1] = X[i] + A[i + 1]
"""
        + COPY_X,
        lambda a: np.cumsum(a, dtype="f4"),
    ),
    Odd(
        "the first iteration starts the sum",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        if k == 0:
            X[i] = 0.0
        X[i] = X[i] + A[i, k]
    for i in range(4):
        C[i] = X[i]
""",
        lambda a: np.cumsum(a, axis=1, dtype="f4")[:, -1],
    ),
    Odd(
        "the last value of k starts the sum, and comes first",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        if 7 - k == 7:
            X[i] = 0.0
        X[i] = X[i] + A[i, 7 - k]
    for i in range(4):
        C[3 - i] = X[3 - i]
""",
        lambda a: np.cumsum(a[:, ::-1], axis=1, dtype="f4")[:, -1],
    ),
    Odd(
        "an init that reads",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                X[vi] = A[vi, 0]
            X[vi] = T.max(X[vi], A[vi, vk])
    for i in range(4):
        C[i] = X[i]
""",
        lambda a: a.max(axis=1),
    ),
    Odd(
        "a block in a block",
        ROWS,
        "X: f32[4]",
        """
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            for k in range(8):
                with T.block("inner"):
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        X[vi] = 0.0
                    X[vi] = X[vi] + A[vi, vk]
            C[vi] = X[vi]
""",
        lambda a: np.cumsum(a, axis=1, dtype="f4")[:, -1],
    ),
    Odd(
        "filled backwards",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        X[7 - i] = A[i]
"""
        + COPY_X,
        lambda a: a[::-1],
    ),
    Odd(
        "a loop that never runs",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        C[i] = A[i]
    for i in range(0):
        C[i] = X[i]
""",
        lambda a: a,
    ),
    Odd(
        "a condition that never holds",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        C[i] = A[i]
        if i * i > 49:
            C[i] = X[i]
""",
        lambda a: a,
    ),
    Odd(
        "a side that is not taken",
        LINE,
        "X: f32[8]",
        """
    for i in range(4):
        X[i] = A[i]
    for i in range(8):
        C[i] = T.if_then_else(i < 4, X[i], 0.0)
""",
        lambda a: np.where(np.arange(8) < 4, a, 0),
    ),
    Odd(
        "a copy of more than was written",
        LINE,
        "X: f32[8], Y: f32[8]",
        """
    for i in range(5):
        X[i] = A[i]
    for i in range(8):
        Y[i] = X[i] * 2.0
    for i in range(8):
        C[i] = 0.0
        if i < 5:
            C[i] = Y[i]
""",
        lambda a: np.where(np.arange(8) < 5, a * 2, 0),
    ),
    Odd(
        "written over",
        LINE,
        "X: f32[8], Y: f32[8]",
        """
    for i in range(8):
        Y[i] = X[i]
        Y[i] = A[i]
        C[i] = Y[i]
""",
        lambda a: a,
    ),
    Odd(
        "a sum of nothing that nobody reads",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        X[0] = X[0] + A[i]
        C[i] = A[i]
""",
        lambda a: a,
    ),
    Odd(
        "a parameter holds something",
        ROWS,
        "",
        """
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]
""",
        lambda a: np.cumsum(np.column_stack([np.full(4, 0.5, "f4"), a]), axis=1, dtype="f4")[:, -1],
    ),
    Odd(
        "even ones and odd ones",
        LINE,
        "X: f32[8]",
        """
    for i in range(4):
        X[2 * i] = A[2 * i]
    for i in range(4):
        X[2 * i + 1] = -A[2 * i + 1]
"""
        + COPY_X,
        lambda a: np.where(np.arange(8) % 2 == 0, a, -a),
    ),
    Odd(
        "a second look only where there was a first",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        X[i] = A[i]
        C[i] = 0.0
        if i > 0 and X[T.max(i - 1, 0)] > 0.0:
            C[i] = 1.0
""",
        lambda a: np.concatenate([[0], a[:-1] > 0]).astype("f4"),
    ),
    Odd(
        "a buffer for each iteration",
        ROWS,
        "",
        """
    for i in range(4):
        with T.alloc_buffer((1,), "float32") as X:
            X[0] = 0.0
            for k in range(8):
                X[0] = X[0] + A[i, k]
            C[i] = X[0]
""",
        lambda a: np.cumsum(a, axis=1, dtype="f4")[:, -1],
    ),
    Odd(
        "where the greatest is",
        "A: i32[4, 8], C: i64[4]",
        "V: i32[4], I: i64[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                I[vi] = T.int64(0)
                V[vi] = -100
            I[vi] = T.if_then_else(
                A[vi, vk] > V[vi] or (A[vi, vk] == V[vi] and vk < I[vi]), vk, I[vi]
            )
            V[vi] = T.max(V[vi], A[vi, vk])
    for i in range(4):
        C[i] = I[i]
""",
        lambda a: a.argmax(axis=1),
    ),
)

WRONG = (
    Wrong(
        "a sum without init",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = X[vi] + A[vi, vk]
    for i in range(4):
        C[i] = X[i]
""",
        ('X[0] is read in block "sum" at i=0, k=0', "C[0]", "line 7", "with T.init(): X[vi] = 0.0"),
    ),
    Wrong(
        "a sum of integers without init, in plain loops",
        "A: i32[4, 8], C: i32[4]",
        "X: i32[4]",
        """
    for i, k in T.grid(4, 8):
        X[i] = X[i] + A[i, k]
    for i in range(4):
        C[i] = X[i]
""",
        ("X[0] is read at i=0, k=0", "X[i] = 0  # before"),
    ),
    Wrong(
        "a maximum without init",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = T.max(X[vi], A[vi, vk])
    for i in range(4):
        C[i] = X[i]
""",
        ("X[0]", 'T.float32("-inf")'),
    ),
    Wrong(
        "a product without init",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("product"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = A[vi, vk] * X[vi]
    for i in range(4):
        C[i] = X[i]
""",
        ("X[0]", "= 1.0"),
    ),
    Wrong(
        "the last one is left out",
        LINE,
        "X: f32[8]",
        """
    for i in range(7):
        X[i] = A[i]
"""
        + COPY_X,
        ("X[7] is read at j=7 before", "C[7]", "write X[7] first"),
    ),
    Wrong(
        "one in the middle is left out",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        if i != 3:
            X[i] = A[i]
"""
        + COPY_X,
        ("X[3] is read at j=3",),
    ),
    Wrong(
        "a triangle without its diagonal",
        "A: f32[4, 4], C: f32[4, 4]",
        "X: f32[4, 4]",
        """
    for i, j in T.grid(4, 4):
        if j < i:
            X[i, j] = A[i, j]
    for r, c in T.grid(4, 4):
        C[r, c] = T.if_then_else(c <= r, X[r, c], 0.0)
""",
        ("X[0, 0] is read at r=0, c=0",),
    ),
    Wrong(
        "a guarded write, a read without guard",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        with T.block("low"):
            T.where(i < 5)
            vi = T.axis.spatial(8, i)
            X[vi] = A[vi]
    for j in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, j)
            C[vi] = X[vi]
""",
        ('X[5] is read in block "C" at j=5',),
    ),
    Wrong(
        "read first, written then",
        LINE,
        "X: f32[8]",
        COPY_X
        + """
    for i in range(8):
        X[i] = A[i]
""",
        ("X[0] is read at j=0",),
    ),
    Wrong(
        "one ahead",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        X[i] = A[i]
        C[i] = X[(i + 1) % 8]
""",
        ("X[1] is read at i=0",),
    ),
    Wrong(
        "a scatter that meets itself",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        X[i * 2 % 8] = A[i]
"""
        + COPY_X,
        ("X[1] is read at j=1",),
    ),
    Wrong(
        "a ring that looks back too soon",
        LINE,
        "R: f32[2]",
        """
    for i in range(8):
        R[i % 2] = A[i]
        C[i] = R[(i + 1) % 2]
""",
        ("R[1] is read at i=0",),
    ),
    Wrong(
        "filled backwards but for the last",
        LINE,
        "X: f32[8]",
        """
    for i in range(7):
        X[7 - i] = A[i]
"""
        + COPY_X,
        ("X[0] is read at j=0",),
    ),
    Wrong(
        "a condition",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        if X[i] > 0.0:
            C[i] = A[i]
""",
        ("X[0] is read at i=0", "it decides"),
    ),
    Wrong(
        "an index",
        LINE,
        "I: i64[8]",
        """
    for i in range(8):
        C[i] = A[I[i] % 8]
""",
        ("I[0] is read at i=0", "it decides"),
    ),
    Wrong(
        "what a choice depends on",
        LINE,
        "X: f32[8]",
        """
    for i in range(8):
        C[i] = T.if_then_else(X[i] > 0.0, 1.0, A[i])
""",
        ("X[0] is read at i=0", "C[0]"),
    ),
    Wrong(
        "another buffer is started",
        ROWS,
        "X: f32[4], Y: f32[4]",
        """
    for i, k in T.grid(4, 8):
        if k == 0:
            Y[i] = 0.0
        X[i] = X[i] + A[i, k]
    for i in range(4):
        C[i] = X[i] + Y[i]
""",
        ("X[0] is read at i=0, k=0",),
    ),
    Wrong(
        "started after the first value of another buffer took it",
        ROWS,
        "X: f32[4]",
        """
    for i, k in T.grid(4, 8):
        C[i] = X[i]
        if k == 0:
            X[i] = A[i, k]
""",
        ("X[0] is read at i=0, k=0",),
    ),
    Wrong(
        "computed of a sum without init",
        ROWS,
        "X: f32[4], Y: f32[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = X[vi] + A[vi, vk]
    for i in range(4):
        Y[i] = X[i] * 2.0
    for i in range(4):
        C[i] = Y[i]
""",
        ('X[0] is read in block "sum" at i=0, k=0', "C[0]", "T.init()"),
    ),
    Wrong(
        "a buffer for each iteration, written in the first",
        LINE,
        "",
        """
    for i in range(8):
        with T.alloc_buffer((1,), "float32") as X:
            if i == 0:
                X[0] = A[0]
            C[i] = X[0]
""",
        ("X[0] is read at i=1",),
    ),
    Wrong(
        "written in a loop that never runs",
        LINE,
        "X: f32[8]",
        """
    for i in range(0):
        X[i] = A[i]
"""
        + COPY_X,
        ("X[0] is read at j=0",),
    ),
    Wrong(
        "where the greatest is, without init",
        "A: i32[4, 8], C: i64[4]",
        "V: i32[4], I: i64[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            I[vi] = T.if_then_else(
                A[vi, vk] > V[vi] or (A[vi, vk] == V[vi] and vk < I[vi]), vk, I[vi]
            )
            V[vi] = T.max(V[vi], A[vi, vk])
    for i in range(4):
        C[i] = I[i]
""",
        ('V[0] is read in block "top" at i=0, k=0',),
    ),
    Wrong(
        "a window over a border that nobody filled",
        "A: f32[8], C: f32[8]",
        "P: f32[10], S: f32[8]",
        """
    for i in range(8):
        with T.block("P"):
            vi = T.axis.spatial(8, i)
            P[vi + 1] = A[vi]
    for i, k in T.grid(8, 3):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0.0
            S[vi] = S[vi] + P[vi + vk]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = T.max(S[vi], 0.0)
""",
        ('P[0] is read in block "S" at i1=0, k=0', "C[0] would come of it", "write P[0] first"),
    ),
    Wrong(
        "copied, partly written over, copied back, used",
        LINE,
        "X: f32[8], Y: f32[8]",
        """
    for i in range(8):
        Y[i] = X[i]
    for i in range(7):
        Y[i] = A[i]
    for i in range(8):
        X[i] = Y[i]
    for i in range(8):
        C[i] = X[i]
""",
        ("X[7] is read at i=7", "C[7] would come of it"),
    ),
    Wrong(
        "an extent",
        LINE,
        "N: i64[1]",
        """
    for i in range(N[0]):
        C[0] = A[0]
""",
        ("N[0] is read before", "it decides"),
    ),
    Wrong(
        "the greatest value that softmax subtracts",
        "A: f32[4, 8], C: f32[4, 8]",
        "M: f32[4], S: f32[4]",
        """
    for i, k in T.grid(4, 8):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, k in T.grid(4, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0.0
            S[vi] = S[vi] + T.exp(A[vi, vk] - M[vi])
    for i, k in T.grid(4, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SS", [i, k])
            C[vi, vk] = T.exp(A[vi, vk]) / S[vi]
""",
        ('M[0] is read in block "M" at i=0, k=0', "C[0, 0]", 'T.float32("-inf")'),
    ),
    Wrong(
        "one of a million",
        "A: f32[1048576], C: f32[1048576]",
        "X: f32[1048576]",
        """
    for i in range(1048575):
        X[i] = A[i]
    for j in range(1048576):
        C[j] = X[j]
""",
        ("X[1048575] is read at j=1048575",),
    ),
    Wrong(
        "a large window over a border that nobody filled",
        "A: f32[4096, 4096], C: f32[4096, 4096]",
        "P: f32[4098, 4098], S: f32[4096, 4096]",
        """
    for i, j in T.grid(4096, 4096):
        P[i + 1, j + 1] = A[i, j]
    for i, j, k, l in T.grid(4096, 4096, 3, 3):
        with T.block("S"):
            vi, vj, vk, vl = T.axis.remap("SSRR", [i, j, k, l])
            with T.init():
                S[vi, vj] = 0.0
            S[vi, vj] = S[vi, vj] + P[vi + vk, vj + vl]
    for i, j in T.grid(4096, 4096):
        C[i, j] = S[i, j] * 0.125
""",
        ('P[0, 0] is read in block "S" at i1=0, j1=0, k=0, l=0', "C[0, 0] would come of it"),
    ),
    Wrong(
        "a large product of matrices without init",
        "A: f32[4096, 4096], B: f32[4096, 4096], C: f32[4096, 4096]",
        "X: f32[4096, 4096]",
        """
    for i, j, k in T.grid(4096, 4096, 4096):
        with T.block("product"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            X[vi, vj] = X[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(4096, 4096):
        C[i, j] = T.max(X[i, j], 0.0)
""",
        ('X[0, 0] is read in block "product" at i=0, j=0, k=0', "C[0, 0]", "T.init()"),
    ),
)


SMALL = tuple(item for item in WRONG if "large" not in item.name and "million" not in item.name)


@pytest.mark.parametrize("item", WRONG, ids=lambda item: item.name)
def test_certain_uses_are_refused_with_the_element(item: Wrong):
    mod = program(item)
    error = refuses("E131", lambda: mlc.verify(mod), *item.words)
    assert isinstance(error, mlc.VerifyError)


@pytest.mark.parametrize("item", SMALL, ids=lambda item: item.name)
def test_the_interpreter_says_the_same(item: Wrong):
    mod = program(item)
    error = refuses("E131", lambda: mlc.interpret(mod, "main", *arguments(mod)), *item.words)
    assert not isinstance(error, mlc.VerifyError)


def arguments(mod: mlc.IRModule) -> list[np.ndarray]:
    """Numbers around 0, none of them twice; C is 0.5 everywhere."""
    rng = np.random.default_rng(0)
    made = []
    for param in mod["main"].params:
        array = rng.permutation(np.arange(np.prod(param.shape))).reshape(param.shape) * 2 - 5
        made.append(np.full(param.shape, 0.5) if param.name == "C" else array)
    return [a.astype(p.dtype) for a, p in zip(made, mod["main"].params, strict=True)]


TARGETS = ("interpreter", "llvm", pytest.param("c", marks=pytest.mark.requires("cc")))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("item", RIGHT, ids=lambda item: item.name)
def test_odd_programs_that_write_everything_they_use_are_right(item: Odd, target: str):
    mod = program(item)
    given = arguments(mod)
    expected = item.expected(*copies(given[:-1]))
    if target == "interpreter":
        mlc.interpret(mod, "main", *given)
    else:
        mlc.build(mod, target=target, cache=False)["main"](*given)
    np.testing.assert_array_equal(given[-1], expected)


class _Without(Mutator):
    """A function without one of its stores, or a block's init."""

    def __init__(self, part: Node):
        self.part = part

    def visit_Store(self, item: Store) -> Stmt:
        return Seq(()) if item is self.part else item

    def visit_Block(self, item: Block) -> Block:
        made = self.visit_children(item)
        return replace(made, init=None) if item is self.part else made


def mutilated(func: PrimFunc) -> list[PrimFunc]:
    parts = [n for n in walk(func.body) if isinstance(n, Store)]
    parts += [n for n in walk(func.body) if isinstance(n, Block) and n.init is not None]
    return [_Without(part).visit(func) for part in parts]


def outcome(call: Callable[..., object], *args: object) -> str:
    """The code of an error; "" for none."""
    try:
        call(*args)
    except mlc.CompileError as error:
        return error.code
    return ""


def test_what_is_refused_goes_wrong_and_most_that_goes_wrong_is_refused():
    """Programs of many kinds, each without one of its stores or inits: no proof is wrong, and what
    it misses is little.
    """
    both = only_run = 0
    for name in PROGRAMS:
        mod = subject_of(name).mod
        for func in mutilated(mod["main"]):
            proven = outcome(mlc.verify, func)
            if proven not in ("", "E131") or cost(func) > BUDGET:
                continue
            ran = outcome(execute, func, inputs(func, "ordinary"))
            assert proven in ("", ran), func.script()
            both += bool(proven)
            only_run += ran == "E131" and not proven
    assert both > 50 > 10 > only_run


def test_a_sum_into_what_was_never_written_is_refused_before_any_step():
    mod = program(WRONG[0])
    refuses("E131", lambda: mlc.Schedule(mod), 'block "sum"')
    refuses("E131", lambda: mlc.build(mod), 'block "sum"')


def test_rfactor_of_a_sum_onto_what_was_written_keeps_it():
    mod = mlc.parse(STARTED_APART)
    sch = mlc.Schedule(mod)
    (block,) = (n for n in walk(sch.func) if isinstance(n, Block) and n.name == "sum")
    assert block.init is None
    sch = sch.split("k", [None, 4]).rfactor("k_1")
    assert_same(mod, sch.mod)


STARTED_APART = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    X = T.alloc_buffer((4,), "float32")
    for i in range(4):
        X[i] = T.if_then_else(A[i, 0] > 0.0, 1.0, 2.0)
    for i, k in T.grid(4, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = X[vi] + A[vi, vk]
    for i in range(4):
        C[i] = X[i]
"""


def test_data_decides_only_the_interpreter_can_say():
    """The element is written where A is positive, and read everywhere."""
    mod = mlc.verify(mlc.parse(DATA_DECIDES))
    a, c = np.ones(8, np.float32), np.zeros(8, np.float32)
    mlc.interpret(mod, "main", a, c)
    assert c.tolist() == [2.0] * 8
    a[3] = -1.0
    refuses("E131", lambda: mlc.interpret(mod, "main", a, c), "X[3]", "i=3", "C[3] would come")


DATA_DECIDES = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    X = T.alloc_buffer((8,), "float32")
    Y = T.alloc_buffer((8,), "float32")
    for i in range(8):
        if A[i] > 0.0:
            X[i] = A[i]
        Y[i] = X[i] * 2.0
        C[i] = Y[i]
"""


def test_steps_may_read_what_was_never_written_where_nobody_sees_it():
    """Copies of whole buffers, and blocks that run beyond the end."""
    large = mlc.parse(SUMS.replace("alloc_buffer((10,)", "alloc_buffer((16,)"))
    small = mlc.parse(SUMS)
    copied = mlc.Schedule(large).cache_read("C", "X", "local")
    assert "T.axis.spatial(16, ax0)" in copied.mod.script()
    padded = mlc.Schedule(small).cache_read("sum", "A", "local").split("i", [None, 4], tail="pad")
    assert "range(3)" in padded.mod.script() or "T.grid(3, 4, 8)" in padded.mod.script()
    assert_same(large, mlc.verify(copied.mod))
    assert_same(small, mlc.verify(padded.mod))


SUMS = """
@T.prim_func
def main(A: T.Buffer((10, 8), "float32"), C: T.Buffer((10,), "float32")):
    X = T.alloc_buffer((10,), "float32")
    for i, k in T.grid(10, 8):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                X[vi] = 0.0
            X[vi] = X[vi] + A[vi, vk]
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = X[vi] * 2.0
"""


def test_a_loop_inside_a_block_may_end_at_its_iter():
    """The extent of such a loop is known of the loops around the block."""
    with pytest.raises(mlc.VerifyError) as caught:
        mlc.verify(mlc.parse(TRIANGLE))
    assert caught.value.code == "E131"
    assert "Y[0] is read in block" in caught.value.why
    assert "at i=0, j=0" in caught.value.why


TRIANGLE = """
@T.prim_func
def main(B: T.Buffer((8,), "float32")):
    Y = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.opaque(8, i)
            for j in range(vi + 1):
                B[vi] = Y[j]
"""
