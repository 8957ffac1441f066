"""Numbers beyond what programs have: huge extents, arithmetic that wraps, loops of no iteration."""

from tests.corpus.case import Case

FAR = """
    for i in range({n}):
        with T.block("B"):
            v = T.axis.spatial({n}, i)
            B[{target}] = A[{source}]
"""
TURNED = """
    for i, j, k in T.grid(4, 100, 784):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""
CORNER = """
    for i, j in T.grid(4096, 4096):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi + (vi + vj) // 8190, vj]
"""
MILLION = "A: f32[1000000], B: f32[1000000]"
LARGE = (
    ("one element behind a million", MILLION, FAR.format(n=10**6, target="v + 1", source="v")),
    ("one element before a million", MILLION, FAR.format(n=10**6, target="v", source="v - 1")),
    ("one iteration of a million", MILLION,
     FAR.format(n=10**6, target="v", source="v + v // 999999")),
    ("two billion of them", "A: i8[2147483648], B: i8[2147483648]",
     FAR.format(n=2**31, target="v", source="v + 1")),
    ("rows of another length", "A: f32[4, 784], B: f32[100, 700], C: f32[4, 100]", TURNED),
    ("one corner of a plane", "A: f32[4096, 4096], B: f32[4096, 4096]", CORNER),
)  # fmt: skip

HASHED = """
    for i in range(64):
        with T.block("C"):
            v = T.axis.spatial(64, i)
            C[v] = {choose}({test}, A[v % 3], T.int32(-1))
"""
STORED = """
    for i in range(64):
        with T.block("C"):
            v = T.axis.opaque(64, i)
            if {test}:
                C[v % 3] = A[v % 64] + T.cast(v, "int32")
"""
WHERE = """
    for i in range(12):
        with T.block("C"):
            v = T.axis.spatial(12, i)
            T.where({test})
            C[v] = A[v % 3] + 1
"""
FEW = "A: i32[3], C: i32[64]"
TESTS = (
    ("a product", "v * 6364136223846793005 < 4611686018427387904"),
    ("a power of two", "v * 4611686018427387904 < 5"),
    ("a shift", "(v << 62) > 0"),
    ("a sum", "v + 9223372036854775800 < 9"),
    ("a remainder of a product", "v * 6364136223846793005 % 3 == 1"),
    ("a difference", "T.int64(-9223372036854775808) - v > 5"),
)
CUT = ("split", "i", [None, 4])
WRAPPING = (
    *((f"{name} beside a load", FEW, HASHED.format(choose="T.Select", test=test), [CUT])
      for name, test in TESTS),
    *((f"{name} around a store", "A: i32[64], C: i32[3]", STORED.format(test=test), [CUT])
      for name, test in TESTS),
    ("by lanes", FEW, HASHED.format(choose="T.if_then_else", test=TESTS[0][1]),
     [("vectorize", "i")]),
    ("a predicate", "A: i32[3], C: i32[12]",
     WHERE.format(test="i * 6364136223846793005 < 4611686018427387904"),
     [CUT, ("vectorize", "i_1")]),
    ("a predicate and what is read of a buffer", FEW, HASHED.format(
        choose="T.Select", test="v * 6364136223846793005 < 5"), [("cache_read", "C", "A")]),
    ("a predicate and what is written", "A: i32[3], C: i32[12]",
     WHERE.format(test="i * 6364136223846793005 < 5"), [("cache_inplace", "C", "C")]),
)  # fmt: skip

NEVER = """
    for i in range(1):
        with T.block("Y"):
            v = T.axis.spatial(1, i)
            Y[v] = A[v] + 100
    for j in range({extent}):
        with T.block("C"):
            w = T.axis.spatial(1, j)
            C[w] = Y[w]
"""
SHRINKING = """
    for i in range(4):
        with T.block("Y"):
            v = T.axis.spatial(4, i)
            Y[v] = A[v] + 100
    for k in range(4):
        for j in range(T.max(k - 3, 0)):
            with T.block("C"):
                w = T.axis.spatial(4, k)
                C[w] = Y[w]
"""
UNDER = """
    if N[0] > 0:
        for i in range(8):
            for j in range(0):
                with T.block("A"):
                    v = T.axis.spatial(1, j)
                    A[v] = 1
