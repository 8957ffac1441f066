"""Buffers that iterations share, copies, and stores that overwrite each other."""

from tests.corpus.case import Case

SCRATCH = """
    for i in range(8):
        with T.block("X"):
            v = T.axis.opaque(8, i)
            X[0] = A[v] * 3
        with T.block("C"):
            v = T.axis.opaque(8, i)
            C[v] = X[0] + 1
"""
ESCAPES = """
    for i in range(8):
        X[0] = A[i] * 3
        C[i] = X[0] + 1
    C[0] = X[0]
"""
CARRIED = """
    X[0] = 7
    for i in range(8):
        C[i] = X[0] + A[i]
        X[0] = A[i] * 3
"""
HALF_WRITTEN = """
    X[1] = 5
    for i in range(8):
        X[0] = A[i]
        C[i] = X[i % 2]
"""
ROW = """
    for i in range(4):
        for j in range(6):
            with T.block("X"):
                vi, vj = T.axis.remap("OS", [i, j])
                X[vj] = A[vi, vj] * 2
        for k in range(6):
            with T.block("C"):
                vi, vk = T.axis.remap("SS", [i, k])
                C[vi, vk] = X[5 - vk] + 1
"""
MATMUL = """
    for i, j, k in T.grid(4, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
MATRICES = "A: i32[4, 5], B: i32[5, 6], C: i32[4, 6]"
HERE = ("cache_write", "C", "C", {"scope": "local"})

PRIVATE = (
    ("lanes would share a scratch element", SCRATCH, [("vectorize", "i")], "E111"),
    ("threads own a scratch element each", SCRATCH, [("parallel", "i")], ""),
    ("GPU threads own a scratch element each", SCRATCH, [("bind", "i", "threadIdx.x")], ""),
    ("the last value is used after the loop", ESCAPES, [("parallel", "i")], "E104"),
    ("a value goes from iteration to iteration", CARRIED, [("parallel", "i")], "E104"),
    ("an element is written before the loop", HALF_WRITTEN, [("parallel", "i")], "E104"),
    ("an element is written before the lanes", HALF_WRITTEN, [("vectorize", "i")], "E104"),
)
ROWS = (
    ("a row per thread", [("parallel", "i")], ""),
    ("a row for all lanes", [("vectorize", "i")], "E111"),
    ("lanes inside a thread's row", [("parallel", "i"), ("vectorize", "k")], ""),
)
ACCUMULATOR = [HERE, ("reverse_compute_at", "C_local", "j")]
ACCUMULATORS = (
    ("an accumulator per thread", [*ACCUMULATOR, ("parallel", "i")], ""),
    ("an accumulator per lane", [*ACCUMULATOR, ("vectorize", "j")], ""),
)

GUARDED = """
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.where(i < 6)
            C[v] = A[v] * 2
"""
GATHER = """
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            T.where(i >= 2)
            C[v] = A[v - 2] * 2
