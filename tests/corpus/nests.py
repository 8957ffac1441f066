"""Blocks in blocks, conditions by lane, stores that go round, and what other loops hold."""

from tests.corpus.case import Case

LANES_OF_LOOPS = """
    for i in range(8):
        if {test}:
            for j in range({extent}):
                C[j, i] = A[j, i] + 1
"""
ROWS = """
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            {where}
            for q in range(5):
                C[v, q] = A[v, q] * 2
"""
TWICE = """
    for i in range(8):
        for j in range(4):
            if A[j, i] > 0:
                for k in range(4):
                    if A[k, i] < T.cast(j, "int32"):
                        C[j, i] = C[j, i] + A[k, i]
"""
TILED = """
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2
"""
PLANE, TALL, SQUARE = (
    "A: i32[4, 8], C: i32[4, 8]",
    "A: i32[6, 5], C: i32[6, 5]",
    ("A: i32[16, 16], C: i32[16, 16]"),
)
CUT = ("split", "i", [None, 4])
LANES = (
    ("a condition on data around a loop", PLANE,
     LANES_OF_LOOPS.format(test="A[0, i] < 5", extent=4), [("vectorize", "i")]),
    ("a condition on the lane around a loop", PLANE,
     LANES_OF_LOOPS.format(test="i % 3 == 0", extent=4), [("vectorize", "i")]),
    ("a loop as long as data say", f"N: i64[8], {PLANE}",
     LANES_OF_LOOPS.format(test="A[0, i] < 5", extent="N[2] % 5"), [("vectorize", "i")]),
    ("a loop as long as the lane says", f"N: i64[8], {PLANE}",
     LANES_OF_LOOPS.format(test="A[0, i] < 5", extent="N[i] % 5"), [("vectorize", "i")]),
    ("conditions in loops in conditions", PLANE, TWICE, [("vectorize", "i")]),
    ("a row each, cut unevenly", TALL, ROWS.format(where=""), [CUT, ("vectorize", "i_1")]),
    ("a row each, cut unevenly, outer lanes", TALL, ROWS.format(where=""),
     [CUT, ("vectorize", "i_0")]),
    ("a row each, where a test says so", TALL, ROWS.format(where="T.where(i != 4)"),
     [("vectorize", "i")]),
    ("a row each, three cuts", TALL, ROWS.format(where=""),
     [("split", "i", [3, 2, 2]), ("vectorize", "i_0")]),
    ("a block of blocks", SQUARE, TILED,
     [("blockize", "j"), ("split", "i", [None, 3]), ("vectorize", "i_1")]),
)  # fmt: skip

RESIDUALS = """
    for i, k in T.grid(7, 8):
        with T.block("X"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                X[vi] = T.int32(-9)
            X[vi] = T.max(X[vi], A[vi, vk])
    for i1, j in T.grid(7, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i1, j])
            C[vi, vj] = A[vi, vj] - X[vi]
"""
WINDOW = """
    for j in range(16):
        for i in range(2):
            with T.block("B"):
                v = T.axis.spatial(16, j + i)
                T.where(j + i < 16)
                B[v] = A[v]
        with T.block("C"):
            v = T.axis.spatial(16, j)
            C[v] = T.if_then_else(v < 15, T.max(B[v], B[v + 1]), B[v])
"""
CARRIED = """
    for t in range(5):
        for i in range(8):
            with T.block("X"):
                vt, vi = T.axis.remap("OS", [t, i])
                X[vi] = A[vt, vi] + 1
        for j in range(8):
            with T.block("C"):
                vt, vj = T.axis.remap("OS", [t, j])
                C[vt, vj] = X[7 - vj]
"""
ELSEWHERE = (
    ("lanes around threads with a buffer of their own", "A: i32[7, 8], C: i32[7, 8]", RESIDUALS,
     [("parallel", "j"), ("compute_at", "X", "j"), ("vectorize", "i1")], "X: i32[7]"),
    ("threads, then lanes around them", "A: i32[7, 8], C: i32[7, 8]", RESIDUALS,
     [("compute_at", "X", "j"), ("parallel", "j"), ("vectorize", "i1")], "X: i32[7]"),
    ("threads around, then inside", "A: i32[7, 8], C: i32[7, 8]", RESIDUALS,
     [("compute_at", "X", "j"), ("bind", "i1", "blockIdx.x"), ("vectorize", "j")], "X: i32[7]"),
    ("one lane around threads", "A: f32[16], C: f32[16]", WINDOW,
     [("add_unit_loop", "j"), ("parallel", "j"), ("vectorize", "unit")], "B: f32[16]"),
    ("one lane around a carried buffer", "A: i32[5, 8], C: i32[5, 8]", CARRIED,
     [("add_unit_loop", "t"), ("parallel", "t"), ("vectorize", "unit")], "X: i32[8]"),
)  # fmt: skip

