"""Index arithmetic: rounding of negative quotients, overflow, and conditions that overlap."""

from tests.corpus.case import Case

CUT = (("split", "i", [None, 4]),)
LANES = (*CUT, ("vectorize", "i_1"))
EACH = """
    for i in range(10):
        C[{target}] = A[{source}]
"""
BOTH = """
    for i in range(10):
        if i < 7:
            C[i] = A[i] + 1
        if i >= 4:
            C[i] = C[i] * 2 + A[9 - i]
"""
NEITHER = """
    for i in range(10):
        with T.block("C"):
            v = T.axis.spatial(10, i)
            T.where(i < 7 and i >= 2 or i == 9)
            C[v] = A[v] + 1
"""
PAIRS = """
    for i, j in T.grid(5, 4):
        with T.block("C"):
            v = T.axis.spatial(20, i * 4 + j)
            T.where(i * 4 + j < 10)
            C[v] = A[v % 5 + v // 5 * 5] * 3
"""
WRAPS = """
    for i in range(10):
        C[i] = A[i] * 2147483647 * 3 + A[9 - i] // 3
"""
SHIFTS = """
    for i in range(10):
        C[i] = (A[i] * 1000003) // 7 - (A[i] - 50) % 9 + (A[i] - 60) // 4
"""
LARGEST = 2**63 - 1
CASES = tuple(
    Case("index arithmetic", name, params, body, steps, refused)
    for name, params, body, steps, refused in (
        ("quotients of negatives", "A: i32[10], C: i32[10]",
         EACH.format(target="i", source="(i - 5) // 2 + 3"), LANES, ""),
        ("remainders of negatives", "A: i32[10], C: i32[10]",
         EACH.format(target="i", source="(i - 7) % 4"), LANES, ""),
        ("negative divisors", "A: i32[10], C: i32[10]",
         EACH.format(target="i", source="i // -3 + 3 - i % -4"), LANES, ""),
        ("a remainder of a quotient", "A: i32[10], C: i32[10]",
         EACH.format(target="(i - 10) // 3 % 4", source="i"), CUT, ""),
        ("a scatter by remainder, by lanes", "A: i32[10], C: i32[10]",
         EACH.format(target="(i - 10) // 3 % 4", source="i"), (("vectorize", "i"),), "E104"),
        ("64 bits overflow in an index", "A: i32[10], C: i32[10]",
         EACH.format(target="i", source="(i * 4611686018427387904) % 10"), CUT, ""),
        ("64 bits overflow in a comparison", "A: i32[10], C: i32[10]",
         f"    for i in range(10):\n        if i + {LARGEST} < 5:\n"
         "            C[i] = A[i]\n", CUT, ""),
        ("32 bits overflow in a value", "A: i32[10], C: i32[10]", WRAPS, LANES, ""),
        ("64 bits overflow in a value", "A: i64[10], C: i64[10]",
         WRAPS.replace("2147483647", str(LARGEST)), LANES, ""),
        ("8 bits overflow in a value", "A: i8[10], C: i8[10]",
         WRAPS.replace("2147483647", "127"), LANES, ""),
        ("mixed quotients of values", "A: i32[10], C: i32[10]", SHIFTS, LANES, ""),
        ("overlapping conditions", "A: i32[10], C: i32[10]", BOTH, CUT, ""),
        ("overlapping conditions by threads", "A: i32[10], C: i32[10]", BOTH,
         (*CUT, ("parallel", "i_0")), ""),
        ("a predicate with a hole", "A: i32[10], C: i32[10]", NEITHER, LANES, ""),
        ("a predicate over two loops, fused and cut", "A: i32[25], C: i32[20]", PAIRS,
         (("fuse", "i", "j"), ("split", "i_j_fused", [None, 3])), ""),
        ("a predicate over two loops, exchanged", "A: i32[25], C: i32[20]", PAIRS,
         (("split", "j", [None, 3]), ("reorder", "j_1", "i")), ""),
    )
)  # fmt: skip
