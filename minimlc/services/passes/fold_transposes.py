"""Transposes that a product can do on its way."""

from collections.abc import Callable

from minimlc.graphs.ir.nodes import Expr
from minimlc.graphs.ops import call_op
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.passes.simplify import axes_order
from minimlc.services.patterns.match import Match
from minimlc.services.patterns.pattern import Pattern, p
from minimlc.services.patterns.rewrite import Rule, to_rest


@module_pass
def fold_transposes(mod: IRModule) -> IRModule:
    """Let matrix products read a transposed matrix as it lies in memory.

        lv = R.permute_dims(w)          -->
        lv1 = R.matmul(x, lv)                  lv1 = R.dense(x, w)

    `dense` of a transposed matrix becomes a `matmul` likewise, and a transposed `dense`, which is
    used nowhere else, one with its factors exchanged. Legal because each element of the result
    stays the sum of the same products, in the same order.
    """
    return to_rest(mod, RULES)


def _as(op: str, product: Pattern, *factors: Pattern) -> Callable[[Match], Expr]:
    """`op` of other factors, with the options of the product that was there."""

    def replacement(match: Match) -> Expr:
        attrs = dict(match.value(product).attrs)
        return call_op(op, *[match[factor] for factor in factors], **attrs)

    return replacement


def _transposed(part: Pattern) -> Pattern:
    """The transpose of a matrix: not the permutation that leaves it as it is."""
    return p.permute_dims(part).has(where=lambda call: axes_order(call) == (1, 0))


x, a, b = p.wildcard("x"), p.wildcard("a", ndim=2), p.wildcard("b", ndim=2)
by_transposed = p.matmul(x, _transposed(b))
by_dense = p.dense(x, _transposed(b))
dense = p.dense(a, b)
RULES: tuple[Rule, ...] = (
    (by_transposed, _as("dense", by_transposed, x, b)),
    (by_dense, _as("matmul", by_dense, x, b)),
    (_transposed(dense.has(used_once=True)), _as("dense", dense, b, a)),
)
