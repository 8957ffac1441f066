"""Bindings as a separate function, and a call of it."""

from collections.abc import Sequence

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.scope import Scope
from minimlc.graphs.mutator import substitute
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import walk


def outlined(
    builder: BlockBuilder,
    members: Sequence[ir.Binding],
    results: Sequence[ir.Var],
    name: str,
    attrs: ir.Attrs = (),
) -> ir.Call:
    """A call of `members`, which are added as a function of the values that they use from outside.

    Constants become parameters, so that equal groups on other constants are one function. Several
    results are a tuple.
    """
    inside = {binding.var for binding in members}
    args = dict.fromkeys(
        item
        for binding in members
        for item in walk(binding.value)
        if isinstance(item, ir.Var | ir.Constant) and item not in inside
    )
    names = UniqueNames()
    params: dict[ir.Expr, ir.Var] = {}
    for arg in args:
        hint = arg.name if isinstance(arg, ir.Var) else "const"
        params[arg] = ir.Var(names.take(hint), arg.type)
    scope = Scope(name, tuple(params.values()), attrs)
    scope.start_block(dataflow=True)
    renamed: dict[ir.Expr, ir.Expr] = dict(params)
    for binding in members:
        renamed[binding.var] = scope.bind(substitute(binding.value, renamed), "lv")
    scope.make_all_outputs()
    fields = tuple(renamed[var] for var in results)
    scope.result = fields[0] if len(fields) == 1 else ir.Tuple(fields)
    out = scope.result.type
    return ir.call_function(builder.add_func(scope.function(), name), tuple(args), out)
