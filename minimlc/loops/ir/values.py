"""The meaning of each operator on scalars: the one definition that all targets follow.

Integers are Python ints, wrapped after each operation; floats are numpy scalars of their exact
type, computed with numpy's warnings off.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from minimlc.loops.ir.intrinsics import RECORDS, to_odd_float32
from minimlc.loops.ir.nodes import Const
from minimlc.loops.ir.operators import COMPARISONS, OPERATORS, UNARY
from minimlc.loops.values.dtypes import DTYPES, integer_range, is_float, is_integer, to_numpy

HALF = ("float16", "bfloat16")


def wrapper(dtype: str) -> Callable[[int], int]:
    """A function that brings a Python int into the range of an integer type, by wrapping."""
    low, high = integer_range(dtype)
    span = high - low + 1

    def wrap(value: int) -> int:
        return value if low <= value <= high else (value - low) % span + low

    return wrap


def saturate(value: Any, dtype: str) -> int:
    """A float as an integer type: its fraction dropped, out of range the nearest, NaN 0."""
    low, high = integer_range(dtype)
    wide = float(value)
    if wide != wide:
        return 0
    if wide <= low:
        return low
    return high if wide >= high else int(wide)


def converter(source: str, target: str) -> Callable[[Any], Any]:
    """The conversion from one dtype to another, as `Cast` defines it."""
    if source == target:
        return lambda value: value
    if target == "bool":
        return lambda value: bool(value != 0)
    if is_integer(target):
        if is_float(source):
            return lambda value: saturate(value, target)
        wrap = wrapper(target)
        return lambda value: wrap(int(value))
    make, exact = to_numpy(target).type, to_numpy(source).type
    if target in HALF:
        return lambda value: to_half(np.asarray(value, exact), target)[()]
    return lambda value: make(exact(value))


def rounds_twice(source: str, target: str) -> bool:
    """Whether a number may be another one in a 16-bit dtype if it is rounded to float32 first:
    integers are exact there up to 2**24, and the greatest float16 is less.
    """
    wide = is_integer(source) and DTYPES[source].bits >= 32 and target == "bfloat16"
    return target in HALF and (source == "float64" or wide)


def to_half(array: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers as 16-bit floats, rounded once."""
    odd = rounds_twice(array.dtype.name, dtype)
    return (to_odd_float32(array) if odd else array.astype(np.float32)).astype(to_numpy(dtype))


def converted(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array as another dtype, each element as `Cast` defines it."""
    new = to_numpy(dtype)
    if dtype in HALF:
        return to_half(array, dtype)
    if not is_float(array.dtype.name) or not is_integer(dtype):
        return array.astype(new)
    low, high = map(new.type, integer_range(dtype))
    inside = (array > low) & (array < high)
    ends = np.where(array > 0, high, np.where(array < 0, low, new.type(0)))
    return np.where(inside, np.where(inside, array, 0).astype(new), ends)


def constant_value(item: Const) -> Any:
    """A constant's value."""
    return to_numpy(item.dtype).type(item.value) if is_float(item.dtype) else item.value


def unary_value(op: str, dtype: str) -> Callable[[Any], Any]:
    """`-`, `not` or `~` as a function of a value of `dtype`."""
    apply = UNARY[op][0]
    if not is_integer(dtype):
        return apply
    wrap = wrapper(dtype)
    return lambda a: wrap(apply(a))


@cache
def binary_value(op: str, dtype: str) -> Callable[[Any, Any], Any]:
    """A binary operator as a function of two values of `dtype`.

    All but `and` and `or`, which need not evaluate both. ZeroDivisionError for integers.
    """
    record = OPERATORS[op]
    apply = record.scalar
    if op in COMPARISONS:
        return lambda a, b: bool(apply(a, b))
    if op in ("min", "max"):
        return apply
    if is_float(dtype):
        exact = record.array if op in ("//", "%") else apply
        rounded = to_numpy(dtype).type
        if dtype not in HALF:
            return exact
        return lambda a, b: rounded(exact(np.float32(a), np.float32(b)))
    if op in ("<<", ">>"):
        return _shift(op, dtype)
    if dtype == "bool":
        return apply
    wrap = wrapper(dtype)
    return lambda a, b: wrap(apply(a, b))


def _shift(op: str, dtype: str) -> Callable[[int, int], int]:
    apply, bits, wrap = OPERATORS[op].scalar, DTYPES[dtype].bits, wrapper(dtype)

    def shift(value: int, count: int) -> int:
        if 0 <= count < bits:
            return wrap(apply(value, count))
        return -1 if op == ">>" and value < 0 else 0

    return shift


def intrin_value(name: str, dtype: str) -> Callable[..., Any]:
    """A mathematical function as a function of values of `dtype`."""
    record = RECORDS[name]
    meaning, gives = record.meaning, record.result(dtype)
    wide = np.float32 if dtype in HALF else to_numpy(dtype).type
    result: Any = to_numpy(gives).type if is_float(gives) else bool if gives == "bool" else int
    return lambda *args: result(meaning(*[wide(arg) for arg in args]))
