"""The rooms beside the core: each can be removed, and what is left still works."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def room(name: str) -> ModuleType | None:
    """A package or module outside the core, such as "recipes"; None where it was removed."""
    full = f"minimlc.{name}"
    parent = full.rpartition(".")[0]
    if parent != "minimlc" and room(parent.removeprefix("minimlc.")) is None:
        return None
    return import_module(full) if find_spec(full) else None
