"""Programs as in a course's chapters on GPUs: the schedules are made, checked and run here; to
build them for a GPU is refused in one line.
"""

import numpy as np
import pytest

import minimlc as mlc
import minimlc.frontends.tvm as tvm
from minimlc.frontends.tvm import te
from minimlc.frontends.tvm.script import tir as T

RNG = np.random.default_rng(3)


def check(sch, name, expected, *inputs):
    """The interpreter and the machine's own code give numpy's numbers."""
    arrays = [*inputs, np.empty_like(expected)], [*inputs, np.empty_like(expected)]
    mlc.interpret(sch.mod, name, *arrays[0])
    tvm.build(sch.mod, target="llvm")[name](*arrays[1])
    for each in arrays:
        tvm.testing.assert_allclose(each[-1], expected, rtol=1e-4, atol=1e-4)


def rand(*shape):
    return RNG.standard_normal(shape).astype("float32")


@tvm.script.ir_module
class VecAdd:
    @T.prim_func
    def main(
        A: T.Buffer((1024,), "float32"),
        B: T.Buffer((1024,), "float32"),
        C: T.Buffer((1024,), "float32"),
    ) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in T.grid(1024):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = A[vi] + B[vi]


def bound_add():
    sch = tvm.tir.Schedule(VecAdd)
    block_C = sch.get_block("C")
    (i,) = sch.get_loops(block=block_C)
    i0, i1 = sch.split(i, [None, 128])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    return sch


def test_vector_add_on_threads():
    a, b = rand(1024), rand(1024)
    sch = bound_add()
    assert sch.mod.script().count("T.thread_binding") == 2
    check(sch, "main", a + b, a, b)


@tvm.script.ir_module
class WindowSum:
    @T.prim_func
    def main(A: T.Buffer((1027,), "float32"), B: T.Buffer((1024,), "float32")) -> None:
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        for i in T.grid(1024):
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] + A[vi + 1] + A[vi + 2]


def window_sum(shared):
    sch = tvm.tir.Schedule(WindowSum)
    nthread = 128
    block_C = sch.get_block("C")
    (i,) = sch.get_loops(block=block_C)
    i0, i1 = sch.split(i, [None, nthread])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    if shared:
        A_shared = sch.cache_read(block_C, read_buffer_index=0, storage_scope="shared")
        sch.compute_at(A_shared, i1)
        ax = sch.get_loops(A_shared)[-1]
        ax0, ax1 = sch.split(ax, [None, nthread])
        sch.bind(ax1, "threadIdx.x")
    return sch


def test_window_sum_on_threads():
    a = rand(1027)
    check(window_sum(shared=False), "main", a[:1024] + a[1:1025] + a[2:1026], a)


def test_window_sum_through_shared_memory():
    a = rand(1027)
    sch = window_sum(shared=True)
    assert 'scope="shared"' in sch.mod.script()
    check(sch, "main", a[:1024] + a[1:1025] + a[2:1026], a)


def test_a_row_each_in_shared_memory():
    """A block of threads reads a row once, its threads sum parts of it."""
    X = te.placeholder((8, 64), name="X")
    k = te.reduce_axis((0, 64), name="k")
    Y = te.compute((8, 4), lambda i, j: te.sum(X[i, k], axis=k), name="Y")
    sch = tvm.tir.Schedule(te.create_prim_func([X, Y]))
    block = sch.get_block("Y")
    i, j, k = sch.get_loops(block)
    X_shared = sch.cache_read(block, 0, "shared")
    sch.compute_at(X_shared, i)
    outer, inner = sch.split(sch.get_loops(X_shared)[-1], factors=[None, 4])
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.bind(inner, "threadIdx.x")
    assert 'scope="shared"' in sch.mod.script()
    x = rand(8, 64)
    check(sch, "main", np.repeat(x.sum(1, keepdims=True), 4, axis=1), x)


def product(n):
    A, B = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tvm.IRModule.from_expr(te.create_prim_func([A, B, C]))


