"""Bounds of index expressions from what guards say."""

from math import inf

from minimlc.tir.arith import Ranges
from minimlc.tir.nodes import Binary, Var, index


def test_a_guard_on_a_sum_bounds_each_of_its_variables():
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: 8, j: 4}).assume(Binary("<", i * 4 + j, index(10)))
    assert ranges.bounds(i) == (0, 2)
    assert ranges.bounds(j) == (0, 3)
    assert ranges.bounds(i * 4 + j) == (0, 9)


def test_a_guard_from_below_does_too():
    i, j = Var("i"), Var("j")
    ranges = Ranges({i: 8, j: 4}).assume(Binary(">=", i * 4 - j, index(5)))
    assert ranges.bounds(i) == (2, 7)


def test_a_variable_of_which_nothing_is_known_bounds_no_other():
    i, k = Var("i"), Var("k")
    ranges = Ranges({i: 8}).assume(Binary("<", i + k, index(3)))
    assert ranges.bounds(i) == (0, 7)
    assert ranges.bounds(k) == (-inf, 2)
