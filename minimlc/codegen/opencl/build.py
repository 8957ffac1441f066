"""Libraries for target "opencl": kernels in OpenCL C, compiled and launched through pyopencl.

Arrays are the caller's, in the memory of the host: each call copies what its kernels read to the
device, launches them in order, and copies back what they wrote.
"""

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minimlc.arguments import Arguments, parameters_of
from minimlc.codegen.gpu.emit import Emitted, Launch, emit
from minimlc.codegen.gpu.limits import Limits, check_limits
from minimlc.codegen.gpu.opencl import OPENCL
from minimlc.dtypes import to_numpy
from minimlc.errors import BuildError
from minimlc.graph.nodes import Function
from minimlc.module import IRModule
from minimlc.runtime.executable import SteppedGraph, functions_of, library
from minimlc.runtime.library import Library
from minimlc.runtime.plan import plan
from minimlc.target import Target
from minimlc.tir.nodes import Buffer, PrimFunc

OPTIONS = ("-cl-fp32-correctly-rounded-divide-sqrt",)
"""Division and square root as everywhere else, where the device can be told so."""

MOST_MESSAGE_LINES = 6

SLOW = "oclgrind"
"""A simulator that finds faults: taken only where it is asked for."""


def build(module: IRModule, target: Target, check: bool, cache: bool) -> Library:
    """Graph functions run their plan step by step, each of their kernels by OpenCL. The device is
    looked for at the first call.
    """
    if check:
        raise BuildError(
            'target "opencl" has no checked accesses',
            code="E508",
            hint='build(mod, bounds="check") for target "llvm", or target="python"',
        )
    functions = functions_of(module)
    program = Program(emit(functions, OPENCL))
    kernels = {name: Kernel(name, func, program) for name, func in functions.items()}

    def graph(name: str, func: Function) -> SteppedGraph:
        return SteppedGraph(name, func, plan(module, name), kernels)

    return library(module, target, kernels, graph, {"opencl": lambda: program.emitted.text})


class Device(NamedTuple):
    """pyopencl, a context and a queue of one device, and its limits."""

    cl: Any
    context: Any
    queue: Any
    limits: Limits
    options: tuple[str, ...]


@cache
def device() -> Device:
    """The device that $PYOPENCL_CTX names; else a GPU, or else the CPU. `BuildError` E502 where
    there is no pyopencl, or no device.
    """
    try:
        cl = import_module("pyopencl")
    except ImportError as error:
        raise _missing("pyopencl is not installed") from error
    context = _context(cl)
    chosen = context.devices[0]
    width = max(1, chosen.max_work_group_size)
    sides = tuple(min(size, width) for size in (*chosen.max_work_item_sizes, 1, 1)[:3])
    limits = Limits(chosen.name, width, sides, (2**31 - 1,) * 3, chosen.local_mem_size)
    rounded = chosen.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return Device(cl, context, cl.CommandQueue(context), limits, OPTIONS if rounded else ())


def _context(cl: Any) -> Any:
    if "PYOPENCL_CTX" in os.environ:
        return cl.create_some_context(interactive=False)
    try:
        platforms = [each for each in cl.get_platforms() if SLOW not in each.name.lower()]
    except cl.Error:  # no platform at all
        platforms = []
    devices = [each for platform in platforms for each in platform.get_devices()]
    devices.sort(key=lambda each: each.type & cl.device_type.GPU == 0)
    if not devices:
        raise _missing("no OpenCL device is here")
    return cl.Context(devices[:1])


def _missing(why: str) -> BuildError:
    return BuildError(
        f'target "opencl" cannot run its kernels: {why}; the text is library.source("opencl")',
        code="E502",
        hint="pip install pyopencl pocl-binary-distribution  # any CPU is a device then",
    )


class Program:
    """The text of a library; compiled for the device at the first call."""

    def __init__(self, emitted: Emitted):
        self.emitted = emitted
        self._compiled: Any = None

    def kernel(self, launch: Launch) -> Any:
        """What launches a kernel."""
        here = device()
        check_limits(launch.kernel, here.limits)
        if self._compiled is None:
            self._compiled = _compiled(self.emitted.text, here)
        return here.cl.Kernel(self._compiled, launch.symbol)


def _compiled(text: str, here: Device) -> Any:
    try:
        return here.cl.Program(here.context, text).build(options=list(here.options))
    except here.cl.RuntimeError as error:
        lines = [line[:160] for line in str(error).splitlines() if "error" in line.lower()]
        raise BuildError(
            f"OpenCL's compiler for {here.limits.device} failed",
            code="E507",
            excerpt="\n".join(lines[:MOST_MESSAGE_LINES]),
            hint='compare library.source("opencl")',
        ) from error


class Kernel:
    """A primitive function on OpenCL's device: call it with arrays; it writes its results there."""

    def __init__(self, name: str, func: PrimFunc, program: Program):
        self.__name__ = name
        self._parameters = func.params
        self._arguments = Arguments(name, parameters_of(func))
        self._program = program
        self._workspace, self._launches = program.emitted.functions[name]

    def __call__(self, *arrays: Any, **named: Any) -> None:
        shared, _ = self._arguments.check(arrays, named)
        kernels = [self._program.kernel(launch) for launch in self._launches]
        memory = self._memory(shared)
        queue = device().queue
        for launch, kernel in zip(self._launches, kernels, strict=True):
            _launch(launch, kernel, [memory[buffer] for buffer in launch.kernel.params])
        for array, param, parameter in zip(
            shared, self._parameters, self._arguments.parameters, strict=True
        ):
            if parameter.written and array.size:
                device().cl.enqueue_copy(queue, _bytes(array), memory[param])
        queue.finish()

    def _memory(self, arrays: Sequence[np.ndarray]) -> dict[Buffer, Any]:
        """Each buffer's memory on the device, that of parameters filled."""
        cl, context = device().cl, device().context
        flags = cl.mem_flags.READ_WRITE
        memory = {
            param: cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=_bytes(array))
            if array.size
            else cl.Buffer(context, flags, size=1)
            for param, array in zip(self._parameters, arrays, strict=True)
        }
        for buffer in self._workspace:
            size = prod(buffer.shape) * to_numpy(buffer.dtype).itemsize
            memory[buffer] = cl.Buffer(context, flags, size=max(1, size))
        return memory

    def __repr__(self) -> str:
        return f"<compiled {self._arguments.signature}>"


def _bytes(array: np.ndarray) -> np.ndarray:
    """An array's memory."""
    return array.reshape(-1).view(np.uint8)


def _launch(launch: Launch, kernel: Any, memory: Sequence[Any]) -> None:
    block, grid = launch.kernel.block, launch.kernel.grid
    if 0 not in (*block, *grid):
        sizes = tuple(count * size for count, size in zip(grid, block, strict=True))
        kernel(device().queue, sizes, block, *memory)
