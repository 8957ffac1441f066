"""Bounds of integer expressions hold for every value of their variables."""

import random

import pytest

from minimlc.loops.ir.nodes import Binary, Const, Unary, Var, index
from minimlc.loops.ir.values import binary_value, unary_value
from minimlc.targets.source.interval import Intervals

OPERATORS = ("+", "-", "*", "//", "%", "min", "max", "&", "|", "^")
NUMBERS = (-7, -1, 0, 1, 2, 3, 5, 8, 31, 2**62)


def drawn(rng, variables, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*variables, index(rng.choice(NUMBERS))])
    if rng.random() < 0.1:
        return Unary(rng.choice("-~"), drawn(rng, variables, depth - 1))
    op = rng.choice(OPERATORS)
    return Binary(op, *(drawn(rng, variables, depth - 1) for _ in range(2)))


def value(item, values):
    match item:
        case Var():
            return values[item]
        case Const(number):
            return number
        case Unary(op, a):
            return unary_value(op, "int64")(value(a, values))
        case Binary(op, a, b):
            return binary_value(op, "int64")(value(a, values), value(b, values))
        case _:
            raise TypeError(item)


@pytest.mark.parametrize("seed", range(4))
def test_values_are_within_their_bounds(seed):
    rng = random.Random(seed)
    for _ in range(1000):
        variables = [Var("i"), Var("j")]
        bounds = Intervals()
        lows = [rng.randint(-9, 4) for _ in variables]
        pairs = zip(variables, lows, strict=True)
        bounds.ranges = {var: (low, low + rng.randint(0, 9)) for var, low in pairs}
        item = drawn(rng, variables, 3)
        low, high = bounds.interval(item)
        for _ in range(10):
            values = {var: rng.randint(*bounds.ranges[var]) for var in variables}
            try:
                assert low <= value(item, values) <= high, (item, values)
            except ZeroDivisionError:
                continue
