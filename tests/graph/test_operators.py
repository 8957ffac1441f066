"""Python's operators on graph values are operators' calls, or one error that names the call."""

import operator

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import R
from tests.helpers import refuses

X, Y = (mlc.Var(name, R.Tensor((4, 4), "float32")) for name in "xy")
T = mlc.Var("t", R.Tuple(X.type, Y.type))
ONE = 'R.const(1.0, "float32")'


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: X + Y, "R.add(x, y)"),
        (lambda: 1 - X, f"R.subtract({ONE}, x)"),
        (lambda: X @ Y, "R.matmul(x, y)"),
        (lambda: X**1, f"R.power(x, {ONE})"),
        (lambda: 1**X, f"R.power({ONE}, x)"),
        (lambda: -X, "R.negative(x)"),
        (lambda: abs(X), "R.abs(x)"),
        (lambda: X < Y, "R.less(x, y)"),
        (lambda: X <= 1, f"R.less_equal(x, {ONE})"),
        (lambda: X > Y, "R.greater(x, y)"),
        (lambda: X >= 1, f"R.greater_equal(x, {ONE})"),
        (lambda: T[1], "t[1]"),
        (lambda: np.float32(1) * X, f"R.multiply({ONE}, x)"),
        (lambda: np.float64(1) - X, f"R.subtract({ONE}, x)"),
        (lambda: np.int64(1) / X, f"R.divide({ONE}, x)"),
    ],
)
def test_an_operator_is_a_call(made, text):
    assert str(made()).strip() == text


def test_equality_is_identity():
    assert X == X and X != Y and len({X, Y, X}) == 2


def test_a_tuple_is_unpacked():
    first, second = T
    assert (first.index, second.index) == (0, 1)
    refuses("E201", lambda: T[2], "t[1]")


@pytest.mark.parametrize("index", [-1, slice(0, 2), (0, 1), "a"], ids=str)
def test_a_tensor_is_not_indexed(index):
    refuses("E201", lambda: operator.getitem(X, index), "mlc.op.take(x, np.array(")


def test_the_lines_to_try_run():
    assert mlc.op.take(X, np.array(3), axis=0).shape == (4,)
    assert mlc.op.strided_slice(X, (0,), (1,)).shape == (1, 4)
    assert mlc.op.multiply(mlc.constant(np.ones(4), "float32"), X).shape == (4, 4)


def test_what_a_comparison_gives_is_not_known_yet():
    refuses("E112", lambda: 0 < X < 1, "mlc.op.where")


def test_a_vector_has_one_axis():
    vector = mlc.Var("v", R.Tensor((3,), "float32"))
    refuses("E203", lambda: X @ vector, "x's last axis is 4, w's only one is 3")