"""
FROM_INIT = """
    for i, k in T.grid(4, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = B[vi]
            C[vi] = C[vi] + A[vi, vk]
"""
ADDS_UP = """
    for i, k in T.grid(4, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]
"""
IN_PLACE = """
    for i in range(7):
        with T.block("A"):
            v = T.axis.opaque(7, i)
            A[v] = A[v + 1] * 2
"""
LATER = """
    for i in range(8):
        with T.block("A"):
            v = T.axis.opaque(8, i)
            A[v] = A[v] + 1
        with T.block("C"):
            v = T.axis.opaque(8, i)
            C[v] = A[v] * 2
"""
SUM = "A: i32[4, 5], B: i32[4], C: i32[4]"
PAIR = "A: i32[8], C: i32[8]"
COPIES = (
    ("a guarded reader", PAIR, GATHER, [("cache_read", "C", "A")], ""),
    ("an init reads another buffer", SUM, FROM_INIT, [("cache_read", "C", "B")], ""),
    ("an init starts the copy", SUM, FROM_INIT, [("cache_write", "C", "C")], ""),
    ("a copy of what the loop changes is made in it", PAIR, LATER, [("cache_read", "C", "A")], ""),
    ("a copy of what the block changes is stale", PAIR, LATER, [("cache_read", "A", "A")], "E117"),
    ("a copy in and out of what the loop changes", PAIR, LATER, [("cache_inplace", "A", "A")], ""),
)

LAST_OF_PAIRS = """
    for i in range(8):
        C[i // 2] = A[i]
"""
LAST_OF_ROW = """
    for i, j in T.grid(4, 6):
        C[i] = A[i, j]
"""
DIAGONALS = """
    for i, j in T.grid(4, 6):
        C[i + j] = A[i, j]
"""
SCATTER = """
    for i in range(8):
        if P[i] >= 0 and P[i] < 4:
            C[P[i]] = A[i]
"""
TABLE = "A: i32[4, 6], C: i32[9]"
LAST = (
    ("pairs, by threads", PAIR, LAST_OF_PAIRS, [("parallel", "i")], "E104"),
    ("pairs, by lanes", PAIR, LAST_OF_PAIRS, [("vectorize", "i")], "E104"),
    ("a row's end, rows inside", TABLE, LAST_OF_ROW, [("reorder", "j", "i")], ""),
    ("a row's end, by lanes", TABLE, LAST_OF_ROW, [("vectorize", "j")], "E104"),
    ("a row's end, by threads outside", TABLE, LAST_OF_ROW, [("parallel", "i")], ""),
    ("diagonals exchanged", TABLE, DIAGONALS, [("reorder", "j", "i")], "E109"),
    ("diagonals cut and exchanged", TABLE, DIAGONALS,
     [("split", "j", [None, 2]), ("reorder", "j_0", "i", "j_1")], "E109"),
    ("a scatter", "P: i64[8], A: i32[8], C: i32[4]", SCATTER, [("parallel", "i")], "E104"),
)  # fmt: skip

FORGOTTEN = """
    for i, k in T.grid(4, 5):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = X[vi] + A[vi, vk]
    for i in range(4):
        C[i] = X[i] + B[i]
"""
STARTED_APART = """
    for i in range(4):
        X[i] = B[i]
    for i, k in T.grid(4, 5):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            X[vi] = X[vi] + A[vi, vk]
    for i in range(4):
        C[i] = X[i]
"""
PARTLY = """
    for i in range(3):
        with T.block("X"):
            vi = T.axis.spatial(3, i)
            X[vi] = A[vi, 0] + B[vi]
    for i in range(4):
        with T.block("C"):
            T.where(i < 3)
            vi = T.axis.spatial(4, i)
            C[vi] = X[vi] * 2
"""
NEVER = (
    ("a sum without init", FORGOTTEN, [], "E131"),
    ("a sum that started elsewhere, in parts", STARTED_APART, [("rfactor", "k")], ""),
    ("a sum that started elsewhere, in a copy", STARTED_APART, [("cache_inplace", "sum", "X")], ""),
    ("a copy of more than was written", PARTLY, [("cache_read", "C", "X")], ""),
    ("a copy back of more than was written", PARTLY, [("cache_write", "X", "X")], ""),
    ("an index map that pads", PARTLY,
     [("transform_layout", "X", "X", lambda i: (i // 3, i % 3))], ""),
)  # fmt: skip

CASES = (
    *(
        Case("never written", name, SUM, body, tuple(steps), refused, "X: i32[4]")
        for name, body, steps, refused in NEVER
    ),
    *(
        Case("private buffer", name, PAIR, body, tuple(steps), refused, "X: i32[2]")
        for name, body, steps, refused in PRIVATE
    ),
    *(
        Case("private buffer", name, "A: i32[4, 6], C: i32[4, 6]", ROW, tuple(steps), refused,
             "X: i32[6]")
        for name, steps, refused in ROWS
    ),
    *(
        Case("private buffer", name, MATRICES, MATMUL, tuple(steps), refused)
        for name, steps, refused in ACCUMULATORS
    ),
    *(
        Case("cache", name, params, body, tuple(steps), refused)
        for name, params, body, steps, refused in COPIES
    ),
    *(
        Case("last writer", name, params, body, tuple(steps), refused)
        for name, params, body, steps, refused in LAST
    ),
)  # fmt: skip
