"""Target "opencl": values are the interpreter's, on whatever device there is."""

from types import SimpleNamespace

import numpy as np
import pytest

import minimlc as mlc
from minimlc.targets.opencl import build as opencl
from tests.gpu.programs import PROGRAMS, add
from tests.helpers import random_array, refuses
from tests.schedule.test_threads import INIT, MATMUL, SUM, SUMS, tiled

pytestmark = pytest.mark.many

needs_opencl = pytest.mark.requires("opencl")


def agree(mod, seed=0):
    """Runs a module's main function by the interpreter and by OpenCL."""
    rng = np.random.default_rng(seed)
    args = [random_array(p.shape, p.dtype, rng) for p in mod["main"].params]
    again = [array.copy() for array in args]
    mlc.interpret(mod, "main", *args)
    mlc.build(mod, target="opencl")["main"](*again)
    for one, other in zip(args, again, strict=True):
        limit = 1e-5 if one.dtype.kind == "f" else 0
        np.testing.assert_allclose(other, one, rtol=limit, atol=limit)


@needs_opencl
@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_programs(case):
    agree(case().mod)


@needs_opencl
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"value": "C[vi] + A[vi, vk] + 2"},
        {"value": "T.max(C[vi], A[vi, vk])", "init": INIT.format(-99)},
        {"init": ""},
        {"where": "\n            T.where(k < 7)"},
        {"init": "", "where": "\n            T.where(k >= 5)"},
    ],
)
def test_threads_combine_values(change):
    sch = mlc.Schedule(mlc.parse(SUMS.format(**{**SUM, **change}))).bind("i", "blockIdx.x")
    agree(sch.bind("k", "threadIdx.x").mod)
    agree(sch.split("k", [None, 5]).bind("k_1", "threadIdx.x").mod)
    part = sch.split("k", [None, 5])
    agree(part.bind("k_0", "threadIdx.x").bind("k_1", "threadIdx.y").mod)


BUILT_IN = """
@T.prim_func
def {name}({name}_: T.Buffer((8,), "float32"), float4: T.Buffer((8,), "float32")):
    for t in T.thread_binding(2, thread="threadIdx.x"):
        for INT_MAX in T.vectorized(4):
            float4[t * 4 + INT_MAX] = {name}_[t * 4 + INT_MAX] * T.float32(2)
"""


@needs_opencl
@pytest.mark.parametrize("name", ["abs", "clz", "max", "native_exp", "convert_int", "as_float"])
def test_names_of_what_is_built_in(name):
    mod = mlc.parse(BUILT_IN.format(name=name))
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    mlc.build(mod, target="opencl")[name](x, y)
    np.testing.assert_array_equal(y, 2 * x)


GUARDED = """
@T.prim_func
def main(A: T.Buffer((4, 10), "int32"), C: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            {init}
            if {condition}:
                C[vi] = C[vi] + A[vi, vk % 10] * 3
"""


@needs_opencl
@pytest.mark.parametrize("init", ["", "with T.init():\n                C[vi] = 7"])
@pytest.mark.parametrize("condition", ["vk < 10", "vk > 4", "A[0, 0] > 0", "vi != 2"])
def test_what_a_condition_inside_leaves_out_is_not_combined(init, condition):
    text = GUARDED.format(init=init, condition=condition)
    sch = mlc.Schedule(mlc.parse(text)).bind("i", "blockIdx.x")
    agree(sch.bind("k", "threadIdx.x").mod)
    agree(sch.split("k", [3, 4]).bind("k_1", "threadIdx.x").mod)


@needs_opencl
def test_threads_fetch_together():
    sch = tiled().bind("t", "threadIdx.x")
    late, early = tiled().compute_at("A_shared", "k_0"), sch.compute_at("A_shared", "k_0")
    for name in ("A_shared", "B_shared"):
        sch, flat = sch.compute_at(name, "k_0"), f"{name}_flat"
        sch = sch.fuse(*sch.loops(name)[-2:], name=flat).bind(flat, "threadIdx.x")
    for each in (sch.decompose_reduction("C", "k_0"), sch):
        agree(each.mod)
    assert late.loops("A_shared") and early.loops("A_shared")
    assert mlc.structural_equal(mlc.parse(MATMUL), mlc.parse(MATMUL))


OWN_ELEMENT = """
@T.prim_func
def main(A: T.Buffer((32, 16), "uint32"), C: T.Buffer((16, 32), "uint32")):
    X = T.alloc_buffer((16, 32), "uint32", scope="shared")
    for by in T.thread_binding(4, thread="blockIdx.y"):
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for u in T.thread_binding(4, thread="vthread.x"):
                for ty in T.thread_binding(4, thread="threadIdx.y"):
                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                        X[by * 4 + ty, bx * 32 + u * 8 + tx] = A[bx * 32 + u * 8 + tx, by * 4 + ty]
                        C[by * 4 + ty, u * 8 + tx] = X[by * 4 + ty, u * 8 + tx]
"""


@needs_opencl
def test_a_thread_reads_the_element_of_shared_memory_that_it_wrote():
    """Found by `tests.fuzz.threads`: as PoCL makes loops of threads by itself, it goes wrong."""
    agree(mlc.parse(OWN_ELEMENT))


