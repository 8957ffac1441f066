"""Memory for compiled code: arrays that begin on a cache line."""

from typing import Any

import numpy as np

LINE = 64
"""Bytes of a line of the caches."""


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


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array, or of an object with DLPack alone; None for anything else."""
    if isinstance(value, type):
        return None
    if not hasattr(value, "shape") and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value).shape
    return getattr(value, "shape", None)
