"""Target "python": functions as Python source, compiled by Python."""

from functools import partial

from minimlc.codegen.python.compile import compile_python, emit_python
from minimlc.module import IRModule
from minimlc.runtime.library import Library
from minimlc.target import Target


def build(module: IRModule, target: Target, check: bool, cache: bool) -> Library:
    """The library of a module without operators."""
    sources = {"python": partial(emit_python, module, check)}
    return Library(module, target, compile_python(module, check), sources)
