"""Target "cuda", by a stand-in for CuPy: values are the interpreter's, arrays are used in place."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import minimlc as mlc
from minimlc.targets.cuda import build as cuda
from minimlc.targets.gpu.emit import emit
from tests.gpu import standin, standin_torch
from tests.gpu.programs import PROGRAMS, add, bound, twice
from tests.gpu.test_opencl import DTYPES, ROUNDING
from tests.helpers import random_array, refuses

pytestmark = pytest.mark.many

needs_device = pytest.mark.requires("opencl", "nvrtc")


def arguments(mod):
    rng = np.random.default_rng(0)
    return [random_array(p.shape, p.dtype, rng) for p in mod["main"].params]


def interpreted(mod):
    args = arguments(mod)
    mlc.interpret(mod, "main", *args)
    return args


def assert_near(got, expected, limit=1e-5):
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        one, other = (each.astype("float64") for each in (one, other))
        np.testing.assert_allclose(one, other, rtol=limit, atol=limit)


# Kernels


@needs_device
@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_programs(cp, case):
    mod = case().mod
    host, there = arguments(mod), [cp.asarray(each) for each in arguments(mod)]
    library = mlc.build(mod, target="cuda")
    library["main"](*host)
    library["main"](*there)
    assert_near(host, interpreted(mod))
    assert_near([each.get() for each in there], interpreted(mod))


@needs_device
@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "uint32",
     "int64"],
)  # fmt: skip
def test_dtypes(cp, dtype):
    sch = mlc.Schedule(mlc.parse(DTYPES.format(dtype=dtype))).split("i", [None, 64])
    mod = bound(sch, i_0="bx", i_1="tx").mod
    host = arguments(mod)
    mlc.build(mod, target="cuda")["main"](*host)
    assert_near(host, interpreted(mod), ROUNDING.get(dtype, 0))


@needs_device
def test_a_kernel_runs_on_the_current_stream(cp):
    a, b, c = arguments(add().mod)
    kernel = mlc.build(add().mod, target="cuda")["main"]
    with cp.cuda.Stream(non_blocking=True) as stream:
        there = [cp.asarray(each) for each in (a, b, c)]
        kernel(*there)
        assert [entry[1] for entry in standin.LOG] == [stream.ptr]
        assert stream.state.work, "a call does not wait for its kernels"
        np.testing.assert_array_equal(there[2].get(), a + b)


@needs_device
def test_each_thread_may_launch(cp):
    function, results = mlc.build(add().mod, target="cuda")["main"], []

    def calls():
        for _ in range(3):
            there = [cp.asarray(each) for each in arguments(add().mod)]
            function(*there)
            results.append([each.get() for each in there])

    for _ in range(2):
        calls()
        thread = threading.Thread(target=calls)
        thread.start()
        thread.join()
    assert len(results) == 12
    for each in results:
        assert_near(each, interpreted(add().mod))


@needs_device
def test_tensors_are_used_in_place_on_their_own_stream(cp, torch):
    a, b, c = arguments(add().mod)
    tensors = [standin_torch.tensor(each) for each in (a, b, c)]
    mlc.build(add().mod, target="cuda")["main"](*tensors)
    assert [entry[1] for entry in standin.LOG] == [standin_torch.current.ptr]
    np.testing.assert_array_equal(tensors[2].cpu(), a + b)


@needs_device
def test_streams_of_two_libraries_wait_for_each_other(cp, torch):
    a, b, c = arguments(add().mod)
    kernel = mlc.build(add().mod, target="cuda")["main"]
    first, third = standin_torch.tensor(a), standin_torch.tensor(c)
    second = cp.asarray(b)
    kernel(first, second, third)
    np.testing.assert_array_equal(third.cpu(), a + b)
    result = cp.asarray(c)
    kernel(first, third, result)
    np.testing.assert_array_equal(result.get(), a + (a + b))


class Foreign:
    """An array of a library that only has the interface."""

    def __init__(self, array, read_only=False):
        facts = array.__cuda_array_interface__
        self.memory, self.shape, self.dtype = array.data, array.shape, array.dtype
        self.__cuda_array_interface__ = {**facts, "data": (facts["data"][0], read_only)}


class Deleted:
    """An array of a library that gave its memory back."""

    def __dlpack_device__(self):
        raise RuntimeError("it has been deleted")

    __dlpack__ = __dlpack_device__


@needs_device
def test_other_arrays_are_done_when_the_call_is(cp):
    a, b, c = arguments(add().mod)
    kernel = mlc.build(add().mod, target="cuda")["main"]
    result = cp.asarray(c)
    kernel(Foreign(cp.asarray(a), read_only=True), cp.asarray(b), Foreign(result))
    assert not cp.cuda.get_current_stream().state.work
    np.testing.assert_array_equal(result.get(), a + b)
    read_only = Foreign(result, read_only=True)
    refuses("E607", lambda: kernel(a, b, read_only), '"C"', "read-only")


class Here(standin_torch.Tensor):
    """A tensor of torch in the memory of the host."""

    def __init__(self, values):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **options):
        return self.values.__dlpack__()


@needs_device
def test_the_host_may_change_its_arrays_after_the_call(cp, torch):
    a, b, c = arguments(add().mod)
    result = cp.asarray(c)
    for mine in (b, Here(b)):
        mlc.build(add().mod, target="cuda")["main"](cp.asarray(a), mine, result)
        assert not cp.cuda.get_current_stream().state.work
        np.testing.assert_array_equal(result.get(), a + b)


@needs_device
def test_arrays_here_and_there(cp):
    a, b, c = arguments(add().mod)
    there = cp.asarray(a)
    mlc.build(add().mod, target="cuda")["main"](there, b, c)
    np.testing.assert_array_equal(c, a + b)


SIZES = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for j in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("B"):
                vi = T.axis.spatial(n, i * 4 + j)
                T.where(i * 4 + j < n)
                B[vi] = A[vi] * 2.0
"""


