"""A stand-in for CuPy 14 where no GPU is; `test_cupy.py` compares its names with CuPy's own.

NVRTC compiles the kernels; the OpenCL device runs them, as OpenCL C that the same functions have
(`SOURCES`). Work is done as late as a GPU may do it: it waits in its stream until somebody waits
for it, so whoever reads by another stream finds nothing.
"""

import re
import sys
from functools import cache, partial
from math import prod
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np

from minimlc.targets.opencl import build as opencl
from tests.gpu import nvrtc
from tests.gpu.standin_memory import (
    LOG,
    PROPERTIES,
    Device,
    Event,
    Graph,
    Stream,
    asarray,
    bytes_at,
    empty,
    from_dlpack,
    get_current_stream,
    get_elapsed_time,
    ndarray,
    runtime,
)

__all__ = [
    "LOG",
    "PROPERTIES",
    "Device",
    "Event",
    "Graph",
    "RawKernel",
    "RawModule",
    "Stream",
    "asarray",
    "empty",
    "from_dlpack",
    "get_current_stream",
    "get_elapsed_time",
    "ndarray",
    "runtime",
]

KERNEL_MS = 0.25
"""The time of a kernel by the clock of its stream."""
ARCHITECTURE = "sm_90"
SOURCES: dict[str, str] = {}
"""OpenCL C by the CUDA C++ of the same functions."""


class CompileException(Exception):
    pass


def compile_using_nvrtc(source, options=(), arch=None, filename="kern.cu", name_expressions=None):
    try:
        log, code = nvrtc.compile_text(
            source, ARCHITECTURE, *options, "--device-as-default-execution-space"
        )
    except AssertionError as error:
        raise CompileException(str(error)) from None
    assert ".ftz" not in code, "subnormal numbers become zero"
    return f"{log}\n---\n{source}".encode(), None


class Nvrtc:
    """`cupy.cuda.nvrtc`, which compiles for any architecture."""

    class NVRTCError(Exception):
        pass

    def createProgram(self, src, name, headers, include_names):
        return {"source": src, "log": ""}

    def compileProgram(self, prog, options):
        (option,) = options
        try:
            log, _ = nvrtc.compile_text(prog["source"], option.removeprefix("-arch="))
        except AssertionError as error:
            prog["log"] = str(error)
            raise self.NVRTCError from None
        prog["code"] = f"{log}\n---\n{prog['source']}".encode()

    def getCUBIN(self, prog):
        return prog["code"]

    def getProgramLog(self, prog):
        return prog["log"]

    def destroyProgram(self, prog):
        prog.clear()


class RawModule:
    def __init__(
        self, code=None, *, path=None, options=(), backend="nvrtc", translate_cucomplex=False,
        enable_cooperative_groups=False, name_expressions=None, jitify=None,
    ):  # fmt: skip
        assert (code is None) != (path is None)
        if code is not None:
            data, _ = compile_using_nvrtc(code, (*options, "-ftz=true"))
        else:
            with open(path, "rb") as file:
                data = file.read()
        self.log, self.code = data.decode().split("\n---\n", 1)

    def get_function(self, name):
        return RawKernel(self, name)


