"""A lecture's abstractions of one function, and its three loop transformations."""

import numpy as np
import tvm
from tvm.script import tir as T


def linear_relu(x, w, out):
    for i in range(1):
        for j in range(200):
            out[i, j] = 0
            for k in range(3072):
                out[i, j] += x[i, k] * w[j, k]
            out[i, j] = max(out[i, j], 0)


@T.prim_func
def linear_relu_tir(
    x: T.Buffer((1, 3072), "float64"),
    w: T.Buffer((200, 3072), "float64"),
    out: T.Buffer((1, 200), "float64"),
):
    acc = T.alloc_buffer((1, 200), "float64")
    for i, j, k in T.grid(1, 200, 3072):
        with T.block("acc"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                acc[vi, vj] = T.float64(0)
            acc[vi, vj] = acc[vi, vj] + x[vi, vk] * w[vj, vk]
    for i, j in T.grid(1, 200):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = T.max(acc[vi, vj], T.float64(0))


rng = np.random.default_rng(0)
x, w = rng.standard_normal((1, 3072)), rng.standard_normal((200, 3072))
first, second = np.empty((1, 200)), tvm.nd.empty((1, 200), "float64")
linear_relu(x, w, first)
tvm.build(linear_relu_tir, target="llvm")(x, w, second)
np.testing.assert_allclose(first, np.maximum(x @ w.T, 0), rtol=1e-9, atol=1e-9)
np.testing.assert_allclose(second.numpy(), first, rtol=1e-9, atol=1e-9)


@T.prim_func
def add(
    A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")
):
    for x in range(128):
        with T.block("C"):
            vx = T.axis.spatial(128, x)
            C[vx] = A[vx] + B[vx]


def transformation():
    """The names that the lecture's listings use, on a schedule."""
    sch = tvm.tir.Schedule(add)

    def get_loop(name):
        return {str(loop): loop for loop in sch.get_loops(sch.get_block("C"))}[name]

    def split(loop, factor):
        return sch.split(loop, factors=[None, factor])

    return sch, get_loop, split, sch.reorder, sch.bind


def check(sch):
    a, b, c = rng.random((3, 128), "float32")
    tvm.build(sch.mod, target="llvm")["add"](a, b, c)
    assert np.array_equal(c, a + b)


sch, get_loop, split, reorder, bind_thread = transformation()
x = get_loop("x")
xo, xi = split(x, 4)
check(sch)

sch, get_loop, split, reorder, bind_thread = transformation()
x = get_loop("x")
xo, xi = split(x, 4)
reorder(xi, xo)
assert sch.get_loops(sch.get_block("C")) == [xi, xo]
check(sch)

sch, get_loop, split, reorder, bind_thread = transformation()
x = get_loop("x")
xo, xi = split(x, 4)
reorder(xi, xo)
bind_thread(xo, "threadIdx.x")
bind_thread(xi, "blockIdx.x")
assert 'thread="threadIdx.x"' in sch.mod.script()
check(sch)
