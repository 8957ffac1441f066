"""Programs as in a course's chapter on tensor programs: scripts, formulas, build and call."""

import numpy as np
import pytest

import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import te
from minimlc.frontends.tvm.script import relax as R
from minimlc.frontends.tvm.script import tir as T
from tests.helpers import refuses

RNG = np.random.default_rng(0)


def rand(*shape):
    return RNG.standard_normal(shape).astype("float32")


def run(mod, name, *inputs, out):
    """The result of a primitive function, built and called as the course does."""
    result = tvm.nd.empty(out, dtype="float32")
    tvm.build(mod, target="llvm")[name](*map(tvm.nd.array, inputs), result)
    return result.numpy()


def test_vector_add():
    @tvm.script.ir_module
    class MyModule:
        @T.prim_func
        def main(
            A: T.Buffer[128, "float32"],
            B: T.Buffer[128, "float32"],
            C: T.Buffer[128, "float32"],
        ):
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            for i in range(128):
                with T.block("C"):
                    vi = T.axis.spatial(128, i)
                    C[vi] = A[vi] + B[vi]

    a, b = rand(128), rand(128)
    assert np.array_equal(run(MyModule, "main", a, b, out=(128,)), a + b)
    assert isinstance(MyModule, tvm.IRModule)
    assert isinstance(MyModule["main"], tvm.tir.PrimFunc)


