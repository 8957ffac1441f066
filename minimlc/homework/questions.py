"""What a submission is tried on: each case with several kinds of numbers, by a seed."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minimlc.errors import did_you_mean

if TYPE_CHECKING:
    from minimlc.homework.assignment import Assignment

Random = np.random.Generator
Numbers = Callable[[Random, tuple[int, ...]], Any]

NUMBERS: dict[str, Numbers] = {
    "whole": lambda random, shape: random.integers(-4, 6, shape),
    "normal": lambda random, shape: random.standard_normal(shape),
    "large": lambda random, shape: 1000 * random.standard_normal(shape),
    "tiny": lambda random, shape: 1e-30 * random.standard_normal(shape),
    "negative": lambda random, shape: -1000 * (1 + random.random(shape)),
    "equal": lambda random, shape: np.full(shape, random.integers(1, 6)),
}
"""Kinds of floats by name. Other arrays have small whole numbers, whatever the kind."""

USUAL = ("whole", "normal")


class Question(NamedTuple):
    """The inputs of one call. `text` names the case, and the numbers where they are unusual."""

    text: str
    case: tuple[int, ...]
    inputs: list[np.ndarray]


def questions(assignment: "Assignment", seed: int) -> Iterator[Question]:
    """All questions: kind after kind, and each case of it, smallest first."""
    random = np.random.default_rng(seed)
    for kind in assignment.numbers:
        for case in assignment.cases:
            text = f"({', '.join(map(str, case))})" + ("" if kind in USUAL else f", {kind} numbers")
            inputs = [filled(array, random, kind) for array in assignment.arrays(case)]
            yield Question(text, case, inputs)


def filled(like: np.ndarray, random: Random, kind: str) -> np.ndarray:
    """Numbers of a kind, of an array's shape and dtype."""
    if like.dtype.kind == "b":
        return random.integers(0, 2, like.shape).astype(bool)
    if like.dtype.kind == "f":
        return np.asarray(NUMBERS[kind](random, like.shape)).astype(like.dtype)
    return random.integers(0 if like.dtype.kind == "u" else -4, 6, like.shape).astype(like.dtype)


def check_numbers(kinds: Iterable[Any]) -> str:
    """What is wrong with the kinds of numbers that an assignment asks for; "" if nothing is."""
    for kind in kinds:
        if not isinstance(kind, str) or kind not in NUMBERS:
            return f"no kind of numbers {kind!r:.60}: {did_you_mean(str(kind), NUMBERS)}"
    return ""
