"""Libraries for target "cuda": kernels in CUDA C++, compiled by NVRTC and launched through CuPy.

Arrays in the GPU's memory are used where they lie, on the stream of their owner, and a call returns
before its kernels are done. Those of numpy are copied to the GPU, and back when they are written.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from itertools import compress
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from minimlc.graphs.ir.nodes import TensorType
from minimlc.graphs.run import flatten
from minimlc.loops.ir.arguments import Arguments
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import BuildError, CallError
from minimlc.services.runtime import timing
from minimlc.services.runtime.library import Library
from minimlc.targets.cuda.arrays import argument, is_on_gpu, is_tensor, placed
from minimlc.targets.cuda.graph import DeviceGraph
from minimlc.targets.gpu import host
from minimlc.targets.gpu.cuda import CUDA
from minimlc.targets.gpu.emit import Emitted, Launch
from minimlc.targets.gpu.limits import Limits, check_limits, dynamic_bytes


class CudaLibrary(Library):
    """A library whose calls are timed by the GPU's own clock."""

    def time(self, name: str, *arguments: Any, warmup: int = 3, repeat: int = 20) -> timing.Timing:
        """Time calls of the function `name` by events on the arguments' stream."""
        cp = cupy()

        def sample(function: Callable[..., Any], arguments: Sequence[Any], batch: int) -> float:
            """Seconds between two events with `batch` calls between them."""
            start, end = stream.record(), cp.cuda.Event()
            for _ in range(batch):
                function(*arguments)
            stream.record(end)
            end.synchronize()
            return float(cp.cuda.get_elapsed_time(start, end)) / 1000

        with placed(cp, list(filter(is_on_gpu, flatten(arguments)))) as stream:
            return timing.time(
                self[name], *arguments, warmup=warmup, repeat=repeat, name=name, sample=sample,
                machine=device_of(cp, cp.cuda.runtime.getDevice()).limits.device,
            )  # fmt: skip


class Device(NamedTuple):
    """CuPy, one GPU, and its limits."""

    cp: Any
    number: int
    limits: Limits
    capability: str

    def compiled(self, emitted: Emitted) -> dict[str, Any]:
        """The kernels, loaded from a file: CuPy's "-ftz=true" for text makes small numbers zero."""
        try:
            code = self._code(emitted.text)
        except self.cp.cuda.compiler.CompileException as error:
            raise host.not_compiled("NVRTC", "cuda", error) from error
        with TemporaryDirectory() as folder:
            file = Path(folder, "kernels.cubin")
            file.write_bytes(code)
            module = self.cp.RawModule(path=str(file))
            symbols = [launch.symbol for _, some in emitted.functions.values() for launch in some]
            return {symbol: module.get_function(symbol) for symbol in symbols}

    def _code(self, text: str) -> bytes:
        """The machine code: for 9.0 by NVRTC directly, as CuPy does not compile for "sm_90a"."""
        if self.capability != "9.0":
            return self.cp.cuda.compiler.compile_using_nvrtc(text)[0]
        nvrtc = self.cp.cuda.nvrtc
        program = nvrtc.createProgram(text, "kernels.cu", (), ())
        try:
            nvrtc.compileProgram(program, ("-arch=sm_90a",))
            return nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise self.cp.cuda.compiler.CompileException(log, text, "", ()) from error
        finally:
            nvrtc.destroyProgram(program)

    def kernel(self, program: dict[str, Any], launch: Launch) -> Callable[[Sequence[Any]], None]:
        """A launcher of a kernel, whose registers may allow fewer threads than the device."""
        function, kernel = program[launch.symbol], launch.kernel
        name = f"{self.limits.device}, with {function.num_regs} registers for each thread,"
        most = self.limits._replace(device=name, threads=function.max_threads_per_block)
        check_limits(kernel, most)
        grid, block, size = kernel.grid, kernel.block, dynamic_bytes(kernel)
        if size:
            function.max_dynamic_shared_size_bytes = size
        launched = function.kernel  # which takes microseconds less to call
        return lambda args: launched(grid, block, args, size)

    def filled(self, array: np.ndarray) -> Any:
        self._check_capture()
        if array.dtype.kind == "V":  # bfloat16
            return self.cp.asarray(array.view("uint16")).view(array.dtype)
        return self.cp.asarray(array)

    def empty(self, kind: Any) -> Any:
        self._check_capture()
        return self.cp.empty(kind.shape, to_numpy(kind.dtype))

    def fetch(self, memory: Any, array: np.ndarray) -> None:
        memory.get(out=array)

    def part(self, memory: Any, start: int, kind: TensorType) -> Any:
        """An array in other memory, from byte `start` on."""
        return self.cp.ndarray(kind.shape, to_numpy(kind.dtype), memory.data + start)

    def captured(self, run: Callable[[], None]) -> Any:
        """The launches of `run`, as a CUDA graph."""
        with self.cp.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            try:
                run()
            finally:
                graph = stream.end_capture()
        return graph

    def finish(self, *kept: Any) -> None:
        """Wait until the device has done all; `kept` objects live until then."""
        self.cp.cuda.Device(self.number).synchronize()

    def _check_capture(self) -> None:
        """Refuse a capture: memory of a call is free after it, so nothing may run on it again."""
        stream = self.cp.cuda.get_current_stream()
        if stream.ptr not in (0, 1) and stream.is_capturing():  # the default ones never are
            why = "a call that needs memory of its own cannot be captured in a CUDA graph"
            hint = "call primitive functions without workspace, with arrays on the GPU"
            raise CallError(why, code="E620", hint=hint)


