"""Run a function's kernels, one after the other, a chunk of blocks at a time."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from math import prod

import numpy as np

from minimlc.codegen.gpu.kernels import Kernel, Launches
from minimlc.gpusim.counters import Counters
from minimlc.gpusim.execute import Chunk, Watch
from minimlc.gpusim.memory import Memory, bytes_of
from minimlc.gpusim.profile import KernelProfile
from minimlc.gpusim.races import Races
from minimlc.tir.analysis.threads import SHARED
from minimlc.tir.elements import poison
from minimlc.tir.nodes import Buffer
from minimlc.tir.walks import buffers_in

MOST_THREADS = 1 << 17
"""The threads of a chunk, if a block has no more."""
MOST_BYTES = 1 << 28
"""What the threads of a chunk have for themselves, if those of a block have no more."""


_PROFILES: ContextVar[list[KernelProfile] | None] = ContextVar("profiles", default=None)


def profiled(function: Callable[..., object], *arguments: object) -> tuple[KernelProfile, ...]:
    """Call a function, and count what each kernel does that it launches, directly or not."""
    profiles: list[KernelProfile] = []
    token = _PROFILES.set(profiles)
    try:
        function(*arguments)
    finally:
        _PROFILES.reset(token)
    return tuple(profiles)


def launch(
    launches: Launches, arrays: Sequence[np.ndarray], *observers: Callable[[Kernel], Watch]
) -> None:
    """Run kernels on arrays that fit the function's parameters; each observer makes a watch of a
    kernel, which looks on.

    `RaceError` where threads race or do not all come to a barrier; `BoundsError` for an access
    outside its buffer; `CompileError` for an integer division by zero.
    """
    memory = {
        buffer: Memory(array.reshape(-1))
        for buffer, array in zip(launches.func.params, arrays, strict=True)
    }
    for buffer in launches.workspace:
        memory[buffer] = Memory(poison((prod(buffer.shape),), buffer.dtype))
    with np.errstate(all="ignore"):
        for kernel in launches.kernels:
            _run(kernel, memory, [observer(kernel) for observer in observers])


def _run(kernel: Kernel, memory: dict[Buffer, Memory], others: Sequence[Watch]) -> None:
    blocks, step, profiles = prod(kernel.grid), _chunk(kernel), _PROFILES.get()
    counters = None if profiles is None else Counters(kernel)
    watches = (Races(kernel), *(() if counters is None else (counters,)), *others)
    for start in range(0, blocks if prod(kernel.block) else 0, step):
        numbers = range(start, min(start + step, blocks))
        Chunk(kernel, numbers, memory, watches).run(kernel.body)
    if counters is not None and profiles is not None:
        profiles.append(counters.profile())


def _chunk(kernel: Kernel) -> int:
    """How many blocks run at once."""
    allocated = buffers_in(kernel.body)
    own = sum(bytes_of(b) for b in allocated if not b.scope.startswith(SHARED))
    shared = sum(bytes_of(b) for b in allocated if b.scope.startswith(SHARED))
    threads = max(1, prod(kernel.block))
    return max(1, min(MOST_THREADS // threads, MOST_BYTES // (own * threads + shared + 1)))
