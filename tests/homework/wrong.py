"""Submissions of students: per item of the shipped assignments, wrong solutions and right ones.

A wrong tensor program is the right one with some text replaced; a wrong schedule is the steps that
a student wrote.
"""

from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {
    "hw1": "hw1_tensor_programs",
    "hw2": "hw2_schedules",
    "hw3": "hw3_search",
    "hw4": "hw4_gpu",
}


def solutions(name: str) -> dict[str, str]:
    """The solution cells of a source notebook by their ids, without their delimiters."""
    path = ROOT / "notebooks/homework" / f"{NOTEBOOKS[name]}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    chosen = [c for c in cells if c.metadata.get("nbgrader", {}).get("solution")]
    return {
        cell.metadata.nbgrader.grade_id: "\n".join(
            line for line in cell.source.split("\n") if "###" not in line
        )
        for cell in chosen
    }


def _without_init(buffer: str, value: str, indices: str) -> tuple[str, str]:
    return f"with T.init():\n                        {buffer}[{indices}] = {value}\n", "pass\n"


# The right text, what a student writes instead, and so on in pairs.
PROGRAMS = {
    "broadcast_add": {
        "the other axis": ("B[vj]", "B[vi]"),
        "the first only": ("B[vj]", "B[0]"),
        "subtracts": ("A[vi, vj] + B", "A[vi, vj] - B"),
        "all but the last column": ("T.grid(n, m)", "T.grid(n, m - 1)"),
        "into the input": ("C[vi, vj] = A", "A[vi, vj] = A"),
        "no return": ("return Add", "Add"),
        "iters swapped": ("[i, j])", "[j, i])"),
        "on top of what is there": ("= A[vi, vj] +", "= C[vi, vj] + A[vi, vj] +"),
        "doubles": ('C: T.Buffer((n, m), "float32")', 'C: T.Buffer((n, m), "float64")'),
    },
    "matmul": {
        "no init": _without_init("C", "T.float32(0)", "vi, vj"),
        "starts with 1": ("= T.float32(0)", "= T.float32(1)"),
        "the other way round": ("B[vr, vj]", "B[vj, vr]"),
        "the last term": ("C[vi, vj] + A[vi, vr]", "A[vi, vr]"),
        "no reduction": ('"SSR"', '"SSS"'),
        "all but the last term": ("T.grid(n, m, k)", "T.grid(n, m, k - 1)"),
        "adds": ("A[vi, vr] * B", "A[vi, vr] + B"),
        "element by element": ("B[vr, vj]", "B[vi, vj]"),
        "starts with the first term": ("= T.float32(0)", "= A[vi, 0] * B[0, vj]"),
    },
    "conv2d": {
        "turned around": ("W[vf, vc, vp, vq]", "W[vf, vc, r - 1 - vp, r - 1 - vq]"),
        "one channel": ("o, h - r + 1, w - r + 1, c, r, r)", "o, h - r + 1, w - r + 1, 1, r, r)"),
        "filter transposed": ("W[vf, vc, vp, vq]", "W[vf, vc, vq, vp]"),
        "no init": _without_init("Y", "T.float32(0)", "vf, vy, vx"),
        "no window": ("X[vc, vy + vp, vx + vq]", "X[vc, vy, vx]"),
        "a step of two": ("vy + vp, vx + vq", "2 * vy + vp, 2 * vx + vq"),
        "padded size": ("Y: T.Buffer((o, h - r + 1, w - r + 1)", "Y: T.Buffer((o, h, w)"),
        "the first filter": ("W[vf, vc, vp, vq]", "W[0, vc, vp, vq]"),
        "a window short": ("c, r, r)", "c, r, r - 1)"),
    },
    "max_pool": {
        "starts with 0": ('T.min_value("float32")', "T.float32(0)"),
        "starts with -1000": ('T.min_value("float32")', "T.float32(-1000)"),
        "starts with -1e9": ('T.min_value("float32")', "T.float32(-1e9)"),
        "the mean": (
            "T.max(Y[vc, vy, vx], X[vc, 2 * vy + vp, 2 * vx + vq])",
            "Y[vc, vy, vx] + X[vc, 2 * vy + vp, 2 * vx + vq] / T.float32(4)",
            'T.min_value("float32")',
            "T.float32(0)",
        ),
        "overlapping": ("2 * vy + vp, 2 * vx + vq", "vy + vp, vx + vq"),
        "the least": ("T.max(", "T.min(", "T.min_value", "T.max_value"),
        "one row": ("T.grid(c, h, w, 2, 2)", "T.grid(c, h, w, 1, 2)"),
        "no init": _without_init("Y", 'T.min_value("float32")', "vc, vy, vx"),
        "the last": ("T.max(Y[vc, vy, vx], X[vc", "T.max(X[vc, 2 * vy, 2 * vx], X[vc"),
    },
    "softmax": {
        "no maximum": ("T.exp(X[vi, vj] - M[vi])", "T.exp(X[vi, vj])"),
        "the maximum starts with 0": ('T.min_value("float32")', "T.float32(0)"),
        "the maximum starts with -1e9": ('T.min_value("float32")', "T.float32(-1e9)"),
        "the least instead": ("T.max(", "T.min(", "T.min_value", "T.max_value"),
        "no division": (" / S[vi]", ""),
        "the sum starts with 1": ("S[vi] = T.float32(0)", "S[vi] = T.float32(1)"),
        "the sum without init": _without_init("S", "T.float32(0)", "vi"),
        "the maximum without init": _without_init("M", 'T.min_value("float32")', "vi"),
        "the first row's sum": ("/ S[vi]", "/ S[0]"),
        "the maximum of all": ("M[vi]", "M[0]", "(n,)", "(n,)"),
        "maximum in the sum only": ("T.exp(X[vi, vj] - M[vi]) / S", "T.exp(X[vi, vj]) / S"),
    },
    "argmax": {
        "the last one": (
            "T.int32(m)\n                    here",
            "T.int32(0)\n                    here",
            "T.min(Y[vi], T.if_then_else(X[vi, vj] == M[vi], here, T.int32(m)))",
            "T.max(Y[vi], T.if_then_else(X[vi, vj] == M[vi], here, T.int32(0)))",
        ),
        "the maximum starts with 0": ('T.min_value("float32")', "T.float32(0)"),
        "the maximum starts with -1e9": ('T.min_value("float32")', "T.float32(-1e9)"),
        "starts with 0": ("Y[vi] = T.int32(m)", "Y[vi] = T.int32(0)"),
        "counts from 1": ("here = T.cast(vj", "here = T.cast(vj + 1"),
        "the least": ("M[vi] = T.max(", "M[vi] = T.min(", "T.min_value", "T.max_value"),
        "about as large": ("X[vi, vj] == M[vi]", "X[vi, vj] >= M[vi] - T.float32(1e-6)"),
        "no init": _without_init("Y", "T.int32(m)", "vi"),
        "the maximum itself": ("here, T.int32(m)", 'T.cast(M[vi], "int32"), T.int32(m)'),
        "as int64": ('Y: T.Buffer((n,), "int32")', 'Y: T.Buffer((n,), "int64")'),
    },
}

