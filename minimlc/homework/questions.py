"""The inputs that a submission is tried on: each case with several kinds of numbers, by a seed."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minimlc.loops.values.errors import did_you_mean

if TYPE_CHECKING:
    from minimlc.homework.assignment import Assignment

Random = np.random.Generator
Numbers = Callable[[Random, np.ndarray], Any]

NUMBERS: dict[str, Numbers] = {
    "whole": lambda random, like: random.integers(-4, 6, like.shape),
    "normal": lambda random, like: random.standard_normal(like.shape),
    "large": lambda random, like: 1000 * random.standard_normal(like.shape),
    "tiny": lambda random, like: 1e-30 * random.standard_normal(like.shape),
    "equal": lambda random, like: np.full(like.shape, random.integers(1, 6)),
    "negative": lambda random, like: -1000 * (1 + random.random(like.shape)),
    "lowest": lambda random, like: np.finfo(like.dtype).min / 4 * (1 + random.random(like.shape)),
    "least": lambda random, like: np.full(like.shape, np.finfo(like.dtype).min),
}
"""Kinds of floats by name; "lowest" are near the least float, "least" are that float. Arrays of
other dtypes hold small whole numbers, whatever the kind.
"""

USUAL = ("whole", "normal")


class Question(NamedTuple):
    """The inputs of one call. `text` names the case, and the kind of numbers if it is unusual;
    each case has odd and even turns.
    """

    text: str
    turn: int
    inputs: list[np.ndarray]


def questions(assignment: "Assignment", seed: int) -> Iterator[Question]:
    """All questions: kind after kind, and each case of it, smallest first."""
    random = np.random.default_rng(seed)
    for turn, kind in enumerate(assignment.numbers):
        for number, case in enumerate(assignment.cases):
            text = f"({', '.join(map(str, case))})" + ("" if kind in USUAL else f", {kind} numbers")
            inputs = [filled(array, random, kind) for array in assignment.arrays(case)]
            yield Question(text, turn + number, inputs)


def filled(like: np.ndarray, random: Random, kind: str) -> np.ndarray:
    """An array of numbers of a kind, with the shape and dtype of `like`."""
    if like.dtype.kind == "b":
        return random.integers(0, 2, like.shape).astype(bool)
    if like.dtype.kind == "f":
        return np.asarray(NUMBERS[kind](random, like)).astype(like.dtype)
    return random.integers(0 if like.dtype.kind == "u" else -4, 6, like.shape).astype(like.dtype)


def wrong_numbers(kinds: Iterable[Any]) -> Iterator[str]:
    """Errors in the kinds of numbers that an assignment asks for."""
    for kind in kinds:
        if not isinstance(kind, str) or kind not in NUMBERS:
            yield f"there is no kind of numbers {kind!r:.60}: {did_you_mean(str(kind), NUMBERS)}"
