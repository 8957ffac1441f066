"""No class is a tower: at most two levels, and at most 30 methods, its base's included."""

import inspect
from importlib import import_module
from types import FunctionType

from tests.test_packaging import modules

LEVELS = 2
METHODS = 30
CONTRACTS = {
    "minimlc.loops.values.node.Node",
    "minimlc.loops.values.node.Mutator",
    "minimlc.loops.values.node.Visitor",
    "minimlc.loops.values.node._Dispatch",
    "minimlc.loops.values.errors.CompileError",
}
"""Bases of every node, rewrite and error: they do not count as a level."""


def full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def size(cls: type) -> tuple[int, int]:
    """How many levels of the package a class has, and how many methods its file gives it
    there. Special methods, which spell operators, are not counted; nor are primitives, which
    enter themselves in `Schedule`.
    """
    own = [
        level
        for level in cls.__mro__
        if level.__module__.split(".")[0] == "minimlc" and full_name(level) not in CONTRACTS
    ]
    written = {
        name
        for level in own
        for name, member in vars(level).items()
        if not name.startswith("__")
        if isinstance(member, FunctionType | property | classmethod | staticmethod)
        if getattr(member, "__module__", level.__module__) == level.__module__
    }
    return len(own), len(written)


def classes() -> dict[str, type]:
    names = {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file, _, _ in modules()
        if not file.endswith("__main__.py")
    }
    return {
        full_name(cls): cls
        for name in sorted(names)
        for cls in vars(import_module(name)).values()
        if inspect.isclass(cls) and cls.__module__ == name
    }


def test_classes_are_parts_and_not_towers():
    sizes = {name: size(cls) for name, cls in classes().items()}
    assert len(sizes) > 200
    taller = {
        name for name, (levels, methods) in sizes.items() if levels > LEVELS or methods > METHODS
    }
    assert not taller
