"""Pieces of an array as slices, which can be fused."""

from typing import Any

from minimlc.graphs.ir.nodes import Call, Expr, TupleGetItem
from minimlc.graphs.mutator import Mutator
from minimlc.graphs.ops import call_op
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.services.arrays.slicing import pieces_of
from minimlc.services.sizes.sizes import names_in

MOST = 8
"""The most pieces: more would each be a small kernel to compile."""


@module_pass
def split_to_slices(mod: IRModule) -> IRModule:
    """Read each piece of a split by a separate slice.

        lv = R.split(x, indices_or_sections=2)
        lv1 = R.tanh(lv[0])                    -->    lv1 = R.tanh(R.strided_slice(x, ...))

    A slice joins the group that uses it, where a split would copy all pieces first. Splits into
    more than `MOST` pieces stay, and those at sizes that are not known. Legal because the pieces
    have the same elements.
    """
    return _Slices()(mod)


class _Slices(Mutator):
    def visit_TupleGetItem(self, item: TupleGetItem) -> Expr:
        call = self.lookup_binding(item.tuple)
        if not isinstance(call, Call) or call.op != "split":
            return item
        attrs: dict[str, Any] = dict(call.attrs)
        if names_in((call.args[0].shape[attrs.get("axis", 0)], attrs["indices_or_sections"])):
            return item
        axis, pieces = pieces_of(call.args[0].shape, **attrs)
        if len(pieces) > MOST:
            return item
        begin, end = pieces[item.index]
        return call_op("strided_slice", call.args[0], begin=begin, end=end, axes=axis)
