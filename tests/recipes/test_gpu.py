"""Schedules for GPUs: they mean the same, on each executor, and are what a device can run well."""

import random
import re
from functools import cache

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes, te
from minimlc.loops.ir.walks import buffers_in
from minimlc.recipes.gpu import tensor, tiles
from minimlc.targets.gpu.kernels import kernels
from minimlc.targets.gpu.limits import CUDA_LIMITS, check_limits
from tests.gpu.nvrtc import ARCHITECTURES, compiled, sass, spills
from tests.helpers import random_array
from tests.recipes.programs import conv2d, matmul
from tests.recipes.test_fuzz import KINDS, main_only, operator

pytestmark = pytest.mark.many

op = mlc.op


def dense(m, n, k, dtype="float32"):
    """relu(x @ w + b)."""
    shapes = (m, k), (k, n), (n,)
    return operator(lambda x, w, b: op.relu(op.add(op.matmul(x, w), b)), *shapes, dtype=dtype)


def widened(m, n, k):
    """A product of bytes, added up in int32."""
    a, b = te.placeholder((m, k), "int8", name="A"), te.placeholder((k, n), "int8", name="B")
    r = te.reduce_axis((0, k), name="k")

    def element(i, j):
        return te.sum(a[i, r].astype("int32") * b[r, j].astype("int32"), axis=r)

    return mlc.IRModule.of({"main": te.create_prim_func([a, b, te.compute((m, n), element)])})


def along(reduce, *shape, axis=-1):
    return operator(lambda x: reduce(x, axis=axis), shape)


PROGRAMS = {
    "elements": lambda: operator(lambda x, y: op.relu(op.add(x, y)), (7, 37), (37,)),
    "softmax": lambda: along(op.softmax, 5, 67),
    "short softmax": lambda: along(op.softmax, 37, 5),
    "long softmax": lambda: along(op.softmax, 2, 8209),
    "layer norm": lambda: operator(op.layer_norm, (3, 67), (67,), (67,)),
    "sum": lambda: along(op.sum, 131, 127, axis=(0, 1)),
    "long sum": lambda: along(op.sum, 2, 20001),
    "columns": lambda: along(op.max, 13, 37, axis=0),
    "pool": lambda: operator(
        lambda x: op.relu(op.max_pool2d(x, 3, strides=2, padding=1)), (1, 3, 9, 11)
    ),
    "product": lambda: main_only(matmul(45, 70, 33)),
    "turned product": lambda: main_only(matmul(33, 20, 17, turned=(True, True), batch=(2,))),
    "dense": lambda: dense(37, 29, 50),
    "convolution": lambda: operator(
        lambda x, w, b: op.relu(op.add(op.conv2d(x, w, padding=1), b)),
        *((2, 3, 9, 7), (11, 3, 3, 3), (11, 1, 1)),
    ),
    "halves": lambda: dense(37, 29, 50, "float16"),
    "bytes": lambda: widened(20, 19, 40),
    "scores": lambda: KINDS["scores"](random.Random(0)),
}


def launched(mod):
    (func,) = mod.functions.values()
    return kernels("main", func).kernels


def run(mod, arrays, target):
    again = [array.copy() for array in arrays]
    mlc.build(mod, target=target)["main"](*again)
    return again[-1]


def agree(mod, target, *executors):
    """Check that the program scheduled for a target computes what the loops do."""
    rng = np.random.default_rng(0)
    arrays = [random_array(p.shape, p.dtype, rng) for p in mod["main"].params]
    made = recipes.apply(mod, target)
    expected = [array.copy() for array in arrays]
    mlc.interpret(mod, "main", *expected)
    limit = {"float16": 2e-3, "float32": 1e-5}.get(expected[-1].dtype.name, 0)
    for executor in executors:
        result = run(made, arrays, executor)
        np.testing.assert_allclose(result, expected[-1], rtol=limit, atol=limit, err_msg=executor)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_simulator_computes_what_the_loops_do(name):
    agree(PROGRAMS[name](), "gpusim", "gpusim")


