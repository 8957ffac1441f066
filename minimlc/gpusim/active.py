"""The threads that run a statement: all of a chunk of blocks, or those that a condition lets in."""

from functools import cached_property
from math import prod
from typing import Any

import numpy as np

WARP = 32
ALL = np.True_
"""The mask of all threads."""


class Active:
    """The threads that run, of `blocks` blocks of `width` threads each, full warps.

    `mask` marks them: of the shape of blocks by threads, or of one that broadcasts to it.
    """

    def __init__(self, blocks: int, width: int, mask: np.ndarray | np.bool_ = ALL):
        self.shape = (blocks, width)
        self.mask = mask

    @cached_property
    def threads(self) -> int:
        """How many threads run."""
        return self._count(self._warps.sum())

    @cached_property
    def warps(self) -> int:
        """How many warps have a thread that runs."""
        return self._count(self._warps.any(axis=1).sum())

    @cached_property
    def of_each_block(self) -> np.ndarray:
        """How many threads of each block run."""
        return np.broadcast_to(self.mask, self.shape).sum(axis=1)

    def those(self, values: Any) -> np.ndarray:
        """The values of the threads that run."""
        values = np.broadcast_to(values, self.shape)
        return values if self.mask is ALL else values[np.broadcast_to(self.mask, self.shape)]

    def where(self, condition: np.ndarray | np.bool_) -> "Active | None":
        """The threads for which a condition holds; None where there are none."""
        if np.ndim(condition) == 0:
            return self if condition else None
        mask = np.asarray(condition & self.mask)
        if not mask.any():
            return None
        return self if self.mask is ALL and mask.all() else Active(*self.shape, mask)

    @cached_property
    def _warps(self) -> np.ndarray:
        """The mask by warps; of one block, where all blocks are alike."""
        rows = self.mask.shape[0] if self.mask.ndim == 2 else 1
        return np.broadcast_to(self.mask, (rows, self.shape[1])).reshape(-1, WARP)

    def _count(self, count: int) -> int:
        return int(count) * prod(self.shape) // self._warps.size
