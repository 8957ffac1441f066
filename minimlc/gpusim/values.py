"""Operations on the values of many threads at once: `minimlc.loops.ir.values` for arrays.

An array has one value for each thread, and the exact numpy type of its dtype; a numpy scalar is a
value that all threads have.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.loops.ir.intrinsics import RECORDS
from minimlc.loops.ir.operators import COMPARISONS, OPERATORS
from minimlc.loops.ir.values import HALF, to_half
from minimlc.loops.values.dtypes import integer_range, is_float, is_integer, to_numpy

Value = Any
"""A numpy scalar, or an array of a shape that broadcasts to blocks by threads."""

UNARY = {"-": np.negative, "not": np.logical_not, "~": np.invert}
"""The operators of one operand."""
FIRST: dict[str, Callable[[Value, Value], Value]] = {"min": np.less_equal, "max": np.greater_equal}
"""Where min and max take their first operand, but for NaN, which they pass on."""


def binary_values(op: str, dtype: str, a: Value, b: Value) -> Value:
    """The result of a binary operator, other than `and` and `or`, on values of a dtype."""
    record = OPERATORS[op]
    if op in FIRST:
        return np.where(FIRST[op](a, b) | (a != a), a, b)
    if dtype in HALF and op not in COMPARISONS:
        a, b = np.float32(a), np.float32(b)
        return record.array(a, b).astype(to_numpy(dtype))
    return record.array(a, b)


def intrin_values(name: str, dtype: str, args: list[Value]) -> Value:
    """The result of a mathematical function on values of a dtype."""
    record = RECORDS[name]
    wide = np.float32 if dtype in HALF else to_numpy(dtype)
    result = record.meaning(*[np.asarray(arg, wide) for arg in args])
    return np.asarray(result).astype(to_numpy(record.result(dtype)))[()]


def cast_values(source: str, target: str, a: Value) -> Value:
    """A conversion, as `Cast` defines it."""
    kind = to_numpy(target)
    if target == "bool":
        return a != 0
    if is_integer(target) and is_float(source):
        wide = np.asarray(a).astype(np.float64)
        low, high = np.array(integer_range(target), kind)
        inside = np.where((wide > low) & (wide < high), wide, 0.0).astype(kind)
        return np.where(wide >= high, high, np.where(wide <= low, low, inside))[()]  # of NaN, 0
    if target in HALF:
        return to_half(np.asarray(a), target)[()]
    return a.astype(kind)
