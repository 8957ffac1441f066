"""Whether a program's results depend on what its own buffers hold before they are written."""

from collections.abc import Callable
from unittest.mock import patch

import numpy as np

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.values.dtypes import integer_range, is_float, to_numpy
from tests.fuzz.subject import Subject, alike
from tests.helpers import copies


def reads_undefined(known: Subject) -> bool:
    """Whether results depend on what an allocated buffer holds before it is written: tried with
    small numbers, and with large ones of either sign, which no minimum or maximum hides.
    """
    rng = np.random.default_rng(0)

    def small(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return rng.integers(0, 2 if dtype == "bool" else 127, shape).astype(to_numpy(dtype))

    def high(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.full(shape, _extremes(dtype)[1]).astype(to_numpy(dtype))

    def low(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return np.full(shape, _extremes(dtype)[0]).astype(to_numpy(dtype))

    return any(_changes(known, other) for other in (small, high, low))


def _extremes(dtype: str) -> tuple[float, float]:
    if is_float(dtype):
        return -3e4, 3e4
    return (0, 1) if dtype == "bool" else integer_range(dtype)


def _changes(known: Subject, other: Callable[[tuple[int, ...], str], np.ndarray]) -> bool:
    for arrays, expected in zip(known.inputs, known.expected, strict=True):
        got = copies(arrays)
        with patch("minimlc.loops.interpreter.execute.poison", other):
            interpret(known.mod, "main", *got)
        if not all(alike(a, b, exact=True) for a, b in zip(got, expected, strict=True)):
            return True
    return False
