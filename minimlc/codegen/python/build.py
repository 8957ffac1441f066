"""Target "python": functions as Python source, compiled by Python."""

from collections.abc import Callable
from functools import partial
from typing import Any

from minimlc.arguments import Arguments, parameters_of
from minimlc.codegen.python.compile import compile_python, emit_python
from minimlc.module import IRModule
from minimlc.runtime.library import Library
from minimlc.target import Target
from minimlc.tir.nodes import PrimFunc


def build(module: IRModule, target: Target, check: bool, cache: bool) -> Library:
    """The library of a module without operators."""
    compiled = compile_python(module, check)
    functions: dict[str, Callable[..., Any]] = {}
    for name, func in module.entries:
        if isinstance(func, PrimFunc):
            functions[name] = _checked(name, func, compiled[name])
        else:
            functions[name] = compiled[name]
    return Library(module, target, functions, {"python": partial(emit_python, module, check)})


def _checked(name: str, func: PrimFunc, function: Callable[..., Any]) -> Callable[..., None]:
    arguments = Arguments(name, parameters_of(func))

    def call(*arrays: Any, **named: Any) -> None:
        function(*arguments.check(arrays, named)[0])

    call.__name__ = name
    return call
