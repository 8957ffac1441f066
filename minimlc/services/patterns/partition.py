"""Move each group of calls that a pattern fits into a separate function."""

from collections.abc import Iterator, Mapping

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Attrs, Binding, Expr, Function, Var
from minimlc.graphs.ir.scope import refuse
from minimlc.graphs.mutator import is_primitive
from minimlc.graphs.passes.outlined import outlined
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import nodes_of
from minimlc.services.patterns.match import Parts, Surroundings, live_uses
from minimlc.services.patterns.outline import Place, with_calls
from minimlc.services.patterns.pattern import Field, Fields, Operator, Pattern, as_pattern


@module_pass
def partition(
    mod: IRModule, pattern: Pattern, name: str, attrs: Mapping[str, object] | None = None
) -> IRModule:
    """Move every group of calls that looks like `pattern` into a graph function `name`.

        x, w, b = p.wildcard("x"), p.wildcard("w"), p.wildcard("b")
        partition(mod, (x @ w + b).optional(p.relu), "linear")

        lv = R.matmul(x, w)                        def linear(x, w, b):
        lv1 = R.add(lv, b)       -->                   lv = R.matmul(x, w)
                                                       ...
                                               lv1 = linear(x, w, b)

    Wildcards and constants become parameters; equal groups share one function, others get the next
    free name. A group is found from its last call backwards, the largest first; nothing outside
    may use what is computed on the way, and no call is in two groups. Legal because operators have
    no effects, so all of a group can run where its last call does. `attrs` are the function's:
    `{"primitive": True}` has `fuse_tir` make one primitive function of it, once legalized.
    """
    if not isinstance(name, str) or not name.isidentifier():
        refuse(f"partition: a function's name is an identifier, got {name!r}", "E211")
    builder, looked_for = BlockBuilder(mod, reuse=False), as_pattern(pattern)
    given: Attrs = tuple((attrs or {}).items())
    for caller, func in mod.entries:
        if isinstance(func, Function) and not is_primitive(func):
            places: dict[Binding, Place] = {}
            for members in groups(func, looked_for):
                results = [members[-1].var]
                call = outlined(builder, members, results, name, given)
                places[members[-1]] = (members, results, call)
            if places:
                builder.update_func(caller, with_calls(func, places))
    return mod.with_functions(builder.get().functions)


def groups(func: Function, pattern: Pattern) -> list[list[Binding]]:
    """The groups of bindings that look like `pattern` and can be moved, in order."""
    bindings = {binding.var: binding for binding in func.bindings()}
    bound: dict[Expr, Expr] = {var: binding.value for var, binding in bindings.items()}
    around = Surroundings(bound.get, live_uses(func))
    users: dict[Var, list[Var | None]] = {var: [None] for var in nodes_of(func.result, Var)}
    for var, binding in bindings.items():
        for item in nodes_of(binding.value, Var):
            users.setdefault(item, []).append(var)
    place = {var: number for number, var in enumerate(bindings)}
    taken: set[Var] = set()
    chosen: list[list[Binding]] = []
    for root in reversed(bindings):
        for parts in pattern.ways(root, around, {}):
            inside = {root, *_inner(parts, bindings)}
            closed = all(set(users.get(var, ())) <= inside for var in inside - {root})
            if closed and not inside & taken and any(map(_is_inner, parts)):
                chosen.append([bindings[var] for var in sorted(inside, key=place.__getitem__)])
                taken |= inside
                break
    return chosen[::-1]


def _is_inner(part: Pattern) -> bool:
    return isinstance(part, Operator | Field | Fields)


def _inner(parts: Parts, bindings: Mapping[Var, Binding]) -> Iterator[Var]:
    """The variables of the calls, and of the fields of tuples, that a pattern names."""
    for part, item in parts.items():
        if _is_inner(part) and isinstance(item, Var) and item in bindings:
            yield item
