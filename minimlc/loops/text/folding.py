"""Operations on Python constants in scripts."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.loops.values.constants import MOST_BITS, MOST_ITEMS
from minimlc.loops.values.dtypes import dtype_name
from minimlc.loops.values.literals import float_from_word

BINARY: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.BitXor: ("^", operator.xor),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
    ast.Pow: ("**", operator.pow),
    ast.MatMult: ("@", operator.matmul),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}
UNARY: dict[type, tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("-", operator.neg),
    ast.UAdd: ("+", operator.pos),
    ast.Not: ("not", operator.not_),
    ast.Invert: ("~", operator.invert),
}
FOLDABLE: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (int, bool, min, max, abs, len, round)},
    "float": lambda value: float_from_word(value) if isinstance(value, str) else float(value),
}
"""Python's functions that fold, on constants."""


def plain(value: Any) -> Any:
    """A captured Python value as a constant where it is one: numpy scalars, lists, dtypes."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return dtype_name(value)
    return value


def grows(op: str, values: list[Any]) -> bool:
    """Whether an operation on constants that are not too big could give one that is far too big."""
    numbers = [value for value in values if isinstance(value, int)]
    if op == "**" and len(numbers) == 2:
        return abs(values[1]) * (values[0].bit_length() - 1) > MOST_BITS
    if op == "<<" and len(numbers) == 2:
        return values[1] > MOST_BITS
    if op == "round" and len(numbers) == 2:
        return abs(values[1]) > MOST_BITS
    sizes = [len(value) for value in values if isinstance(value, str | tuple)]
    if op == "*" and sizes and numbers:
        return max(sizes) * max(numbers) > MOST_ITEMS
    return op == "%" and bool(sizes)
