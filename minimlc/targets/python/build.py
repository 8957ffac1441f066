"""Target "python": functions as Python source, compiled by Python."""

from functools import partial

from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target
from minimlc.services.runtime.library import Library
from minimlc.targets.python.compile import compile_python, emit_python


def build(module: IRModule, target: Target, check: bool, cache: bool) -> Library:
    """The library of a module without operators."""
    sources = {"python": partial(emit_python, module, check)}
    return Library(module, target, compile_python(module, check), sources)
