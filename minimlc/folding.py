"""Python constants in scripts: which values are ones, and the operations on them."""

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.dtypes import dtype_name
from minimlc.literals import float_from_word

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
"""Python's own functions, on constants."""


def is_folded(value: object) -> bool:
    """Whether a value is a Python constant rather than part of a program."""
    if isinstance(value, tuple):
        return all(map(is_folded, value))
    return value is None or isinstance(value, bool | int | float | str)


def plain(value: Any) -> Any:
    """A captured Python value as a constant where it is one: numpy scalars, lists, dtypes."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return dtype_name(value)
    return value


def too_big(op: str, left: Any, right: Any) -> bool:
    """Whether an operation on constants would not stay small."""
    if op in ("**", "<<"):
        return isinstance(right, int) and abs(right) > 1024
    sizes = [len(v) for v in (left, right) if isinstance(v, str | tuple)]
    counts = [v for v in (left, right) if isinstance(v, int)]
    return (op == "%" and bool(sizes)) or (
        op == "*" and bool(sizes and counts) and (max(sizes) * max(counts) > 100_000)
    )