ROUND = """
    for i, j, k in T.grid(8, 8, 2):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            C[(vi + 3) % 8, 7 - vj, vk] = A[vi, vj]
"""
LINE = """
    for t in range(1):
        for i in range(72):
            with T.block("C"):
                v = T.axis.spatial(72, i)
                C[{target}] = A[v]
"""
RING, STRING = "A: i32[8, 8], C: i32[8, 8, 2]", "A: i32[72], C: i32[72]"
MODULAR = (
    ("made a block of", RING, ROUND, [("blockize", "k")]),
    ("two loops made a block of", RING, ROUND, [("blockize", "j")]),
    ("cut evenly", RING, ROUND, [("split", "i", [None, 4])]),
    ("cut unevenly", RING, ROUND, [("split", "i", [None, 3])]),
    ("cut unevenly, three times", RING, ROUND, [("split", "i", [3, 2, 2])]),
    ("joined", RING, ROUND, [("fuse", "i", "j"), ("split", "i_j_fused", [None, 3])]),
    ("beside a loop that is cut", STRING, LINE.format(target="(v + 2) % 72"),
     [("split", "t", [8, 5, 4])]),
    ("by threads", STRING, LINE.format(target="(v + 70) % 72"), [("parallel", "i")]),
    ("by a factor", STRING, LINE.format(target="(v * 5) % 72"), [("split", "i", [None, 5])]),
    ("in another order", RING, ROUND,
     [("transform_block_layout", "C", "i, j, k -> j // 2, j % 2, i, k"), ("blockize", "ax3"),
      ("add_unit_loop", "C_o"), ("blockize", "unit")]),
)  # fmt: skip

TILES = """
    for io, jo in T.grid(8, 8):
        with T.block("outer"):
            vio, vjo = T.axis.remap("SS", [io, jo])
            for ii, ji in T.grid(16, 16):
                with T.block("inner"):
                    vi = T.axis.spatial(128, vio * 16 + ii)
                    vj = T.axis.spatial(128, vjo * 16 + ji)
                    C[vi, vj] = A[vi, vj] * 2
"""
SUMS = """
    for i, k in T.grid(64, 64):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
STAGES = """
    for i0, j0 in T.grid(4, 4):
        with T.block("scope"):
            i, j = T.axis.remap("SS", [i0, j0])
            for x, y in T.grid(4, 4):
                with T.block("X"):
                    vi = T.axis.spatial(16, i * 4 + x)
                    vj = T.axis.spatial(16, j * 4 + y)
                    X[vi, vj] = A[vi, vj] + 1
            for u, v in T.grid(4, 4):
                with T.block("C"):
                    vi = T.axis.spatial(16, i * 4 + u)
                    vj = T.axis.spatial(16, j * 4 + v)
                    C[vi, vj] = X[vi, vj] * 2
