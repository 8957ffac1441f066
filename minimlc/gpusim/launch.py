"""Run a function's kernels, one after the other, a chunk of blocks at a time."""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from math import prod

import numpy as np

from minimlc.gpusim.counters import Counters
from minimlc.gpusim.execute import Chunk, Watch
from minimlc.gpusim.memory import Memory
from minimlc.gpusim.profile import KernelProfile
from minimlc.gpusim.races import Races
from minimlc.graphs.plan import nbytes
from minimlc.loops.interpreter.elements import poison
from minimlc.loops.ir.walks import buffers_in
from minimlc.targets.gpu.kernels import Kernel, Launches

MOST_THREADS = 1 << 17
"""The most threads of a chunk, if a block has no more."""
MOST_BYTES = 1 << 28
"""The most bytes that a chunk has in shared and private buffers, if a block has no more."""


Observer = Callable[[Kernel], Watch]
_COUNTERS: ContextVar[list[Counters] | None] = ContextVar("counters", default=None)


def profiled(function: Callable[..., object], *arguments: object) -> tuple[KernelProfile, ...]:
    """Call a function, and count what each kernel does that it launches, directly or not."""
    counters: list[Counters] = []
    token = _COUNTERS.set(counters)
    try:
        function(*arguments)
    finally:
        _COUNTERS.reset(token)
    return tuple(counter.profile() for counter in counters)


def launch(launches: Launches, arrays: Sequence[np.ndarray], *observers: Observer) -> None:
    """Run kernels on arrays that fit the function's parameters; each observer makes a watch of a
    kernel, which looks on.

    `RaceError` where threads race or do not all come to a barrier; `BoundsError` for an access
    outside its buffer; `CompileError` for an integer division by zero.
    """
    memory = {b: Memory(a.reshape(-1)) for b, a in zip(launches.func.params, arrays, strict=True)}
    memory |= {b: Memory(poison((prod(b.shape),), b.dtype)) for b in launches.workspace}
    counters = _COUNTERS.get()
    for kernel in launches.kernels:
        watches: list[Watch] = [Races(kernel), *(observer(kernel) for observer in observers)]
        if counters is not None:
            counters.append(Counters(kernel))
            watches.append(counters[-1])
        with np.errstate(all="ignore"):
            for numbers in _chunks(kernel):
                Chunk(kernel, numbers, memory, watches).run(kernel.body)


def _chunks(kernel: Kernel) -> Iterator[range]:
    """The blocks, by those that run at once."""
    threads, blocks = prod(kernel.block), range(prod(kernel.grid))
    shared = sum(map(nbytes, kernel.shared))
    private = (sum(map(nbytes, buffers_in(kernel.body))) - shared) * threads
    size = max(1, min(MOST_THREADS // max(1, threads), MOST_BYTES // (private + shared + 1)))
    return (blocks[start : start + size] for start in range(0, len(blocks) * bool(threads), size))
