"""Memory for what compiled code reads: from a cache line on, and if large, in huge pages."""

import ctypes
import sys
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from threading import Thread
from typing import Any

import numpy as np

LINE = 64
"""Bytes of a line of the caches."""
PAGE = 2**21
"""Bytes of a huge page."""
LARGE = 2**19
"""Bytes of an array that is moved to huge pages."""
DELAY = 1.0
"""Seconds for what comes right after a build, maybe another one, which would wait for the system's
lock on the process's memory.
"""
COLLAPSE = 25
"""Linux's MADV_COLLAPSE: copy what small pages hold into huge ones, now."""


def memory(size: int) -> np.ndarray:
    """Fresh bytes that begin on a cache line."""
    found = np.empty(size + LINE, np.uint8)
    start = -found.ctypes.data % LINE
    return found[start : start + size]


def on_a_line(array: np.ndarray) -> np.ndarray:
    """The array, or a copy that begins on a cache line: to load a vector from two takes longer."""
    if array.ctypes.data % LINE == 0 and array.flags.c_contiguous:
        return array
    new = memory(array.nbytes).view(array.dtype).reshape(array.shape)
    new[...] = array
    return new


def make_pages_huge(arrays: Iterable[np.ndarray]) -> None:
    """Have the system move large arrays to huge pages, beside this thread and not at once: a
    processor finds their bytes in less time, but to make room for such pages can take 0.1 s.
    """
    large = [weakref.ref(array) for array in arrays if array.nbytes >= LARGE]
    if large and sys.platform == "linux":
        with suppress(RuntimeError):  # no thread can be started
            Thread(target=_collapse, args=(large,), daemon=True).start()


def _collapse(large: Iterable["weakref.ref[np.ndarray]"]) -> None:
    """Of the arrays that are still there after a while: a library may be gone by then."""
    time.sleep(DELAY)
    advise = ctypes.CDLL(None).madvise
    arrays = [array for each in large if (array := each()) is not None]
    ends = [(each.ctypes.data, each.ctypes.data + each.nbytes) for each in arrays]
    pages = {page for start, end in ends for page in range(start // PAGE, -(-end // PAGE))}
    for page in sorted(pages):
        advise(ctypes.c_void_p(page * PAGE), ctypes.c_size_t(PAGE), COLLAPSE)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, or of what DLPack alone shares; None for what is neither."""
    if isinstance(value, type):
        return None
    if not hasattr(value, "shape") and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value).shape
    return getattr(value, "shape", None)