def blocking(sch, tile_local_y, tile_local_x, tile_block_y, tile_block_x, tile_k):
    block_C = sch.get_block("C")
    C_local = sch.cache_write(block_C, 0, "local")
    i, j, k = sch.get_loops(block=block_C)
    i0, i1, i2 = sch.split(loop=i, factors=[None, tile_block_y, tile_local_y])
    j0, j1, j2 = sch.split(loop=j, factors=[None, tile_block_x, tile_local_x])
    k0, k1 = sch.split(loop=k, factors=[None, tile_k])
    sch.unroll(k1)
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(C_local, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j1, "threadIdx.x")
    sch.decompose_reduction(block_C, k0)
    return sch


def test_product_by_local_blocking():
    a, b = rand(64, 64), rand(64, 64)
    sch = blocking(tvm.tir.Schedule(product(64)), 4, 4, 4, 4, 4)
    check(sch, "main", a @ b, a, b)


def cache_read_and_coop_fetch(sch, block, nthread, read_idx, read_loc):
    read_cache = sch.cache_read(block=block, read_buffer_index=read_idx, storage_scope="shared")
    sch.compute_at(block=read_cache, loop=read_loc)
    # vectorized cooperative fetch
    inner0, inner1 = sch.get_loops(block=read_cache)[-2:]
    inner = sch.fuse(inner0, inner1)
    _, tx, vec = sch.split(loop=inner, factors=[None, nthread, 4])
    sch.vectorize(vec)
    sch.bind(tx, "threadIdx.x")


def blocking_with_shared(sch, tile_local, tile_block, tile_k):
    block_C = sch.get_block("C")
    C_local = sch.cache_write(block_C, 0, "local")
    i, j, k = sch.get_loops(block=block_C)
    i0, i1, i2 = sch.split(loop=i, factors=[None, tile_block, tile_local])
    j0, j1, j2 = sch.split(loop=j, factors=[None, tile_block, tile_local])
    k0, k1 = sch.split(loop=k, factors=[None, tile_k])
    sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    sch.reverse_compute_at(C_local, j1)
    sch.bind(i0, "blockIdx.y")
    sch.bind(j0, "blockIdx.x")
    tx = sch.fuse(i1, j1)
    sch.bind(tx, "threadIdx.x")
    nthread = tile_block * tile_block
    cache_read_and_coop_fetch(sch, block_C, nthread, 0, k0)
    cache_read_and_coop_fetch(sch, block_C, nthread, 1, k0)
    sch.decompose_reduction(block_C, k0)
    return sch


def test_product_through_shared_memory():
    a, b = rand(64, 64), rand(64, 64)
    sch = blocking_with_shared(tvm.tir.Schedule(product(64)), 4, 4, 8)
    assert sch.mod.script().count('scope="shared"') == 2
    check(sch, "main", a @ b, a, b)


def test_product_with_partial_sums_on_threads():
    """Threads share the work on one element: each sums a part."""
    a, b = rand(16, 64), rand(64, 8)
    A, B = te.placeholder((16, 64), name="A"), te.placeholder((64, 8), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((16, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    sch = tvm.tir.Schedule(te.create_prim_func([A, B, C]))
    i, j, k = sch.get_loops(sch.get_block("C"))
    k0, k1 = sch.split(k, factors=[None, 8])
    rf = sch.rfactor(k1, 0)
    sch.bind(sch.get_loops(rf)[0], "blockIdx.x")
    check(sch, "main", a @ b, a, b)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tvm.nd.array(rand(4), tvm.cuda(0)),
        lambda: tvm.device("cuda", 0),
        lambda: tvm.cuda(0).sync(),
    ],
)
def test_a_gpu_is_refused_in_one_line(call):
    with pytest.raises(mlc.CompileError) as refusal:
        call()
    lines = str(refusal.value).split("\n")
    assert "cuda" in lines[0]
    assert "target=" in str(refusal.value), "it says what to use"
    assert len(lines) <= 2


def test_kernels_are_built_without_a_gpu():
    assert tvm.target.Target("cuda").name == "cuda"
    assert "__global__" in tvm.build(bound_add().mod, target="cuda").get_source()
