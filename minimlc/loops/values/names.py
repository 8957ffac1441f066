"""Identifiers for symbols: every symbol printed in one scope gets a unique name."""

import keyword
import unicodedata
from collections.abc import Callable, Iterable

from minimlc.loops.values.errors import identifier, shown
from minimlc.loops.values.node import Node

RESERVED = frozenset(keyword.kwlist) | {
    *("T", "R", "I", "cls", "range"),
    *("float", "int", "bool", "min", "max", "abs", "len"),
}
"""Words that mean something in a script, so that no symbol is printed under them."""


def spelled(text: str) -> str:
    """`text` as an identifier in the form that Python reads it (PEP 3131: NFKC)."""
    name = identifier(unicodedata.normalize("NFKC", text))
    if name.isidentifier():
        return name
    return "".join(c if f"_{c}".isidentifier() else "_" for c in name)


LONGEST = 1000
"""The most characters that a name may have."""


def misnamed(kind: str, name: object) -> str:
    """Why something cannot be called `name`; '' where it can. Scripts spell any other name."""
    if not isinstance(name, str):
        return f"the name of this {kind} is a text, got {shown(name)}"
    if len(name) > LONGEST:
        return f"the name of this {kind} has {len(name)} characters, more than {LONGEST}"
    if not name:
        return f"the name of this {kind} is empty"
    if not name.isprintable():
        return f"the name of this {kind} has characters that cannot be shown: {shown(name)}"
    return ""


class UniqueNames:
    """Hands out names: the one asked for while it is free, else the next free `i1`, `i2`, ..."""

    def __init__(
        self,
        taken: Iterable[str] = (),
        *,
        reserved: Iterable[str] = RESERVED,
        spell: Callable[[str], str] = spelled,
    ) -> None:
        self._taken = {*reserved, *taken}
        self._spell = spell
        self._next: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def reserve(self, names: Iterable[str]) -> None:
        """Take these very names, free or not."""
        self._taken.update(names)

    def take(self, name: str) -> str:
        """A free identifier like `name`, taken from now on."""
        base = self._spell(name)
        chosen, number = base, self._next.get(base, 1)
        while chosen in self._taken:
            chosen = f"{base}{number}"
            number += 1
        if chosen != base:
            self._next[base] = number
        self._taken.add(chosen)
        return chosen

    def release(self, name: str, hint: str) -> None:
        """Give back a name that was taken for `hint`."""
        self._taken.discard(name)
        self._next.pop(self._spell(hint), None)


class SymbolNames:
    """The names of symbols in one printed function; the tree itself stays as it is."""

    def __init__(self) -> None:
        self._unique = UniqueNames()
        self._names: dict[Node, str] = {}

    def __getitem__(self, symbol: Node) -> str:
        """A symbol's name; one that nothing has declared is free, and named at first sight."""
        return self._names.get(symbol) or self.declare(symbol)

    def declare(self, symbol: Node) -> str:
        """Name a symbol where it is bound."""
        name = self._unique.take(symbol.name)  # type: ignore[attr-defined]
        self._names[symbol] = name
        return name

    def free(self, name: str) -> str:
        """A free name like `name`, for something that is no symbol."""
        return self._unique.take(name)

    def forget(self, symbol: Node) -> None:
        """End a symbol's scope: its name is free again."""
        name = self._names.pop(symbol)
        self._unique.release(name, symbol.name)  # type: ignore[attr-defined]