"""
LARGER = "A: i32[128, 128], C: i32[128, 128]"
BLOCKS = (
    ("an inner loop cut unevenly", LARGER, TILES, [("split", "ji", [None, 10])], ""),
    ("two inner loops cut unevenly", LARGER, TILES,
     [("split", "ii", [None, 6]), ("split", "ji", [None, 10])], ""),
    ("an outer loop cut unevenly", LARGER, TILES, [("split", "jo", [None, 3])], ""),
    ("an inner loop cut unevenly, by lanes", LARGER, TILES,
     [("split", "ji", [None, 10]), ("vectorize", "ji_1")], ""),
    ("sums of tiles started apart", "A: i32[64, 64], C: i32[64]", SUMS,
     [("split", "i", [None, 16]), ("split", "k", [None, 16]),
      ("reorder", "i_0", "k_0", "i_1", "k_1"), ("blockize", "i_1"),
      ("decompose_reduction", "C_o", "k_0")], ""),
    ("a copy inside", "A: i32[16, 16], C: i32[16, 16]", STAGES,
     [("cache_read", "C", "X", "local")], "X: i32[16, 16]"),
    ("written apart inside", "A: i32[16, 16], C: i32[16, 16]", STAGES,
     [("cache_write", "X", "X", "local")], "X: i32[16, 16]"),
)  # fmt: skip

OWN = """
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            X = T.alloc_buffer((8,), "float32")
            for k in range(8):
                with T.block("inner"):
                    vk = T.axis.spatial(8, k)
                    X[vk] = A[vi, vk]
            C[vi] = X[0] + X[7]
"""
ALLOCATING = tuple(
    (name, "A: f32[4, 8], C: f32[4]", OWN, steps, "")
    for name, steps in (
        ("an inner loop unrolled", [("unroll", "k")]),
        ("an inner loop cut unevenly", [("split", "k", [None, 3])]),
        ("an inner loop by lanes", [("vectorize", "k")]),
        ("the outer loop by threads", [("parallel", "i")]),
        ("the outer loop by lanes", [("vectorize", "i")]),
        ("the outer loop cut unevenly", [("split", "i", [None, 3]), ("parallel", "i_1")]),
    )
)

JOINED = """
    for i in range({n}):
        with T.block("C"):
            v = T.axis.spatial({n}, i)
            C[v] = {choose}(v < {m}, A[v], B[v - {m}])
"""
SHIFTED = """
    for i in range(7):
        with T.block("C"):
            v = T.axis.spatial(7, i)
            C[v] = A[v]
            if v >= 2 and v < 6:
                C[v] = A[v] + B[v - 2]
"""
MASKED = (
    ("two of five", "A: f32[5], B: f32[5], C: f32[10]",
     JOINED.format(n=10, m=5, choose="T.if_then_else")),
    ("three and seven", "A: i16[3], B: i16[7], C: i16[10]",
     JOINED.format(n=10, m=3, choose="T.Select")),
    ("many and few", "A: f64[33], B: f64[5], C: f64[38]",
     JOINED.format(n=38, m=33, choose="T.if_then_else")),
    ("under a condition", "A: i32[7], B: i32[4], C: i32[7]", SHIFTED),
)  # fmt: skip

CASES = (
    *(Case("condition by lane", name, params, body, tuple(steps), "either")
      for name, params, body, steps in LANES),
    *(Case("concurrent elsewhere", name, params, body, tuple(steps), "either", allocs)
      for name, params, body, steps, allocs in ELSEWHERE),
    *(Case("modular store", name, params, body, tuple(steps), "either")
      for name, params, body, steps in MODULAR),
    *(Case(topic, name, params, body, tuple(steps), "either", allocs)
      for topic, group in (("blocks of blocks", BLOCKS), ("allocating block", ALLOCATING))
      for name, params, body, steps, allocs in group),
    *(Case("masked load", f"{name}, {mark}", params, body, ((mark, "i"),))
      for name, params, body in MASKED for mark in ("vectorize", "parallel")),
)  # fmt: skip
