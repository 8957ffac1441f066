"""Compute equal values once."""

from typing import Any

from minimlc.graphs.ir.nodes import (
    Binding,
    Call,
    Constant,
    Expr,
    Function,
    Tuple,
    TupleGetItem,
    Var,
)
from minimlc.graphs.ir.scope import Scope
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.passes.effects import Effects
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import structural_hash


@module_pass
def eliminate_common_subexpr(mod: IRModule) -> IRModule:
    """Give the same variable to equal calls on equal operands, and drop mere aliases.

        lv = R.exp(x)
        lv1 = R.exp(x)                 -->        lv = R.exp(x)
        lv2 = R.add(lv, lv1)                      lv2 = R.add(lv, lv)

    Registered functions, and graph functions that call one, may have effects: they stay.
    """
    return _Eliminate(mod)(mod)


class _Eliminate(Mutator):
    def __init__(self, mod: IRModule):
        self.effects = Effects(mod)
        self.known: dict[Any, Var] = {}

    def rewrite_function(self, func: Function) -> Function:
        self.known = {}
        return super().rewrite_function(func)

    def rebind(self, binding: Binding, value: Expr, scope: Scope, renamed: dict[Var, Expr]) -> None:
        if isinstance(value, Var | Constant):
            renamed[binding.var] = value
            return
        key = None if self.effects.reaches_packed(value) else _key(value)
        if key in self.known:
            renamed[binding.var] = self.known[key]
            return
        super().rebind(binding, value, scope, renamed)
        bound = renamed.get(binding.var, binding.var)
        if key is not None and isinstance(bound, Var):
            self.known[key] = bound


def _key(value: Expr) -> Any:
    """A key that is equal for expressions that surely have equal values."""
    match value:
        case Var():
            return value
        case Constant():
            return structural_hash(value)
        case Tuple(fields):
            return ("tuple", *map(_key, fields))
        case TupleGetItem():
            return ("field", value.index, _key(value.tuple))
        case Call():
            return (value.op, repr(value.attrs), value.type, *map(_key, value.args))
        case _:
            raise TypeError(f"no key for a {type(value).__name__}")
