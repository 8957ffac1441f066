"""Reductions: combined by several at once, cut into partial results, or wrongly declared."""

from tests.corpus.case import Case


def total(value: str, init: str = "0", where: str = "", kinds: str = "SR", extent: int = 10) -> str:
    """Each row of A combined into an element of C."""
    guard = f"\n            T.where({where})" if where else ""
    start = f"\n            with T.init():\n                C[vi] = {init}" if init else ""
    return f"""
    for i, k in T.grid(4, {extent}):
        with T.block("C"):
            vi, vk = T.axis.remap("{kinds}", [i, k]){guard}{start}
            C[vi] = {value}
"""


SUM = total("C[vi] + A[vi, vk]")
MAX = total("T.max(C[vi], A[vi, vk])", init="-100")
FROM_SEVEN = total("C[vi] + A[vi, vk]", init="7")
SOME = total("C[vi] + A[vi, vk]", init="", where="A[i, k] > 2")
EARLY = total("T.max(C[vi], A[vi, vk])", init="-100", where="k < 7")
ALL = """
    for i, k in T.grid(4, 10):
        with T.block("C"):
            vi, vk = T.axis.remap("RR", [i, k])
            with T.init():
                C[0] = 0
            C[0] = C[0] + A[vi, vk]
"""
MINUS = total("A[vi, vk] - C[vi]", kinds="SO")
HORNER = total("C[vi] * 2 + A[vi, vk]", kinds="SO")
LAST_LARGE = total("T.Select(A[vi, vk] > 2, A[vi, vk], C[vi])", kinds="SO")
CUT = ("split", "k", [None, 4])
INTS = "A: i32[4, 10], C: i32[4]"
FLOATS = "A: f32[4, 10], C: f32[4]"
ONE = "A: i32[4, 10], C: i32[1]"

