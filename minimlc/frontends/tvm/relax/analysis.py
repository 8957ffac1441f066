"""`tvm.relax.analysis`: questions about graph functions."""

from typing import Any

from minimlc.graphs.ir.nodes import Function
from minimlc.graphs.passes import remove_unused
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule


def _module(obj: IRModule | Function) -> IRModule:
    return obj if isinstance(obj, IRModule) else IRModule({"main": obj})


def remove_all_unused(func: IRModule | Function) -> Any:
    """A function, or a module, without the bindings that nothing uses."""
    mod = remove_unused(_module(func))
    return mod if isinstance(func, IRModule) else mod["main"]


def well_formed(obj: IRModule | Function, check_struct_info: bool = True) -> bool:
    """Whether `verify` has nothing against a module, or a function that calls no other."""
    try:
        verify(_module(obj))
    except CompileError:
        return False
    return True
