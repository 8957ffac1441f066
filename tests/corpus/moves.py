"""Blocks that move to other loops or dissolve into other blocks."""

from tests.corpus.case import Case

PRODUCER = """
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = A[v] * 3
"""


def reader(index: str, extent: int = 8) -> str:
    """A consumer of Y that reads it at `index`."""
    return f"""
    for j in range({extent}):
        with T.block("C"):
            v = T.axis.spatial({extent}, j)
            C[v] = Y[{index}] + 1
"""


FILLED = """
    for f in range(8):
        with T.block("F"):
            v = T.axis.spatial(8, f)
            Y[v] = 100
"""
SHORT = PRODUCER.replace("8", "6")
SUMMED = """
    for i, k in T.grid(4, 5):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + A[vi, vk]
    for j in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, j)
            C[v] = T.max(Y[v], 0)
"""
TURNED = """
    for i, j in T.grid(4, 6):
        with T.block("Y"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = A[vi, vj] * 3
    for i, j in T.grid(4, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = Y[3 - vi, vj] + 1
"""
LINE = ("A: i32[8], C: i32[8]", "Y: i32[8]")
ROWS = ("A: i32[4, 5], C: i32[4]", "Y: i32[4]")
PLANE = ("A: i32[4, 6], C: i32[4, 6]", "Y: i32[4, 6]")
DOWN = ("reverse_compute_at", "C")
BEHIND = (
    ("one for one", LINE, PRODUCER + reader("v"), [(*DOWN, "i")], ""),
    ("turned round", LINE, PRODUCER + reader("7 - v"), [(*DOWN, "i")], ""),
    ("a window", LINE, PRODUCER + reader("T.min(v + 1, 7)"), [(*DOWN, "i")], "E113"),
    ("some elements come from elsewhere", LINE, FILLED + SHORT + reader("v"), [(*DOWN, "i")],
     "E113"),
    ("into the sum itself", ROWS, SUMMED, [(*DOWN, "k")], "E113"),
    ("after the sum", ROWS, SUMMED, [(*DOWN, "i")], ""),
    ("into one part of the sum", ROWS, SUMMED,
     [("split", "k", [None, 2]), ("reorder", "k_0", "i", "k_1"), (*DOWN, "i")], "E113"),
    ("another row", PLANE, TURNED, [(*DOWN, "i")], ""),
)  # fmt: skip

GUARDED = PRODUCER.replace("            Y[v]", "            T.where(i < 6)\n            Y[v]")
OUTPUT = """
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 3
    for j in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, j)
            C[v] = B[v] + 1
"""
SECOND = """
    for j in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, j)
            D[v] = Y[7 - v] * 5
"""
CONDITION = """
    for j in range(8):
        if A[j] > 2:
            with T.block("C"):
                v = T.axis.spatial(8, j)
                C[v] = Y[v] + 1
"""
PARTIAL_SUM = """
    for i, k in T.grid(4, 5):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + A[vi, vk]
        with T.block("C"):
            vi, vk = T.axis.remap("SO", [i, k])
            C[vi] = Y[vi] * 2
"""
INLINE, BACK = ("compute_inline", "Y"), ("reverse_compute_inline", "C")
TWO = ("A: i32[8], C: i32[8], D: i32[8]", "Y: i32[8]")
DISSOLVED = (
    ("one for one", LINE, PRODUCER + reader("v"), [INLINE], ""),
    ("a window", LINE, PRODUCER + reader("T.min(v + 1, 7)"), [INLINE], ""),
    ("a predicate would be lost", LINE, FILLED + GUARDED + reader("v"), [INLINE], "E115"),
    ("an output would be lost", ("A: i32[8], B: i32[8], C: i32[8]", ""), OUTPUT,
     [("compute_inline", "B")], "E115"),
    ("an init would be lost", ROWS, SUMMED, [INLINE], "E115"),
    ("a second reader gets it too", TWO, PRODUCER + reader("v") + SECOND, [INLINE], ""),
    ("a second reader would lose it", TWO, PRODUCER + reader("v") + SECOND, [BACK], "E115"),
    ("a reader's condition would be lost", LINE, PRODUCER + CONDITION, [BACK], "E113"),
    ("a reader turned round", LINE, PRODUCER + reader("7 - v"), [BACK], ""),
    ("a reader of a half-made sum", ROWS, PARTIAL_SUM, [BACK], "E115"),
)  # fmt: skip

