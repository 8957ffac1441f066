"""The rooms beside the core: each can be removed, and what is left still works."""

from importlib import import_module
from types import ModuleType


def room(name: str) -> ModuleType | None:
    """A package or module outside the core, such as "recipes"; None where it, or a room that it
    needs, was removed.
    """
    try:
        return import_module(f"minimlc.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("minimlc."):
            return None
        raise
