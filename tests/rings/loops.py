"""A copy of ring 1 alone at work, from text to a call of machine code."""

import sys

import numpy as np

import minimlc as mlc
from minimlc.loops.llvm.kernel import compile_function
from minimlc.loops.te import te

assert mlc.__file__.startswith(sys.argv[1])
TEXT = """
@T.prim_func
def mm(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"),
       C: T.Buffer((8, 8), "float32")):
    Y = T.alloc_buffer((8, 8), "float32")
    for i, j, k in T.grid(8, 8, 8):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(Y[vi, vj], 0.0)
"""
mod = mlc.verify(mlc.parse(TEXT))
assert mlc.structural_equal(mlc.parse(mod.script()), mod)
a, b = np.arange(128, dtype="float32").reshape(2, 8, 8) - 60
expected = np.maximum(a @ b, 0)


def agrees(sch: mlc.Schedule, **options: bool) -> None:
    c, d = np.zeros((2, 8, 8), "float32")
    mlc.interpret(sch.mod, "mm", a, b, c)
    compile_function(sch.mod["mm"], **options)(a, b, d)
    assert np.array_equal(c, expected) and np.array_equal(d, expected)


def refused(code: str, step, *words: str) -> None:
    try:
        step()
    except mlc.CompileError as error:
        assert error.code == code and all(word in str(error) for word in words), error
    else:
        raise AssertionError(code)


sch = mlc.Schedule(mod)
agrees(sch)
sch = sch.split("j", [None, 3]).reorder("k", "j_1").reverse_compute_at("C", "i")
agrees(sch)
agrees(sch.parallel("i").vectorize("j_1"))
agrees(sch, check=True)
assert len(mlc.schedule.PRIMITIVES) >= 17

# Refusals show a witness, and what works instead.
refused("E104", lambda: sch.vectorize("k"), "iterations k=0 and k=1 both update Y[0, 0]")
refused(
    "E107",
    lambda: mlc.verify(mlc.parse(TEXT.replace("B[vk, vj]", "B[vk + 1, vj]"))),
    "k=7: B[8, 0]",
)
refused("E103", lambda: mlc.verify(mlc.parse(TEXT.replace('"SSR"', '"SSS"'))), "reduction axis")
refused("E118", lambda: sch.split("i", [3, 2], tail="error"))
refused("E105", lambda: sch.splitt("i", [4, 2]), "split")

# What was never written is found when it is used.
late = mlc.parse("""
@T.prim_func
def late(N: T.Buffer((1,), "int64"), C: T.Buffer((4,), "float32")):
    X = T.alloc_buffer((4,), "float32")
    for i in range(4):
        if i < N[0]:
            X[i] = 1.0
    for i in range(4):
        C[i] = X[i] * 2.0
""")
refused("E131", lambda: mlc.interpret(late, "late", np.array([3]), np.empty(4, "float32")), "X[3]")

# Formulas become functions, and a failed access of checked code is an error.
x = te.placeholder((16,), name="x")
total = te.compute((4,), lambda i: te.sum(x[i * 4 + (k := te.reduce_axis((0, 4), "k"))], axis=k))
sums, result = te.create_prim_func([x, total]), np.zeros(4, "float32")
compile_function(sums)(np.arange(16, dtype="float32"), result)
assert np.array_equal(result, np.arange(16).reshape(4, 4).sum(1))
gather = mlc.parse("""
@T.prim_func
def gather(N: T.Buffer((2,), "int64"), A: T.Buffer((4,), "float32"), C: T.Buffer((2,), "float32")):
    for i in range(2):
        C[i] = A[N[i]]
""")["gather"]
arrays = np.array([1, 9]), np.zeros(4, "float32"), np.zeros(2, "float32")
try:
    compile_function(gather, check=True)(*arrays)
except IndexError as error:
    assert "A[9]" in str(error), error
else:
    raise AssertionError("an access outside")
print("the loops work")