@contextmanager
def opened(expected: Arguments, values: Sequence[Any]) -> Iterator[host.Opened]:
    """The GPU that arguments are on, with the stream of their owner. Where an owner's stream is not
    known, or memory is the host's, the call ends when all is done.
    """
    cp = cupy()
    there = [is_on_gpu(value) for value in values]
    with placed(cp, list(compress(values, there))) as stream:
        ready = [
            argument(cp, at, expected, value) if on_gpu else host.Argument(value)
            for at, (value, on_gpu) in enumerate(zip(values, there, strict=True))
        ]
        yield device_of(cp, cp.cuda.runtime.getDevice()), ready
        known = [isinstance(value, cp.ndarray) or is_tensor(value) for value in values]
        if not all((*there, *known)):
            stream.synchronize()


def at_once(entry: host.Entry) -> Callable[[Sequence[Any]], Device | None]:
    """For calls of an entry, a function that finds the current GPU where all arguments are CuPy's
    and fit: microseconds count here.
    """
    expected, starts = entry.arguments, entry.starts
    forms = [(shape, _strides(shape, dtype), dtype) for shape, dtype, _ in expected.forms]

    def device(values: Sequence[Any]) -> Device | None:
        cp = sys.modules.get("cupy")
        if not (cp and values and len(values) == len(starts) and type(values[0]) is cp.ndarray):
            return None  # there may be no GPU
        kind, number, addresses = cp.ndarray, cp.cuda.runtime.getDevice(), []
        for at, (shape, strides, dtype) in enumerate(forms):
            array = values[at]
            if type(array) is not kind or array.dtype is not dtype or array.shape != shape:
                return None
            memory = array.data
            address = memory.ptr
            dense = array.strides == strides or array.flags.c_contiguous  # the latter takes longer
            if not dense or memory.device_id != number or address % starts[at]:
                return None
            addresses.append(address)
        expected.check_overlap(addresses)
        return device_of(cp, number)

    return device


def _strides(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """The strides of elements one after the other."""
    return tuple(prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape)))


def cupy() -> Any:
    """CuPy; `BuildError` E502 without it, or without a GPU."""
    try:
        cp = import_module("cupy")
    except ImportError as error:
        raise _missing("CuPy is not installed") from error
    if not cp.cuda.is_available():
        raise _missing("CuPy finds no NVIDIA GPU")
    return cp


def _missing(why: str) -> BuildError:
    others = 'target="gpusim" and "opencl" work without'
    return host.missing("cuda", why, f"pip install cupy-cuda12x  # needs an NVIDIA GPU; {others}")


@cache
def device_of(cp: Any, number: int) -> Device:
    """A GPU by its number."""
    facts = cp.cuda.runtime.getDeviceProperties(number)
    keys = "maxThreadsPerBlock", "maxThreadsDim", "maxGridSize", "sharedMemPerBlockOptin"
    limits = Limits(facts["name"].decode(), *(facts[key] for key in keys))
    return Device(cp, number, limits, f"{facts['major']}.{facts['minor']}")


DRIVER = host.Driver(opened, at_once)
build = partial(host.build_library, CUDA, DRIVER, partial(DeviceGraph, DRIVER), CudaLibrary)
"""Graph functions keep their values on the GPU."""
