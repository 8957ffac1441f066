"""`tvm.relax.analysis`: questions about graph functions."""

from typing import Any, TypeVar

from minimlc.errors import CompileError
from minimlc.graph.nodes import Function
from minimlc.module import IRModule
from minimlc.passes import remove_unused
from minimlc.verify import verify

F = TypeVar("F", IRModule, Function)


def remove_all_unused(func: F) -> F:
    """A function, or a module, without the bindings that nothing uses."""
    if isinstance(func, IRModule):
        return remove_unused(func)
    return remove_unused(IRModule({"main": func}))["main"]  # type: ignore[return-value]


def well_formed(obj: IRModule | Function, check_struct_info: bool = True) -> bool:
    """Whether `verify` has nothing against a module, or a function that calls no other."""
    try:
        verify(obj if isinstance(obj, IRModule) else IRModule({"main": obj}))
    except CompileError:
        return False
    return True


def get_var2val(func: Function) -> dict[Any, Any]:
    """The values of a function by the variables that they are bound to."""
    return {binding.var: binding.value for binding in func.bindings()}
