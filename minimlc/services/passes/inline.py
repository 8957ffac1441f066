"""Calls of graph functions replaced by the functions' bindings."""

from collections.abc import Collection

from minimlc.graphs.ir.nodes import Call, Expr, Function, Var
from minimlc.graphs.ir.scope import refuse
from minimlc.graphs.ir.sized import is_symbolic
from minimlc.graphs.mutator import Mutator, is_primitive, substitute
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.module import IRModule, module_pass


@module_pass
def inline(mod: IRModule, functions: Collection[str] | None = None) -> IRModule:
    """Put the bindings of graph functions in the places of their calls.

        def step(x):
            lv = R.exp(x)                          lv = R.exp(a)
            return lv                -->           gv = R.relu(lv)
        lv = step(a)
        gv = R.relu(lv)

    `functions` names which; all but groups of fusion, if None. They stay in the module until
    `remove_unused` gets the entries; functions of symbolic sizes are not inlined. Legal because
    graph functions take and give values, and none reaches itself; calls in them keep their order.
    `CompileError` E230 for a name that is no graph function's.
    """
    bodies = {n: f for n, f in mod.entries if isinstance(f, Function)}
    if isinstance(functions, str):
        why = f"inline: functions are a list of names, got {functions!r}"
        refuse(why, "E230", f"functions=[{functions!r}]")
    for name in functions or ():
        if name not in bodies:
            why = f'inline: the module has no graph function "{name}"'
            refuse(why, "E230", did_you_mean(name, bodies))
    if functions is None:
        functions = [name for name, func in bodies.items() if not is_primitive(func)]
    plain = {name: bodies[name] for name in functions if not is_symbolic(bodies[name])}
    return _Inline(plain)(mod)


class _Inline(Mutator):
    def __init__(self, bodies: dict[str, Function]):
        self.bodies = bodies

    def visit_Call(self, call: Call) -> Expr:
        """The result of the body, whose own calls are inlined likewise."""
        body = self.bodies.get(call.callee) if call.op == "call" else None
        if body is None:
            return call
        values: dict[Var, Expr] = dict(zip(body.params, call.args, strict=True))
        for binding in body.bindings():
            value = self.visit(substitute(binding.value, values))
            values[binding.var] = self.builder.emit(value, binding.var.name)
        return substitute(body.result, values)
