"""Parameters that a function does not use, taken out."""

from collections.abc import Collection

from minimlc.graphs.ir.nodes import CONTROL, Call, Expr, Function, Var, callees
from minimlc.graphs.ir.sized import is_symbolic
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.passes.remove_unused import checked_entries
from minimlc.loops.ir.nodes import Buffer, PrimFunc
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import Node, nodes_of, replace


@module_pass
def remove_unused_parameters(mod: IRModule, entries: Collection[str] = ()) -> IRModule:
    """Take out parameters that a function does not use, and the arguments for them.

        def step(x, y):                            def step(x):
            return R.exp(x)                            return R.exp(x)
        lv = step(a, b)          -->           lv = step(a)

    For graph functions and primitive functions that others call, but not for `entries`: what
    nothing calls is called from outside; nor what a condition or loop calls, or what finds its
    sizes in its parameters. Legal because a value that is not read does not matter.
    What an unused binding uses counts as used: `remove_unused` comes first.
    """
    checked_entries("remove_unused_parameters", mod, entries)
    before = None
    while before is not mod:
        before, mod = mod, _once(mod, entries)
    return mod


def _once(mod: IRModule, entries: Collection[str]) -> IRModule:
    counts: dict[str, int] = {}
    for _, caller in mod.entries:
        for call in nodes_of(caller, Call) if isinstance(caller, Function) else ():
            if call.op in ("call", "call_tir"):
                counts[call.callee] = len(call.args)
    graphs = [(n, f) for n, f in mod.entries if isinstance(f, Function)]
    fixed = {name for _, func in graphs for name in callees(func, *CONTROL)}
    fixed |= {name for name, func in graphs if is_symbolic(func)}
    kept: dict[str, list[int]] = {}
    functions = dict(mod.functions)
    for name, count in counts.items():
        func = functions.get(name)
        if name not in {*entries, *fixed} and isinstance(func, Function | PrimFunc):
            places = used_places(func, count)
            if len(places) < count:
                kept[name] = places
                params = [func.params[n] for n in (*places, *range(count, len(func.params)))]
                functions[name] = replace(func, params=params)
    return _Drop(kept)(mod.with_functions(functions)) if kept else mod


def used_places(func: Function | PrimFunc, count: int) -> list[int]:
    """Which of the first `count` parameters a function uses."""
    used: set[Node] = set()
    if isinstance(func, PrimFunc):
        used.update(nodes_of(func.body, Buffer))
    else:
        for item in (func.result, *(binding.value for binding in func.bindings())):
            used.update(nodes_of(item, Var))
    return [n for n, param in enumerate(func.params[:count]) if param in used]


class _Drop(Mutator):
    def __init__(self, kept: dict[str, list[int]]):
        self.kept = kept

    def visit_Function(self, func: Function) -> Function:
        return self.rewrite_function(func)

    def visit_Call(self, call: Call) -> Expr:
        if call.callee not in self.kept or call.op not in ("call", "call_tir"):
            return call
        return replace(call, args=[call.args[n] for n in self.kept[call.callee]])
