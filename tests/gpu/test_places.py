"""Where arrays lie in the memory that a block's threads share, and in registers."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.loops.ir.walks import statements_in
from minimlc.recipes.gpu import tensor, tiles
from minimlc.targets.gpu.kernels import Barrier, kernels
from minimlc.targets.gpu.places import LEAST, places
from tests.gpu.nvrtc import compiled, spills
from tests.gpu.on_cpu import run_on_cpu
from tests.helpers import random_array, refuses
from tests.recipes.test_gpu import along, dense, main_only, matmul

pytestmark = pytest.mark.many

TURNED = """
@T.prim_func
def main(A: T.Buffer((2, {size}), "float32"), B: T.Buffer((2, {size}), "float32")):
    S = T.alloc_buffer(({size},), "float32", scope="shared")
    R = T.alloc_buffer(({size},), "float32", scope="shared")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for i in range({size} // 64):
                S[i * 64 + t] = A[b, i * 64 + t]
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for i in range({size} // 64):
                B[b, i * 64 + t] = S[{size} - 1 - i * 64 - t]
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for i in range({size} // 64):
                R[i * 64 + t] = A[b, i * 64 + t] + T.float32(1)
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for i in range({size} // 64):
                B[b, i * 64 + t] = B[b, i * 64 + t] + R[i * 64 + (t + 1) % 64]
"""


def turned(size):
    """Rows turned round in one array of shared memory, then moved by one in another."""
    return mlc.parse(TURNED.format(size=size))


def the_kernel(mod):
    (kernel,) = kernels("main", mod["main"]).kernels
    return kernel


def whys(kernel):
    return [part.why for part in statements_in(kernel.body) if isinstance(part, Barrier)]


def test_arrays_that_fit_lie_apart():
    kernel = the_kernel(turned(4096))
    starts, size = places(kernel.body)
    assert sorted(starts.values()) == [0, 4096 * 4] and size == 2 * 4096 * 4 <= LEAST
    assert not any("may lie" in why for why in whys(kernel))


@pytest.mark.requires("c++")
def test_one_lies_where_another_one_did(tmp_path):
    mod = turned(7680)
    kernel = the_kernel(mod)
    starts, size = places(kernel.body)
    assert set(starts.values()) == {0} and size == 7680 * 4 <= LEAST < 2 * size
    assert [why for why in whys(kernel) if "may lie" in why] == [
        "R may lie where S did, which all have used"
    ]
    a = np.random.default_rng(0).standard_normal((2, 7680), np.float32)
    expected, result = np.empty_like(a), np.empty_like(a)
    mlc.interpret(mod, "main", a, expected)
    run_on_cpu(mod["main"], tmp_path, [a, result])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.requires("opencl", "nvrtc")
def test_a_launch_asks_for_what_is_used_at_once(cp):
    mod = turned(7680)
    a = np.random.default_rng(0).standard_normal((2, 7680), np.float32)
    expected, result = np.empty_like(a), np.empty_like(a)
    mlc.interpret(mod, "main", a, expected)
    mlc.build(mod, target="cuda")["main"](a, result)
    np.testing.assert_array_equal(result, expected)


def test_a_page_has_them_apart():
    mod = turned(2560)
    refuses("E510", lambda: mlc.build(mod, "python").source("wgsl"), "20480 bytes")


# Large tiles: CUDA's text on a CPU, with copies that are done when they are waited for


@pytest.mark.requires("c++", "nvrtc")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_largest_tiles(dtype, tmp_path, monkeypatch):
    module = tiles if dtype == "float32" else tensor
    monkeypatch.setattr(module, "TILES", module.TILES[:1])
    monkeypatch.setattr(tiles, "BLOCKS", 1)
    mod = main_only(matmul(128, 128, 32)) if dtype == "float32" else dense(128, 128, 192, dtype)
    rng = np.random.default_rng(0)
    args = [random_array(p.shape, p.dtype, rng) for p in mod["main"].params]
    again = [array.copy() for array in args]
    made = recipes.apply(mod, "cuda")
    text = mlc.build(made, "python").source("cuda")
    assert "copy_async" in text and spills(compiled(text, "sm_90")) == 0
    mlc.build(mod)["main"](*args)
    run_on_cpu(made["main"], tmp_path, again)
    limit = 1e-4 if dtype == "float32" else 2e-2
    one, other = (arrays[-1].astype("float64") for arrays in (again, args))
    np.testing.assert_allclose(one, other, rtol=limit, atol=limit)


# Registers


def test_what_each_thread_keeps_of_a_row_is_in_its_registers():
    made = recipes.apply(along(mlc.op.softmax, 4, 1024), "cuda")
    text = mlc.build(made, "python").source("cuda")
    assert "\n    float softmax_exp[1][4][1];" in text


SHARED_OUT = """
@T.prim_func
def main(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    X = T.alloc_buffer((4, 64), "float32", scope="local")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for i in range(4):
                X[i, t] = A[i, t] * T.float32(2)
        for t in T.thread_binding(64, thread="threadIdx.x"):
            for i in range(4):
                B[i, t] = X[{place}]
"""


def test_a_local_buffer_of_several_nests():
    mod = mlc.parse(SHARED_OUT.format(place="3 - i, t"))
    assert "float X[4][1];" in mlc.build(mod, "python").source("cuda")
    a, b = np.arange(256, dtype="float32").reshape(4, 64), np.empty((4, 64), "float32")
    mlc.build(mod, "gpusim")["main"](a, b)
    np.testing.assert_array_equal(b, a[::-1] * 2)


@pytest.mark.parametrize("place", ["i, 63 - t", "i, t // 2", "i, (t + 1) % 64"])
def test_what_another_thread_has_written_is_in_no_register(place):
    mod = mlc.parse(SHARED_OUT.format(place=place))
    refuses("E510", lambda: kernels("main", mod["main"]), "threads of a block share", '"shared"')


TILES = """
@T.prim_func
def main(A: T.Buffer((2, 16, 16), "float16"), B: T.Buffer((2, 16, 8), "float16"),
         D: T.Buffer((2, 16, 8), "float32")):
    S = T.alloc_buffer((2, 16, 16), "float16", scope="shared")
    R = T.alloc_buffer((2, 16, 8), "float16", scope="shared")
    X = T.alloc_buffer((2, 16, 16), "float16", scope="wmma.matrix_a")
    Y = T.alloc_buffer((2, 16, 8), "float16", scope="wmma.matrix_b")
    Z = T.alloc_buffer((2, 16, 8), "float32", scope="wmma.accumulator")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for v in T.thread_binding(2, thread="threadIdx.y"):
            for t in T.thread_binding(32, thread="threadIdx.x"):
                for q in range(8):
                    S[v, (t * 8 + q) // 16, (t * 8 + q) % 16] = A[
                        v, (t * 8 + q) // 16, (t * 8 + q) % 16
                    ]
                for q in range(4):
                    R[v, (t * 4 + q) // 8, (t * 4 + q) % 8] = B[
                        v, (t * 4 + q) // 8, (t * 4 + q) % 8
                    ]
        for w in T.thread_binding(2, thread="threadIdx.y"):
            for zi, zj in T.grid(16, 8):
                with T.block("Z"):
                    vw, vi, vj = T.axis.remap("SSS", [w, zi, zj])
                    Z[vw, vi, vj] = 0.0
        for w in T.thread_binding(2, thread="threadIdx.y"):
            for ai, ak in T.grid(16, 16):
                with T.block("X"):
                    vw, vi, vj = T.axis.remap("SSS", [w, ai, ak])
                    X[vw, vi, vj] = S[vw, vi, vj]
            for bi, bk in T.grid(16, 8):
                with T.block("Y"):
                    vw, vi, vj = T.axis.remap("SSS", [w, bi, bk])
                    Y[vw, vi, vj] = R[vw, vi, vj]
            for mi, mj, mk in T.grid(16, 8, 16):
                with T.block("M"):
                    vw, vi, vj, vk = T.axis.remap("SSSR", [w, mi, mj, mk])
                    Z[vw, vi, vj] = Z[vw, vi, vj] + T.cast(X[vw, vi, vk], "float32") * T.cast(
                        Y[vw, vk, vj], "float32"
                    )
        for w in T.thread_binding(2, thread="threadIdx.y"):
            for si, sj in T.grid(16, 8):
                with T.block("D"):
                    vw, vi, vj = T.axis.remap("SSS", [w, si, sj])
                    D[vw, vi, vj] = Z[vw, vi, vj]
"""


def test_tiles_of_warps_stay_in_one_nest():
    sch = mlc.Schedule(mlc.parse(TILES), check=False)
    for loop, intrin in (
        ("zi", "mma_zero_f32"),
        ("si", "mma_store_f32"),
        ("mi", "mma_f16"),
        ("ai", "mma_load_a_f16"),
        ("bi", "mma_load_b_f16"),
    ):
        sch = sch.tensorize(loop, intrin)
    refuses("E510", lambda: kernels("main", sch.func), "threads of a block share", "wmma")


def test_texts_are_the_same_each_time():
    texts = {mlc.build(turned(7680), "python").source("cuda") for _ in range(8)}
    assert len(texts) == 1


def test_other_languages_do_not_copy_ahead():
    """A page has 16 KiB, and nothing goes on in the background there."""
    made = recipes.apply(main_only(matmul(2048, 2048, 2048)), "cuda")
    texts = {name: mlc.build(made, "python").source(name) for name in ("cuda", "opencl", "wgsl")}
    assert {name for name, text in texts.items() if "A_shared_1" in text} == {"cuda"}
    assert "may lie" not in mlc.build(turned(7680), "python").source("opencl")
