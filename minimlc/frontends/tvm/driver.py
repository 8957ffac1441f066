"""`tvm.driver`: modules become code."""

from collections.abc import Mapping
from typing import Any

from minimlc.frontends.tvm import te
from minimlc.frontends.tvm.runtime import Module
from minimlc.frontends.tvm.target import Target
from minimlc.graphs.ir.nodes import Call
from minimlc.graphs.mutator import Mutator
from minimlc.loops.values.module import IRModule, global_symbol
from minimlc.loops.values.node import replace
from minimlc.loops.values.target import Target as OwnTarget
from minimlc.services import build as own


class _Registered(Mutator):
    """Older programs call registered functions by `R.call_tir("env.linear", ...)`, too, and
    functions of the module by `R.call_dps_packed`.
    """

    def __init__(self, functions: Mapping[str, Any]):
        self.functions = functions

    def visit_Call(self, call: Call) -> Call:
        if call.op not in ("call_tir", "call_dps_packed"):
            return call
        foreign = "." in call.callee or call.op == "call_dps_packed"
        primitive = call.callee in self.functions or not foreign
        return replace(call, op="call_tir" if primitive else "call_dps_packed")


def lower(inp: Any, args: Any = (), name: str = "main", simple_mode: bool = True) -> IRModule:
    """A module of a schedule, a function or a module."""
    if isinstance(inp, te.Schedule):
        return inp.lower(args, name)
    mod = inp if isinstance(inp, IRModule) else IRModule.from_expr(inp)
    return _Registered(mod.functions)(mod)


def build(inputs: Any, args: Any = (), target: Any = "llvm", name: str = "main") -> Module:
    """Code for a module, a function, or a schedule with its arguments."""
    if isinstance(args, str | dict | OwnTarget):
        args, target = (), args
    mod = lower(inputs, args or (), name)
    symbols = {global_symbol(func): key for key, func in reversed(mod.entries)}  # type: ignore[arg-type]
    return Module(own.build(mod, Target(target or "llvm")), symbols)


compile = build  # noqa: A001 (its name in TVM)
