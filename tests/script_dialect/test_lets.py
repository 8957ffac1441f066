"""Names for values, typed or not, as statements, suites and expressions."""

import numpy as np
import pytest

from tests.helpers import refuses
from tests.script_dialect.cases import Case, check, module, numbered, vectors

F32, I32 = vectors("float32"), vectors("int32")
MEMORY = "read from memory"
FIRST = 'T.cast(A[0], "int64")'

CASES: dict[str, list[Case]] = {
    "annotated": [
        (
            F32,
            """
            for i in range(16):
                x: T.float32 = A[i] * 2.0
                B[i] = x + x
            """,
            lambda a, b: a * 2 + a * 2,
        ),
        (
            F32,
            """
            for i, j in T.grid(4, 4):
                row: T.int32 = i * 4
                with T.block("B"):
                    vi = T.axis.spatial(16, row + j)
                    value: T.float32 = A[vi]
                    B[vi] = T.max(value, 0.0)
            """,
            lambda a, b: np.maximum(a, 0),
        ),
        (
            I32,
            """
            for i in range(16):
                old: T.int32 = B[i]
                big: T.bool = old > 3
                two: T.int32 = 2
                B[i] = T.if_then_else(big, old * two, A[i] + i)
            """,
            lambda a, b: np.where(b > 3, b * 2, a + np.arange(16)),
        ),
        (
            F32,
            """
            for i in range(16):
                x: T.uint32 = i - 5
                B[i] = T.cast(x, "float32")
            """,
            lambda a, b: (np.arange(16) - 5).astype("uint32").astype("float32"),
        ),
    ],
    "LetStmt": [
        (
            F32,
            """
            for i in range(16):
                with T.LetStmt(A[i] + 1.0) as x:
                    B[i] = x * x
            """,
            lambda a, b: (a + 1) * (a + 1),
        ),
        (
            F32,
            """
            for i in range(16):
                x = T.float32()
                with T.LetStmt(A[i], var=x):
                    B[i] = x - 1.0
            """,
            lambda a, b: a - 1,
        ),
        (
            I32,
            """
            for i in range(16):
                with T.LetStmt(i // 2) as half:
                    with T.LetStmt(A[half]) as x:
                        B[i] = x + half
            """,
            lambda a, b: a[np.arange(16) // 2] + np.arange(16) // 2,
        ),
    ],
    "let": [
        (
            F32,
            """
            x = T.float32()
            for i in range(16):
                with T.let(x, A[i]):
                    B[i] = x
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            j = T.int32()
            for i in range(16):
                with T.let(j, 15 - i):
                    B[j] = A[j]
            """,
            lambda a, b: a,
        ),
        (
            I32,
            """
            for i in range(16):
                x = T.int32()
                y = T.int32()
                with T.let(x, A[i]):
                    with T.let(y, x * x):
                        B[i] = y - x
            """,
            lambda a, b: a * a - a,
        ),
    ],
    "Let": [
        (
            F32,
            """
            for i in range(16):
                x = T.float32()
                B[i] = T.Let(x + x, where={x: A[i]})
            """,
            lambda a, b: a + a,
        ),
        (
            I32,
            """
            x = T.int32()
            y = T.int32()
            for i in range(16):
                B[i] = T.Let(x * y, where={x: B[i], y: A[i]})
            """,
            lambda a, b: a * b,
        ),
        (
            F32,
            """
            j = T.int32()
            for i in range(16):
                B[i] = T.Let(A[j], where={j: 15 - i})
            """,
            lambda a, b: a[::-1],
        ),
    ],
    "plain": [
        (
            F32,
            """
            for i in range(16):
                x = A[i]
                B[i] = x * x
            """,
            lambda a, b: a * a,
        ),
        (
            I32,
            """
            for i in range(8):
                x = A[i]
                y = A[15 - i] + x
                B[i] = y
                B[15 - i] = y * x
            """,
            lambda a, b: np.append(a[:8] + a[:7:-1], ((a[:8] + a[:7:-1]) * a[:8])[::-1]),
        ),
        (
            F32,
            """
            with T.block("root"):
                scale = A[0]
                for i in range(16):
                    with T.block("B"):
                        vi = T.axis.spatial(16, i)
                        x = A[vi]
                        B[vi] = x * scale
            """,
            lambda a, b: a * a[0],
        ),
    ],
}


@pytest.mark.parametrize(("name", "params", "body", "expected"), numbered(CASES))
def test_reads_as_it_is(name, params, body, expected):
    check(params, body, expected)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("for i in range(8):\n    x = B[i]\n    B[i] = 1.0\n    B[i + 8] = x", "E124", MEMORY),
        ("x = B[0]\nfor i in range(16):\n    B[i] = x", "E124", "B changes here"),
        ("x: T.float32 = A[0]\ny = x + B[1]\nB[1] = y\nB[2] = y", "E124", '"y"'),
        ("for i in range(16):\n    x: T.int8 = i * 16\n    B[i] = 1.0", "E108", "not int8"),
        ("x: T.int32 = A[0]", "E108", "the value is float32, not int32"),
        ("x: T.float32 = A", "E124", "a name can stand"),
        ("x: T.Buffer = A[0]", "E124", "dtypes only"),
        ("A: T.float32 = 1.0", "E124", "cannot be replaced"),
        ("with T.LetStmt(A[0]):\n    pass", "E125", "needs a name"),
        ("B[0] = T.Let(A[0], where=A)", "E121", "where="),
        ("x = T.float32()\nB[0] = x", "E136", "nothing determines x"),
        (f"for i in range({FIRST}, {FIRST} + 4):\n    A[i] = 1.0", "E124", "A changes here"),
        (f"X = T.match_buffer(B[{FIRST}], ())\nA[0] = 2.0\nX[()] = 1.0", "E124", '"X" would'),
    ],
)
def test_refusals(body, code, words):
    refuses(code, lambda: module(F32, body), words)
