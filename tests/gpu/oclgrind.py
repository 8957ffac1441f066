"""oclgrind, a simulator of OpenCL devices: the threads that race by it, and where.

J. Price, S. McIntosh-Smith, "Oclgrind: an extensible OpenCL device simulator", IWOCL 2015. It
comes as a device for pyopencl, reads its options from the environment when a context is made,
and writes a log.
"""

import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import numpy as np

from minimlc.loops.ir.nodes import Buffer
from minimlc.targets.gpu import emit
from minimlc.targets.gpu.kernels import Launches
from minimlc.targets.gpu.opencl import OPENCL
from tests.gpu.reports import Apart, Race, Thread, place

OPTIONS = {"DATA_RACES": "1", "UNIFORM_WRITES": "1", "MAX_ERRORS": "1000000", "NUM_THREADS": "1"}

RACE = re.compile(
    r"data race at \w+ memory address 0x(?P<address>\w+).*?First entity: (?P<first>[^\n]*)"
    r".*?At line (?P<line>\d+) \(column (?P<column>\d+)\).*?Second entity: (?P<second>[^\n]*)",
    re.DOTALL,
)
BARRIER = re.compile(
    r"divergence detected \(barrier\).*?Work-group: \((?P<block>[\d,]+)\)\s*"
    r"Only (?P<here>\d+) out of (?P<all>\d+)",
    re.DOTALL,
)


def reports(whole: Launches, arrays: Sequence[np.ndarray], log: Path, monkeypatch) -> set:
    """The reports of oclgrind on kernels on arrays: each `Race`, each barrier that is `Apart`."""
    for name, value in {**OPTIONS, "LOG": str(log)}.items():
        monkeypatch.setenv(f"OCLGRIND_{name}", value)
    monkeypatch.setattr(emit, "kernels", lambda *arguments, **options: whole)
    emitted = emit.emit({"main": whole.func}, OPENCL)
    _run(emitted, dict(zip(whole.func.params, arrays, strict=True)))
    (kernel,) = whole.kernels
    sizes = {b.name: np.dtype(b.dtype).itemsize for b in (*kernel.params, *kernel.shared)}
    return set(_reports(log.read_text(), emitted.text.splitlines(), sizes))


def _run(emitted: emit.Emitted, arrays: dict[Buffer, np.ndarray]) -> None:
    import pyopencl as cl

    (platform,) = (each for each in cl.get_platforms() if each.name == "Oclgrind")
    context = cl.Context(platform.get_devices())
    queue = cl.CommandQueue(context)
    plain = ["-cl-opt-disable"]  # else an array may be taken apart
    program = cl.Program(context, emitted.text).build(plain, cache_dir=False)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = {b: cl.Buffer(context, flags, hostbuf=array) for b, array in arrays.items()}
    _, launches = emitted.functions["main"]
    for symbol, kernel in launches:
        sizes = tuple(map(prod, zip(kernel.grid, kernel.block, strict=True)))
        launched = cl.Kernel(program, symbol)
        launched(queue, sizes, kernel.block, *(memory[buffer] for buffer in kernel.params))
    queue.finish()


def _reports(text: str, lines: list[str], sizes: dict[str, int]) -> Iterator[Race | Apart]:
    """A log read, with the kernel's `lines` and the sizes of the buffers' elements: an address does
    not determine its array of shared memory.
    """
    for found in RACE.finditer(text):
        name = _accessed(lines[int(found["line"]) - 1], int(found["column"]) - 1)
        element = int(found["address"], 16) % (1 << 48) // sizes[name]
        threads = frozenset(map(_thread, (found["first"], found["second"])))
        yield Race(name, element, threads)
    for found in BARRIER.finditer(text):
        yield Apart(place(found["block"]), int(found["here"]), int(found["all"]))


def _accessed(line: str, column: int) -> str:
    """The name that a line reads at a column; writes, where that is its assignment."""
    place = line if line[column] in "=+-*/" else line[column:]
    return re.match(r"\s*(\w+)", place)[1]


def _thread(text: str) -> Thread:
    """From `Global(1,0,0) Local(1,0,0) Group(0,0,0)`."""
    _, local, group = re.findall(r"\(([\d,]+)\)", text)
    return place(group), place(local)
