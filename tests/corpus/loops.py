"""Loops whose extents depend on others, uneven cuts, and threads inside threads."""

from tests.corpus.case import Case

TRIANGLE = """
    for i in range(6):
        for j in range(i + 1):
            C[i, j] = A[i, j] * 2
"""
RAGGED = """
    for i in range(6):
        for j in range(N[i] % 7):
            C[i, j] = A[i, j] * 2
"""
SHRINKS = """
    for i in range(6):
        for j in range(N[i] % 7):
            N[i] = 1
            C[i, j] = A[i, j] * 2
"""
LEARNS = """
    for i in range(3):
        for j in range(N[9] % 7 + 1):
            N[i * 8 + j] = 1
"""
SQUARE = "A: i32[6, 6], C: i32[6, 6]"
COUNTS = f"N: i64[6], {SQUARE}"
DEPENDENT = (
    ("fuse a triangle", SQUARE, TRIANGLE, [("fuse", "i", "j")], "E102"),
    ("exchange a triangle", SQUARE, TRIANGLE, [("reorder", "j", "i")], "E109"),
    ("cut a triangle's rows", SQUARE, TRIANGLE, [("split", "i", [None, 4])], ""),
    ("cut a triangle's columns", SQUARE, TRIANGLE, [("split", "j", [None, 4])], ""),
    ("fuse rows of data's length", COUNTS, RAGGED, [("fuse", "i", "j")], "E102"),
    ("cut rows of data's length", COUNTS, RAGGED, [("split", "j", [None, 4])], ""),
    ("rows of data's length by threads", COUNTS, RAGGED, [("parallel", "i")], ""),
    ("a triangle's columns by lanes", SQUARE, TRIANGLE, [("vectorize", "j")], "E102"),
    ("cut a loop that changes its length", COUNTS, SHRINKS, [("split", "j", [None, 4])], "E140"),
    (
        "exchange rows whose length is written",
        "N: i64[24]",
        LEARNS,
        [("reorder", "j", "i")],
        "E109",
    ),
)

FLAT = """
    for i, j in T.grid(3, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi * 5 + vj] = A[vi, vj] * 2
"""
OVERLAP = """
    for i, j in T.grid(3, 5):
        C[i * 5 + j] = A[i, j]
        C[i * 5 + j + 1] = 9
"""
PREFIX = """
    for i in range(10):
        A[i + 1] = A[i] + A[i + 1]
"""
MATRIX = "A: i32[3, 5], C: i32[16]"
TAILS = (
    ("rows in one line", MATRIX, FLAT, [("split", "j", [None, 4])], ""),
    ("rows in one line, by lanes", MATRIX, FLAT,
     [("split", "j", [None, 4]), ("vectorize", "j_1")], ""),
    ("rows in one line, exchanged", MATRIX, FLAT,
     [("split", "j", [None, 4]), ("reorder", "j_1", "i", "j_0")], ""),
    ("fused and cut", MATRIX, FLAT,
     [("fuse", "i", "j"), ("split", "i_j_fused", [None, 4]), ("vectorize", "i_j_fused_1")], ""),
    ("each overwrites its neighbour", MATRIX, OVERLAP, [("split", "j", [None, 4])], ""),
    ("neighbours exchanged", MATRIX, OVERLAP,
     [("split", "j", [None, 4]), ("reorder", "j_1", "j_0")], "E109"),
    ("a running sum", "A: i32[11]", PREFIX, [("split", "i", [None, 4])], ""),
    ("a running sum, exchanged", "A: i32[11]", PREFIX,
     [("split", "i", [None, 4]), ("reorder", "i_1", "i_0")], "E109"),
    ("cut twice", MATRIX, FLAT, [("split", "j", [None, 2]), ("split", "j_0", [None, 2])], ""),
)  # fmt: skip

APART = """
    for i, j, k in T.grid(4, 5, 6):
        C[i, j, k] = A[i, j, k] * 2
"""
ROWS = """
    for i in range(4):
        for j in range(6):
            X[j] = A[i, j] * 2
        for k in range(6):
            C[i, k] = X[5 - k]
"""
COLUMNS = """
    for i, j in T.grid(4, 6):
        C[j] = C[j] + A[i, j]
"""
CUBE = "A: i32[4, 5, 6], C: i32[4, 5, 6]"
FIRST = ("parallel", "i")
NESTED = (
    ("two loops", CUBE, APART, [FIRST, ("parallel", "j")], "", ""),
    ("two loops and lanes", CUBE, APART, [FIRST, ("parallel", "j"), ("vectorize", "k")], "", ""),
    ("the inner one first", CUBE, APART, [("parallel", "j"), FIRST], "", ""),
    ("a row of its own, shared inside", "A: i32[4, 6], C: i32[4, 6]", ROWS,
     [FIRST, ("parallel", "j"), ("parallel", "k")], "", "X: i32[6]"),
    ("the outer one adds up", "A: i32[4, 6], C: i32[6]", COLUMNS, [("parallel", "j"), FIRST],
     "E104", ""),
    ("the inner one does not", "A: i32[4, 6], C: i32[6]", COLUMNS, [("parallel", "j")], "", ""),
    ("threads inside lanes", "A: i32[4, 6], C: i32[4, 6]", ROWS,
     [("parallel", "j"), ("vectorize", "i")], "E111", "X: i32[6]"),
)  # fmt: skip

CASES = (
    *(
        Case(topic, name, params, body, tuple(steps), refused)
        for topic, group in (("dependent extent", DEPENDENT), ("split tail", TAILS))
        for name, params, body, steps, refused in group
    ),
    *(
        Case("nested parallel", name, params, body, tuple(steps), refused, allocs)
        for name, params, body, steps, refused, allocs in NESTED
    ),
)