@needs_device
def test_sizes_of_a_call(cp):
    function = mlc.build(mlc.parse(SIZES), target="cuda")["main"]
    for size in (0, 3, 8):
        array, result = np.arange(size, dtype="float32"), cp.empty((size,), "float32")
        function(cp.asarray(array), result)
        np.testing.assert_array_equal(result.get(), array * 2)
    assert len(standin.LOG) == 2, "nothing is launched for an empty array"


SCALED = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), x: T.float32, B: T.Buffer((64,), "float32")):
    for i in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * x
"""


@needs_device
def test_numbers_are_arguments_too(cp):
    array, result = np.arange(64, dtype="float32"), cp.empty((64,), "float32")
    mlc.build(mlc.parse(SCALED), target="cuda")["main"](cp.asarray(array), 3, result)
    np.testing.assert_array_equal(result.get(), array * 3)


# What is refused


@needs_device
def test_wrong_arrays(cp, torch):
    a, b, c = (cp.asarray(each) for each in arguments(add().mod))
    kernel = mlc.build(add().mod, target="cuda")["main"]
    refuses("E601", lambda: kernel(a, b), "3 argument(s), got 2")
    refuses("E601", lambda: kernel(a, b, c, out=c), "out=")
    refuses("E602", lambda: kernel(a, 3, c), '"B"', "int")
    refuses("E603", lambda: kernel(a, cp.empty((1000,), "float64"), c), "float64")
    refuses("E604", lambda: kernel(a, cp.empty((999,), "float32"), c), "999")
    refuses("E605", lambda: kernel(a, cp.empty((2000,), "float32")[::2], c), "C-contiguous")
    refuses("E608", lambda: kernel(a, c, c), "shares memory")
    bytes_ = cp.empty((4002,), "uint8")[2:]
    shifted = standin.ndarray((1000,), "float32", bytes_.data)
    refuses("E606", lambda: kernel(shifted, b, c), "aligned to 4 bytes")
    with cp.cuda.Device(1):
        other = cp.empty((1000,), "float32")
    refuses("E602", lambda: kernel(a, other, c), "device 1")
    learned = standin_torch.Tensor(b, requires_grad=True)
    refuses("E602", lambda: kernel(a, learned, c), "require gradient")
    opaque = SimpleNamespace(__dlpack__=c.__dlpack__, __dlpack_device__=c.__dlpack_device__)
    refuses("E607", lambda: kernel(a, b, opaque), "read-only")
    refuses("E602", lambda: kernel(a, Deleted(), c), "has been deleted")
    assert not standin.LOG


@needs_device
def test_arrays_that_are_moved_by_fours_begin_at_16_bytes(cp):
    mod = add_copies()
    kernel = mlc.build(mod, target="cuda")["main"]
    long, result = cp.empty((1028,), "float32"), cp.empty((1024,), "float32")
    refuses("E606", lambda: kernel(long[1:1025], result), '"A"', "multiple of 16 bytes")
    kernel(long[4:1028], result)
    host = np.arange(1025, dtype="float32")
    back = np.zeros(1024, "float32")
    kernel(host[1:], back)
    np.testing.assert_array_equal(back, host[1:])


OWN = """
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    X = T.alloc_buffer((4,), "float32")
    for i in T.thread_binding(256, thread="threadIdx.x"):
        for j in T.vectorized(4):
            X[j] = A[i * 4 + j] + T.float32(1)
        for k in range(4):
            B[i * 4 + k] = X[k]
