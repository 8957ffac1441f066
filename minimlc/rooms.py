"""The rooms beside the core: each can be removed, and what is left still works."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

ROOMS = (
    *("tir.equivalence", "schedule.more", "schedule.tensor", "schedule.net", "schedule.sampling"),
    *("codegen.llvm.tensor", "codegen.llvm.listing", "codegen.source", "datasets"),
    *("codegen.c", "codegen.gpu", "codegen.opencl", "codegen.cuda", "codegen.python"),
    *("gpusim", "machine", "recipes", "frontends", "homework", "exercise", "tile", "deploy"),
    *("passes.dispatch", "apart", "tune"),
)
"""What can be removed: packages and modules."""


def room(name: str) -> ModuleType | None:
    """A room, or a module in one, such as "recipes"; None where that room, or another one that it
    needs, was removed. Any other failure to import it is an error.
    """
    try:
        return import_module(f"minimlc.{name}")
    except ModuleNotFoundError as error:
        if error.name in [f"minimlc.{removed}" for removed in ROOMS]:
            return None
        raise


def is_there(name: str) -> bool:
    """Whether a room was not removed; it is not imported."""
    return find_spec(f"minimlc.{name}") is not None
