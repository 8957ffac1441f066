"""`match_buffer` in full, and other names for parts of buffers."""

import numpy as np
import pytest

import minimlc as mlc
from tests.helpers import refuses
from tests.script_dialect.cases import Case, check, module, numbered, vectors

HANDLES = "a: T.handle, b: T.handle"
F32 = vectors("float32")
TILES = 'A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")'
ROWS = 'A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")'

CASES: dict[str, list[Case]] = {
    "layout": [
        (
            HANDLES,
            """
            A = T.match_buffer(a, (16,), "float32", align=64, offset_factor=1)
            B = T.match_buffer(b, [16], dtype="float32", elem_offset=0, strides=[1],
                               scope="global", buffer_type="auto", axis_separators=[])
            for i in range(16):
                B[i] = A[i]
            """,
            lambda a, b: a,
        ),
        (
            HANDLES,
            """
            s0 = T.var("int32")
            s1 = T.int32()
            off = T.Var("off", "int64")
            A = T.match_buffer(a, (4, 4), "int32", strides=[s0, s1], elem_offset=off, align=16)
            B = T.match_buffer(b, (4, 4), "int32", strides=[s0, 1], offset_factor=16)
            for i, j in T.grid(4, 4):
                B[i, j] = A[j, i]
            """,
            lambda a, b: a.T,
        ),
        (
            'A: T.Buffer((2, 8), "int8", strides=[8, 1], align=8), '
            'B: T.Buffer((16,), "int8", elem_offset=0, offset_factor=4)',
            """
            Y = T.alloc_buffer((16,), "int8", strides=(1,), elem_offset=0, align=64)
            for i in range(16):
                Y[i] = A[i // 8, i % 8]
            for i in range(16):
                B[i] = Y[i]
            """,
            lambda a, b: a.ravel(),
        ),
    ],
    "regions": [
        (
            TILES,
            """
            for i, j in T.grid(4, 4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                    T.writes(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                    s0 = T.int32()
                    X = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4),
                                       "float32", strides=[s0, 1], offset_factor=1)
                    Y = T.match_buffer(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4))
                    for x, y in T.grid(4, 4):
                        with T.block("inner"):
                            vx, vy = T.axis.remap("SS", [x, y])
                            T.reads(X[vx, vy])
                            T.writes(Y[vx, vy])
                            Y[vx, vy] = X[vx, vy] * 2.0
            """,
            lambda a, b: a * 2,
        ),
        (
            ROWS,
            """
            for i in range(8):
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    row = T.match_buffer(A[vi, 0:4], (4,), "float32")
                    total = T.match_buffer(B[vi : vi + 1], (1,), "float32")
                    total[0] = 0.0
                    for k in range(4):
                        total[0] += row[k]
            """,
            lambda a, b: ((np.float32(0) + a[:, 0]) + a[:, 1] + a[:, 2]) + a[:, 3],
        ),
        (
            'A: T.Buffer((4, 4, 4), "int32"), B: T.Buffer((4, 4), "int32")',
            """
            page = T.match_buffer(A[2, :, :], (4, 4), "int32")
            half = T.match_buffer(page[2:4, 0:4], (2, 4), "int32")
            for i, j in T.grid(4, 4):
                B[i, j] = page[i, j] + half[i // 2, j]
            """,
            lambda a, b: a[2] + a[2, 2:][np.arange(4) // 2],
        ),
    ],
    "data": [
        (
            F32,
            """
            Y = T.alloc_buffer((16,))
            Z = T.decl_buffer((4, 4), data=Y.data)
            for i in range(16):
                Y[i] = A[i]
            for i, j in T.grid(4, 4):
                B[i * 4 + j] = Z[i, j] + 1.0
            """,
            lambda a, b: a + 1,
        ),
        (
            TILES,
            """
            flat = T.decl_buffer((256,), "float32", data=A.data)
            for i, j in T.grid(16, 16):
                B[i, j] = flat[i * 16 + j]
            """,
            lambda a, b: a,
        ),
        (
            'A: T.Buffer((2, 3, 4), "int32"), B: T.Buffer((4, 4), "int32")',
            """
            X = T.decl_buffer((4, 4), "int32", data=A.data, elem_offset=8)
            Y = T.decl_buffer((16,), "int32", data=B.data)
            for i, j in T.grid(4, 4):
                Y[i * 4 + j] = X[i, j]
            """,
            lambda a, b: a.ravel()[8:].reshape(4, 4),
        ),
    ],
}


@pytest.mark.parametrize(("name", "params", "body", "expected"), numbered(CASES))
def test_reads_as_it_is(name, params, body, expected):
    check(params, body, expected)


def test_inside_intrinsics():
    params = "a: T.handle, b: T.handle, c: T.handle"
    buffers = "\n".join(
        f'{x.upper()} = T.match_buffer({x}, (4, 4), "float32", align=64, offset_factor=16)'
        for x in "abc"
    )
    product = """
{}
for i, j, k in T.grid(4, 4, 4):
    with T.block("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    rows = """
{}
for i, k in T.grid(4, 4):
    for j in T.vectorized(4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    parts = [module(params, body.format(buffers))["main"] for body in (product, rows)]
    name = "dialect_4x4x4"
    mlc.register_intrin(name, *parts)
    start = module(
        'A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), '
        'C: T.Buffer((8, 8), "float32")',
        """
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
    )
    sch = mlc.Schedule(start)
    for loop in "ijk":
        sch = sch.split(loop, [None, 4])
    sch = sch.reorder("i_0", "j_0", "k_0", "i_1", "j_1", "k_1")
    sch = sch.decompose_reduction("C", "k_0").tensorize("i_1", name)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, (8, 8)).astype("float32") for _ in range(2))
    c = np.empty((8, 8), "float32")
    mlc.build(sch.mod)["main"](a, b, c)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("params", "body", "code", "words"),
    [
        (HANDLES, "A = T.match_buffer(a, (4, 4), strides=[1, 4])", "E124", "(4, 1)"),
        (HANDLES, "A = T.match_buffer(a, (4, 4), strides=[4])", "E124", "leave strides out"),
        (HANDLES, "A = T.match_buffer(a, (4,), elem_offset=4)", "E124", "leave elem_offset out"),
        (HANDLES, "A = T.match_buffer(a, (4,), axis_separators=[1])", "E124", "axis_separators"),
        (HANDLES, "A = T.match_buffer(a, (4,), algn=64)", "E121", "no argument 'algn'"),
        (F32, "X = T.match_buffer(A[0:4], (5,))", "E126", "extents are [4]"),
        (F32, "X = T.match_buffer(A[0:2], (2,))\nX[2] = 1.0", "E107", "size 2 on axis 0"),
        (F32, "X = T.match_buffer(A[0:4, 0], (4,))", "E107", "1 dimension(s), got 2"),
        (F32, 'X = T.match_buffer(A[0:4], (4,), "int8")', "E108", "A holds float32"),
        (F32, "X = T.match_buffer(A[0:4], (4,))\nX[0, 0] = 1.0", "E107", "X has shape (4,)"),
        (F32, "X = T.match_buffer(A[0:4], (4,))\nB[0] = X", "E108", "index it: X[i]"),
        (F32, "X = T.decl_buffer((17,), data=A.data)", "E126", "has 16 elements"),
        (F32, "X = T.decl_buffer((4,), data=A)", "E124", "memory of its own"),
        (
            "a: T.handle",
            "n = T.int32()\nA = T.match_buffer(a, (n,))\nX = T.decl_buffer((n,), data=A.data)",
            "E123",
            "sizes that are numbers",
        ),
        (F32, "X = T.decl_buffer((4,), data=A.data, elem_offset=-1)", "E126", ">= 0, got -1"),
        (F32, "X = T.decl_buffer((4,), data=A.data, elem_offset=1.5)", "E126", ">= 0, got 1.5"),
        (F32, "X = T.decl_buffer((4, 4), data=A.data)\nX[3, 4] = 1.0", "E107", "size 4 on axis 1"),
    ],
)
def test_refusals(params, body, code, words):
    refuses(code, lambda: mlc.verify(module(params, body)), words)
