"""Launches: a kernel, the threads that run it, and the memory between kernels."""

from typing import NamedTuple

from minimlc.loops.ir.nodes import SHARED, THREAD, Buffer, Load, PrimFunc, Stmt, Store, Var
from minimlc.loops.ir.walks import buffers_in
from minimlc.loops.values.node import Node, node, walk

BLOCK = "blockIdx"
VIRTUAL = "vthread"
Sizes = tuple[int, int, int]
"""Sizes by x, y and z."""
Touch = Load | Store
"""An access to an element."""


def touches(item: Node) -> list[Touch]:
    """The loads and stores in a part of a kernel."""
    return [part for part in walk(item) if isinstance(part, Touch)]


def trimmed(sizes: Sizes) -> tuple[int, ...]:
    """Sizes without the ones at the end."""
    used = max((n for n, size in enumerate(sizes) if size != 1), default=0)
    return sizes[: used + 1]


def launch_text(grid: Sizes, block: Sizes) -> str:
    """The launch of a kernel in words: how many blocks of how many threads."""
    pairs = ((trimmed(grid), "block"), (trimmed(block), "thread"))
    return " of ".join(
        f"{' x '.join(map(str, shown))} {noun}{'s' * (shown != (1,))}" for shown, noun in pairs
    )


@node
class Barrier(Stmt):
    """All threads of a block come here before any goes on; `why` is what they wait for."""

    why: str


class Axis(NamedTuple):
    """An axis of a launch: its name (threadIdx.x), a thread's place on it, and its size."""

    name: str
    var: Var
    extent: int


class Kernel(NamedTuple):
    """The code of each thread. `params` are the buffers in global memory, the function's own
    first. Allocations in `body` are outside of thread-dependent code if the block shares them
    (scope "shared…"), else each thread has its own.
    """

    name: str
    params: tuple[Buffer, ...]
    axes: tuple[Axis, ...]
    body: Stmt

    @property
    def grid(self) -> Sizes:
        """The blocks of a launch."""
        return self._sizes(BLOCK)

    @property
    def block(self) -> Sizes:
        """The threads of a block."""
        return self._sizes(THREAD)

    @property
    def shared(self) -> tuple[Buffer, ...]:
        """The buffers that a block's threads share."""
        buffers = buffers_in(self.body)
        return tuple(buffer for buffer in buffers if buffer.scope.startswith(SHARED))

    def _sizes(self, kind: str) -> Sizes:
        known = {axis.name: axis.extent for axis in self.axes}
        x, y, z = (known.get(f"{kind}.{side}", 1) for side in "xyz")
        return x, y, z


class Launches(NamedTuple):
    """A function as kernels that run one after the other, and the global memory between them."""

    func: PrimFunc
    workspace: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
