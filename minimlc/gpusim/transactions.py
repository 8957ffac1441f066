"""The transactions of the memory system for one access by the threads of a warp.

Global memory moves sectors of 32 bytes: each that a warp touches is moved once for a request.
Shared memory has 32 banks of 4 bytes, which serve one word each in a wavefront; threads that want
the same word share it. Accesses of 8 bytes go by half-warps, of 16 by quarter-warps; loads by twice
as many threads where each has the address of its neighbour, or each that of the next but one. After
NVIDIA, "CUDA C++ Best Practices Guide" (coalesced access, shared memory and memory banks) and
"Nsight Compute: Kernel Profiling Guide" (requests, sectors, wavefronts); the rule of twice as many
was found by the profiler on an H200, where it holds for each of 270 patterns of loads, and for none
of stores (tests/gpusim/test_hardware.py).
"""

from typing import NamedTuple

import numpy as np

from minimlc.gpusim.active import WARP, Active
from minimlc.gpusim.values import Value

SECTOR = 32
WORD = 4
BANKS = 32
LINE = WORD * BANKS
WIDEST = 16
"""The most bytes that one instruction accesses for a thread."""


class Warps(NamedTuple):
    """The bytes' addresses, one row per warp, -1 for threads that do not run; so many times."""

    addresses: np.ndarray
    times: int

    def first(self) -> tuple[int, ...]:
        """The addresses of the first request."""
        busy = (self.addresses >= 0).any(axis=1)
        return tuple(self.addresses[np.argmax(busy)].tolist())

    @property
    def requests(self) -> int:
        """Warps with a thread that runs."""
        return int((self.addresses >= 0).any(axis=1).sum()) * self.times

    @property
    def sectors(self) -> int:
        """Sectors of global memory."""
        ordered = np.sort(self.addresses // SECTOR, axis=1)
        return int(_distinct(ordered).sum()) * self.times

    def wavefronts(self, size: int, *, loads: bool) -> tuple[int, int]:
        """Wavefronts of shared memory, for `size` bytes a thread; and without bank conflicts."""
        groups = together(self.addresses, size, loads=loads)
        parts = [_wavefronts(self.addresses[groups == group], size, group) for group in set(groups)]
        most, least = (sum(numbers) * self.times for numbers in zip(*parts, strict=True))
        return most, least


def together(rows: np.ndarray, size: int, *, loads: bool) -> np.ndarray:
    """How many threads of each warp shared memory serves together, at `size` bytes a thread."""
    group = min(WARP, LINE // size)
    return np.where(_paired(rows) & (loads and group < WARP), 2 * group, group)


def _paired(rows: np.ndarray) -> np.ndarray:
    """Where each thread has the address of its neighbour, or each that of the next but one; those
    that do not run have any.
    """
    one, other = rows[:, np.newaxis], rows[:, np.arange(WARP) ^ [[1], [2]]]
    return ((one == other) | (one < 0) | (other < 0)).all(axis=2).any(axis=1)


def _wavefronts(rows: np.ndarray, size: int, group: int) -> tuple[int, int]:
    """Wavefronts of groups of threads: the most words of a bank in each; and how many groups."""
    first = rows.reshape(-1, group, 1)
    words = first // WORD + np.arange(max(1, size // WORD))
    words = np.sort(np.where(first < 0, -1, words).reshape(len(first), -1), axis=1)
    new = _distinct(words)
    numbers, _ = np.nonzero(new)
    banks = np.bincount(numbers * BANKS + words[new] % BANKS, minlength=len(words) * BANKS)
    most = banks.reshape(-1, BANKS).max(axis=1)
    return int(most.sum()), int((most > 0).sum())


def by_warps(addresses: Value, active: Active) -> Warps:
    """Accesses by warps. Blocks that all do the same, one or more lines apart, are taken once."""
    mask = active.mask
    shape = np.broadcast_shapes(np.shape(addresses), np.shape(mask), (1, active.shape[1]))
    addresses = np.broadcast_to(addresses, shape)
    if shape[0] > 1 and (mask.ndim < 2 or mask.shape[0] == 1):
        apart = addresses - addresses[:, :1] // LINE * LINE
        addresses = addresses[:1] if (apart == apart[0]).all() else addresses
    rows = np.where(mask, addresses, -1).reshape(-1, WARP)
    return Warps(rows, active.shape[0] * active.shape[1] // rows.size)


def _distinct(ordered: np.ndarray) -> np.ndarray:
    """Where a row, in order, has a new number other than -1."""
    return np.diff(ordered, axis=1, prepend=-1) > 0
