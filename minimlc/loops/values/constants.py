"""Python values that can stand in programs as constants, and how large they may be."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.names import misnamed
from minimlc.loops.values.node import Node, replace

A = TypeVar("A", bound="Attributed")

MOST_BITS = 1000
"""Bits of an integer in a script, at the most: a float64 has numbers as large."""
MOST_ITEMS = 2**16
"""Items of a tuple in a script and of tuples in it, and characters of a text, at the most."""
MOST_TUPLES = 100
"""Levels of nested tuples, at the most."""


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


def too_big(value: object) -> str:
    """The limit that a constant exceeds, in words; '' where it exceeds none."""
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
            why = f"the attribute {key} is not a constant: {shown(value)}"
        if not why and too_big(value):
            why = f"the attribute {key} has {too_big(value)}"
        if why:
            return why
    return ""


def plain(value: Any) -> Any:
    """A value as constants of Python, where it is one: numpy's numbers, lists for tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value


class Attributes(tuple):
    """Constants by name: (key, value) pairs in order, which are also looked up by their keys."""

    __slots__ = ()

    def keys(self) -> list[str]:
        """The names."""
        return [key for key, _ in self]

    def get(self, key: str, default: object = None) -> Any:
        """The value of a name."""
        return dict(iter(self)).get(key, default)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        if key not in self.keys():
            raise KeyError(key)
        return self.get(key)

    def __contains__(self, item: object) -> bool:
        return item in self.keys() if isinstance(item, str) else tuple.__contains__(self, item)


class Attributed(Node):
    """A module or a function: `attrs` are constants by name, as (key, value) pairs."""

    __slots__ = ()
    attrs: tuple[tuple[str, object], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", Attributes(self.attrs))
        Node.__post_init__(self)

    def with_attr(self: A, key: str | Mapping[str, object], value: object = None) -> A:
        """This with the attribute `key`, or those of a mapping, in place of what they were;
        `CompileError` for a value that is no constant.
        """
        pairs = key.items() if isinstance(key, Mapping) else [(key, value)]
        new = {name: plain(given) for name, given in pairs}
        why = unwritable(new.items())
        if why:
            raise CompileError(why, code="E123", hint='func.with_attr("global_symbol", "main")')
        return replace(self, attrs=tuple({**dict(self.attrs), **new}.items()))

    def without_attr(self: A, key: str) -> A:
        """This without the attribute `key`; itself if there is none."""
        return replace(self, attrs=[pair for pair in self.attrs if pair[0] != key])