FORMULAS = {
    "broadcast_add": """
A, B = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
C = te.compute((n, m), lambda i, j: A[i, j] + B[j], name="C")
return te.create_prim_func([A, B, C])""",
    "matmul": """
A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
r = te.reduce_axis((0, k), name="r")
C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
return te.create_prim_func([A, B, C])""",
    "conv2d": """
X, W = te.placeholder((c, h, w), name="X"), te.placeholder((o, c, r, r), name="W")
a, p, q = (te.reduce_axis((0, size), name=name) for size, name in ((c, "a"), (r, "p"), (r, "q")))
Y = te.compute(
    (o, h - r + 1, w - r + 1),
    lambda f, y, x: te.sum(X[a, y + p, x + q] * W[f, a, p, q], axis=[a, p, q]),
    name="Y",
)
return te.create_prim_func([X, W, Y])""",
    "max_pool": """
X = te.placeholder((c, 2 * h, 2 * w), name="X")
p, q = te.reduce_axis((0, 2), name="p"), te.reduce_axis((0, 2), name="q")
Y = te.compute((c, h, w), lambda a, y, x: te.max(X[a, 2 * y + p, 2 * x + q], axis=[p, q]), name="Y")
return te.create_prim_func([X, Y])""",
    "softmax": """
X = te.placeholder((n, m), name="X")
k, r = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="r")
M = te.compute((n,), lambda i: te.max(X[i, k], axis=k), name="M")
E = te.compute((n, m), lambda i, j: te.exp(X[i, j] - M[i]), name="E")
S = te.compute((n,), lambda i: te.sum(E[i, r], axis=r), name="S")
Y = te.compute((n, m), lambda i, j: E[i, j] / S[i], name="Y")
return te.create_prim_func([X, Y])""",
}
"""The same programs as formulas; `argmax` has another way, with plain loops and a condition."""