"""


@needs_device
def test_arrays_begin_where_the_text_needs_it(cp):
    kernel = mlc.build(mlc.parse(OWN), target="cuda")["main"]
    x, result = cp.asarray(np.arange(1028, dtype="float32")), cp.empty((1024,), "float32")
    kernel(x[1:1025], result)
    np.testing.assert_array_equal(result.get(), np.arange(2, 1026, dtype="float32"))


def add_copies():
    sch = mlc.Schedule(mlc.parse(COPY)).split("i", [None, 64, 4]).vectorize("i_2")
    return bound(sch, i_0="bx", i_1="tx").mod


COPY = """
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for i in range(1024):
        with T.block("B"):
            vi = T.axis.spatial(1024, i)
            B[vi] = A[vi]
"""


@needs_device
@pytest.mark.parametrize(
    ("fact", "value", "words"),
    [
        ("maxThreadsPerBlock", 64, ("128 threads", "allows 64")),
        ("maxThreadsDim", (64, 64, 64), ("threadIdx.x", "allows 64")),
        ("maxGridSize", (4, 4, 4), ("8 on blockIdx.x",)),
    ],
)
def test_limits_of_the_device(cp, monkeypatch, fact, value, words):
    monkeypatch.setitem(standin.PROPERTIES, fact, value)
    kernel = mlc.build(add().mod, target="cuda")["main"]
    refuses("E510", lambda: kernel(*arguments(add().mod)), *words)


def reversed_rows(size):
    """Rows of so many elements, turned round in shared memory by one block each."""
    sch = mlc.Schedule(mlc.parse(ROWS.format(size=size)))
    for name in "AD":
        sch = sch.cache_read("B", name, "shared").compute_at(f"{name}_shared", "i")
        sch = sch.split(
            sch.loops(f"{name}_shared")[-1], [None, 128], names=[f"{name}_o", f"{name}_i"]
        )
        sch = sch.bind(f"{name}_i", "threadIdx.x")
    return bound(sch.split("j", [None, 128]), i="bx", j_1="tx").mod


ROWS = """
@T.prim_func
def main(A: T.Buffer((2, {size}), "float32"), D: T.Buffer((2, {size}), "int8"),
         B: T.Buffer((2, {size}), "float32")):
    for i, j in T.grid(2, {size}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, {size} - 1 - vj] + T.cast(D[vi, {size} - 1 - vj], "float32")
