"""Attention that was written as products with a softmax between them."""

from collections.abc import Sequence
from typing import Any

from minimlc.graphs.builder import BlockBuilder
from minimlc.graphs.ir.nodes import Binding, Call, Constant, Function
from minimlc.graphs.ir.sized import is_symbolic
from minimlc.graphs.mutator import is_primitive
from minimlc.graphs.ops import find_op
from minimlc.graphs.ops.checks import axes_of
from minimlc.graphs.ops.values import Values
from minimlc.loops.te import te
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.patterns.outline import Place, with_calls
from minimlc.services.patterns.partition import groups
from minimlc.services.patterns.pattern import Pattern, p


@module_pass
def fuse_attention(mod: IRModule) -> IRModule:
    """Make one primitive function of two products and the softmax between them.

        lv = R.permute_dims(k, axes=(0, 1, 3, 2))
        lv1 = R.matmul(q, lv)
        lv2 = R.multiply(lv1, R.const(0.125))   -->   lv4 = R.call_tir("attention", (q, k, v), ...)
        lv3 = R.softmax(lv2)
        lv4 = R.matmul(lv3, v)

    A scale and a mask, added or by `where`, may lie between, and operands and result may be
    permuted. So a schedule can keep some rows of the scores in a cache instead of writing all of
    them to memory and reading them twice (Dao et al. 2022, "FlashAttention"). `fuse_ops` keeps
    reductions apart, whose elements others read several times; here each row of scores becomes
    one row of the result. Products that repeat a factor for several heads stay apart: recipes do
    each of them better. Legal because the operators stay what they are. Functions of symbolic
    sizes stay until these are known.
    """
    builder = BlockBuilder(mod)
    for name, func in mod.entries:
        if isinstance(func, Function) and not (is_primitive(func) or is_symbolic(func)):
            places: dict[Binding, Place] = {}
            for members in groups(func, ATTENTION):
                places[members[-1]] = members, [members[-1].var], _joined(builder, members)
            if places:
                builder.update_func(name, with_calls(func, places))
    return mod.with_functions(builder.get().functions)


def _joined(builder: BlockBuilder, members: Sequence[Binding]) -> Call:
    """A call of one function that computes all members."""
    calls = {member.var: member.value for member in members}
    used = [arg for call in calls.values() if isinstance(call, Call) for arg in call.args]
    args = [arg for arg in dict.fromkeys(used) if arg not in calls and not _is_number(arg)]

    def attention(*tensors: te.Tensor) -> te.Tensor:
        known: dict[Any, Any] = dict(zip(args, Values.of(tensors), strict=True))
        for var, call in calls.items():
            assert isinstance(call, Call)
            given = [known[arg] if arg in known else arg.data.item() for arg in call.args]  # type: ignore[attr-defined]
            known[var] = find_op(call.op)(*given, **dict(call.attrs))
            if call.op == "softmax":  # else each element of the product would compute it again
                known[var] = known[var].named("attention_weights")
        return known[var].stored("attention")

    return builder.call_te(attention, *args)


def _is_number(item: object) -> bool:
    return isinstance(item, Constant) and item.data.shape == ()


def _as_it_lies(name: str) -> Pattern:
    """An operand, or the source that it is permuted from."""
    part = p.wildcard(name)
    return p.permute_dims(part) | part


def _over_rows(call: Call) -> bool:
    ndim = len(call.shape)
    return axes_of(call.attr("axis"), ndim) == (ndim - 1,)


def _of_whole_batches(call: Call) -> bool:
    """Whether no factor is repeated for a batch, unless it is a matrix."""
    left, right = (arg.shape[:-2] for arg in call.args)
    return left == call.shape[:-2] and right in ((), left)


q, k, v = map(_as_it_lies, "qkv")
factor, mask, other = p.wildcard("scale"), p.wildcard("mask"), p.wildcard("other")
scores = (p.matmul(q, k) | p.dense(q, k)).has(where=_of_whole_batches)
scaled = scores * factor | scores / factor | scores
masked = scaled + mask | p.where(mask, scaled, other) | scaled
weights = p.softmax(masked).has(where=_over_rows)
product = p.matmul(weights, v).has(where=_of_whole_batches)
ATTENTION = product.optional(p.permute_dims)
