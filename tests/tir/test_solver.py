"""The solver of linear equations and inequalities, beside all assignments of small unknowns."""

import random

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.proofs.arith import Sum, weighted
from minimlc.loops.proofs.solver import Limit, Undecided, is_possible, solution

FACTORS = [1, -1, 1, -1, 2, -2, 3, -4, 5, 6, -7, 8, 64, 65]


def drawn(rng: random.Random, unknowns: list[str]) -> Sum:
    chosen = rng.sample(unknowns, rng.randint(1, len(unknowns)))
    return Sum({unknown: rng.choice(FACTORS) for unknown in chosen}, rng.randint(-9, 9))


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


def within(total: Sum, low: int, high: int) -> list[Sum]:
    return [weighted((total, 1), constant=-low), weighted((total, -1), constant=high)]


def test_equations_with_a_solution_are_possible():
    wrong, denied = [], 0
    for number in range(2000):
        equations, bounds, others = question(number)
        limits = [Limit(total.terms, abs(total.constant)) for total in others]
        rows = [
            row for limit in limits for row in within(Sum(limit.terms), -limit.most, limit.most)
        ]
        possible = is_possible(equations, bounds, limits)
        denied += not possible
        if not possible and has_solution(equations, bounds, rows):
            wrong.append(number)
    assert not wrong
    assert denied > 1000  # most have no solution, and that is found


def test_inequalities_have_the_solution_that_is_given_or_none():
    for number in range(2000):
        equations, bounds, inequalities = question(number)
        rows = [row for unknown, ends in bounds.items() for row in within(Sum({unknown: 1}), *ends)]
        rows += [*inequalities, *[row for total in equations for row in within(total, 0, 0)]]
        try:
            found = solution(rows)
        except Undecided:
            continue
        assert (found is not None) == has_solution(equations, bounds, inequalities)
        if found is not None:
            at = {unknown: np.array(found.get(unknown, 0)) for unknown in bounds}
            assert all(values(total, at) >= 0 for total in rows)


CASES = {
    "a common divisor": ([Sum({"x": 4, "y": 6}, 3)], {"x": (-9, 9), "y": (-9, 9)}),
    "bounds that narrow": ([Sum({"x": 5, "y": -9})], {"x": (1, 8), "y": (-9, 9)}),
    "a radix that is not reached": (
        [Sum({"high": 16, "low": 1}), Sum({"high": 1, "far": -1})],
        {"high": (-3, 3), "low": (-15, 15), "far": (1, 3)},
    ),
    "strides that do not divide one another": (
        [Sum({"a": 1, "b": 8, "c": 65}), Sum({"a": 1, "far": -1})],
        {"a": (-7, 7), "b": (-7, 7), "c": (-7, 7), "far": (1, 7)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_impossible(name):
    assert not is_possible(*CASES[name])


@pytest.mark.parametrize(
    ("strides", "extents"),
    [
        ((65, 8, 1), (8000, 8, 8)),
        ((4100, 64, 1), (100, 64, 64)),
        ((4104, 64, 1), (100, 64, 64)),
        ((3701, 37, 1), (300, 100, 36)),
        ((50177, 224, 1), (64, 224, 224)),
        ((130, 8, 1), (8000, 16, 8)),
    ],
)
def test_rows_and_planes_of_a_flat_buffer_are_padded(strides, extents):
    """More iterations than are tried one by one: only a proof tells their elements apart."""
    size = strides[0] * extents[0]
    index = " + ".join(f"v{n} * {stride}" for n, stride in enumerate(strides))
    mod = mlc.parse(f"""
@T.prim_func
def main(y: T.Buffer(({size},), "float32")):
    for i, j, k in T.grid{extents}:
        with T.block("y"):
            v0, v1, v2 = T.axis.remap("SSS", [i, j, k])
            y[{index}] = T.float32(1)
""")
    assert mlc.verify(mod) is mod