FACTORED = (
    ("an uneven cut, outside", INTS, SUM, [CUT, ("rfactor", "k_0")], ""),
    ("an uneven cut, inside", INTS, SUM, [CUT, ("rfactor", "k_1")], ""),
    ("partial results by threads", INTS, SUM, [CUT, ("rfactor", "k_0"), ("parallel", "i")], ""),
    ("a maximum with an uneven cut", INTS, MAX, [CUT, ("rfactor", "k_1")], ""),
    ("a predicate of its own", INTS, EARLY, [("rfactor", "k")], ""),
    ("a loop that combines nothing", INTS, SUM, [("rfactor", "i")], "E150"),
    ("one of two reduction loops", ONE, ALL, [("rfactor", "i")], ""),
    ("floats up to rounding", FLOATS, SUM.replace("= 0", "= T.float32(0)"),
     [CUT, ("rfactor", "k_1")], ""),
)  # fmt: skip
ORDERED = (
    ("a difference, cut and exchanged", INTS, MINUS, [CUT, ("reorder", "k_1", "k_0")], "E109"),
    ("a difference, rfactored", INTS, MINUS, [("rfactor", "k")], "E150"),
    ("a difference declared a reduction", INTS, total("A[vi, vk] - C[vi]"), [], "E103"),
    ("Horner's rule, cut and exchanged", INTS, HORNER, [CUT, ("reorder", "k_1", "k_0")], "E109"),
    ("Horner's rule by threads", INTS, HORNER, [("parallel", "k")], "E104"),
    ("the last large one, cut and exchanged", INTS, LAST_LARGE,
     [CUT, ("reorder", "k_1", "k_0")], "E109"),
    ("a difference, rows first", INTS, MINUS, [("reorder", "k", "i")], ""),
)  # fmt: skip
TOGETHER = (
    ("by threads", INTS, SUM, [("parallel", "k")], "E104"),
    ("by lanes", INTS, SUM, [("vectorize", "k")], "E104"),
    ("by blocks of GPU threads", INTS, SUM, [("bind", "k", "blockIdx.x")], "E104"),
    ("Horner's rule by GPU threads", INTS, HORNER, [("bind", "k", "threadIdx.x")], "E104"),
    ("by GPU threads", INTS, SUM, [("bind", "k", "threadIdx.x")], ""),
    ("part of it by lanes", INTS, SUM, [CUT, ("vectorize", "k_1")], "E104"),
    ("two loops, the inner by threads", ONE, ALL, [("parallel", "k")], "E104"),
    ("two loops, the outer by threads", ONE, ALL, [("parallel", "i")], "E104"),
    ("two loops fused, by threads", ONE, ALL, [("fuse", "i", "k"), ("parallel", "i_k_fused")],
     "E104"),
    ("rows by threads, the sum by lanes", INTS, SUM, [("parallel", "i"), ("vectorize", "k")],
     "E104"),
    ("an update without an init", INTS, total("C[vi] + A[vi, vk]", init=""), [("parallel", "k")],
     "E104"),
)  # fmt: skip
SHARED = """
    for i in range(8):
        X[i] = A[i] * 2
    for j in range(8):
        C[j] = X[7 - j]
"""
AT_ONCE = """
    for i in range(8):
        X[i] = A[i] * 2
        C[i] = X[7 - i]
"""
BLOCKS = ("bind", "i", "blockIdx.x")
ACROSS = (
    ("a sum across threads", INTS, SUM, [BLOCKS, ("bind", "k", "threadIdx.x")], "", ""),
    ("part of a sum across threads", INTS, SUM, [CUT, BLOCKS, ("bind", "k_1", "threadIdx.y")],
     "", ""),
    ("a sum across blocks", INTS, SUM, [("bind", "k", "blockIdx.y")], "E104", ""),
    ("a difference across threads", INTS, MINUS, [BLOCKS, ("bind", "k", "threadIdx.x")],
     "E104", ""),
    ("sums of threads", INTS, SUM, [BLOCKS], "", ""),
    ("partial sums of threads", INTS, SUM,
     [CUT, ("rfactor", "k_1"), ("bind", "k_1", "threadIdx.x")], "", ""),
    ("a buffer made by threads, then read", "A: i32[8], C: i32[8]", SHARED,
     [("bind", "i", "threadIdx.x"), ("bind", "j", "threadIdx.x")], "", "X: i32[8]"),
    ("a buffer read before all have made it", "A: i32[8], X: i32[8], C: i32[8]", AT_ONCE,
     [("bind", "i", "threadIdx.x")], "E104", ""),
)  # fmt: skip
FEWER_READS = SUM.replace("with T.init", "T.reads(A[vi, 0])\n            with T.init")
FEWER_WRITES = SUM.replace("with T.init", "T.writes(C[0])\n            with T.init")
BEYOND = SUM.replace(
    'vi, vk = T.axis.remap("SR", [i, k])',
    "vi = T.axis.spatial(4, i)\n            vk = T.axis.reduce(10, k + 1)",
)
DECLARED = (
    ("a sum called spatial", SUM.replace('"SR"', '"SS"'), "E103"),
    ("rows called a reduction", SUM.replace('"SR"', '"RR"'), "E103"),
    ("fewer reads than there are", FEWER_READS, "E110"),
    ("fewer writes than there are", FEWER_WRITES, "E110"),
    ("an iter beyond its extent", BEYOND, "E106"),
)

CASES = (
    *(
        Case(topic, name, params, body, tuple(steps), refused)
        for topic, group in (
            ("rfactor", FACTORED),
            ("reducer that does not commute", ORDERED),
            ("concurrent reduction", TOGETHER),
        )
        for name, params, body, steps, refused in group
    ),
    *(
        Case("cross-thread", name, params, body, tuple(steps), refused, allocs)
        for name, params, body, steps, refused, allocs in ACROSS
    ),
    *(Case("declared", name, INTS, body, (), refused) for name, body, refused in DECLARED),
)
