"""Hooks by which outer parts of the library extend inner ones.

A ring imports nothing from outside of it. Where it can do more with another part there (write one
more kind of function, check one more thing), it has a `Hook`, and `minimlc.composition` names the
parts for it. They are imported when the hook is first read; removed ones are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_PLACES: dict[str, tuple[str, ...]] = {}
"""The places of each hook's parts, such as "graphs.run:GRAPH"."""
_REMOVABLE: set[str] = set()
"""Packages and modules that may be missing."""


def hand(places: Mapping[str, tuple[str, ...]], removable: Iterable[str]) -> None:
    """Register the parts of each hook, in order, and the packages that may be missing."""
    _PLACES.update(places)
    _REMOVABLE.update(f"minimlc.{name}" for name in removable)


class Hook(Generic[T]):
    """The parts that are there for one purpose, in the order in which they were handed."""

    def __init__(self, name: str):
        self.name = name
        self._parts: tuple[T, ...] | None = None

    def __iter__(self) -> Iterator[T]:
        if self._parts is None:
            found = map(_part, _PLACES.get(self.name, ()))
            self._parts = tuple([part for part in found if part is not None])
        return iter(self._parts)

    @property
    def is_filled(self) -> bool:
        """Whether there is a part; it is not imported."""
        return any(is_there(place.partition(":")[0]) for place in _PLACES.get(self.name, ()))

    @property
    def first(self) -> T | None:
        """The first part; None where there is none."""
        return next(iter(self), None)


def _part(place: str) -> Any:
    module, _, name = place.partition(":")
    found = room(module)
    return getattr(found, name) if found and name else found


def room(name: str) -> ModuleType | None:
    """A part of the library, or a module in one, such as "recipes"; None where that, or another one
    that it needs, was removed. Any other failure to import it is an error.
    """
    try:
        return import_module(f"minimlc.{name}")
    except ModuleNotFoundError as error:
        if error.name in _REMOVABLE:
            return None
        raise


@cache
def is_there(name: str) -> bool:
    """Whether a part was not removed; it is not imported."""
    try:
        return find_spec(f"minimlc.{name}") is not None
    except ModuleNotFoundError:  # its package was
        return False