class RawKernel:
    most_threads = 1024

    def __init__(self, module, name):
        self.name, self.code = name, module.code
        self.num_regs = int(re.search(rf"'{name}'(?:.*\n)+?.*Used (\d+) reg", module.log)[1])
        self.max_threads_per_block = min(
            self.most_threads, 65536 // max(16, self.num_regs) // 32 * 32
        )
        self.max_dynamic_shared_size_bytes = 48 * 1024
        self.parameters = signature(self.code, name)
        self.dynamic = dynamic(self.code, name)

    @property
    def kernel(self):
        return lambda grid, block, args, size=0: self(grid, block, args, shared_mem=size)

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert len(grid) == len(block) == 3 and min(*grid, *block) > 0
        bound = int(re.search(rf"__launch_bounds__\((\d+)[^)]*\) {self.name}\(", self.code)[1])
        assert prod(block) <= min(bound, self.max_threads_per_block)
        assert self.dynamic <= shared_mem <= self.max_dynamic_shared_size_bytes
        assert isinstance(args, tuple) and len(args) == len(self.parameters)
        for array, parameter in zip(args, self.parameters, strict=True):
            assert array.flags.c_contiguous and array.data.device_id == runtime.getDevice()
            assert array.dtype.name in TYPES[parameter.type], (array.dtype, parameter)
            assert array.data.ptr % parameter.alignment == 0, "cudaErrorMisalignedAddress"
        state, stream = get_current_stream().state, get_current_stream().ptr
        LOG.append((self.name, stream, runtime.getDevice()))
        places = [(array.data.ptr, array.nbytes) for array in args]
        state.add(partial(self.run, grid, block, places, state=state))

    def run(self, grid, block, places, state):
        """The kernel of the same name in OpenCL C, whose parameters are found by their names."""
        here, text = opencl.device(), SOURCES[self.code]
        flags = here.cl.mem_flags.READ_WRITE | here.cl.mem_flags.COPY_HOST_PTR
        memory = [
            here.cl.Buffer(here.context, flags, hostbuf=bytes_at(*place) if place[1] else b"0")
            for place in places
        ]
        named = dict(zip([p.name for p in self.parameters], memory, strict=True))
        ordered = [named[p.name] for p in signature(text, self.name)]
        sizes = tuple(count * size for count, size in zip(grid, block, strict=True))
        here.cl.Kernel(_program(text), self.name)(here.queue, sizes, block, *ordered)
        for place, buffer, parameter in zip(places, memory, self.parameters, strict=True):
            if parameter.written and place[1]:
                here.cl.enqueue_copy(here.queue, bytes_at(*place), buffer)
        state.clock += KERNEL_MS


@cache
def _program(text):
    here = opencl.device()
    return here.cl.Program(here.context, text).build(options=list(here.options))


TYPES = {
    "float": ("float32",),
    "double": ("float64",),
    "signed char": ("int8",),
    "unsigned char": ("uint8", "bool"),
    "short": ("int16",),
    "unsigned short": ("uint16", "float16", "bfloat16"),
    "int": ("int32",),
    "unsigned": ("uint32",),
    "long long": ("int64",),
    "unsigned long long": ("uint64",),
}


class Parameter(NamedTuple):
    type: str
    name: str
    written: bool
    alignment: int


def signature(text, kernel):
    """The parameters of a kernel in CUDA C++ or OpenCL C."""
    listed, body = re.search(rf"\b{kernel}\(([^{{]*)\) {{\n(.*?)\n}}", text, re.S).groups()
    return [
        _parameter(part, body) for part in re.split(r",\s*(?![^\[]*\])", listed) if part.strip()
    ]


def dynamic(text, kernel):
    """How far a kernel in CUDA C++ uses the shared memory that its launch asks for."""
    body = re.search(rf"\b{kernel}\([^{{]*\) {{\n(.*?)\n}}", text, re.S)[1]
    parts = re.findall(r"\*\(([\w ]+) \(\*\)([\[\]\d]+)\)\(shared_memory \+ (\d+)\)", body)
    sizes = (prod(map(int, re.findall(r"\d+", shape))) for _, shape, _ in parts)
    items = (np.dtype(TYPES[kind][0]).itemsize for kind, *_ in parts)
    places = [(int(p[2]), s * i) for p, s, i in zip(parts, sizes, items, strict=True)]
    assert not any(start % 16 for start, _ in places)
    return max((start + size for start, size in places), default=0)


def _parameter(text, body):
    words = re.fullmatch(r"\s*(?:__global )?(const )?([\w ]+?) ?\(?\*\w* (\w+)\)?(\[.*)?\s*", text)
    const, kind, name, _ = words.groups()
    moved = re.findall(rf"Lanes<([^,]*), (\d+)> \*\)&{name}\[", body)
    size = max((int(n) * np.dtype(TYPES[kind][0]).itemsize for _, n in moved), default=1)
    return Parameter(kind, name, const is None, size)


def entered(monkeypatch):
    """This module as `cupy`."""
    cuda = SimpleNamespace(
        Device=Device,
        Event=Event,
        Graph=Graph,
        Stream=Stream,
        runtime=runtime,
        get_current_stream=get_current_stream,
        get_elapsed_time=get_elapsed_time,
        is_available=lambda: True,
        nvrtc=Nvrtc(),
        compiler=SimpleNamespace(
            compile_using_nvrtc=compile_using_nvrtc, CompileException=CompileException
        ),
    )
    cupy = ModuleType("cupy")
    cupy.ndarray, cupy.empty, cupy.asarray = ndarray, empty, asarray
    cupy.from_dlpack, cupy.RawModule, cupy.cuda = from_dlpack, RawModule, cuda
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    LOG.clear()
    return cupy