def test_product_and_relu():
    @tvm.script.ir_module
    class MyModule:
        @T.prim_func
        def mm_relu(
            A: T.Buffer((16, 24), "float32"),
            B: T.Buffer((24, 8), "float32"),
            C: T.Buffer((16, 8), "float32"),
        ):
            Y = T.alloc_buffer((16, 8), dtype="float32")
            for i, j, k in T.grid(16, 8, 24):
                with T.block("Y"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        Y[vi, vj] = T.float32(0)
                    Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
            for i, j in T.grid(16, 8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.max(Y[vi, vj], T.float32(0))

    a, b = rand(16, 24), rand(24, 8)
    tvm.testing.assert_allclose(
        run(MyModule, "mm_relu", a, b, out=(16, 8)), np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5
    )


def test_the_same_by_formulas():
    A = te.placeholder((16, 24), name="A", dtype="float32")
    B = te.placeholder((24, 8), name="B", dtype="float32")
    k = te.reduce_axis((0, 24), name="k")
    Y = te.compute((16, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")
    C = te.compute((16, 8), lambda i, j: te.max(Y[i, j], 0), name="C")
    te_func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "mm_relu"})
    mod = tvm.IRModule({"mm_relu": te_func})
    a, b = rand(16, 24), rand(24, 8)
    result = run(mod, "mm_relu", a, b, out=(16, 8))
    tvm.testing.assert_allclose(result, np.maximum(a @ b, 0), rtol=1e-4, atol=1e-5)
    assert tvm.ir.structural_equal(tvm.IRModule.from_expr(te_func)["mm_relu"], te_func)
    assert tvm.ir.structural_equal(tvm.script.from_source(mod.script()), mod)


def test_broadcast_add_with_a_handle():
    @T.prim_func
    def add(a: T.handle, B: T.Buffer((4,), "int64"), C: T.Buffer((4, 4), "int64")) -> None:
        A = T.match_buffer(a, (4, 4), "int64")
        for i, j in T.grid(4, 4):
            with T.block("C"):
                vi = T.axis.spatial(4, i)
                vj = T.axis.spatial(4, j)
                T.reads(A[vi, vj], B[vj])
                T.writes(C[vi, vj])
                C[vi, vj] = A[vi, vj] + B[vj]

    a, b = np.arange(16, dtype="int64").reshape(4, 4), np.arange(4, 0, -1, dtype="int64")
    c = tvm.nd.array(np.empty((4, 4), dtype=np.int64))
    rt_lib = tvm.build(tvm.IRModule.from_expr(add), target="llvm")
    rt_lib["add"](tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a + b)


def test_convolution():
    N, CI, H, W, CO, K = 1, 1, 8, 8, 2, 3
    OUT_H, OUT_W = H - K + 1, W - K + 1

    @tvm.script.ir_module
    class MyConv:
        @T.prim_func
        def conv(
            A: T.Buffer((N, CI, H, W), "int64"),
            Wt: T.Buffer((CO, CI, K, K), "int64"),
            B: T.Buffer((N, CO, OUT_H, OUT_W), "int64"),
        ):
            for b, k, i, j, di, dj, q in T.grid(N, CO, OUT_H, OUT_W, K, K, CI):
                with T.block("B"):
                    vb, vk, vi, vj, vdi, vdj, vq = T.axis.remap("SSSSRRR", [b, k, i, j, di, dj, q])
                    with T.init():
                        B[vb, vk, vi, vj] = T.int64(0)
                    B[vb, vk, vi, vj] += A[vb, vq, vi + vdi, vj + vdj] * Wt[vk, vq, vdi, vdj]

    data = np.arange(N * CI * H * W, dtype="int64").reshape(N, CI, H, W)
    weight = np.arange(CO * CI * K * K, dtype="int64").reshape(CO, CI, K, K)
    windows = np.lib.stride_tricks.sliding_window_view(data, (K, K), axis=(2, 3))
    result = tvm.nd.empty((N, CO, OUT_H, OUT_W), dtype="int64")
    tvm.build(MyConv, target="llvm")["conv"](tvm.nd.array(data), tvm.nd.array(weight), result)
    np.testing.assert_array_equal(result.numpy(), np.einsum("nchwij,kcij->nkhw", windows, weight))


def test_softmax_by_formulas():
    A = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    k2 = te.reduce_axis((0, 16), name="k2")
    top = te.compute((8,), lambda i: te.max(A[i, k], axis=k), name="top")
    e = te.compute((8, 16), lambda i, j: te.exp(A[i, j] - top[i]), name="e")
    total = te.compute((8,), lambda i: te.sum(e[i, k2], axis=k2), name="total")
    out = te.compute((8, 16), lambda i, j: e[i, j] / total[i], name="out")
    a = rand(8, 16)
    expected = np.exp(a - a.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    result = tvm.nd.array(np.zeros((8, 16), "float32"))
    tvm.build(te.create_prim_func([A, out]), target="llvm")(tvm.nd.array(a), result)
    tvm.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_arrays_and_times():
    a = tvm.nd.array([[1.0, 2.0], [3.0, 4.0]], device=tvm.cpu(0))
    b = tvm.nd.empty((2, 2), "float64", tvm.cpu())
    b[:] = a
    assert type(b.numpy()) is np.ndarray
    assert np.array_equal(b.asnumpy(), [[1, 2], [3, 4]])
    b.numpy()[0, 0] = 7
    assert b[0, 0] == 1, "numpy() is a copy"
    assert np.array_equal(b.copyfrom(np.eye(2)), np.eye(2)) and b[0, 1] == 0
    refuses("E604", lambda: b.copyfrom(np.zeros(2)), "(2, 2)", "(2,)")
    A = te.placeholder((64,), name="A")
    B = te.compute(A.shape, lambda i: A[i] * 2.0, name="B")
    lib = tvm.build(te.create_prim_func([A, B]), target="llvm")
    arrays = tvm.nd.array(rand(64)), tvm.nd.empty((64,))
    result = lib.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(*arrays)
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max
    assert result.min <= result.mean <= result.max


def test_a_graph_function_beside_a_primitive_one():
    @tvm.script.ir_module
    class Both:
        @T.prim_func
        def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in T.serial(4):
                with T.block("B"):
                    vi = T.axis.spatial(4, i)
                    B[vi] = A[vi] * T.float32(2)

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Both
            with R.dataflow():
                lv = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
                R.output(lv)
            return lv

    a = rand(4)
    vm = tvm.relax.VirtualMachine(tvm.relax.build(Both, target="llvm"), tvm.cpu())
    assert np.array_equal(vm["main"](tvm.nd.array(a)).numpy(), a * 2)
    assert [var.name_hint for var in Both.get_global_vars()] == ["double", "main"]
    with pytest.raises(tvm.TVMError, match="never changes"):
        Both.update_func(Both.get_global_var("main"), Both["main"])