ARGMAX = """
def argmax(n, m):
    @I.ir_module
    class Argmax:
        @T.prim_func
        def main(X: T.Buffer((n, m), "float32"), Y: T.Buffer((n,), "int32")):
            M = T.alloc_buffer((n,), "float32")
            for i in range(n):
                Y[i] = 0
                M[i] = X[i, 0]
                for j in range(m):
                    if X[i, j] > M[i]:
                        M[i] = X[i, j]
                        Y[i] = T.cast(j, "int32")

    return Argmax
"""


def program(task: str, kind: str) -> str:
    """The text of a wrong tensor program."""
    text, changes = solutions("hw1")[task], PROGRAMS[task][kind]
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, (task, kind, old)
        text = text.replace(old, new)
    return text


def formula(task: str) -> str:
    """The second right solution of a task."""
    if task not in FORMULAS:
        return ARGMAX
    head = solutions("hw1")[task].split("\n")[0]
    return head + FORMULAS[task].replace("\n", "\n    ")


# Schedules: the steps of each stage of hw2, right ones first.

TILE = """
sch = sch.split("i", [None, 4]).split("j", [None, 16])
sch = sch.reorder("j_0", "i_0", "k", "i_1", "j_1")"""
FUSE = """
sch = sch.reverse_compute_at("C", "i_0")"""
START = """
sch = sch.decompose_reduction("Y", at="k")"""
VECTORS = """
for lane in ("j_1_init", "j_1", sch.loops("C")[-1]):
    sch = sch.vectorize(lane)"""
ROWS = """
for row in ("i_1_init", "i_1", sch.loops("C")[-2]):
    sch = sch.unroll(row)"""
PACK = """
sch = sch.cache_read("Y_update", "B").compute_at("B_local", "j_0")"""
SHARE = """
sch = sch.parallel("j_0")"""
READY = TILE + FUSE + START + VECTORS + ROWS

ANOTHER = """
sch = sch.split("i", [None, 8], names=["rows", "row"]).split("j", [None, 32], names=["cols", "col"])
sch = sch.split("k", [None, 4], names=["ko", "ki"])
sch = sch.reorder("cols", "rows", "ko", "ki", "row", "col").reverse_compute_at("C", "rows")
sch = sch.decompose_reduction("Y", at="ko")
epilogue = sch.loops("C")[-2:]
for lane in ("col_init", "col", epilogue[1]):
    sch = sch.vectorize(lane)
for row in ("row_init", "row", epilogue[0], "ki"):
    sch = sch.unroll(row)
sch = sch.cache_read("Y_update", "B")
sch = sch.transform_layout("B_local", "B_local", lambda k, j: (j // 32, k, j % 32))
sch = sch.parallel("cols")"""

RIGHT_SCHEDULES = {
    "as in the notebook": READY + PACK + SHARE,
    "other tiles and names, another layout": ANOTHER,
}


def _reordered(*loops: str) -> str:
    named = ", ".join(f'"{loop}"' for loop in loops)
    return TILE.rsplit("\n", 1)[0] + f"\nsch = sch.reorder({named})"


