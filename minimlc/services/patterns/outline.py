"""Move bindings into a separate function."""

from collections.abc import Collection, Mapping, Sequence

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.scope import refuse
from minimlc.graphs.ir.sized import told_by
from minimlc.graphs.passes.effects import Effects
from minimlc.graphs.passes.outlined import outlined
from minimlc.loops.values.errors import did_you_mean
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import nodes_of, replace


@module_pass
def outline(mod: IRModule, bindings: Collection[str], name: str, func: str = "main") -> IRModule:
    """Move the bindings of some variables of `func` into a new graph function `name`.

        lv = R.matmul(x, w)                        def step(x, w, b):
        lv1 = R.add(lv, b)                             lv = R.matmul(x, w)
        gv = R.relu(lv1)         -->                   ...
                                               gv = step(x, w, b)

    It is called in the place of the last one and takes what they use; constants, too. What is used
    outside is its result, a tuple if that is several. Legal when nothing between the bindings uses
    them, and none may have an effect: `CompileError` E234 otherwise, and for an unknown variable.
    """
    target = mod[func]
    if not isinstance(target, ir.Function) or isinstance(bindings, str):
        why = f'outline takes a list of variables of a graph function, got {bindings!r} of "{func}"'
        refuse(why, "E230", f'outline(mod, ["lv"], "{name}", func="main")')
    known = {binding.var.name: binding for binding in target.bindings()}
    for wanted in bindings:
        if wanted not in known:
            hint = did_you_mean(wanted, known)
            refuse(f'outline: "{func}" binds no variable "{wanted}"', "E234", hint)
    members = [binding for var, binding in known.items() if var in set(bindings)]
    if not members:
        return mod
    _check_movable(mod, target, members)
    outside = [b for b in target.bindings() if b not in set(members)]
    used = {*nodes_of(target.result, ir.Var), *(var for item in outside for var in _used(item))}
    results = [b.var for b in members if b.var in used] or [members[-1].var]
    builder = BlockBuilder(mod, reuse=False)
    call = outlined(builder, members, results, name)
    builder.update_func(func, with_calls(target, {members[-1]: (members, results, call)}))
    return builder.get()


def _used(binding: ir.Binding) -> list[ir.Var]:
    return nodes_of(binding.value, ir.Var)


def _check_movable(mod: IRModule, func: ir.Function, members: Sequence[ir.Binding]) -> None:
    """Refuse bindings that cannot all run where the last one does."""
    effects, inside = Effects(mod), {binding.var for binding in members}
    for block in func.blocks:
        for binding in block.bindings:
            name = binding.var.name
            if binding in members and effects.of_binding(binding.value, block.dataflow):
                refuse(f'outline: "{name}" may have an effect, so it stays in its place', "E234")
            if binding in members and told_by(binding.value):
                refuse(f'outline: "{name}" determines a size, so it stays in its place', "E234")
            needs = [var.name for var in _used(binding) if var in inside]
            if needs and binding not in members:
                why = f'outline: "{name}" uses "{needs[0]}" before the last of the bindings'
                refuse(why, "E234", f'list "{name}", too, or leave out "{needs[0]}"')
            if binding is members[-1]:
                return


Place = tuple[Sequence[ir.Binding], Sequence[ir.Var], ir.Call]
"""Bindings, their variables that are used outside, and the call that gives these."""


def with_calls(func: ir.Function, places: Mapping[ir.Binding, Place]) -> ir.Function:
    """`func` with calls in the places of groups of bindings, by the last one of each."""
    names = UniqueNames(var.name for var in nodes_of(func, ir.Var))
    gone = {binding for members, _, _ in places.values() for binding in members}
    blocks = []
    for block in func.blocks:
        kept: list[ir.Binding] = []
        for binding in block.bindings:
            if binding in places:
                kept += _bound(*places[binding][1:], names)
            elif binding not in gone:
                kept.append(binding)
        blocks += [replace(block, bindings=kept)] if kept or not block.bindings else []
    return replace(func, blocks=blocks)


def _bound(results: Sequence[ir.Var], call: ir.Call, names: UniqueNames) -> list[ir.Binding]:
    """The call's results under their names."""
    if len(results) == 1:
        return [ir.Binding(results[0], call)]
    whole = ir.Var(names.take("lv"), call.type)
    fields = [ir.Binding(var, ir.TupleGetItem(whole, n)) for n, var in enumerate(results)]
    return [ir.Binding(whole, call), *fields]
