"""Programs that differ from ours in spelling alone read as they are."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import T
from tests.helpers import random_args, refuses
from tests.script_dialect.cases import Case, check, check_call, module, numbered, vectors

F32, I32 = vectors("float32"), vectors("int32")
SQUARE = 'A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")'
ROWS = 'A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")'


def row_sums(a, b):
    """Sums in the order in which the programs add."""
    total = np.zeros(len(a), a.dtype)
    for column in a.T:
        total = total + column
    return total


CASES: dict[str, list[Case]] = {
    "typed sizes": [
        (
            'A: T.Buffer((T.int64(16),), "int32"), B: T.Buffer((T.int64(16),), "int32")',
            """
            for i in T.serial(T.int64(16)):
                B[i] = A[i] + 1
            """,
            lambda a, b: a + 1,
        ),
        (
            'A: T.Buffer((T.int64(4), T.int64(4)), "int32"), B: T.Buffer((T.int32(16),), "int32")',
            """
            for i, j in T.grid(T.int64(4), T.int32(4)):
                with T.block("B"):
                    vi = T.axis.spatial(T.int64(4), i)
                    vj = T.axis.spatial(T.int64(4), j)
                    B[vi * T.int64(4) + vj] = A[vi, vj]
            """,
            lambda a, b: a.ravel(),
        ),
        (
            I32,
            """
            Y = T.alloc_buffer((T.int64(16),), "int32")
            for i in T.parallel(T.int64(0), T.int64(16)):
                Y[i] = A[i] * T.int32(2)
            for i in T.vectorized(T.int64(16)):
                B[i] = Y[i]
            """,
            lambda a, b: a * 2,
        ),
    ],
    "unnamed blocks": [
        (
            F32,
            """
            for i in range(16):
                with T.block():
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi]
            """,
            lambda a, b: a,
        ),
        (
            ROWS,
            """
            for i, k in T.grid(8, 4):
                with T.block(""):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = 0.0
                    B[vi] += A[vi, vk]
            """,
            row_sums,
        ),
        (
            F32,
            """
            Y = T.alloc_buffer((16,))
            for i in range(16):
                with T.block():
                    vi = T.axis.spatial(16, i)
                    Y[vi] = A[vi] + 1.0
            for i in range(16):
                with T.block():
                    vi = T.axis.spatial(16, i)
                    B[vi] = Y[vi] * 2.0
            """,
            lambda a, b: (a + 1) * 2,
        ),
    ],
    "evaluate": [
        (
            F32,
            """
            T.evaluate(0)
            for i in range(16):
                B[i] = A[i]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            for i in range(16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i)
                    T.evaluate(A[vi] * 2.0)
                    B[vi] = A[vi]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            for i in range(16):
                if i < 8:
                    B[i] = A[i]
                else:
                    T.evaluate(T.int32(0))
            """,
            lambda a, b: np.where(np.arange(16) < 8, a, b),
        ),
    ],
    "root": [
        (
            F32,
            """
            T.block_attr({"meta.parallel": 64, "name": "root"})
            for i in range(16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            with T.block("root"):
                T.reads(A[0:16])
                T.writes(B[0:16])
                T.block_attr({"x": 1})
                Y = T.alloc_buffer((16,))
                for i in range(16):
                    with T.block("Y"):
                        vi = T.axis.spatial(16, i)
                        Y[vi] = A[vi]
                for i in range(16):
                    with T.block("B"):
                        vi = T.axis.spatial(16, i)
                        B[vi] = Y[vi]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            T.func_attr({"tir.noalias": True})
            with T.block("root"):
                T.block_attr({"x": 1})
                T.reads()
                T.writes()
                for i in range(16):
                    B[i] = A[i]
            """,
            lambda a, b: a,
        ),
    ],
    "dtype": [
        (
            F32,
            """
            for i in range(16):
                B[i] = T.if_then_else(A[i] > T.float32(0), A[i], T.float32(0), dtype="float32")
            """,
            lambda a, b: np.where(a > 0, a, 0),
        ),
        (
            F32,
            """
            for i in range(16):
                B[i] = T.sqrt(A[i] * A[i], dtype="float32") + T.sqrt(4.0, dtype="float32")
            """,
            lambda a, b: np.sqrt(a * a) + 2,
        ),
        (
            I32,
            """
            for i in range(16):
                B[i] = T.if_then_else(i % 2 == 0, 1, 0, dtype="int32") + T.abs(A[i], dtype="int32")
            """,
            lambda a, b: (np.arange(16) % 2 == 0) + np.abs(a),
        ),
    ],
    "declared over loops": [
        (
            F32,
            """
            for i, j in T.grid(4, 4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[i * 4 + j])
                    T.writes(B[i * 4 + j])
                    B[vi * 4 + vj] = A[vi * 4 + vj]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            for i in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    T.reads([A[i * 4 : i * 4 + 4]])
                    T.writes([B[vi * 4 : (vi + 1) * 4]])
                    for j in range(4):
                        B[vi * 4 + j] = A[vi * 4 + j]
            """,
            lambda a, b: a,
        ),
        (
            ROWS,
            """
            for i, k0, k1 in T.grid(8, 2, 2):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    vk = T.axis.reduce(4, k0 * 2 + k1)
                    T.reads(B[i], A[i, k0 * 2 : k0 * 2 + 2])
                    T.writes(B[i])
                    with T.init():
                        B[vi] = 0.0
                    B[vi] = B[vi] + A[vi, vk]
            """,
            row_sums,
        ),
    ],
    "an index as a number": [
        (
            I32,
            """
            for i in range(16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = vi + 1
            """,
            lambda a, b: np.arange(16) + 1,
        ),
        (
            F32,
            """
            for i in range(16):
                with T.block("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] + vi * 2
            """,
            lambda a, b: a + np.arange(16, dtype="float32") * 2,
        ),
        (
            I32,
            """
            for i in range(15):
                with T.block("B"):
                    vi = T.axis.spatial(15, T.Cast("int64", i))
                    B[vi + T.int32(1)] = A[T.cast(T.cast(vi, "int32") * 1, "int64")] + A[T.int32(0)]
            """,
            lambda a, b: np.concatenate([b[:1], a[:15] + a[0]]),
        ),
        (
            I32,
            """
            for i in range(16):
                if A[i] < i - 4:
                    B[i] = T.max(A[i], i - 8)
                else:
                    B[i] = T.if_then_else(i < 3, 1, i)
            """,
            lambda a, b: np.where(
                a < np.arange(16) - 4,
                np.maximum(a, np.arange(16) - 8),
                np.where(np.arange(16) < 3, 1, np.arange(16)),
            ),
        ),
    ],
    "Cast": [
        (
            I32,
            """
            for i in range(16):
                B[i] = T.Cast("int32", T.Cast("float32", A[i]) * T.float32(0.5))
            """,
            lambda a, b: a.astype("float32") * np.float32(0.5),
        ),
        (
            vectors("int8"),
            """
            for i in range(16):
                B[i] = T.Cast("int8", T.Cast("int32", A[i]) * 100)
            """,
            lambda a, b: (a.astype("int32") * 100).astype("int8"),
        ),
        (
            vectors("float16"),
            """
            for i in range(16):
                B[i] = T.Cast("float16", T.Cast("float32", A[i]) + T.Cast("float32", i))
            """,
            lambda a, b: a.astype("float32") + np.arange(16, dtype="float32"),
        ),
    ],
    "astype": [
        (
            I32,
            """
            for i in range(16):
                B[i] = (A[i].astype("float32") * T.float32(0.5)).astype("int32")
            """,
            lambda a, b: a.astype("float32") * np.float32(0.5),
        ),
        (
            vectors("int8"),
            """
            for i in range(16):
                B[i] = (A[i].astype(dtype="int32") * 100).astype("int8")
            """,
            lambda a, b: (a.astype("int32") * 100).astype("int8"),
        ),
        (
            F32,
            """
            for i in range(16):
                B[i] = (A[i] > 0.0).astype("float32") + i.astype("float32")
            """,
            lambda a, b: (a > 0) + np.arange(16, dtype="float32"),
        ),
    ],
    "likely": [
        (
            F32,
            """
            for i in range(20):
                if T.likely(i < 16):
                    B[i] = A[i]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            for i, j in T.grid(3, 6):
                with T.block("B"):
                    vi = T.axis.spatial(16, i * 6 + j)
                    T.where(T.likely(i * 6 + j < 16))
                    B[vi] = A[vi] + 1.0
            """,
            lambda a, b: a + 1,
        ),
        (
            F32,
            """
            for i in range(16):
                B[i] = T.if_then_else(T.likely(i < 12), A[i], T.float32(0))
            """,
            lambda a, b: np.where(np.arange(16) < 12, a, 0),
        ),
    ],
    "other names of functions": [
        (
            F32,
            """
            for i in range(16):
                B[i] = T.power(T.fabs(A[i]), T.float32(1)) + T.fabs(A[i])
            """,
            lambda a, b: np.abs(a) + np.abs(a),
        ),
        (
            F32,
            """
            for i in range(T.ceildiv(31, 2)):
                B[i] = A[T.min(T.ceildiv(i, 2), 15)]
            """,
            lambda a, b: a[(np.arange(16) + 1) // 2],
        ),
        (
            I32,
            """
            for i in range(16):
                B[i] = A[T.indexdiv(i, 2)] + A[T.indexmod(i, 4)] + T.ceildiv(A[i], 3)
            """,
            lambda a, b: a[np.arange(16) // 2] + a[np.arange(16) % 4] + -(-a // 3),
        ),
        (
            vectors("uint8"),
            """
            for i in range(16):
                B[i] = T.ceildiv(A[i] | T.uint8(240), T.uint8(17))
            """,
            lambda a, b: (-(-(a | 240).astype(int) // 17)).astype("uint8"),
        ),
        (
            I32,
            """
            for i in range(16):
                B[i] = T.ceildiv(A[i], -3) + T.ceildiv(i - 8, -2)
            """,
            lambda a, b: -(a // 3) + -((np.arange(16) - 8) // 2),
        ),
    ],
    "shifts": [
        (
            I32,
            """
            for i in range(16):
                B[i] = T.shift_right(A[i], 1) + T.shift_left(A[i], 2)
            """,
            lambda a, b: (a >> 1) + (a << 2),
        ),
        (
            vectors("uint8"),
            """
            for i in range(16):
                B[i] = T.shift_left(A[i], T.uint8(3)) | (A[i] >> T.uint8(2))
            """,
            lambda a, b: (a << 3) | (a >> 2),
        ),
        (
            I32,
            """
            for i in range(16):
                B[i] = (A[i] << i % 3) + T.shift_right(A[i], i % 2)
            """,
            lambda a, b: (a << np.arange(16) % 3) + (a >> np.arange(16) % 2),
        ),
    ],
    "bitwise": [
        (
            I32,
            """
            for i in range(16):
                B[i] = T.bitwise_and(A[i], 7) | T.bitwise_or(A[i], 8)
            """,
            lambda a, b: (a & 7) | (a | 8),
        ),
        (
            I32,
            """
            for i in range(16):
                B[i] = T.bitwise_xor(A[i], T.bitwise_not(A[i] << 1))
            """,
            lambda a, b: a ^ ~(a << 1),
        ),
        (
            vectors("int64"),
            """
            for i in range(16):
                B[i] = (A[i] & 6) | ~(A[i] ^ 3)
            """,
            lambda a, b: (a & 6) | ~(a ^ 3),
        ),
    ],
    "where loops start": [
        (
            F32,
            """
            for i in T.serial(2, 8):
                with T.block("B"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = A[vi] * 2.0
            """,
            lambda a, b: np.concatenate([b[:2], a[2:8] * 2, b[8:]]),
        ),
        (
            I32,
            """
            for i in range(1, 15):
                B[i] = A[i - 1] + A[i + 1]
            """,
            lambda a, b: np.concatenate([b[:1], a[:-2] + a[2:], b[-1:]]),
        ),
        (
            ROWS,
            """
            for i in T.parallel(0, 8):
                for k in T.serial(1, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = 0.0
                        B[vi] = B[vi] + A[vi, vk]
            """,
            lambda a, b: row_sums(a[:, 1:], b),
        ),
    ],
    "where axes start": [
        (
            F32,
            """
            for i in T.serial(2, 8):
                with T.block("B"):
                    vi = T.axis.spatial((2, 8), i)
                    B[vi] = A[vi]
            """,
            lambda a, b: np.concatenate([b[:2], a[2:8], b[8:]]),
        ),
        (
            F32,
            """
            for i in range(6):
                with T.block("B"):
                    vi = T.axis.spatial((2, 8), i + 2)
                    B[vi] = A[vi - 2]
            """,
            lambda a, b: np.concatenate([b[:2], a[:6], b[8:]]),
        ),
        (
            ROWS,
            """
            for i, k in T.grid(8, 3):
                with T.block("B"):
                    vi = T.axis.S((0, 8), i)
                    vk = T.axis.R((1, 4), k + 1)
                    with T.init():
                        B[vi] = 0.0
                    B[vi] += A[vi, vk]
            """,
            lambda a, b: row_sums(a[:, 1:], b),
        ),
    ],
    "scopes": [
        (
            F32,
            f"""
            Y = T.alloc_buffer((16,), scope="{scope}")
            for i in range(16):
                Y[i] = A[i]
            for i in range(16):
                B[i] = Y[i]
            """,
            lambda a, b: a,
        )
        for scope in ("shared.dyn", "wmma.matrix_a", "wmma.accumulator", "global.A_reg", "local")
    ],
    "sblock": [
        (
            F32,
            """
            Y = T.sblock_alloc_buffer((16,), "float32")
            for i in range(16):
                with T.sblock("Y"):
                    vi = T.axis.spatial(16, i)
                    T.reads(A[vi])
                    T.writes(Y[vi])
                    T.sblock_attr({"a": 1})
                    Y[vi] = A[vi]
            for i in range(16):
                B[i] = Y[i]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            with T.sblock("root"):
                T.sblock_attr({"a": 1})
                for i in range(16):
                    with T.sblock():
                        vi = T.axis.spatial(16, i)
                        B[vi] = A[vi]
            """,
            lambda a, b: a,
        ),
        (
            ROWS,
            """
            for i, k in T.grid(8, 4):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
            """,
            row_sums,
        ),
    ],
    "decl_buffer": [
        (
            F32,
            """
            Y = T.decl_buffer((16,), "float32")
            for i in range(16):
                Y[i] = A[i]
            for i in range(16):
                B[i] = Y[i]
            """,
            lambda a, b: a,
        ),
        (
            F32,
            """
            with T.decl_buffer([16], dtype="float32", scope="global") as Y:
                for i in range(16):
                    Y[i] = A[i] + 1.0
                for i in range(16):
                    B[i] = Y[i]
            """,
            lambda a, b: a + 1,
        ),
        (
            I32,
            """
            for i in range(16):
                Y = T.decl_buffer((1,), "int32", scope="local")
                Y[0] = A[i] * A[i]
                B[i] = Y[0]
            """,
            lambda a, b: a * a,
        ),
    ],
}


@pytest.mark.parametrize(("name", "params", "body", "expected"), numbered(CASES))
def test_reads_as_it_is(name, params, body, expected):
    check(params, body, expected)


def test_attributes_of_the_root_block_are_the_functions():
    text = 'with T.block("root"):\n    T.writes()\n    T.block_attr({"x": 1})'
    assert dict(module(F32, text)["main"].attrs) == {"x": 1}


def test_a_block_has_a_name_of_its_own():
    body = "for i in range(16):\n    with T.block():\n        B[i] = A[i]\n"
    text = module(F32, body + body)["main"].script()
    assert 'T.block("block")' in text and 'T.block("block1")' in text


OPTIONED: list[Case] = [
    (F32, "for i in range(16):\n    B[i] = A[i] + 1.0", lambda a, b: a + 1),
    (
        F32,
        """
        for i in T.parallel(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = T.max(A[vi], 0.0)
        """,
        lambda a, b: np.maximum(a, 0),
    ),
    (
        vectors("int32"),
        """
        X = T.alloc_buffer((1,), "int32")
        for i, k in T.grid(16, 16):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = 0
                B[vi] = B[vi] + A[vk]
        """,
        lambda a, b: np.full(16, a.sum()),
    ),
]
"""Programs that are the same with and without an option of their decorator."""


@pytest.mark.parametrize("option", ["private=True", "s_tir=True", "check_well_formed=False"])
@pytest.mark.parametrize("case", OPTIONED, ids=["plain", "parallel", "sum"])
def test_options_of_the_decorator(option, case):
    plain = check(*case)
    text = plain.script().replace("@T.prim_func", f"@T.prim_func({option})")
    mod = mlc.parse(text)
    assert option in text and mlc.structural_equal(mod, plain)
    check_call(mod, random_args(mod["main"], np.random.default_rng(0)), case[2])


def test_options_of_the_decorator_in_python():
    @T.prim_func(private=True, check_well_formed=False, s_tir=True)
    def main(A: T.Buffer((16,), "float32")):
        for i in range(16):
            A[i] = A[i] + 1.0

    assert main.attrs == ()


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ('B[0] = T.exp(A[0], dtype="float64")', "E108", "gives float32 here, not float64"),
        ('B[0] = A[0].astype("flot")', "E108", 'unknown dtype "flot"'),
        ("B[0] = A[0].astype()", "E121", "misses dtype"),
        ("B[0] = A[0].cast(1)", "E124", "a script cannot call"),
        ("B[0] = T.likely(1 < 2, 3)", "E121", "at most 1"),
    ],
)
def test_refusals(body, code, words):
    refuses(code, lambda: module(F32, body), words)


@pytest.mark.parametrize("scope", ["shared.dyn", "wmma.matrix_a", "global.A_reg"])
def test_a_schedule_takes_any_scope(scope):
    body = CASES["unnamed blocks"][0][1].replace("T.block()", 'T.block("B")')
    sch = mlc.Schedule(module(F32, body)).cache_read("B", "A", scope)
    name = f"A_{scope.split('.')[-1]}"
    assert f'scope="{scope}"' in sch.set_scope(name, name, scope).mod.script()
    refuses("E117", lambda: sch.set_scope(name, name, "locl"), "unknown scope")
