"""Operators of several tensors, element by element, with numpy's broadcasting."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.graphs.ops.checks import ALL, BOOL, FLOATS, INTEGERS, NUMBERS
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.values import Values, along, pointwise
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import Expr, as_expr, binary, intrin, select
from minimlc.loops.values.dtypes import is_float

_ROUND = "element by element, with broadcasting."


def _binary(
    name: str,
    symbol: str,
    doc: str,
    meaning: Callable[..., Any],
    dtypes: tuple[str, ...] = NUMBERS,
    gives: str = "",
) -> Op:
    """An operator that is one binary operation of the loop IR."""

    def formula(x: Values, y: Values) -> Values:
        return pointwise(lambda a, b: binary(symbol, a, b), x, y, gives=gives)

    return primitive(name, dtypes, meaning, f"{doc}, {_ROUND}")(formula)


def _first_where(holds: Callable[..., Any]) -> Callable[..., Any]:
    """x where that holds or x is not a number, else y: also of zeros, as the loop IR chooses."""
    return lambda x, y: np.where(holds(x, y) | (x != x), x, y)


_greater, _lesser = _first_where(np.greater_equal), _first_where(np.less_equal)

add = _binary("add", "+", "x + y", np.add)
subtract = _binary("subtract", "-", "x - y", np.subtract)
multiply = _binary("multiply", "*", "x * y", np.multiply)
divide = _binary("divide", "/", "x / y", np.divide, FLOATS)
maximum = _binary("maximum", "max", "The greater of x and y; NaN if one is NaN", _greater)
minimum = _binary("minimum", "min", "The lesser of x and y; NaN if one is NaN", _lesser)
equal = _binary("equal", "==", "Whether x == y", np.equal, ALL, "bool")
not_equal = _binary("not_equal", "!=", "Whether x != y", np.not_equal, ALL, "bool")
less = _binary("less", "<", "Whether x < y", np.less, NUMBERS, "bool")
less_equal = _binary("less_equal", "<=", "Whether x <= y", np.less_equal, NUMBERS, "bool")
greater = _binary("greater", ">", "Whether x > y", np.greater, NUMBERS, "bool")
greater_equal = _binary("greater_equal", ">=", "Whether x >= y", np.greater_equal, NUMBERS, "bool")
logical_and = _binary("logical_and", "and", "Whether both hold", np.logical_and, BOOL)
logical_or = _binary("logical_or", "or", "Whether x or y holds", np.logical_or, BOOL)
logical_xor = _binary("logical_xor", "!=", "Whether one holds alone", np.logical_xor, BOOL, "bool")
bitwise_and = _binary("bitwise_and", "&", "The bits that x and y share", np.bitwise_and, INTEGERS)
bitwise_or = _binary("bitwise_or", "|", "The bits of x and of y", np.bitwise_or, INTEGERS)
bitwise_xor = _binary("bitwise_xor", "^", "The bits of one alone", np.bitwise_xor, INTEGERS)
left_shift = _binary("left_shift", "<<", "x * 2**y, as bits", np.left_shift, INTEGERS)
right_shift = _binary("right_shift", ">>", "x // 2**y, as bits", np.right_shift, INTEGERS)


def _division(name: str, symbol: str, doc: str, meaning: Callable[..., Any]) -> Op:
    """A division that rounds down; by an integer 0 it gives 0, as numpy's."""

    def divided(a: Any, b: Any) -> Expr:
        a, b = as_expr(a, getattr(b, "dtype", None)), as_expr(b, getattr(a, "dtype", None))
        if is_float(b.dtype):
            return binary(symbol, a, b)
        zero, one, by_zero = as_expr(0, b.dtype), as_expr(1, b.dtype), binary("==", b, 0)
        return select(by_zero, zero, binary(symbol, a, select(by_zero, one, b)))

    text = f"{doc}, {_ROUND[:-1]}; 0 where an integer y is 0."
    return primitive(name, NUMBERS, meaning, text)(lambda x, y: pointwise(divided, x, y))


floor_divide = _division("floor_divide", "//", "x / y, rounded down", np.floor_divide)
mod = _division("mod", "%", "x - y * (x / y, rounded down)", np.remainder)


@primitive("power", FLOATS, INTRINSICS["pow"].meaning)
def power(x: Values, y: Values) -> Values:
    """x to the power of y, element by element, with broadcasting."""
    return pointwise(lambda a, b: intrin("pow", a, b), x, y)


@primitive("where", ALL, np.where, param_dtypes=(("condition", BOOL),))
def where(condition: Values, x: Values, y: Values) -> Values:
    """x where the condition holds, else y, element by element, with broadcasting."""
    return pointwise(select, condition, x, y)


def _bias_add(x: Any, bias: Any, *, axis: int = 1) -> Any:
    """x + bias, with an element of bias for each place along `axis`."""
    return x + along(bias, axis, x)


bias_add = composite("bias_add", _bias_add, dtypes=NUMBERS, rounds=False)


@primitive("ewise_fma", NUMBERS, lambda x, y, z: x * y + z, rounds=True)
def ewise_fma(x: Values, y: Values, z: Values) -> Values:
    """x * y + z, element by element, with broadcasting."""
    return pointwise(lambda a, b, c: a * b + c, x, y, z)
