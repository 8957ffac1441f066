"""What an expression uses, and which calls do more than give a value."""

from minimlc.graph.nodes import Call, Constant, Expr, Function, Var
from minimlc.module import IRModule
from minimlc.node import walk


def operands(value: Expr) -> list[Var | Constant]:
    """The variables and constants that an expression uses, in order."""
    return [item for item in walk(value) if isinstance(item, Var | Constant)]


def used_variables(value: Expr) -> list[Var]:
    """The variables among the operands."""
    return [item for item in walk(value) if isinstance(item, Var)]


class Effects:
    """Which calls may have effects.

    A registered function may do anything, so its call is kept, in its place, unless it stands in
    a dataflow block, whose author says that it does nothing else than give a value. A graph
    function has the effects of its calls.
    """

    def __init__(self, mod: IRModule):
        self.functions = mod.functions
        self._packed: dict[tuple[str, bool], bool] = {}

    def of_binding(self, value: Expr, dataflow: bool) -> bool:
        """Whether `value`, bound in a block of that kind, may have an effect."""
        return not dataflow and self._reaches_packed(value, in_dataflow=False)

    def calls_packed(self, name: str) -> bool:
        """Whether the graph function `name` reaches a registered function in any block."""
        return self._function(name, in_dataflow=True)

    def _reaches_packed(self, value: Expr, in_dataflow: bool) -> bool:
        if not isinstance(value, Call):
            return False
        if value.op == "call":
            return self._function(value.callee, in_dataflow)
        return value.op == "call_dps_packed"

    def _function(self, name: str, in_dataflow: bool) -> bool:
        """Whether a function reaches a registered one, counting dataflow blocks or not."""
        key = (name, in_dataflow)
        if key not in self._packed:
            self._packed[key] = False
            func = self.functions.get(name)
            self._packed[key] = isinstance(func, Function) and any(
                self._reaches_packed(binding.value, in_dataflow)
                for block in func.blocks
                if in_dataflow or not block.dataflow
                for binding in block.bindings
            )
        return self._packed[key]
