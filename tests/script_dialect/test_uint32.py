"""Programs on unsigned 32-bit integers."""

import numpy as np
import pytest

import minimlc as mlc
from tests.script_dialect.cases import Case, check_call, module, numbered, vectors

U32 = vectors("uint32")
VALUES = np.array([0, 1, 2, 3, 7, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**31 + 1], "uint32")
ALL = np.concatenate([VALUES, ~VALUES[:4]])

CASES: dict[str, list[Case]] = {
    "uint32": [
        (
            U32,
            """
            for i in T.vectorized(16):
                B[i] = A[i] * T.uint32(2654435761) + T.uint32(12345)
            """,
            lambda a, b: a * np.uint32(2654435761) + np.uint32(12345),
        ),
        (
            U32,
            """
            for i in T.parallel(16):
                B[i] = (A[i] ^ (A[i] >> T.uint32(13))) // T.uint32(7) + A[i] % T.uint32(1000)
            """,
            lambda a, b: (a ^ (a >> 13)) // 7 + a % 1000,
        ),
        (
            U32,
            """
            for i in range(16):
                if A[i] < T.max(B[i], T.uint32(2147483648)):
                    B[i] = ~A[i] - (A[i] << T.uint32(i))
                else:
                    B[i] = -A[i] + i
            """,
            lambda a, b: np.where(
                a < np.maximum(b, 2**31),
                ~a - (a << np.arange(16, dtype="uint32")),
                -a + np.arange(16, dtype="uint32"),
            ),
        ),
        (
            'A: T.Buffer((16,), "uint32"), B: T.Buffer((16,), "float64")',
            """
            for i in range(16):
                B[i] = T.cast(A[i], "float64") * 0.5 + T.cast(T.cast(A[i], "int32"), "float64")
            """,
            lambda a, b: a * 0.5 + a.astype("int32"),
        ),
        (
            'A: T.Buffer((16,), "uint32"), B: T.Buffer((16,), "int64")',
            """
            for i in range(16):
                wide: T.int64 = T.cast(A[i], "int64")
                B[i] = wide - T.cast(T.cast(wide * 3, "uint32"), "int64")
            """,
            lambda a, b: a.astype("int64") - (a.astype("int64") * 3).astype("uint32"),
        ),
        (
            'A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "uint32")',
            """
            for i in range(16):
                B[i] = T.cast(A[i], "uint32")
            """,
            lambda a, b: np.clip(a.astype("float64"), 0, 2**32 - 1).astype("uint32"),
        ),
    ],
}


@pytest.mark.parametrize(("name", "params", "body", "expected"), numbered(CASES))
@pytest.mark.parametrize("target", ["llvm", "c", "python"])
def test_computes_as_numpy_does(name, params, body, expected, target):
    mod = mlc.verify(module(params, body))
    first, last = mod["main"].params
    a = (ALL.view("int32") * 1.5 if first.dtype == "float32" else ALL).astype(first.dtype)
    b = np.arange(16)[::-1].astype(last.dtype) * 2
    check_call(mod, [a.copy(), b], expected)
    result = b.copy()
    mlc.build(mod, target)["main"](a, result)
    np.testing.assert_array_equal(result, expected(a, b.copy()).astype(last.dtype))
