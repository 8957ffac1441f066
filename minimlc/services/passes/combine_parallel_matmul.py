"""One product for several that share a factor."""

from collections.abc import Collection

from minimlc.graphs.ir.nodes import Call, Constant, Expr, Function
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import call_op
from minimlc.loops.values.module import IRModule, module_pass

COLUMNS = {"matmul": 1, "dense": 0}
"""The axis of the weights along which they can be put together, by operator."""


@module_pass
def combine_parallel_matmul(mod: IRModule) -> IRModule:
    """Multiply by several matrices at once, where products share their first factor.

        q = R.matmul(x, wq)               w = R.concat((wq, wk, wv), axis=1)
        k = R.matmul(x, wk)      -->      qkv = R.matmul(x, w)
        v = R.matmul(x, wv)               q = R.strided_slice(qkv, ...)
                                          ...

    For `matmul` and `dense` by constants and parameters that are matrices. Legal because each
    element of the result stays the sum of the same products, in the same order. It is no part of
    the default pipeline: one large product is quicker than three small ones where x has few rows,
    but the parts are copied, and the weights too, unless they are constants that `fold_constants`
    joins.
    """
    return _Combine()(mod)


class _Group:
    """Products of one matrix: the calls, and their joint product once it is bound."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.product: Expr | None = None


class _Combine(Mutator):
    def rewrite_function(self, func: Function) -> Function:
        """Neither x nor weights change on the way, so groups are found by the calls."""
        self.groups = groups(func)
        return super().rewrite_function(func)

    def visit_Call(self, call: Call) -> Expr:
        group = self.groups.get(call)
        if group is None or len(group.calls) == 1:
            return call
        axis = COLUMNS[call.op]
        sizes = [item.args[1].shape[axis] for item in group.calls]
        if group.product is None:
            weights = call_op("concat", [item.args[1] for item in group.calls], axis=axis)
            product = call_op(call.op, call.args[0], weights, **dict(call.attrs))
            group.product = self.builder.emit(product)
        start = sum(sizes[: group.calls.index(call)])
        end = start + sizes[group.calls.index(call)]
        return call_op("strided_slice", group.product, start, end, axes=len(call.shape) - 1)


def groups(func: Function) -> dict[Call, _Group]:
    """The group of each product that can have one."""
    by_factor: dict[object, _Group] = {}
    group_of: dict[Call, _Group] = {}
    for binding in func.bindings():
        call = binding.value
        if isinstance(call, Call) and call.op in COLUMNS and _is_weight(call.args[1], func.params):
            group = by_factor.setdefault((call.op, call.args[0], call.attrs), _Group())
            group.calls.append(call)
            group_of[call] = group
    return group_of


def _is_weight(item: Expr, params: Collection[Expr]) -> bool:
    """Whether a matrix is there from the start."""
    return len(item.shape) == 2 and (isinstance(item, Constant) or item in params)
