"""Expected and actual results: where they differ first, and whether inputs were left alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SHOWN = 24
"""Arrays of at most so many elements are shown in a counter-example."""


@dataclass(frozen=True)
class Outcome:
    """One question: the inputs before and after, the expected result and what came."""

    text: str
    inputs: Sequence[np.ndarray]
    after: Sequence[np.ndarray]
    expected: np.ndarray
    got: np.ndarray


def changed(outcome: Outcome) -> str:
    for number, (before, after) in enumerate(zip(outcome.inputs, outcome.after, strict=True)):
        if not alike(after, before, 0.0):
            return f"input {number} was changed, for {outcome.text}"
    return ""


def wrong(outcome: Outcome, tolerance: float) -> str:
    """The first element that differs, with the inputs where they are small."""
    expected, got = outcome.expected, outcome.got
    what = f"for {outcome.text}"
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        wanted = f"{expected.dtype} {expected.shape}"
        return f"{what}: the result is {got.dtype} {got.shape}, not {wanted}"
    if alike(got, expected, tolerance):
        return ""
    same = np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    place = tuple(int(n) for n in np.argwhere(~np.atleast_1d(same))[0])
    at = ", ".join(map(str, place[: expected.ndim]))
    first, second = np.atleast_1d(expected)[place], np.atleast_1d(got)[place]
    lines = [f"{what}: element [{at}] is {second}; expected {first}"]
    if _is_poison(second) and not _is_poison(first):
        lines[0] += " (nothing was written there)"
    for number, array in enumerate(outcome.inputs):
        if array.size <= SHOWN:
            lines.append(f"input {number} = {_shown(array)}")
    if expected.size <= SHOWN:
        lines += [f"expected {_shown(expected)}", f"got {_shown(got)}"]
    return "\n".join(lines)


def _is_poison(value: Any) -> bool:
    return bool(value != value)


def _shown(array: np.ndarray) -> str:
    return np.array2string(array, precision=4, separator=", ").replace("\n", "")


def alike(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if a.dtype.kind != "f" or tolerance == 0.0:
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
