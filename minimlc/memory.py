"""Memory for what compiled code reads: from a cache line on, and large constants in huge pages."""

import ctypes
import mmap
import sys
from collections.abc import Iterable, Sequence
from math import prod
from threading import Thread
from weakref import ref

import numpy as np

LINE = 64
"""Bytes of a line of the caches."""
PAGE, AREA = 2**21, 2**23
"""Bytes of a huge page, and of what is taken from the system at a time."""
SHARED = range(2**19, 2**22)
"""Bytes of a constant in an area. From 4 MiB on, numpy asks for huge pages by itself."""
COLLAPSE = 25
"""Linux's MADV_COLLAPSE: copy what small pages hold into huge ones, now."""

_rooms: list[np.ndarray] = []
"""What is left of the last area; who takes it has it alone."""
_small: list[tuple[int, int, "ref[np.ndarray]"]] = []
"""What lies in small pages: where it begins and ends, and the area."""


def memory(size: int) -> np.ndarray:
    """Fresh bytes that begin on a cache line."""
    found = np.empty(size + LINE, np.uint8)
    start = -found.ctypes.data % LINE
    return found[start : start + size]


def array_for(shape: Iterable[int], dtype: np.dtype) -> np.ndarray:
    """A fresh array for a constant, which begins on a cache line. A large one lies beside others,
    for `make_pages_huge`.
    """
    sizes = tuple(shape)
    size = prod(sizes) * dtype.itemsize
    shared = size in SHARED and sys.platform == "linux"
    return (_of_an_area if shared else memory)(size).view(dtype).reshape(sizes)


def on_a_line(array: np.ndarray) -> np.ndarray:
    """The array, or a copy that begins on a cache line: to load a vector from two takes longer."""
    if array.ctypes.data % LINE == 0 and array.flags.c_contiguous:
        return array
    new = array_for(array.shape, array.dtype)
    new[...] = array
    return new


def _of_an_area(size: int) -> np.ndarray:
    try:
        room = _rooms.pop()
    except IndexError:
        room = np.empty(0, np.uint8)
    if len(room) < size:
        area = mmap.mmap(-1, AREA + PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        room = np.frombuffer(area, np.uint8)
        room = room[-room.ctypes.data % PAGE :][:AREA]
        _small[:] = [each for each in _small if each[2]() is not None]
    start = room.ctypes.data
    assert room.base is not None
    _small.append((start // PAGE * PAGE, -(-(start + size) // PAGE) * PAGE, ref(room.base)))
    _rooms[:] = [room[-(-size // LINE) * LINE :]]
    return room[:size]


def make_pages_huge() -> None:
    """Have the system move large constants to huge pages, beside this thread: a processor finds
    their bytes in less time, but to make room for such pages may take it 0.1 s.
    """
    areas = [(start, end, area) for start, end, at in _small if (area := at()) is not None]
    _small.clear()
    if areas:
        Thread(target=_collapse, args=(areas,), daemon=True).start()


def _collapse(areas: Sequence[tuple[int, int, np.ndarray]]) -> None:
    advise = ctypes.CDLL(None).madvise
    for start, end, _ in areas:
        advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), COLLAPSE)