AGAIN = """
    for r, i, k in T.grid(3, 4, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
WINDOW = """
    for i, k in T.grid(8, 5):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + A[vi, vk]
    for j in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, j)
            C[v] = Y[v] * Y[v + 2]
"""
KEPT = """
    for r, i, k in T.grid(3, 4, 5):
        with T.block("Y"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Y[vi] = 0
            Y[vi] = Y[vi] + A[vi, vk]
        if k == 4:
            C[i] = C[i] + Y[i]
"""
INTO = ("compute_at", "Y", "j")
WIDE = ("A: i32[8, 5], C: i32[6]", "Y: i32[8]")
SUM = ("A: i32[4, 5], C: i32[4]", "")
RECOMPUTED = (
    ("before each repetition's sum", SUM, AGAIN, [("decompose_reduction", "C", "k")], ""),
    ("before each repetition", SUM, AGAIN, [("decompose_reduction", "C", "i")], ""),
    ("before all repetitions", SUM, AGAIN, [("decompose_reduction", "C", "r")], "E114"),
    ("at the loop of a moved window", WIDE, WINDOW, [INTO, ("decompose_reduction", "Y", "j")],
     "E114"),
    ("inside the loop of a moved window", WIDE, WINDOW,
     [INTO, ("decompose_reduction", "Y", "k")], ""),
    ("a sum that is used between repetitions", ROWS, KEPT,
     [("decompose_reduction", "Y", "r")], "E114"),
    ("inside a cut sum", SUM, AGAIN,
     [("split", "k", [None, 2]), ("decompose_reduction", "C", "k_1")], "E114"),
)  # fmt: skip

CHANGED = """
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = A[v] * 3
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] + 1
    for j in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, j)
            C[v] = Y[v] + 1
"""
NEXT = """
    for i in range(8):
        A[i] = A[i] + 1
    for j in range(8):
        C[j] = A[{index}] * 2
"""
SHIFT = """
    for i in range(7):
        A[i] = A[i + 1]
"""
MUTATED = (
    ("a producer past a change of its input", LINE, CHANGED, [INLINE], "E113"),
    ("a producer moved past it", LINE, CHANGED, [("compute_at", "Y", "j")], "E113"),
    ("a reader drawn in front of it", LINE, CHANGED, [BACK], ""),
    ("loops merged, one for one", (LINE[0], ""), NEXT.format(index="j"), [("merge", "i", "j")],
     ""),
    ("loops merged, read ahead", (LINE[0], ""), NEXT.format(index="T.min(j + 1, 7)"),
     [("merge", "i", "j")], "E109"),
    ("loops merged, read behind", (LINE[0], ""), NEXT.format(index="T.max(j - 1, 0)"),
     [("merge", "i", "j")], ""),
    ("a shift by threads", (LINE[0], ""), SHIFT, [("parallel", "i")], "E104"),
    ("a shift by lanes", (LINE[0], ""), SHIFT, [("vectorize", "i")], "E104"),
)  # fmt: skip

CASES = tuple(
    Case(topic, name, buffers[0], body, tuple(steps), refused, buffers[1])
    for topic, group in (
        ("reverse_compute_at", BEHIND),
        ("inlining", DISSOLVED),
        ("init at a recompute loop", RECOMPUTED),
        ("mutation", MUTATED),
    )
    for name, buffers, body, steps, refused in group
)
