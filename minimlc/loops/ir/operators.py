"""The operators of the loop IR, one record each: what they apply to, and what they mean.

A record's meaning is that of exact numbers; `values` adds the rounding and wrapping of dtypes.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.values.dtypes import dtype_record, integer_range, is_float
from minimlc.loops.values.errors import CompileError


class Operator(NamedTuple):
    """`scalar` computes with two Python ints or bools, `array` with numpy's arrays.

    `refuses` gives advice for each kind of dtype that the operator does not apply to. `opposite` is
    the comparison that holds where this one does not (of numbers other than NaN). `reduces`:
    associative and commutative, floating point up to rounding.
    """

    symbol: str
    scalar: Callable[[Any, Any], Any]
    array: Callable[[Any, Any], Any]
    refuses: Mapping[str, str]
    opposite: str = ""
    reduces: bool = False


def maximum(a: Any, b: Any) -> Any:
    """The greater one; NaN where one is NaN."""
    return a if a >= b or a != a else b


def minimum(a: Any, b: Any) -> Any:
    """The lesser one; NaN where one is NaN."""
    return a if a <= b or a != a else b


_ANY: Mapping[str, str] = {}
_NUMBERS = {"bool": 'cast to a number first, for example T.cast(x, "int32")'}
_FLOATS = dict.fromkeys(
    ("int", "uint", "bool"), "use // for integers, or cast to a float dtype first"
)
_CONDITIONS = dict.fromkeys(("float", "int", "uint"), "compare first, for example x > 0")
_BITS = {"float": "bit operations need integers"}
_COUNTS = {**_BITS, "bool": "shifts need integers"}

_ARITHMETIC = (
    Operator("+", operator.add, np.add, _NUMBERS, reduces=True),
    Operator("-", operator.sub, np.subtract, _NUMBERS),
    Operator("*", operator.mul, np.multiply, _NUMBERS, reduces=True),
    Operator("/", operator.truediv, np.divide, _FLOATS),
    Operator("//", operator.floordiv, np.floor_divide, _NUMBERS),
    Operator("%", operator.mod, np.remainder, _NUMBERS),
    Operator("min", minimum, np.minimum, _ANY, reduces=True),
    Operator("max", maximum, np.maximum, _ANY, reduces=True),
)
_COMPARISONS = (
    Operator("==", operator.eq, np.equal, _ANY, opposite="!="),
    Operator("!=", operator.ne, np.not_equal, _ANY, opposite="=="),
    Operator("<", operator.lt, np.less, _ANY, opposite=">="),
    Operator("<=", operator.le, np.less_equal, _ANY, opposite=">"),
    Operator(">", operator.gt, np.greater, _ANY, opposite="<="),
    Operator(">=", operator.ge, np.greater_equal, _ANY, opposite="<"),
)
_LOGICAL = (
    Operator("and", lambda a, b: a and b, np.logical_and, _CONDITIONS, reduces=True),
    Operator("or", lambda a, b: a or b, np.logical_or, _CONDITIONS, reduces=True),
)
_BITWISE = (
    Operator("&", operator.and_, np.bitwise_and, _BITS, reduces=True),
    Operator("|", operator.or_, np.bitwise_or, _BITS, reduces=True),
    Operator("^", operator.xor, np.bitwise_xor, _BITS, reduces=True),
    Operator("<<", operator.lshift, np.left_shift, _COUNTS),
    Operator(">>", operator.rshift, np.right_shift, _COUNTS),
)


def _symbols(records: tuple[Operator, ...]) -> tuple[str, ...]:
    return tuple(record.symbol for record in records)


ARITHMETIC, COMPARISONS = _symbols(_ARITHMETIC), _symbols(_COMPARISONS)
LOGICAL, BITWISE = _symbols(_LOGICAL), _symbols(_BITWISE)
CONDITIONS = COMPARISONS + LOGICAL
"""The operators that compute booleans."""
BINARY_OPS = ARITHMETIC + COMPARISONS + LOGICAL + BITWISE
OPERATORS = {
    record.symbol: record for record in (*_ARITHMETIC, *_COMPARISONS, *_LOGICAL, *_BITWISE)
}
OPPOSITES = {record.symbol: record.opposite for record in _COMPARISONS}
REDUCERS = tuple(record.symbol for record in OPERATORS.values() if record.reduces)

UNARY: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "-": (operator.neg, ("float", "int", "uint")),
    "~": (operator.invert, ("int", "uint")),
    "not": (operator.not_, ("bool",)),
}
"""The function of each unary operator, and the kinds of dtypes that it applies to."""


def check_operands(op: str, dtype: str) -> None:
    """`CompileError` E108 unless a binary operator applies to a dtype."""
    advice = OPERATORS[op].refuses.get(dtype_record(dtype).kind)
    if advice:
        raise CompileError(f'"{op}" does not apply to {dtype}', code="E108", hint=advice)


def check_operand(op: str, dtype: str) -> None:
    """`CompileError` E108 unless an operator of one operand applies to a dtype."""
    if dtype_record(dtype).kind not in UNARY[op][1]:
        raise CompileError(f'"{op}" does not apply to {dtype}', code="E108")


def identity(op: str, dtype: str) -> int | float | bool:
    """The identity element of one of `REDUCERS`: it leaves the other operand as it is.

    The identity of a float sum is -0.0: 0.0 would turn -0.0 into 0.0.
    NB: in TVM, the identity of a float max is the least finite number, which is wrong for -inf.
    """
    assert op in REDUCERS
    kind = dtype_record(dtype).kind
    if op in ("min", "max"):
        return extremes(dtype)[op == "min"]
    if kind == "float":
        return 1.0 if op == "*" else -0.0
    if kind == "bool":
        return op in ("and", "&", "*")
    if op == "&":
        low, high = integer_range(dtype)
        return -1 if low < 0 else high
    return int(op == "*")


def start_of(op: str, dtype: str) -> int | float | bool:
    """The start value of a reduction in a program: the identity, but 0.0 for a sum of floats, as
    people write it.
    """
    start = identity(op, dtype)
    return 0.0 if start == 0.0 and is_float(dtype) else start


def extremes(dtype: str) -> tuple[int | float | bool, int | float | bool]:
    """The least and the greatest value of a dtype, infinities among them."""
    if is_float(dtype):
        return float("-inf"), float("inf")
    return (False, True) if dtype == "bool" else integer_range(dtype)
