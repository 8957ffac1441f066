"""`tvm.relax.expr_functor`: rewriting graph functions."""

from typing import Any

from minimlc.frontends.tvm.absent import absent
from minimlc.frontends.tvm.relax.builder import BlockBuilder
from minimlc.graphs import mutator as own
from minimlc.graphs.ir.nodes import Expr, Function
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Node


class PyExprMutator:
    """Override `visit_call_` and its like, apply with `visit_expr(func)`.

    A method gets its value with the operands rewritten already.
    """

    def __init__(self, mod: IRModule | None = None):
        self.builder_ = BlockBuilder(mod)

    def __init_subclass__(cls) -> None:
        for name in vars(cls):
            if name.startswith("visit_") and name.endswith("_") and name not in dir(PyExprMutator):
                absent(f"tvm.relax.PyExprMutator.{name}", dir(PyExprMutator))

    def visit_expr(self, expr: Node) -> Any:
        """A function, or a value, rewritten."""
        return _Visits(self).visit(expr)

    def visit_expr_post_order(self, expr: Expr) -> Any:
        """The value with its operands rewritten: as it is, since they come first."""
        return expr

    def lookup_binding(self, var: Expr) -> Expr | None:
        """The rewritten value bound to `var`; None for a parameter or a constant."""
        return self.builder_.lookup_binding(var)

    def visit_function_(self, func: Function) -> Function:
        """A function: its bindings are rewritten in order."""
        return _Visits(self).rewrite_function(func)

    visit_call_ = visit_constant_ = visit_var_ = visit_expr_post_order
    visit_tuple_ = visit_tuple_getitem_ = visit_expr_post_order


def _asks(kind: str) -> Any:
    """A visit of values that calls a method of the `PyExprMutator`."""
    return lambda self, value: getattr(self.rewriter, f"visit_{kind}")(self.visit_children(value))


class _Visits(own.Mutator):
    """The rewrite that asks a `PyExprMutator`."""

    def __init__(self, rewriter: PyExprMutator):
        self.rewriter = rewriter

    builder = property(lambda self: self.rewriter.builder_)

    def visit_Function(self, func: Function) -> Function:
        return self.rewriter.visit_function_(func)

    visit_Call, visit_Constant, visit_Var = map(_asks, ("call_", "constant_", "var_"))
    visit_Tuple, visit_TupleGetItem = map(_asks, ("tuple_", "tuple_getitem_"))


def mutator(cls: type) -> type:
    """The decorator that TVM needs; here a subclass is enough."""
    return cls
