"""Libraries for target "opencl": kernels in OpenCL C, compiled and launched through pyopencl.

Arrays are the caller's, in the memory of the host: each call copies what its kernels read to the
device, launches them in order, and copies back what they wrote.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from minimlc.graphs.plan import nbytes
from minimlc.loops.ir.arguments import Arguments
from minimlc.loops.values.errors import BuildError
from minimlc.services.runtime.executable import SteppedGraph
from minimlc.services.runtime.library import Library
from minimlc.targets.gpu.emit import Emitted, Launch
from minimlc.targets.gpu.host import Argument, Driver, Opened, build_library, missing, not_compiled
from minimlc.targets.gpu.limits import Limits
from minimlc.targets.gpu.opencl import OPENCL

OPTIONS = ("-cl-fp32-correctly-rounded-divide-sqrt",)
"""Division and square root as everywhere else, for devices that have the option."""

POCL = ("POCL_WORK_GROUP_METHOD", "loops")
"""PoCL's method for the loops over a block's threads, unless the environment sets one. By its own
choice, "loopvec", it takes them as vectors, and 3.1 computes wrong numbers where a thread reads
shared memory that it wrote itself.
"""

SLOW = "oclgrind"
"""A simulator that finds faults: taken only where it is asked for."""


class Device(NamedTuple):
    """pyopencl, a context and a queue of one device, and its limits."""

    cl: Any
    context: Any
    queue: Any
    limits: Limits
    options: tuple[str, ...]
    number: int = 0

    def compiled(self, emitted: Emitted) -> Any:
        try:
            return self.cl.Program(self.context, emitted.text).build(options=list(self.options))
        except self.cl.RuntimeError as error:
            compiler = f"OpenCL's compiler for {self.limits.device}"
            raise not_compiled(compiler, "opencl", error) from error

    def kernel(self, program: Any, launch: Launch) -> Callable[[Sequence[Any]], None]:
        """A launcher with a separate kernel for each launch, as that holds its arguments."""
        block, grid = launch.kernel.block, launch.kernel.grid
        sizes = tuple(count * size for count, size in zip(grid, block, strict=True))

        def run(memory: Sequence[Any]) -> None:
            self.cl.Kernel(program, launch.symbol)(self.queue, sizes, block, *memory)

        return run

    def filled(self, array: np.ndarray) -> Any:
        held = _bytes(array) if array.size else np.zeros(1, np.uint8)
        flags = self.cl.mem_flags.READ_WRITE | self.cl.mem_flags.COPY_HOST_PTR
        return self.cl.Buffer(self.context, flags, hostbuf=held)

    def empty(self, kind: Any) -> Any:
        size = max(1, nbytes(kind))
        return self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, size=size)

    def fetch(self, memory: Any, array: np.ndarray) -> None:
        self.cl.enqueue_copy(self.queue, _bytes(array), memory)


@contextmanager
def opened(expected: Arguments, values: Sequence[Any]) -> Iterator[Opened]:
    """The device, for arguments in the memory of the host; the call ends when all is done."""
    here = device()
    yield here, [Argument(value) for value in values]
    here.queue.finish()


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
    limits = Limits(chosen.name, width, sides, (2**31 - 1,) * 3, chosen.local_mem_size, apart=True)
    rounded = chosen.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    return Device(cl, context, cl.CommandQueue(context), limits, OPTIONS if rounded else ())


def _context(cl: Any) -> Any:
    os.environ.setdefault(*POCL)
    if "PYOPENCL_CTX" in os.environ:
        return cl.create_some_context(interactive=False)
    try:
        platforms = [item for item in cl.get_platforms() if SLOW not in item.name.lower()]
    except cl.Error:  # no platform at all
        platforms = []
    devices = [item for platform in platforms for item in platform.get_devices()]
    devices.sort(key=lambda item: item.type & cl.device_type.GPU == 0)
    for item in devices:
        context = cl.Context([item])
        if _compiles(cl, context):
            return context
    names = " and ".join(item.name for item in devices)
    raise _missing(f"no compiler works for {names}" if names else "no OpenCL device is here")


def _compiles(cl: Any, context: Any) -> bool:
    """Whether the device's compiler works: that of PoCL's wheel does not know the newest CPUs."""
    try:
        cl.Program(context, "__kernel void nothing() {}").build()
    except cl.RuntimeError:
        return False
    return True


def _missing(why: str) -> BuildError:
    hint = "pip install pyopencl pocl-binary-distribution  # or, on Debian, pocl-opencl-icd"
    return missing("opencl", why, hint)


def _bytes(array: np.ndarray) -> np.ndarray:
    """An array's memory."""
    return array.reshape(-1).view(np.uint8)


build = partial(build_library, OPENCL, Driver(opened), SteppedGraph, Library)
"""Graph functions run their plan step by step, with arrays of numpy between their kernels."""
