"""Replace values wherever a pattern fits."""

from collections.abc import Callable, Iterable
from typing import Any

from minimlc.graphs.ir.nodes import Binding, Call, Expr, Function, TensorType, Var
from minimlc.graphs.ir.scope import Scope, refuse
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import call_op
from minimlc.graphs.ops.checks import broadcast_shapes
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.patterns.match import Match, Surroundings, live_uses
from minimlc.services.patterns.pattern import Pattern, as_pattern

Replacement = Pattern | int | float | Callable[[Match], Any]
"""A pattern of the same parts, a number, or a function of the match, which may return None."""
Rule = tuple[Pattern, Replacement]


@module_pass
def rewrite(
    mod: IRModule, pattern: Pattern, replacement: Replacement, *, broadcast: bool = False
) -> IRModule:
    """Put `replacement` in the place of every value that looks like `pattern`.

        x, y, z = p.wildcard("x"), p.wildcard("y"), p.wildcard("z")
        rewrite(mod, x * y + z, p.ewise_fma(x, y, z))

        lv = R.multiply(a, b)                     lv = R.multiply(a, b)
        lv1 = R.add(lv, c)           -->          lv1 = R.ewise_fma(a, b, c)

    A replacement is a pattern of the same parts, or a function of the match that returns a value,
    or None to leave this place as it is: `lambda m: op.ewise_fma(m[x], m[y], m[z])`. With
    `broadcast`, one of a smaller shape is broadcast: x for `x * 1`, where the 1 is larger. Whether
    a replacement means the same is the caller's business.

    Values are rewritten in order, operands before what uses them, each once. What nothing uses
    then stays for `remove_unused`. `CompileError` E231 for a replacement of another type, E233
    for one with a part that the pattern has not.
    """
    return Rewriter([(as_pattern(pattern), replacement)], broadcast)(mod)


def to_rest(mod: IRModule, rules: Iterable[Rule]) -> IRModule:
    """`mod` after as many rounds as the rules find something to do: each must make it simpler.
    Smaller replacements are broadcast.
    """
    rewriter, before = Rewriter(rules, broadcast=True), None
    while before is not mod:
        before, mod = mod, rewriter(mod)
    return mod


class Rewriter(Mutator):
    """Applies the first rule that fits; the rules for an operator are found by its name."""

    def __init__(self, rules: Iterable[Rule], broadcast: bool = False):
        self.rules = [(pattern.heads(), pattern, new) for pattern, new in rules]
        self.broadcast = broadcast
        self.by_op: dict[str, list[Rule]] = {}
        self.around = Surroundings(self.lookup_binding, {})

    def rewrite_function(self, func: Function) -> Function:
        self.around = Surroundings(self.lookup_binding, live_uses(func))
        return super().rewrite_function(func)

    def rebind(self, binding: Binding, value: Expr, scope: Scope, renamed: dict[Var, Expr]) -> None:
        super().rebind(binding, value, scope, renamed)
        bound, uses = renamed.get(binding.var), self.around.uses
        if isinstance(bound, Var):  # whoever used the one uses the other now
            assert isinstance(uses, dict)
            uses[bound] = uses.get(bound, 0) + uses.get(binding.var, 0)

    def visit_Call(self, call: Call) -> Expr:
        if call.op not in self.by_op:
            fitting = [rule for rule in self.rules if rule[0] is None or call.op in rule[0]]
            self.by_op[call.op] = [(pattern, new) for _, pattern, new in fitting]
        return self._rewritten(call, self.by_op[call.op])

    def visit_TupleGetItem(self, item: Expr) -> Expr:
        rules = [(pattern, new) for heads, pattern, new in self.rules if heads is None]
        return self._rewritten(item, rules)

    def _rewritten(self, item: Expr, rules: Iterable[Rule]) -> Expr:
        for pattern, replacement in rules:
            for parts in pattern.ways(item, self.around, {}):
                new = _built(replacement, Match(pattern, parts, self.around))
                if new is not None:
                    return self._fitted(new, item, pattern)
        return item

    def _fitted(self, new: Any, old: Expr, pattern: Pattern) -> Expr:
        """A replacement as a value of the type that the old value has."""
        wanted, kind = old.type, getattr(new, "type", None)
        if isinstance(new, bool | int | float) and isinstance(wanted, TensorType):
            return call_op("full", shape=wanted.shape, value=new, dtype=wanted.dtype)
        if kind == wanted:
            return new
        spreads = _spreads(kind, wanted)
        if not (spreads and self.broadcast):
            got = type(new).__name__ if kind is None else kind
            why = f"rewrite: the replacement of {pattern!r} is {got}, not {wanted}"
            refuse(why, "E231", "broadcast=True repeats its elements" if spreads else "")
        return call_op("broadcast_to", new, shape=old.shape)


def _built(replacement: Replacement, match: Match) -> Any:
    if isinstance(replacement, Pattern) or not callable(replacement):
        return as_pattern(replacement).build(match)
    return replacement(match)


def _spreads(small: object, large: object) -> bool:
    """Whether a tensor of one type can be broadcast to the other."""
    if not isinstance(small, TensorType) or not isinstance(large, TensorType):
        return False
    try:
        alike = broadcast_shapes(small.shape, large.shape) == large.shape
    except ValueError:
        return False
    return alike and small.dtype == large.dtype
