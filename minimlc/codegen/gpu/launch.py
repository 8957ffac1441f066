"""What is launched: a kernel, how many threads run it, and the memory between kernels."""

from typing import NamedTuple

from minimlc.node import node
from minimlc.tir.analysis.threads import SHARED, THREAD
from minimlc.tir.nodes import Alloc, Buffer, PrimFunc, Stmt, Var
from minimlc.tir.walks import statements_in

BLOCK = "blockIdx"
VIRTUAL = "vthread"


@node
class Barrier(Stmt):
    """All threads of a block come here before any goes on; `why` says what they wait for."""

    why: str


class Axis(NamedTuple):
    """An axis of a launch: its name (threadIdx.x), a thread's place on it, and its size."""

    name: str
    var: Var
    extent: int


class Kernel(NamedTuple):
    """What each thread runs. `params` are the buffers in global memory, those of the function
    first. Allocations in `body` are outside of what differs by thread if the block shares them
    (scope "shared…"), else each thread has its own.
    """

    name: str
    params: tuple[Buffer, ...]
    axes: tuple[Axis, ...]
    body: Stmt

    @property
    def grid(self) -> tuple[int, int, int]:
        """The blocks of a launch, by x, y and z."""
        return self._sizes(BLOCK)

    @property
    def block(self) -> tuple[int, int, int]:
        """The threads of a block, by x, y and z."""
        return self._sizes(THREAD)

    @property
    def shared(self) -> tuple[Buffer, ...]:
        """The buffers that a block's threads share."""
        found = (part.buffer for part in statements_in(self.body) if isinstance(part, Alloc))
        return tuple(buffer for buffer in found if buffer.scope.startswith(SHARED))

    def _sizes(self, kind: str) -> tuple[int, int, int]:
        known = {axis.name: axis.extent for axis in self.axes}
        x, y, z = (known.get(f"{kind}.{side}", 1) for side in "xyz")
        return x, y, z


class Launches(NamedTuple):
    """A function as kernels that run one after the other, and the global memory between them."""

    func: PrimFunc
    workspace: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
