"""Well-formedness of whole modules."""

from minimlc.errors import VerifyError
from minimlc.graph.nodes import Function
from minimlc.graph.wellformed import check_function
from minimlc.module import IRModule
from minimlc.tir.nodes import PrimFunc
from minimlc.tir.wellformed import check_prim_func


def verify(mod: IRModule) -> IRModule:
    """`mod` itself, if it is well-formed; else a `VerifyError` that shows the first fault."""
    for name, func in mod.entries:
        match func:
            case PrimFunc():
                check_prim_func(name, func)
            case Function():
                check_function(mod, name, func)
            case _:
                raise VerifyError(f"{name}: a module holds functions, not {type(func).__name__}")
    return mod