"""
ONE, FOUR = "N: i64[1], A: i32[1], C: i32[1]", "A: i32[4], C: i32[4]"
EMPTY = (
    ("another order of none", ONE, NEVER.format(extent=0),
     [("transform_block_layout", "C", "i -> i")], "Y: i32[1]"),
    ("taken into its producer", ONE, NEVER.format(extent=0),
     [("reverse_compute_inline", "C")], "Y: i32[1]"),
    ("moved into its producer's loop", ONE, NEVER.format(extent=0),
     [("reverse_compute_at", "C", "i")], "Y: i32[1]"),
    ("its producer moved to none", ONE, NEVER.format(extent=0), [("compute_at", "Y", "j")],
     "Y: i32[1]"),
    ("as long as data say", ONE, NEVER.format(extent="N[0] % 2"),
     [("transform_block_layout", "C", "i -> i")], "Y: i32[1]"),
    ("as long as data say, moved", ONE, NEVER.format(extent="N[0] % 2"),
     [("reverse_compute_at", "C", "i")], "Y: i32[1]"),
    ("rows of none", FOUR, SHRINKING, [("reverse_compute_at", "C", "i")], "Y: i32[4]"),
    ("rows of none, inlined", FOUR, SHRINKING, [("reverse_compute_inline", "C")], "Y: i32[4]"),
    ("rows of none, written apart", FOUR, SHRINKING, [("cache_write", "C", "C")], "Y: i32[4]"),
    ("rows of none, indexed anew", FOUR, SHRINKING, [("reindex", "C", "C")], "Y: i32[4]"),
    ("joined with none", "N: i64[1], A: i32[8]", UNDER, [("fuse", "i", "j")], ""),
)  # fmt: skip

PLACES = """
    for i in range({n}):
        with T.block("C"):
            v = T.axis.spatial({n}, i)
            C[{target}] = {value}
"""
NUMBERS = (
    ("a quotient beyond 2**53", "C: i64[2]",
     PLACES.format(n=2, target="v", value="(v * 9007199254740992 + 1) // 9007199254740993"),
     [("split", "i", [None, 1])]),
    ("a quotient near 2**63", "C: i64[2]",
     PLACES.format(n=2, target="v", value="(v * 9223372036854775806) // 9223372036854775807"),
     [("split", "i", [None, 1])]),
    ("a remainder beyond 2**53", "C: i64[4]",
     PLACES.format(n=4, target="v", value="(v * 9007199254740993) % 9007199254740992"),
     [("split", "i", [None, 2]), ("vectorize", "i_1")]),
    ("a comparison beyond 2**53", "C: i64[3]",
     PLACES.format(n=3, target="v", value=f"T.Select(v + {2**53} > {2**53}, v, 7)"),
     [("split", "i", [None, 2])]),
    ("places that wrap", "A: i32[8], C: i32[4]",
     PLACES.format(n=8, target="(v * 4611686018427387904) // 4611686018427387904 + 2",
                   value="A[v] + T.cast(v, 'int32')"),
     []),
    ("places that wrap, by lanes", "A: i32[8], C: i32[4]",
     PLACES.format(n=8, target="(v * 4611686018427387904) // 4611686018427387904 + 2",
                   value="A[v] + T.cast(v, 'int32')").replace("spatial", "opaque"),
     [("vectorize", "i")]),
)  # fmt: skip

SPARSE = """
    for i in range(8):
        X[(i + N[0]) % {n}] = 1.0
    for i in range(8):
        A[i] = X[(i + N[0]) % {n}]
"""
FILLED = """
    for i in range(8):
        with T.block("X"):
            v = T.axis.spatial(8, i)
            X[v] = A[v] + 1.0
    for j in range(8):
        with T.block("C"):
            w = T.axis.spatial(8, j)
            C[w] = X[w]
"""
HUGE = (
    ("2**64 bytes", SPARSE.format(n=2**62), (), "any", f"X: f32[{2**62}]"),
    ("2**63 bytes", SPARSE.format(n=2**61), (), "any", f"X: f32[{2**61}]"),
    ("a product of sizes", SPARSE.replace("X[(i + N[0]) % {n}]", "X[i, 0, 0]"),
     (), "any", "X: f32[2097152, 2097152, 4194304]"),
    ("of a layout", FILLED, [("transform_layout", "X", "X", f"i -> i * {2**60}")], "either",
     "X: f32[8]"),
)  # fmt: skip

CASES = (
    *(Case("large index", name, params, body, (), "E107") for name, params, body in LARGE),
    *(Case("wrapping condition", name, params, body, tuple(steps), "either")
      for name, params, body, steps in WRAPPING),
    *(Case("empty loop", name, params, body, tuple(steps), "either", allocs)
      for name, params, body, steps, allocs in EMPTY),
    *(Case("large number", name, params, body, tuple(steps), "either" if steps else "E103")
      for name, params, body, steps in NUMBERS),
    *(Case("huge buffer", name, "N: i64[1], A: f32[8], C: f32[8]", body, tuple(steps), refused,
           allocs)
      for name, body, steps, refused, allocs in HUGE),
)  # fmt: skip
