"""Notes on a course: a module, destination passing, dataflow, decompose_reduction."""

import IPython
import numpy as np
import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import tir as T


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(A: T.Buffer[(128, 128), "float32"],
                B: T.Buffer[(128, 128), "float32"],
                C: T.Buffer[(128, 128), "float32"]):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


a, b = np.random.default_rng(0).standard_normal((2, 128, 128)).astype("float32")


def check(mod):
    c = tvm.nd.empty((128, 128), dtype="float32")
    rt_lib = tvm.build(mod, target="llvm")
    rt_lib["mm_relu"](tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


check(MyModule)

# Destination passing, and the same function called by a graph that hides it


def low_level_prim_func(in0, in1, out):
    tvm.build(MyModule, target="llvm")["mm_relu"](in0, in1, out)


out = np.empty((128, 128), "float32")
low_level_prim_func(a, b, out)
tvm.testing.assert_allclose(out, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-4)


@tvm.script.ir_module
class MyGraph:
    @T.prim_func
    def double(X: T.Buffer[(128, 128), "float32"], Y: T.Buffer[(128, 128), "float32"]):
        for i, j in T.grid(128, 128):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * T.float32(2)

    @R.function
    def main(x: R.Tensor((128, 128), "float32")):
        with R.dataflow():
            lv0 = R.call_tir(double, (x,), (128, 128), dtype="float32")
            out = R.call_tir(double, (lv0,), (128, 128), dtype="float32")
            R.output(out)
        return out


vm = relax.VirtualMachine(relax.vm.build(MyGraph, target="llvm"), tvm.cpu())
assert np.array_equal(vm["main"](tvm.nd.array(a)).numpy(), a * 4)

# The initialization moves out of the loop over k

sch = tvm.tir.Schedule(MyModule)
block_Y = sch.get_block("Y", func_name="mm_relu")
i, j, k = sch.get_loops(block_Y)
j0, j1 = sch.split(j, factors=[None, 4])
sch.reorder(j0, k, j1)
block_C = sch.get_block("C", "mm_relu")
sch.reverse_compute_at(block_C, j0)
sch.decompose_reduction(block_Y, k)
IPython.display.Code(sch.mod.script(), language="python")
assert "Y_init" in sch.mod.script()
check(sch.mod)
