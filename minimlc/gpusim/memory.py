"""Where the elements of buffers are: in global memory, in a block's, or in a thread's own."""

from math import prod

import numpy as np

from minimlc.gpusim.active import Active
from minimlc.gpusim.values import Value
from minimlc.loops.interpreter.elements import poison
from minimlc.loops.ir.nodes import SCALAR, SHARED, Buffer
from minimlc.targets.gpu.kernels import Kernel


class Memory:
    """The elements of a buffer as one array, `data`: for each of its copies at `start` (a value for
    each thread), element `e` is `e * step` from there.
    """

    def __init__(self, data: np.ndarray, start: Value = 0, step: int = 1):
        self.data = data
        self.start = start
        self.step = step

    def at(self, element: Value) -> Value:
        """Where each thread finds an element."""
        return self.start + element * self.step

    def load(self, element: Value, active: Active) -> Value:
        """The value of an element for each thread."""
        return self.data[self.at(element)]

    def store(self, element: Value, value: Value, active: Active) -> None:
        """Write one element for each active thread."""
        self.data[active.those(self.at(element))] = active.those(value)


class Registers(Memory):
    """Elements that each thread has for itself; what all access at once is in one row."""

    def load(self, element: Value, active: Active) -> Value:
        return super().load(element, active) if np.ndim(element) else self._row(element, active)

    def store(self, element: Value, value: Value, active: Active) -> None:
        if np.ndim(element):
            super().store(element, value, active)
        else:
            np.copyto(self._row(element, active), value, where=active.mask)

    def _row(self, element: Value, active: Active) -> np.ndarray:
        return self.data[element * self.step :][: self.step].reshape(active.shape)


Memories = dict[Buffer, Memory]


def in_chunk(buffer: Buffer, blocks: int, width: int) -> Memory:
    """A buffer of a kernel in a chunk of blocks: each block has it, or each thread."""
    size = prod(buffer.shape)
    if buffer.scope.startswith(SHARED):
        start = np.arange(blocks).reshape(-1, 1) * size
        return Memory(poison((blocks * size,), buffer.dtype), start)
    lanes = blocks * width
    start = np.arange(lanes).reshape(blocks, width)
    return Registers(poison((size * lanes,), buffer.dtype), start, lanes)


def space_of(buffer: Buffer, kernel: Kernel) -> str:
    """Which memory a buffer is in: "global", "shared", or "" for registers and parameters."""
    if buffer.scope.startswith(SHARED):
        return SHARED
    return "global" if buffer in kernel.params and buffer.scope != SCALAR else ""