SCHEDULES = {
    "the values are right": {
        "nothing": "return None",
        "a module": "return sch.mod",
        "not written": "raise NotImplementedError()",
        "refused": 'sch = sch.parallel("k")',
        "as text": "return sch.mod.script()",
        "a trace": "return sch.trace",
        "no such loop": 'sch = sch.split("z", [None, 4])',
    },
    "nothing it is given changes": {
        "drawn": 'import random\nsch = sch.split("i", [None, random.randint(2, 10**6)])',
        "by the clock": (
            'import time\nsch = sch.split("i", [None, 1 + time.perf_counter_ns() % 10**6])'
        ),
        "counted": (
            "chain.count = getattr(chain, 'count', 1) + 1\n"
            'sch = sch.split("i", [None, chain.count])'
        ),
        "remembered": 'seen.append(1)\nsch = sch.split("i", [None, 1 + len(seen)])',
        "drawn by numpy": 'sch = sch.split("i", [None, int(np.random.randint(2, 10**6))])',
    },
    "the i loop is tiled": {
        "rows of tiles first": _reordered("i_0", "j_0", "k", "i_1", "j_1"),
        "k inside the rows": _reordered("j_0", "i_0", "i_1", "k", "j_1"),
        "k inside the columns": _reordered("j_0", "i_0", "j_1", "k", "i_1"),
        "k inside all": _reordered("j_0", "i_0", "i_1", "j_1", "k"),
        "k first": _reordered("k", "j_0", "i_0", "i_1", "j_1"),
        "k between the tiles": _reordered("j_0", "k", "i_0", "i_1", "j_1"),
        "not in order yet": TILE.rsplit("\n", 1)[0],
        "columns only": 'sch = sch.split("j", [None, 16]).reorder("j_0", "i", "k", "j_1")',
        "too large": TILE.replace("16]", "128]").replace("4]", "64]"),
    },
    "the epilogue is fused": {
        "not moved": TILE,
        "into the columns of tiles": TILE + '\nsch = sch.reverse_compute_at("C", "j_0")',
        "tiled alike, on its own": TILE
        + '\nsch = sch.split("i2", [None, 4]).split("j2", [None, 16])',
        "one loop": TILE + '\nsch = sch.fuse("i2", "j2")',
        "only a copy is moved": TILE
        + '\nsch = sch.cache_write("Y", "Y").reverse_compute_at("Y_local", "i_0")',
        "in parallel": TILE + '\nsch = sch.parallel("i2")',
    },
    "the sums stay": {
        "in a loop": TILE + FUSE,
        "vectors only": TILE + FUSE + START + VECTORS,
        "rows only": (TILE + FUSE + START + ROWS).replace("16]", "256]"),
        "without the epilogue": TILE + START + '\nsch = sch.vectorize("j_1").unroll("i_1")',
        "too large a tile": READY.replace("16]", "64]").replace("4]", "16]"),
        "too small a tile": READY.replace("16]", "4]").replace("4]", "2]", 1),
        "k written out": TILE + FUSE + START + '\nsch = sch.split("k", [None, 4]).unroll("k_1")',
    },
    "B is packed": {
        "not copied": READY,
        "as it was": READY + '\nsch = sch.cache_read("Y_update", "B")',
        "once for each tile": READY + PACK.replace("j_0", "i_0"),
        "once for each k": READY + PACK.replace('"j_0"', '"k"'),
        "A": READY + '\nsch = sch.cache_read("Y_update", "A").compute_at("A_local", "i_0")',
        "another width": READY
        + '\nsch = sch.cache_read("Y_update", "B")'
        + '\nsch = sch.transform_layout("B_local", "B_local", lambda k, j: (j // 32, k, j % 32))',
        "turned": READY
        + '\nsch = sch.cache_read("Y_update", "B")'
        + '\nsch = sch.transform_layout("B_local", "B_local", lambda k, j: (j, k))',
    },
    "the j loop is vectorized": {
        "none": TILE + FUSE + START,
        "the rows": TILE + FUSE + START + '\nsch = sch.vectorize("i_1")',
        "the start only": TILE + FUSE + START + '\nsch = sch.vectorize("j_1_init")',
        "the epilogue only": TILE + FUSE + START + '\nsch = sch.vectorize(sch.loops("C")[-1])',
        "written out": TILE + FUSE + START + '\nsch = sch.unroll("j_1")',
        "the epilogue's pass": 'sch = sch.vectorize("j2")',
    },
    "no guard": {
        "not decomposed": TILE + FUSE,
        "columns that don't fit": (TILE + START).replace("16]", "15]"),
        "rows that don't fit": (TILE + START).replace("4]", "5]"),
        "k that doesn't fit": TILE + START + '\nsch = sch.split("k", [None, 7])',
        "moved only": FUSE.replace("i_0", "i"),
        "parallel only": 'sch = sch.parallel("i")',
    },
    "a loop of i or j is parallel": {
        "none": READY + PACK,
        "the epilogue's pass": TILE + '\nsch = sch.parallel("i2")',
        "the copy": READY + PACK + '\nsch = sch.parallel(sch.loops("B_local")[-2])',
        "the start": TILE + START + '\nsch = sch.parallel("i_1_init")',
        "written out": TILE + '\nsch = sch.unroll("i_1")',
        "refused": 'sch = sch.parallel("k")',
    },
    "at least 2 times": {
        "nothing": "",
        "cut only": 'sch = sch.split("k", [None, 8])',
        "threads only": 'sch = sch.parallel("i")',
        "one loop": 'sch = sch.fuse("i", "j")',
        "the epilogue only": FUSE.replace("i_0", "i"),
    },
}
SCHEDULES["at least 4 times"] = SCHEDULES["at least 2 times"]


