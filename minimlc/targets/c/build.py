"""Target "c": generated C, compiled by the system's compiler where there is one."""

from functools import partial

from minimlc.loops.ir.arguments import parameters_of
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.target import Target
from minimlc.services.runtime.executable import Kernel, SteppedGraph, functions_of, library, to_read
from minimlc.services.runtime.foreign import missing_features
from minimlc.services.runtime.library import Library
from minimlc.targets.c.entries import c_entries, c_text


def build(module: IRModule, target: Target, check: bool, cache: bool) -> Library:
    """Graph functions run their plan step by step; each of their kernels is a C function."""
    functions = functions_of(module)
    missing = missing_features(target, named=False)
    if missing:
        return to_read(module, target, missing, {"c": partial(c_text, functions)})
    entries, keep = c_entries(functions, target, check=check, cache=cache)
    kernels = {
        name: Kernel(name, parameters_of(func), entries[name], None, keep)
        for name, func in functions.items()
    }

    return library(module, target, kernels, SteppedGraph, {"c": partial(c_text, functions)})
