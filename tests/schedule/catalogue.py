"""The mistakes that the catalogue of errors shows: programs, and the calls that are refused.

`python -m tests.schedule.catalogue` writes what is printed today into `catalogue.txt`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.script import T

X = mlc.te.placeholder((8,), "float32", name="X")


def traced_if() -> Any:
    return mlc.te.compute((8,), lambda i: X[i] if X[i] > 0 else 0.0, name="C")


def traced_numpy() -> Any:
    return mlc.te.compute((8,), lambda i: np.exp(X[i]), name="C")


MATMUL_RELU = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 8), "float32"),
         C: T.Buffer((8, 8), "float32")):
    Y = T.alloc_buffer((8, 8), "float32")
    for i, j, k in T.grid(8, 8, 6):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj], T.float32(0))
"""
GUARDED = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        if j < 7:
            C[i, j + 1] = C[i, j] + A[i, j]
"""
SCAN = """
@T.prim_func
def main(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4, 6), "int32")):
    for i, t in T.grid(4, 6):
        with T.block("C"):
            vi, vt = T.axis.remap("SO", [i, t])
            C[vi, vt] = A[vi, vt] + T.if_then_else(vt > 0, C[vi, vt - 1], 0)
"""
PRIVATE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    X = T.alloc_buffer((1,), "float32")
    for i in range(8):
        X[0] = A[i] + T.float32(1)
        C[i] = X[0] * T.float32(2)
"""
AGAIN = """
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4,), "int32")):
    for i, again, k in T.grid(4, 2, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
OUTSIDE = """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = A[vi] + A[vi + 1]
"""
CHAIN = """
@T.prim_func
def main(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
    Y = T.alloc_buffer((10,), "float32")
    for i in range(10):
        with T.block("Y"):
            vi = T.axis.spatial(10, i)
            Y[vi] = A[vi] + T.float32(1)
    for i in range(10):
        with T.block("C"):
            vi = T.axis.spatial(10, i)
            C[vi] = Y[vi] * T.float32(2)
"""


DOT = """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"),
         C: T.Buffer((4, 4), "float32")):
    for i, j, k in T.grid(4, 4, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"""


class Mistake(NamedTuple):
    """A call that is refused, and the words that the suggested line may use."""

    code: str
    call: Callable[[], Any]
    names: dict[str, Any]


def schedule(text: str) -> mlc.Schedule:
    return mlc.Schedule(mlc.parse(text))


def mistake(code: str, sch: mlc.Schedule, call: Callable[[mlc.Schedule], Any]) -> Mistake:
    return Mistake(code, lambda: call(sch), {"sch": sch})


MATMUL = schedule(MATMUL_RELU)
MATRIX = np.zeros((8, 6), np.float32)
OUT = np.zeros((8, 8), np.float32)


CATALOGUE = {
    "parallel on a reduction": mistake("E104", MATMUL, lambda s: s.parallel("k")),
    "vectorize over a guard": mistake("E104", schedule(GUARDED), lambda s: s.vectorize("j")),
    "a name that an earlier step replaced": mistake(
        "E105",
        MATMUL.annotate("k", "note", 1).split("i", [None, 4]).split("i_1", [2, 2]),
        lambda s: s.reorder("i", "j"),
    ),
    "a block that an earlier step replaced": mistake(
        "E105", MATMUL.decompose_reduction("Y", at="k"), lambda s: s.compute_at("Y", "i1")
    ),
    "a buffer that an earlier step replaced": mistake(
        "E105", schedule(CHAIN).compute_inline("Y"), lambda s: s.cache_read("C", "Y")
    ),
    "a buffer in the wrong case": mistake("E105", MATMUL, lambda s: s.cache_read("Y", "a")),
    "wrong compute_at direction": mistake("E115", MATMUL, lambda s: s.compute_at("C", "j")),
    "wrong reverse_compute_at direction": mistake(
        "E113", MATMUL, lambda s: s.reverse_compute_at("Y", "j1")
    ),
    "reordering a scan": mistake(
        "E109", schedule(SCAN).split("t", [None, 3]), lambda s: s.reorder("t_1", "t_0")
    ),
    "vectorizing over a private buffer": mistake(
        "E111", schedule(PRIVATE), lambda s: s.vectorize("i")
    ),
    "decomposing at a recompute loop": mistake(
        "E114", schedule(AGAIN), lambda s: s.decompose_reduction("C", at="again")
    ),
    "decomposing inside the reduction": mistake(
        "E114", MATMUL.reorder("k", "i"), lambda s: s.decompose_reduction("Y", at="i")
    ),
    "factors that do not cover": mistake("E118", MATMUL, lambda s: s.split("i", [2, 3])),
    "inlining a reduction": mistake("E115", MATMUL, lambda s: s.compute_inline("Y")),
    "an unknown scope": mistake("E117", MATMUL, lambda s: s.cache_read("Y", "A", "registers")),
    "fusing in another order": mistake("E116", MATMUL, lambda s: s.fuse("j", "i")),
    "the wrong type of argument": mistake("E118", MATMUL, lambda s: s.split("i", 4)),
    "another shape than the intrinsic's": mistake(
        "E156", schedule(DOT), lambda s: s.tensorize("k", "dot4")
    ),
    "another computation than the intrinsic's": mistake(
        "E156",
        schedule(DOT.replace("A[vi, vk] * B[vj, vk]", "(A[vi, vk] + B[vj, vk])")).split(
            "k", [None, 4]
        ),
        lambda s: s.tensorize("k_1", "dot4"),
    ),
    "a typo in a loop": mistake(
        "E105", MATMUL.split("i", [None, 4], names=["outer", "inner"]), lambda s: s.unroll("iner")
    ),
    "a typo in a primitive": mistake("E105", MATMUL, lambda s: s.vectorise("j")),
    "a typo in an argument": mistake("E105", MATMUL, lambda s: s.split("j", factor=[None, 4])),
    "an index out of range": Mistake("E107", lambda: mlc.verify(mlc.parse(OUTSIDE)), {}),
    "the dtype of a call": Mistake(
        "E603",
        lambda: mlc.interpret(MATMUL.mod, "main", MATRIX.astype("float64"), MATRIX.T, OUT),
        {"A": MATRIX.astype("float64")},
    ),
    "the shape of a call": Mistake(
        "E604",
        lambda: mlc.interpret(MATMUL.mod, "main", MATRIX, MATRIX, OUT),
        {"B": MATRIX},
    ),
    "the shape of a compiled call": Mistake(
        "E604",
        lambda: mlc.build(MATMUL.mod, target="python")["main"](MATRIX, OUT, OUT),
        {"B": OUT},
    ),
    "if on a traced value": Mistake("E112", traced_if, {"T": T, "X": X, "a": 1.0, "b": 0.0}),
    "numpy on a traced value": Mistake("E130", traced_numpy, {"te": mlc.te, "X": X}),
}


SNAPSHOTS = Path(__file__).with_name("catalogue.txt")


def message(name: str) -> str:
    """The message that a notebook shows for a mistake of the catalogue."""
    try:
        CATALOGUE[name].call()
    except mlc.CompileError as error:
        return "\n".join(error._render_traceback_())
    raise AssertionError(f"{name}: no error")


def snapshots() -> dict[str, str]:
    parts = SNAPSHOTS.read_text("utf-8").split("\n## ")
    return {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in parts[1:]}


if __name__ == "__main__":
    SNAPSHOTS.write_text("".join(f"\n## {n}\n\n{message(n)}\n" for n in CATALOGUE), "utf-8")
