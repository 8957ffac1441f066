"""The solver of linear equations and inequalities, beside all assignments of small unknowns."""

import random
from itertools import product

import numpy as np
import pytest

from minimlc.loops.proofs import solver
from minimlc.loops.proofs.arith import Sum
from minimlc.loops.proofs.solver import Undecided, is_possible, solution, within

Terms = dict[str, int]


def drawn(rng: random.Random, unknowns: list[str]) -> Sum:
    chosen = rng.sample(unknowns, rng.randint(1, len(unknowns)))
    factors = [1, -1, 1, -1, 2, -2, 3, -4, 5, 6, -7, 8]
    return Sum({unknown: rng.choice(factors) for unknown in chosen}, rng.randint(-9, 9))


def question(number: int) -> tuple[list[Sum], dict[str, tuple[int, int]], list[Sum]]:
    """Equations, bounds and inequalities over two to five unknowns of up to eight values."""
    rng = random.Random(number)
    unknowns = list("abcde")[: rng.randint(2, 5)]
    lows = {unknown: rng.randint(-4, 2) for unknown in unknowns}
    bounds = {unknown: (low, low + rng.randint(0, 7)) for unknown, low in lows.items()}
    equations = [drawn(rng, unknowns) for _ in range(rng.randint(0, 3))]
    return equations, bounds, [drawn(rng, unknowns) for _ in range(rng.randint(0, 3))]


def values(total: Sum, grid: dict[str, np.ndarray]) -> np.ndarray:
    return total.constant + sum(c * grid[unknown] for unknown, c in total.terms.items())


def has_solution(equations, bounds, inequalities) -> bool:
    axes = np.meshgrid(*[np.arange(low, high + 1) for low, high in bounds.values()])
    grid = dict(zip(bounds, axes, strict=True))
    right = np.ones(axes[0].shape, bool)
    for total in equations:
        right &= values(total, grid) == 0
    for total in inequalities:
        right &= values(total, grid) >= 0
    return bool(right.any())


def test_no_solution_is_denied_and_most_are_decided():
    open_ones = 0
    for number in range(2000):
        asked = question(number)
        possible, known = is_possible(*asked), has_solution(*asked)
        assert possible or not known, asked
        open_ones += possible and not known
    assert open_ones == 0


def test_a_solution_fulfils_everything():
    for number in range(2000):
        equations, bounds, inequalities = question(number)
        rows = [row for u, ends in bounds.items() for row in within(Sum({u: 1}), *ends)]
        try:
            found = solution([*rows, *inequalities], equations)
        except Undecided:
            continue
        if found is not None:
            at = {unknown: np.array(found.get(unknown, 0)) for unknown in bounds}
            assert all(values(total, at) == 0 for total in equations)
            assert all(values(total, at) >= 0 for total in [*rows, *inequalities])


CASES = {
    "a common divisor": ([Sum({"x": 4, "y": 6}, 3)], {"x": (-9, 9), "y": (-9, 9)}, []),
    "no coefficient of 1": ([Sum({"x": 5, "y": -9})], {"x": (1, 8), "y": (-9, 9)}, []),
    "two bounds that leave a fraction": ([], {}, [Sum({"x": 5}, -1), Sum({"x": -5}, 4)]),
    "a radix that is not reached": (
        [Sum({"high": 16, "low": 1}), Sum({"high": 1, "far": -1})],
        {"high": (-3, 3), "low": (-15, 15), "far": (1, 3)},
        [],
    ),
    "an equation that two inequalities make": (
        [Sum({"a": 8, "b": 4, "c": 1})],
        {"a": (-4, 4), "b": (1, 1), "c": (-3, 3)},
        [],
    ),
    "values one by one": (
        [Sum({"a": -1, "b": -2, "c": 4, "d": 1}), Sum({"b": 1, "d": 1})],
        {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "d": (-3, 3)},
        [Sum({"a": 1, "b": 2}, -1), Sum({"a": -1, "b": -2}, 2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_impossible(name):
    assert not is_possible(*CASES[name])


def test_a_question_that_is_too_large_stays_open(monkeypatch):
    monkeypatch.setattr(solver, "MOST", 3)
    names = [f"x{n}" for n in range(6)]
    rows = [Sum({a: 1, b: -1}, -1) for a, b in product(names, names) if a != b]
    assert is_possible([], {}, rows)
