"""Python constants in scripts: which values are ones, and the operations on them."""

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minimlc.dtypes import dtype_name
from minimlc.errors import shown
from minimlc.literals import float_from_word
from minimlc.names import misnamed

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
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack += item
        elif not (item is None or isinstance(item, bool | int | float | str)):
            return False
    return True


def plain(value: Any) -> Any:
    """A captured Python value as a constant where it is one: numpy scalars, lists, dtypes."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return dtype_name(value)
    return value


MOST_BITS = 1000
"""Of an integer in a script: a float64 has numbers as large."""
MOST_ITEMS = 2**16
"""Of a tuple in a script and those in it, and characters of a text."""
MOST_TUPLES = 100
"""In one another."""


def too_big(value: object) -> str:
    """What a constant has too much of; '' where it has not."""
    count, level, items = 0, 0, [value]
    while items:
        if any(isinstance(item, int) and item.bit_length() > MOST_BITS for item in items):
            return f"a number of more than {MOST_BITS} bits"
        count += sum(len(item) for item in items if isinstance(item, str | tuple))
        if count > MOST_ITEMS:
            return f"more than {MOST_ITEMS} items or characters"
        items = [item for part in items if isinstance(part, tuple) for item in part]
        level += 1
    return f"more than {MOST_TUPLES} levels" if level > MOST_TUPLES else ""


def unwritable(attributes: Iterable[tuple[str, object]]) -> str:
    """Why attributes cannot stand in a script; '' where they can."""
    for key, value in attributes:
        why = misnamed("attribute", key)
        if not why and not is_folded(value):
            why = f"the attribute {key} is no constant: {shown(value)}"
        if not why and too_big(value):
            why = f"the attribute {key} has {too_big(value)}"
        if why:
            return why
    return ""


def grows(op: str, values: list[Any]) -> bool:
    """Whether an operation on constants that are not too big could make what is far too big."""
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
