"""Slides on a compiler: vector add four ways, its schedule, and a product's schedule."""

import numpy as np
import tvm
from tvm import te
from tvm.script import tir
from tvm.script import tir as T

n = 128
rng = np.random.default_rng(0)


def vector_add_python(a, b, c):
    for i in range(n):
        c[i] = a[i] + b[i]


def vector_add(n):
    """TVM expression for vector add"""
    A = te.placeholder((n,), name='a')
    B = te.placeholder((n,), name='b')
    C = te.compute(A.shape, lambda i: A[i] + B[i], name='c')
    return A, B, C


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(A: T.Buffer[128, "float32"],
             B: T.Buffer[128, "float32"],
             C: T.Buffer[128, "float32"]):
        # extra annotations for the function
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in range(128):
            with T.block("C"):
                # declare a data parallel iterator on spatial domain
                vi = T.axis.spatial(128, i)
                C[vi] = A[vi] + B[vi]


a, b, c = rng.random((3, n), "float32")


def check(function):
    c[:] = 0
    function(a, b, c)
    assert np.array_equal(c, a + b)


check(vector_add_python)
check(tvm.build(te.create_prim_func(vector_add(n)), target="llvm"))
check(tvm.build(MyModule, target="llvm")["main"])

sch = tvm.tir.Schedule(MyModule)
# Get block by its name
block_c = sch.get_block("C")
# Get loops surronding the block
(i,) = sch.get_loops(block_c)
# Tile the loop nesting.
i_0, i_1, i_2 = sch.split(i, factors=[None, 4, 4])
sch.reorder(i_0, i_2, i_1)
sch.parallel(i_0)
check(tvm.build(sch.mod, target="llvm")["main"])


@tir.prim_func
def printed(
    A_1: tir.Buffer[128, "float32"], B_1: tir.Buffer[128, "float32"], C_1: tir.Buffer[128, "float32"]
):
    for i_0 in tir.parallel(8):
        for i_2, i_1 in tir.grid(4, 4):
            with tir.block("C"):
                vi = tir.axis.spatial(128, i_0 * 16 + i_1 * 4 + i_2)
                tir.reads(A_1[vi], B_1[vi])
                tir.writes(C_1[vi])
                C_1[vi] = A_1[vi] + B_1[vi]


check(tvm.build(printed, target="llvm"))


def default(n):
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    return te.create_schedule(C.op), (A, B, C)


def reorder(n):
    s, (A, B, C) = default(n)
    (x, y), (k,) = C.op.axis, C.op.reduce_axis
    s[C].reorder(x, k, y)
    return s, (A, B, C)


s, args = reorder(64)
assert "for x, k, y in T.grid(64, 64, 64)" in tvm.lower(s, args, simple_mode=True).script()
mod = tvm.build(s, args, target="llvm")
a, b, c = (tvm.nd.array(rng.random((64, 64), "float32")) for _ in range(3))
mod(a, b, c)
tvm.testing.assert_allclose(c.asnumpy(), a.numpy() @ b.numpy(), rtol=1e-5, atol=1e-5)