def schedule(steps: str) -> str:
    """The text of a function that takes these steps."""
    lines = [*steps.strip().split("\n"), "return sch"]
    return "\n".join(["seen = []", "def chain(sch):", *(f"    {line}" for line in lines)])


# One line instead of a solution. `product` is what both homeworks come down to.

GRAPH = """
@I.ir_module
class Graph:
    @R.function
    def main({params}):
        y = R.{operator}({names})
        return y
"""
OPERATORS = {
    "broadcast_add": ("add", (("n", "m"), ("m",))),
    "matmul": ("matmul", (("n", "k"), ("k", "m"))),
    "softmax": ("softmax", (("n", "m"),)),
    "argmax": ("argmax", (("n", "m"),)),
}
"""The graph operators that do what a task asks; the other two tasks have none."""

LEGAL = {
    "legalize": "mlc.passes.legalize(graph)",
    "the module's function": (
        "importlib.import_module('minimlc.graphs.passes.legalize').legalize(graph)"
    ),
    "by its former name": "importlib.import_module('minimlc.passes.legalize').legalize(graph)",
    "the pipeline": "mlc.run_passes(graph, mlc.passes.default_pipeline)",
    "build": "mlc.build(graph, recipes=False).mod",
    "from the package": "__import__('minimlc').passes.legalize(graph)",
}

TRICKS = {
    "a recipe": "return mlc.recipes.matmul(sch)",
    "an import": "from minimlc.recipes import matmul\nreturn matmul(sch)",
    "an import of the module": "import minimlc.recipes.matmul as m\nreturn m(sch)",
    "the package's": "from minimlc import recipes\nreturn recipes.matmul(sch)",
    "importlib": 'return importlib.import_module("minimlc.recipes").matmul(sch)',
    "sys.modules": 'return sys.modules["minimlc.recipes.matmul"].matmul(sch)',
    "getattr": 'return getattr(getattr(mlc, "rec" + "ipes"), "mat" + "mul")(sch)',
    "apply": "return mlc.Schedule(mlc.recipes.apply(sch.mod))",
    "attempt": "return mlc.recipes.attempt(sch, sch.blocks()[0])",
    "the pipeline": "return mlc.Schedule(mlc.run_passes(sch.mod, mlc.passes.default_pipeline))",
    "build's": "from minimlc.graphs.passes import scheduling\nreturn scheduling[0](sch.mod)",
    "reload": ('m = sys.modules["minimlc.recipes.matmul"]\nreturn importlib.reload(m).matmul(sch)'),
    "forget and import": (
        'for n in [n for n in sys.modules if "recipes" in n]: del sys.modules[n]\n'
        "from minimlc.recipes import matmul\nreturn matmul(sch)"
    ),
    "its text": (
        'm = sys.modules["minimlc.recipes.matmul"]\nnames = {"__name__": "m"}\n'
        'exec(open(m.__file__).read(), names)\nreturn names["matmul"](sch)'
    ),
    "runpy": 'import runpy\nreturn runpy.run_module("minimlc.recipes.matmul")["matmul"](sch)',
    "its source": (
        "import inspect\nm = sys.modules['minimlc.recipes.matmul']\n"
        "exec(inspect.getsource(m), vars(m))\nreturn m.matmul(sch)"
    ),
    "the garbage collector": (
        "import gc, types\n"
        "f = [f for f in gc.get_objects() if isinstance(f, types.FunctionType)\n"
        "     and f.__module__ == 'minimlc.recipes.matmul' and f.__name__ == 'matmul']\n"
        "return f[0](sch)"
    ),
    "another way in": "return mlc.recipes.general.attempt(sch, None)",
    "in spite of it": (
        "try: return mlc.recipes.matmul(sch)\nexcept Exception: return mlc.recipes.rows(sch)"
    ),
}
