"""Operators become loops."""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import JOINTS, Call, Expr, Function, Tuple, TupleType, call_tir
from minimlc.graphs.ir.sized import is_symbolic
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import ALIASES, OPS, lower
from minimlc.loops.values.errors import OpError, did_you_mean
from minimlc.loops.values.module import IRModule, module_pass

Override = Callable[[BlockBuilder, Call], Expr]


@module_pass
def legalize(mod: IRModule, overrides: Mapping[str, Override] | None = None) -> IRModule:
    """Replace every operator by a call of a primitive function that computes it.

        lv = R.matmul(x, w)      -->      lv = R.call_tir("matmul", (x, w), out=R.Tensor(...))

    Equal operators on tensors of equal types share one primitive function. `overrides` gives, by
    operator name, functions of (builder, call) that return what replaces the call, for example
    `lambda bb, call: bb.call_te(my_matmul, *call.args)`; one that returns the call leaves it. As a
    pass: `functools.partial(legalize, overrides=...)`. Functions of symbolic sizes stay as they
    are: what has loops is an instance of them.
    """
    named = {ALIASES.get(name, name): override for name, override in (overrides or {}).items()}
    for name in named:
        if name not in OPS:
            hint = did_you_mean(name, OPS)
            raise OpError(f'legalize: there is no operator "{name}"', code="E201", hint=hint)
    return _Legalize(named)(mod)


class _Legalize(Mutator):
    def __init__(self, overrides: Mapping[str, Override]):
        self.overrides = overrides
        self.callees: dict[Any, str] = {}

    def visit_Function(self, func: Function) -> Function:
        return func if is_symbolic(func) else self.rewrite_function(func)

    def visit_Call(self, call: Call) -> Expr:
        if call.op in JOINTS:
            return call
        if call.op in self.overrides:
            return self._override(call)
        args = [*chain.from_iterable(map(_fields, call.args))]
        flat = not any(isinstance(arg.type, TupleType) for arg in args)
        key = (call.op, repr(call.attrs), tuple(arg.type for arg in call.args))
        if flat and key in self.callees:
            return call_tir(self.callees[key], tuple(args), call.type)
        lowered = self.builder.call_te(
            lambda *tensors: lower(call, tensors), *call.args, primfunc_name_hint=call.op
        )
        self.callees[key] = lowered.callee
        return lowered

    def _override(self, call: Call) -> Expr:
        new = self.overrides[call.op](self.builder, call)
        if not isinstance(new, Expr):
            got = type(new).__name__
            raise OpError(f"legalize: the override of {call.op} returned a {got}", code="E231")
        if new.type != call.type:
            why = f"legalize: the override of {call.op} gives {new.type}, not {call.type}"
            raise OpError(why, code="E231")
        return new


def _fields(arg: Expr) -> tuple[Expr, ...]:
    """The fields of a tuple that is written out; any other value as it is."""
    return arg.fields if isinstance(arg, Tuple) else (arg,)