CONDITION_OF_ALL = """
@T.prim_func
def main(A: T.Buffer((8, 2), "int32"), C: T.Buffer((8, 2), "int32")):
    X = T.alloc_buffer((8, 2), "int32", scope="shared")
    for b in T.thread_binding(1, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.z"):
            for j in range(2):
                with T.block("X"):
                    v, vj = T.axis.remap("SS", [t, j])
                    X[v, vj] = A[7 - v, vj]
        for t in T.thread_binding(8, thread="threadIdx.z"):
            for k, i in T.grid(8, 4):
                with T.block("C"):
                    v = T.axis.spatial(8, t * 4 + i)
                    vk = T.axis.opaque(2, k)
                    T.where(k < 2 and t * 4 + i < 8)
                    C[v, vk] = X[7 - v, vk] - T.if_then_else(vk > 0, C[v, vk - 1], T.int32(0))
"""


@needs_opencl
def test_a_condition_of_all_threads_in_loops_behind_a_barrier():
    """PoCL 3.1 never ended: its own barriers in innermost loops came to stand under conditions."""
    mod = mlc.parse(CONDITION_OF_ALL)
    agree(mod)
    assert "int i = zero;" in mlc.build(mod, target="opencl").source("opencl")
    assert "zero" not in mlc.build(mod, target="gpusim").source("cuda")


DTYPES = """
@T.prim_func
def main(A: T.Buffer((300,), "{dtype}"), B: T.Buffer((300,), "{dtype}"),
         C: T.Buffer((300,), "{dtype}")):
    for i in range(300):
        with T.block("C"):
            vi = T.axis.spatial(300, i)
            C[vi] = T.max(A[vi] * B[vi] - A[vi], B[vi])
"""


ROUNDING = {"float64": 1e-14, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
"""A product and a sum may be rounded once."""


@needs_opencl
@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "int64"],
)
def test_dtypes(dtype):
    sch = mlc.Schedule(mlc.parse(DTYPES.format(dtype=dtype))).split("i", [None, 64])
    mod = sch.bind("i_0", "blockIdx.x").bind("i_1", "threadIdx.x").mod
    rng = np.random.default_rng(3)
    args = [random_array(p.shape, p.dtype, rng) for p in mod["main"].params]
    again = [array.copy() for array in args]
    mlc.interpret(mod, "main", *args)
    mlc.build(mod, target="opencl")["main"](*again)
    np.testing.assert_allclose(
        again[2].astype("float64"), args[2].astype("float64"), rtol=ROUNDING.get(dtype, 0)
    )


@needs_opencl
def test_a_graph_function_runs_its_kernels():
    R = mlc.script.R
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((4, 6), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit_output(bb.emit(mlc.op.relu(x)))
        bb.emit_func_output(y)
    array = random_array((4, 6), "float32", np.random.default_rng(0))
    result = mlc.build(bb.get(), target="opencl")["main"](array)
    np.testing.assert_array_equal(result, np.maximum(array, 0))


@needs_opencl
def test_limits_are_looked_at_before_a_launch(monkeypatch):
    here = opencl.device()
    small = here._replace(limits=here.limits._replace(threads=64))
    monkeypatch.setattr(opencl, "device", lambda: small)
    library = mlc.build(add().mod, target="opencl")
    arrays = [np.zeros(1000, "float32") for _ in range(3)]
    refuses("E510", lambda: library["main"](*arrays), "128 threads", "allows 64")


def test_without_pyopencl_the_text_is_there(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(opencl, "import_module", missing)
    opencl.device.cache_clear()
    library = mlc.build(add().mod, target="opencl")
    assert "__kernel void main_kernel(" in library.source()
    arrays = [np.zeros(1000, "float32") for _ in range(3)]
    refuses("E502", lambda: library["main"](*arrays), "pip install pyopencl")


class Platforms:
    """pyopencl with CPUs whose compilers work, or do not."""

    RuntimeError = RuntimeError
    Error = Exception
    device_type = SimpleNamespace(GPU=4)

    def __init__(self, *works):
        devices = [SimpleNamespace(name=f"CPU {n}", type=2, works=w) for n, w in enumerate(works)]
        self.platform = SimpleNamespace(name="", get_devices=lambda: devices)

    def get_platforms(self):
        return [self.platform]

    def Context(self, devices):
        return SimpleNamespace(devices=devices)

    def Program(self, context, text):
        def build():
            if not context.devices[0].works:
                raise RuntimeError("unknown target CPU")

        return SimpleNamespace(build=build)


def test_a_device_with_a_compiler_that_works_is_taken(monkeypatch):
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    assert opencl._context(Platforms(False, True)).devices[0].name == "CPU 1"
    refuses("E502", lambda: opencl._context(Platforms(False)), "no compiler works for CPU 0")
    refuses("E502", lambda: opencl._context(Platforms()), "no OpenCL device")


def test_accesses_are_not_checked():
    refuses("E508", lambda: mlc.build(add().mod, target="opencl", bounds="check"))
