"""Expected and actual results: where they first differ, and whether inputs were left alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SHOWN = 24
"""The largest number of elements of an array that a counter-example shows."""


@dataclass(frozen=True)
class Outcome:
    """One question: the inputs before and after, the expected result and the actual one.
    `touched()` gives what was read before it was written, and which elements of the result were
    written.
    """

    text: str
    inputs: Sequence[np.ndarray]
    after: Sequence[np.ndarray]
    expected: np.ndarray
    got: np.ndarray
    touched: Callable[[], tuple[str, np.ndarray | None]] = lambda: ("", None)


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
        right = f"{expected.dtype} {expected.shape}"
        return f"{what}: the result is {got.dtype} {got.shape}, not {right}"
    same = np.atleast_1d(_same(got, expected, tolerance))
    if same.all():
        return ""
    place = tuple(int(n) for n in np.argwhere(~same)[0])
    at = ", ".join(map(str, place[: expected.ndim]))
    first, second = np.atleast_1d(expected)[place], np.atleast_1d(got)[place]
    early, written = outcome.touched()
    lines = [f"{what}: element [{at}] is {second}; expected {first}"]
    if early:
        lines = [f"{what}: {early}", f"element [{at}] has no value then; expected {first}"]
    elif written is not None and not np.atleast_1d(written)[place]:
        lines[0] += " (nothing was written there)"
    for number, array in enumerate(outcome.inputs):
        if array.size <= SHOWN:
            lines.append(f"input {number} = {_shown(array)}")
    if expected.size <= SHOWN:
        lines += [f"expected {_shown(expected)}", f"got {_shown(got)}"]
    return "\n".join(lines)


def _shown(array: np.ndarray) -> str:
    return np.array2string(array, precision=4, separator=", ").replace("\n", "")


def alike(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two arrays have one shape and dtype and the same elements, up to a tolerance."""
    return (a.shape, a.dtype) == (b.shape, b.dtype) and bool(_same(a, b, tolerance).all())


def _same(a: np.ndarray, b: np.ndarray, tolerance: float) -> np.ndarray:
    """A mask of equal elements: floats up to a tolerance, and NaN equals NaN."""
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        return np.asarray(np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
