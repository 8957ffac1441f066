"""Calls that do more than give a value."""

from minimlc.graphs.ir.nodes import OF_GRAPHS, Call, Expr, called
from minimlc.loops.values.module import IRModule


class Effects:
    """The calls that may have effects.

    A registered function may do anything, so its call is kept, in its place, unless it stands in
    a dataflow block, which declares that its calls only give values. A graph
    function has the effects of its calls.
    """

    def __init__(self, mod: IRModule):
        self.functions = mod.functions
        self._packed: dict[tuple[str, bool], bool] = {}

    def of_binding(self, value: Expr, dataflow: bool) -> bool:
        """Whether `value`, bound in a block of that kind, may have an effect."""
        return not dataflow and self.reaches_packed(value, in_dataflow=False)

    def reaches_packed(self, value: Expr, in_dataflow: bool = True) -> bool:
        """Whether `value` is a call that reaches a registered function, dataflow blocks of graph
        functions counted or not.
        """
        if isinstance(value, Call) and value.op in OF_GRAPHS:
            return any(self._function(name, in_dataflow) for _, name in called(value))
        return isinstance(value, Call) and value.op == "call_dps_packed"

    def _function(self, name: str, in_dataflow: bool) -> bool:
        key = (name, in_dataflow)
        if key not in self._packed:
            self._packed[key] = False
            func = self.functions.get(name)
            self._packed[key] = func is None or any(
                self.reaches_packed(binding.value, in_dataflow)
                for block in getattr(func, "blocks", ())
                if in_dataflow or not block.dataflow
                for binding in block.bindings
            )
        return self._packed[key]
