"""Names of TVM that have no counterpart here, and what to use instead, in one line per text."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from minimlc.loops.values.errors import CompileError, did_you_mean, near_misses

_TABLE = Path(__file__).with_suffix(".txt").read_text("utf-8")
"""One line per text: what to use <- modules, each with its names."""

INSTEAD: Mapping[str, str] = {
    f"{family}.{name}" if family == "tvm" else f"tvm.{family}.{name}": text
    for row in _TABLE.strip().replace("\n  ", " ").split("\n")
    for text, families in (row.split(" <- "),)
    for family, names in (entry.split(": ") for entry in families.split("; "))
    for name in names.split()
}
"""Replacements of TVM's names, by full name; an entry covers the names inside it, too."""


class Unmapped(CompileError):
    """A name of TVM that has no counterpart here; the message has a replacement."""


class UnknownName(CompileError, AttributeError):
    """A name that is neither here nor in the table; `hasattr` is False."""


class UnknownModule(CompileError, ModuleNotFoundError):
    """An import of such a name."""


def covering(name: str) -> str:
    """The entry of `INSTEAD` that a full name is, or is inside of; '' for none."""
    while name and name not in INSTEAD:
        name = name.rpartition(".")[0]
    return name


class Absent(ModuleType):
    """A stand-in for a module, class or function of TVM: every call of it raises `Unmapped`."""

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        name = self.__name__
        why = f"{name} has no counterpart here; instead: {INSTEAD[covering(name)]}"
        raise Unmapped(why, code="E105")

    __call__ = __getitem__ = __iter__ = __enter__ = __mro_entries__ = __instancecheck__ = _refuse

    def __repr__(self) -> str:
        return f"<no {self.__name__}>"


def names_of(module: ModuleType) -> Callable[[str], Any]:
    """The `__getattr__` of a module here: what `MORE` has, an absent name, or an error with near
    misses.
    """
    more = vars(module).get("MORE")

    def lookup(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{shown(module.__name__)}.{name}"
        if name in dir(more) and full not in INSTEAD:
            return getattr(more, name)
        return absent(full, [*vars(module), *dir(more)])

    return lookup


def absent(name: str, known: Iterable[str], error: type[CompileError] = UnknownName) -> Absent:
    """The stand-in for a name of the table; an error for any other."""
    if covering(name):
        return Absent(name)
    owner, _, last = name.rpartition(".")
    close = near_misses(last, [item for item in known if not item.startswith("_")])
    hint = did_you_mean(last, close) or "see docs/coming-from-tvm.md"
    raise error(f"{owner} has no name {last!r} here; {hint}", code="E105")


def shown(module: str) -> str:
    """A module's name as TVM has it."""
    return module.removeprefix("minimlc.frontends.")
