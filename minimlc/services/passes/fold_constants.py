"""Compute calls on constants at compile time."""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import evaluate
from minimlc.graphs.run import nest
from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import For, PrimFunc, Stmt, While
from minimlc.loops.proofs.access import loop_extent
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.literals import names_in
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import children, walk

SMALL = 1024
"""The most elements of a constant that takes the place of a call on smaller ones."""
WORK = 10_000
"""Loop iterations of a primitive function that the interpreter may take."""


@module_pass
def fold_constants(mod: IRModule) -> IRModule:
    """Replace calls on constants by their value.

        lv = R.permute_dims(const)
        lv1 = R.matmul(x, lv)          -->        lv1 = R.matmul(x, const')

    A value is kept only if it is small or no bigger than the constants it was computed from.
    Primitive functions are interpreted when they are short; registered functions are never called.
    """
    return _Fold(mod)(mod)


class _Fold(Mutator):
    def __init__(self, mod: IRModule):
        self.mod = mod

    def visit_Call(self, call: ir.Call) -> ir.Expr:
        known = (
            isinstance(part, ir.Tuple | ir.Constant) for arg in call.args for part in walk(arg)
        )
        if ir.size_names(call.type) or names_in(call.attrs):
            return call
        if not all(known) or _elements([call]) > max(_elements(call.args), SMALL):
            return call
        if call.op == "call_tir":
            return self._interpret(call)
        if call.op in ir.JOINTS:
            return call
        return _expr(evaluate(call, [_value(arg) for arg in call.args]), call.type)

    def visit_TupleGetItem(self, item: ir.TupleGetItem) -> ir.Expr:
        source = self.lookup_binding(item.tuple) or item.tuple
        return source.fields[item.index] if isinstance(source, ir.Tuple) else item

    def _interpret(self, call: ir.Call) -> ir.Expr:
        func = self.mod.functions.get(call.callee)
        if not isinstance(func, PrimFunc) or _iterations(func.body) > WORK:
            return call
        outputs = [np.zeros(t.shape, to_numpy(t.dtype)) for t in ir.tensor_types(call.type)]
        interpret(self.mod, call.callee, *[_value(arg) for arg in call.args], *outputs)
        return _expr(nest(call.type, iter(outputs)), call.type)


def _elements(values: Iterable[ir.Expr]) -> int:
    return sum(prod(t.shape) for value in values for t in ir.tensor_types(value.type))


def _iterations(stmt: Stmt) -> int:
    """About how many statements run, counting each store once per iteration."""
    inner = sum(_iterations(part) for part in children(stmt) if isinstance(part, Stmt))
    if isinstance(stmt, While):
        return WORK + 1
    return max(1, inner) * (loop_extent(stmt) if isinstance(stmt, For) else 1)


def _value(arg: ir.Expr) -> Any:
    if isinstance(arg, ir.Tuple):
        return tuple(_value(field) for field in arg.fields)
    assert isinstance(arg, ir.Constant)
    return arg.data


def _expr(value: Any, t: ir.Type) -> ir.Expr:
    if isinstance(t, ir.TupleType):
        return ir.Tuple(tuple(map(_expr, value, t.fields)))
    return ir.constant(value)
