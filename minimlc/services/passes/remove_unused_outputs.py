"""Results of functions that no caller uses, taken out."""

from collections.abc import Collection

from minimlc.graphs.ir.nodes import (
    CONTROL,
    Call,
    Expr,
    Function,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    callees,
)
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.passes.remove_unused import checked_entries
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import nodes_of, replace


@module_pass
def remove_unused_outputs(mod: IRModule, entries: Collection[str] = ()) -> IRModule:
    """Take out fields of a graph function's result that no caller uses.

        def both(x):                               def both(x):
            return (exp(x), tanh(x))                   return (exp(x),)
        lv = both(a)             -->           lv = both(a)
        lv1 = lv[0]                            lv1 = lv[0]

    For functions that others call, but not for `entries`, nor in conditions and loops, whose result
    is written as a tuple; one field stays at least. `remove_unused` then takes out what computed
    them. Legal because a value that nobody reads does not matter.
    """
    checked_entries("remove_unused_outputs", mod, entries)
    before = None
    while before is not mod:
        before, mod = mod, _once(mod, entries)
    return mod


def _once(mod: IRModule, entries: Collection[str]) -> IRModule:
    functions, kept = dict(mod.functions), {}
    graphs = [func for func in functions.values() if isinstance(func, Function)]
    fixed = {name for func in graphs for name in callees(func, *CONTROL)}
    for name, fields in fields_used(mod).items():
        func = functions.get(name)
        if name in {*entries, *fixed} or not isinstance(func, Function):
            continue
        if not isinstance(func.result, Tuple):
            continue
        if 0 < len(fields) < len(func.result.fields):
            kept[name] = sorted(fields)
            result = Tuple(tuple(func.result.fields[n] for n in kept[name]))
            functions[name] = replace(func, result=result)
    return _Renumber(kept)(mod.with_functions(functions)) if kept else mod


def fields_used(mod: IRModule) -> dict[str, set[int]]:
    """Which fields of its result are used, for each graph function that is called."""
    used: dict[str, set[int]] = {}
    for func in mod.functions.values():
        if not isinstance(func, Function):
            continue
        callee: dict[Expr, Call] = {}
        for binding in func.bindings():
            value = binding.value
            if isinstance(value, Call) and value.op == "call":
                callee[binding.var] = value
                used.setdefault(value.callee, set())
            if isinstance(value, TupleGetItem) and value.tuple in callee:
                used[callee[value.tuple].callee].add(value.index)
            else:
                _use_all(value, callee, used)
        _use_all(func.result, callee, used)
    return used


def _use_all(item: Expr, callee: dict[Expr, Call], used: dict[str, set[int]]) -> None:
    """Count every field of the results in `item`, where they stand as a whole."""
    for var in nodes_of(item, Var):
        if var in callee and isinstance(var.type, TupleType):
            used[callee[var].callee].update(range(len(var.type.fields)))


class _Renumber(Mutator):
    def __init__(self, kept: dict[str, list[int]]):
        self.kept = kept

    def visit_Call(self, call: Call) -> Expr:
        if call.op != "call" or call.callee not in self.kept:
            return call
        assert isinstance(call.type, TupleType)
        fields = tuple(call.type.fields[n] for n in self.kept[call.callee])
        return replace(call, type=TupleType(fields))

    def visit_TupleGetItem(self, item: TupleGetItem) -> Expr:
        call = self.lookup_binding(item.tuple)
        if not isinstance(call, Call) or call.op != "call" or call.callee not in self.kept:
            return item
        return TupleGetItem(item.tuple, self.kept[call.callee].index(item.index))
