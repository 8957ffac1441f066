"""`tvm.relax.BlockBuilder`."""

from typing import Any

from minimlc.frontends.tvm.ir import GlobalVar, global_var
from minimlc.graphs import builder as own
from minimlc.graphs.ir.nodes import Function
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.module import IRModule


class BlockBuilder(own.BlockBuilder):
    """Builds graph functions and the primitive functions that they call."""

    def function(self, name: str, params: Any = None, attrs: Any = None, private: Any = 0) -> Any:
        """The graph function `name`; a private one is as any other."""
        return super().function(name, params, attrs)

    def add_func(self, func: Function | PrimFunc, func_name: str) -> GlobalVar:
        """Add a function; its name. A structurally equal one is reused."""
        return global_var(super().add_func(func, str(func_name)), func)

    def update_func(self, gvar: str, updated_func: Function | PrimFunc) -> None:
        """Put a function in the place of another one, or add it."""
        self._names.reserve((str(gvar),))
        self._functions[str(gvar)] = updated_func

    finalize = own.BlockBuilder.get