@pytest.mark.parametrize("choice", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_each_tile_computes_what_the_loops_do(dtype, choice, monkeypatch):
    module = tensor if dtype == "float16" else tiles
    monkeypatch.setattr(module, "TILES", module.TILES[choice : choice + 1])
    agree(dense(67, 131, 20, dtype), "gpusim", "gpusim")


@pytest.mark.requires("opencl")
@pytest.mark.parametrize("name", PROGRAMS)
def test_opencl_computes_what_the_loops_do(name):
    agree(PROGRAMS[name](), "gpusim", "opencl")
    agree(PROGRAMS[name](), "opencl", "opencl")


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_have_threads_and_fit_a_device(name):
    for target in ("gpusim", "opencl"):
        for kernel in launched(recipes.apply(PROGRAMS[name](), target)):
            check_limits(kernel, CUDA_LIMITS)
            assert np.prod(kernel.block) > 1


LARGE = {
    "elements": lambda: operator(lambda x: op.relu(x), (2048, 768)),
    "three axes": lambda: operator(lambda x: op.relu(x), (100, 100, 50)),
    "images": lambda: operator(lambda x, y: op.add(x, y), (4, 64, 56, 56), (4, 64, 56, 56)),
    "softmax": lambda: along(op.softmax, 1025, 1024),
    "layer norm": lambda: operator(op.layer_norm, (4096, 768), (768,), (768,)),
    "odd rows": lambda: along(op.sum, 2048, 1000),
    "sum": lambda: along(op.sum, 1000, 1000, axis=(0, 1)),
    "mean": lambda: along(op.mean, 4096, 512),
    "sums, then": lambda: operator(lambda x: op.relu(op.sum(x, axis=-1)), (4096, 512)),
    "one row": lambda: operator(op.linear, (1, 256), (768, 256), (768,)),
    "pool": lambda: operator(
        lambda x: op.max_pool2d(x, 3, strides=2, padding=1), (1, 64, 112, 112)
    ),
    "each channel": lambda: operator(
        lambda x, w: op.relu(op.conv2d(x, w, strides=2, padding=1, groups=64)),
        *((1, 64, 112, 112), (64, 1, 3, 3)),
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_arrays_have_many_threads(name):
    """Loops too long to try all iterations are proven. A thread computes its own part alone."""
    kernels = launched(recipes.apply(LARGE[name](), "gpusim"))
    assert np.prod(kernels[0].block) >= 256
    assert np.prod(kernels[0].grid) >= 256
    for kernel in kernels:
        private = set(buffers_in(kernel.body)) - {*kernel.params, *kernel.shared}
        assert sum(np.prod(each.shape) for each in private) <= 64


def test_what_goes_on_in_order_has_threads_inside():
    mod = mlc.parse("""
@T.prim_func
def main(X: T.Buffer((9, 300), "float32")):
    for t, i in T.grid(8, 300):
        X[t + 1, i] = X[t, 299 - i] * T.float32(0.5)
""")
    (kernel,) = launched(recipes.apply(mod, "gpusim"))
    assert kernel.grid == (1, 1, 1) and kernel.block == (256, 1, 1)
    agree(mod, "gpusim", "gpusim")


MODEL = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((5, 33), "float32"), w: R.Tensor((33, 17), "float32")):
        with R.dataflow():
            h = R.matmul(x, w)
            s = R.softmax(h, axis=-1)
            R.output(s)
        return s
"""


def test_graph_functions_are_scheduled_unless_told_otherwise():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 33), np.float32), rng.standard_normal((33, 17), np.float32)
    expected = mlc.interpret(mlc.parse(MODEL), "main", x, w)
    text = {}
    for scheduled in (True, False):
        library = mlc.build(mlc.parse(MODEL), target="gpusim", recipes=scheduled)
        np.testing.assert_allclose(library["main"](x, w), expected, rtol=1e-5, atol=1e-6)
        text[scheduled] = library.source("cuda")
    assert "threadIdx.x" in text[True] and "threadIdx.x" not in text[False]


def test_constants_are_fetched_as_other_factors_are():
    """The kernels are the same as for weights that come as an argument."""
    graph = mlc.parse(MODEL.replace("(5, 33)", "(64, 784)").replace("(33, 17)", "(784, 128)"))
    bound = mlc.passes.bind_params(graph, {"w": np.ones((784, 128), np.float32)})
    free, fixed = (mlc.build(mod, target="cuda").source("cuda") for mod in (graph, bound))
    assert free == fixed


@cache
def text_of(name):
    return cuda(PROGRAMS[name]())


def cuda(mod):
    return mlc.build(recipes.apply(mod, "gpusim"), target="python").source("cuda")


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_is_spilled(architecture):
    for name in PROGRAMS:
        assert spills(compiled(text_of(name), architecture)) == 0, name


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_large_product_multiplies_what_it_has_in_registers(architecture):
    text = cuda(main_only(matmul(2048, 2048, 2048)))
    log, code = compiled(text, architecture), sass(text, architecture)
    assert spills(log) == 0 and "__launch_bounds__(256)" in text
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) <= 128
    count = {name: len(re.findall(rf"\b{name}\b", code)) for name in ("FFMA", "LDS")}
    assert count["FFMA"] >= 4 * count["LDS"] > 0


@pytest.mark.requires("nvrtc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("size", [4096, 1000])
def test_products_of_halves_are_by_tensor_cores(size, architecture):
    text = cuda(dense(size, size, size, "float16"))
    assert spills(compiled(text, architecture)) == 0 and "HMMA" in sass(text, architecture)


@pytest.mark.requires("nvrtc")
def test_convolutions_of_halves_are_by_tensor_cores():
    text = cuda(main_only(conv2d(4, 16, 10, 10, 24, dtype="bfloat16")))
    assert spills(compiled(text, "sm_80")) == 0 and "HMMA" in sass(text, "sm_80")