"""


@needs_device
@pytest.mark.parametrize("size", [9824, 9840, 20000])
def test_much_shared_memory_is_asked_for(cp, size):
    mod = reversed_rows(size)
    text = mlc.build(mod, target="cuda").source()
    assert ("extern __shared__" in text) == (size > 9830)
    a, d, b = arguments(mod)
    mlc.build(mod, target="cuda")["main"](a, d, b)
    np.testing.assert_array_equal(b, (a + d)[:, ::-1])


@needs_device
def test_more_shared_memory_than_there_is(cp):
    mod = reversed_rows(30000)
    kernel = mlc.build(mod, target="cuda")["main"]
    refuses("E510", lambda: kernel(*arguments(mod)), "150000 bytes", "allows 101376")


@needs_device
def test_registers_may_allow_fewer_threads(cp, monkeypatch):
    monkeypatch.setattr(standin.RawKernel, "most_threads", 96)
    kernel = mlc.build(add().mod, target="cuda")["main"]
    refuses("E510", lambda: kernel(*arguments(add().mod)), "128 threads", "registers", "96")


def test_accesses_are_not_checked():
    refuses("E508", lambda: mlc.build(add().mod, target="cuda", bounds="check"))


def test_without_cupy_the_text_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    library = mlc.build(add().mod, target="cuda")
    assert "__global__ void" in library.source()
    for call in (library["main"], lambda *arrays: library.time("main", *arrays)):
        said = refuses("E502", lambda call=call: call(*arguments(add().mod)))
        assert "pip install cupy-cuda12x" in str(said) and '"gpusim"' in str(said)


def test_without_a_gpu_the_others_are_named(cp, monkeypatch):
    def fails():
        raise RuntimeError("cudaErrorInsufficientDriver")

    monkeypatch.setattr(cp.cuda, "is_available", lambda: False)
    monkeypatch.setattr(standin.runtime, "getDevice", fails)
    kernel = mlc.build(add().mod, target="cuda")["main"]
    refuses("E502", lambda: kernel(*arguments(add().mod)), "no NVIDIA GPU", '"opencl"')


@needs_device
def test_hopper_has_instructions_of_its_own(cp, monkeypatch):
    monkeypatch.setitem(standin.PROPERTIES, "major", 9)
    monkeypatch.setitem(standin.PROPERTIES, "minor", 0)
    options, compiled = [], standin.Nvrtc.compileProgram
    monkeypatch.setattr(
        standin.Nvrtc,
        "compileProgram",
        lambda self, prog, given: (options.append(given), compiled(self, prog, given)),
    )
    a, b, c = arguments(add().mod)
    mlc.build(add().mod, target="cuda")["main"](a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert options == [("-arch=sm_90a",)]


@needs_device
@pytest.mark.parametrize(("major", "minor"), [(8, 6), (9, 0)])
def test_what_nvrtc_says(cp, monkeypatch, major, minor):
    monkeypatch.setitem(standin.PROPERTIES, "major", major)
    monkeypatch.setitem(standin.PROPERTIES, "minor", minor)
    library = mlc.build(add().mod, target="cuda")
    library["main"]._program.emitted = emit({"main": add().mod["main"]}, cuda.CUDA)._replace(
        text="nonsense;"
    )
    refuses("E507", lambda: library["main"](*arguments(add().mod)), "NVRTC", "error")


# Time


@needs_device
def test_time_is_the_devices(cp, torch):
    library = mlc.build(twice().mod, target="cuda")
    for there in (cp.asarray, standin_torch.tensor):
        timing = library.time("main", *map(there, arguments(twice().mod)), repeat=3)
        assert timing.samples == (2 * standin.KERNEL_MS / 1000,) * 3
        assert timing.machine == "stand-in"
