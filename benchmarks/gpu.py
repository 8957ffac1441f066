"""Kernels for GPUs: on one through CuPy, where there is one; else what can be measured without.

The figures of a GPU are held against its own copies and cuBLAS, by its own clock, and kept apart,
as "gpu-cuda"; the time of a launch is the host's.
Without one the same recipes run as OpenCL on this machine's CPU, beside a plain tiled kernel and
numpy on the same cores. The simulator counts in either case what a GPU does.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks import programs
from benchmarks.contest import Contest, contest
from benchmarks.harness import Contender, Measured, check, compare
from benchmarks.report import Claim, Report, Table
from minimlc.gpusim.build import Simulator
from minimlc.targets.gpu.emit import emit
from minimlc.targets.gpu.opencl import OPENCL
from minimlc.targets.opencl.build import device

NO_GPU = "No GPU here that CuPy finds: the recipes ran as OpenCL on this CPU, and simulated."
SIDE, TILE = 1024, 16
PLAIN = """
__kernel void product(__global const float *A, __global const float *B, __global float *C) {{
    __local float a[{tile}][{tile}], b[{tile}][{tile}];
    const int x = get_local_id(0), y = get_local_id(1);
    const int row = get_group_id(1) * {tile} + y, column = get_group_id(0) * {tile} + x;
    float sum = 0;
    for (int k = 0; k < {side}; k += {tile}) {{
        a[y][x] = A[row * {side} + k + x];
        b[y][x] = B[(k + y) * {side} + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < {tile}; ++i)
            sum += a[y][i] * b[i][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    C[row * {side} + column] = sum;
}}"""
"""A product as a first course writes it: a thread for each element, square tiles."""


ADD = """
extern "C" __global__ void add(const float *a, const float *b, float *c) {
    c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
}"""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets on a GPU: 0.9 of a copy, 0.8 of cuBLAS (halves: 0.6), 10 µs a launch. Without one:
    15 GFLOP/s on two cores. Anywhere: a product of 256³ simulated in 10 s.
    """
    with contest("gpu", thread_count, repeat) as found:
        cupy = find_gpu()
        if cupy is None:
            found.report.notes.append(NO_GPU)
            on_cpu(found)
        else:
            on_gpu(found, cupy)
        simulated(found.report)
    return found.report


def find_gpu() -> Any:
    """CuPy, where it finds a GPU."""
    if find_spec("cupy") is None:
        return None
    cupy = import_module("cupy")
    return cupy if cupy.cuda.is_available() else None


def chain(x: Any, y: Any) -> Any:
    """Element-wise work of three operators."""
    return mlc.op.relu(mlc.op.add(mlc.op.multiply(x, y), x))


softmax = partial(mlc.op.softmax, axis=-1)


def numpy_chain(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same by numpy."""
    return np.maximum(x * y + x, 0)


def numpy_softmax(x: np.ndarray) -> np.ndarray:
    """The same by numpy."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


WORK = (("chain of three", chain, numpy_chain, 2), ("softmax", softmax, numpy_softmax, 1))
"""Work that the speed of memory limits: as a graph, by numpy, its inputs."""


def random_arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    """Normal numbers."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, np.float32).astype(dtype) for shape in shapes]


def on_gpu(found: Contest, cupy: Any, elements: int = 1 << 26, side: int = 4096) -> None:
    """Against copies and cuBLAS, on arrays in the GPU's memory."""
    found.report.machine["gpu"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    found.report.notes.append(f"On {found.report.machine['gpu']}, {date.today()}.")
    rows = (elements // side, side)
    for title, work, by_numpy, inputs in WORK:
        arrays = random_arrays(*[rows] * inputs)
        exact = by_numpy(*(array.astype(float) for array in arrays))
        beside_copy(found, cupy, title, programs.graph(work, *arrays), arrays, exact)
    for dtype, share in (("float32", 0.8), ("float16", 0.6)):
        arrays = random_arrays((side, side), (side, side), dtype=dtype)
        beside_cublas(found, cupy, arrays, share)
    launches(found, cupy)


def on_device(cupy: Any, name: str, call: Callable[..., Any], *arrays: Any) -> Contender:
    """A contender on arrays of the GPU, whose calls return before the GPU is done."""
    return Contender(name, partial(call, *arrays), lambda: cupy.asnumpy(call(*arrays)))


def by_its_clock(
    cupy: Any,
    contenders: Sequence[Contender],
    expected: np.ndarray,
    *,
    tolerance: float,
    rounds: int,
    batch: int = 10,
) -> list[Measured]:
    """`compare`, by the GPU's clock: what the host does for a call is done while the GPU works."""
    samples: list[list[float]] = [[] for _ in contenders]
    for contender in contenders:
        check(contender, expected, tolerance)
    for _ in range(rounds):
        for contender, times in zip(contenders, samples, strict=True):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            contender.call()
            start.record()
            for _ in range(batch):
                contender.call()
            end.record()
            end.synchronize()
            times.append(float(cupy.cuda.get_elapsed_time(start, end)) / 1000 / batch)
    pairs = zip(contenders, samples, strict=True)
    return [Measured(contender.name, tuple(times), batch) for contender, times in pairs]


def against(
    found: Contest,
    cupy: Any,
    title: str,
    contenders: Sequence[Contender],
    expected: np.ndarray,
    tolerance: float,
    limit: float,
    work: float,
) -> None:
    """Both timed in turns, and the claim that ours takes at most 1 / limit of the peer's time."""
    rows = by_its_clock(cupy, contenders, expected, tolerance=tolerance, rounds=found.rounds)
    ours, peer = rows
    table = Table(title, rows, ours.name, work=work)
    found.report.tables.append(table)
    rate, _ = table.rate(ours.median)
    found.report.claims.append(
        Claim(title, peer.median / ours.median, ">=", limit, "×", peer.name, rate)
    )


def beside_copy(
    found: Contest,
    cupy: Any,
    title: str,
    graph: mlc.IRModule,
    arrays: Sequence[np.ndarray],
    exact: np.ndarray,
) -> None:
    """A graph function, and a copy that moves as many bytes as its inputs and its result have."""
    function = mlc.build(graph, target="cuda")["main"]
    there = [cupy.asarray(array) for array in arrays]
    size = exact.size * (len(arrays) + 1) // 2
    source, target = cupy.zeros(size, "float32"), cupy.zeros(size, "float32")
    ours = on_device(cupy, "minimlc", function, *there)
    copy = on_device(cupy, "a copy of as many bytes", lambda: cupy.copyto(target, source))
    against(found, cupy, title, [ours, replace(copy, answer=lambda: exact)], exact, 1e-4, 0.9, 0)


def beside_cublas(found: Contest, cupy: Any, arrays: Sequence[np.ndarray], limit: float) -> None:
    """A square product; cuBLAS without TF32, which is CuPy's default."""
    function = mlc.build(programs.graph(mlc.op.matmul, *arrays), target="cuda")["main"]
    there = [cupy.asarray(array) for array in arrays]
    a, b = (array.astype("float64") for array in there)
    tolerance = 1e-2 if arrays[0].dtype == "float16" else 1e-4
    side = arrays[0].shape[0]
    contenders = [
        on_device(cupy, "minimlc", function, *there),
        on_device(cupy, "cuBLAS", cupy.matmul, *there),
    ]
    title = f"{side}³ product, {arrays[0].dtype}"
    against(found, cupy, title, contenders, cupy.asnumpy(a @ b), tolerance, limit, 2.0 * side**3)


def launches(found: Contest, cupy: Any, size: int = 256) -> None:
    """The host's time for a call that adds arrays; it waits for the GPU in the end only. CuPy
    launches a raw kernel, unchecked, and its own operator.
    """
    a, b = random_arrays((size,), (size,))
    kernel = mlc.recipes.apply(programs.formula(lambda x, y: x + y, a, b), "cuda")
    function = mlc.build(kernel, target="cuda")["main"]
    raw = cupy.RawKernel(ADD, "add")

    def contender(name: str, call: Callable[..., Any]) -> Contender:
        arrays = cupy.asarray(a), cupy.asarray(b), cupy.zeros(size, "float32")
        return Contender(name, partial(call, *arrays), lambda: cupy.asnumpy(arrays[2]))

    contenders = [
        contender("minimlc", function),
        contender("cupy.RawKernel", lambda *arrays: raw((1,), (size,), arrays)),
        contender("cupy.add", lambda x, y, out: cupy.add(x, y, out)),
    ]
    rows = compare(contenders, a.astype(float) + b, tolerance=1e-6, rounds=found.rounds)
    found.report.tables.append(Table("one launch", rows, "minimlc"))
    found.report.claims.append(Claim("one launch", rows[0].median * 1e6, "<=", 10, "µs"))


def on_cpu(found: Contest, side: int = SIDE, rows: tuple[int, int] = (4096, 1024)) -> None:
    """The recipes as OpenCL, with arrays on the device already, against numpy."""
    a, b = random_arrays((side, side), (side, side))
    mod = mlc.recipes.apply(programs.matmul(side, side, side), "opencl")
    call, c = mlc.build(mod, target="opencl")["main"], np.empty_like(a)
    contenders = [
        as_opencl("minimlc", mod, a, b, c),
        Contender("minimlc, arrays copied", lambda: call(a, b, c), lambda: c),
        plain_product(side, a, b),
        Contender("numpy", lambda: a @ b),
    ]
    title, operations = f"{side}³ product as OpenCL", 2.0 * side**3
    exact = a.astype(float) @ b
    result = found.run(title, contenders, exact, operations=operations)
    rate = operations / result.seconds["minimlc"] / 1e9
    found.report.claims.append(Claim(title, rate, ">=", 15, "GFLOP/s"))
    for title, work, by_numpy, inputs in WORK:
        arrays = random_arrays(*[rows] * inputs)
        contenders = [
            as_opencl("minimlc", scheduled(work, arrays), *arrays, np.empty(rows, np.float32)),
            Contender("numpy", partial(by_numpy, *arrays)),
        ]
        exact = by_numpy(*(array.astype(float) for array in arrays))
        moved = (inputs + 1) * arrays[0].nbytes
        found.run(f"{title} as OpenCL", contenders, exact, tolerance=1e-4, moved=moved)


def scheduled(work: Callable[..., Any], arrays: Sequence[np.ndarray]) -> mlc.IRModule:
    """The one primitive function that a graph becomes, as "main"."""
    steps = mlc.passes.default_pipeline
    before = steps[: steps.index(mlc.recipes.apply)]
    made = mlc.run_passes(programs.graph(work, *arrays), before)
    (func,) = [func for _, func in made.entries if isinstance(func, mlc.PrimFunc)]
    return mlc.recipes.apply(mlc.IRModule.of({"main": func}), "opencl")


def as_opencl(name: str, mod: mlc.IRModule, *arrays: np.ndarray) -> Contender:
    """The kernels of "main" alone, on arrays that are on the device; the last is the result."""
    func = mod["main"]
    assert isinstance(func, mlc.PrimFunc)
    emitted = emit({"main": func}, OPENCL)
    workspace, launches = emitted.functions["main"]
    buffers = (*func.params, *workspace)
    scratch = [np.zeros(buffer.shape, buffer.dtype) for buffer in workspace]
    memory = dict(zip(buffers, map(on_opencl, [*arrays, *scratch]), strict=True))
    program = compiled(emitted.text)
    runs = [
        (item.symbol, item.kernel.grid, item.kernel.block, [memory[b] for b in item.kernel.params])
        for item in launches
    ]
    return launched(name, program, runs, memory[func.params[-1]], arrays[-1])


def plain_product(side: int, a: np.ndarray, b: np.ndarray) -> Contender:
    """The product of a first course."""
    program = compiled(PLAIN.format(side=side, tile=TILE))
    out = np.empty_like(a)
    memory = [on_opencl(array) for array in (a, b, out)]
    grid = side // TILE, side // TILE, 1
    runs = [("product", grid, (TILE, TILE, 1), memory)]
    return launched("plain tiles of 16 by 16", program, runs, memory[-1], out)


def compiled(text: str) -> Any:
    """A program for OpenCL's device."""
    here = device()
    return here.cl.Program(here.context, text).build(options=list(here.options))


def on_opencl(array: np.ndarray) -> Any:
    """An array's copy on OpenCL's device."""
    here = device()
    flags = here.cl.mem_flags.READ_WRITE | here.cl.mem_flags.COPY_HOST_PTR
    return here.cl.Buffer(here.context, flags, hostbuf=array)


Run = tuple[str, tuple[int, ...], tuple[int, ...], list[Any]]
"""A kernel's name, its blocks, their threads, and its arguments."""


def launched(
    name: str, program: Any, runs: Sequence[Run], result: Any, out: np.ndarray
) -> Contender:
    """A contender that launches kernels and waits for them."""
    cl, queue = device().cl, device().queue
    kernels = [(cl.Kernel(program, symbol), *rest) for symbol, *rest in runs]

    def call() -> None:
        for kernel, grid, block, arguments in kernels:
            sizes = [count * size for count, size in zip(grid, block, strict=True)]
            kernel(queue, sizes, block, *arguments)
        queue.finish()

    def answer() -> np.ndarray:
        cl.enqueue_copy(queue, out, result)
        return out

    return Contender(name, call, answer)


def simulated(report: Report, side: int = 256) -> None:
    """A product by the simulator, with all that it counts."""
    mod = mlc.recipes.apply(programs.matmul(side, side, side), "gpusim")
    library = mlc.build(mod, target="gpusim")
    assert isinstance(library, Simulator)
    arrays = [*random_arrays((side, side), (side, side)), np.empty((side, side), np.float32)]
    start = perf_counter()
    profile = library.profile("main", *arrays)
    spent = perf_counter() - start
    report.claims.append(Claim(f"{side}³ product simulated", spent, "<=", 10, "s"))
    report.notes.append(f"Of the {side}³ product, simulated:\n\n```text\n{profile}\n```")
