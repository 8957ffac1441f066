"""The primitive reindex: a copy of a buffer laid out by the iters of the block that uses it."""

from collections.abc import Sequence
from typing import NoReturn

from minimlc.node import Node, walk
from minimlc.schedule.finish import finish
from minimlc.schedule.fresh import End, Names, Space, copy_nest
from minimlc.schedule.memory import (
    Anchor,
    Use,
    anchors,
    beside,
    is_written,
    no_copy,
    reading_anchor,
    unfit_to_write,
    use_of,
)
from minimlc.schedule.primitive import primitive, refuse
from minimlc.schedule.redirect import Redirect, fixed, to
from minimlc.tir.analysis.access import Access
from minimlc.tir.analysis.arith import key, variables
from minimlc.tir.analysis.inside import escapes
from minimlc.tir.analysis.wellformed import iter_loop
from minimlc.tir.nodes import BlockIter, Buffer, Expr, Load, PrimFunc, Store, substitute
from minimlc.tir.walks import stored_in


@primitive(keeps_order=True)
def reindex(func: PrimFunc, block: str, buffer: str) -> PrimFunc:
    """Let a block use a copy of a buffer whose indices are the block's own iters.

        C[vi] += A[vi + vr] * W[vr]    -->    A_reindex[v0, v1] = A[v0 + v1]
                                              C[vi] += A_reindex[vi, vr] * W[vr]

    The copy has one dimension per iter that occurs in the block's index of the buffer (for a
    convolution's input: im2col). Read buffers are copied before, written ones after. Legal when
    the block has one index of that buffer, made of its iters alone and within bounds for all their
    values; when nothing writes the buffer between copy and block; and, where the block writes it,
    when those iters are spatial and it starts from an init of its own and writes every element.
    """
    use = use_of(func, block, buffer)
    indices = _only_index(use)
    used = [it for it in use.block.iters if any(it.var in variables(i) for i in indices)]
    if not used:
        refuse("E117", f"the index of {buffer} is the same for all iters", at=use.block)
    _check_bounds(use, indices, used)
    names = Names(func)
    shape = tuple(it.extent for it in used)
    cache = Buffer(names.buffer(f"{buffer}_reindex"), shape, use.buffer.dtype)
    own, outside = End(cache), _reindexed(use, indices, used)
    new = Redirect({use.buffer: to(cache, fixed([it.var for it in used]))}).visit(use.block)
    if not any(item.is_write for item in use.mine):
        anchor = reading_anchor(use)
        _check_index(use, indices, anchor)
        copy = copy_nest(outside, own, Space(shape), names, cache.name)
        return finish(beside(func, anchor.stmt, use.block, new, [copy], [], cache))
    anchor = anchors(use.place)[0]
    _check_written(use, used, anchor)
    _check_index(use, indices, anchor)
    copy = copy_nest(own, outside, Space(shape), names, cache.name)
    result = beside(func, anchor.stmt, use.block, new, [], [copy], cache)
    if not is_written(result, cache, anchor):
        no_copy(use, f'block "{block}" does not surely run for all its iters')
    return finish(result)


def _check_written(use: Use, used: Sequence[BlockIter], anchor: Anchor) -> None:
    """What the block writes can be copied out: it starts anew, and each element has one value."""
    why = unfit_to_write(use, anchor)
    if why:
        no_copy(use, why)
    ordered = [it.var.name for it in used if it.kind != "S"]
    if ordered:
        no_copy(use, f"several values of {ordered[0]} may write one element, in order")


def _only_index(use: Use) -> tuple[Expr, ...]:
    """The block's index of the buffer, over its iters."""
    block, buffer = use.block, use.buffer
    nodes = [item.node for item in use.mine]
    if not nodes:
        refuse("E117", f"does not use {buffer.name}", of=block)
    if any(item.block is not block for item in use.mine):
        _unclear(use, "is used in the block's own iters or inner blocks")
    distinct = {tuple(map(key, n.indices)): n.indices for n in nodes if isinstance(n, Load | Store)}
    if len(distinct) != 1:
        _unclear(use, f"has {len(distinct)} different indices")
    (indices,) = distinct.values()
    own = {it.var for it in block.iters}
    if not all(variables(part) <= own for part in indices):
        _unclear(use, "is indexed by loops directly")
    return indices


def _unclear(use: Use, why: str) -> NoReturn:
    name = use.buffer.name
    refuse("E117", f'in block "{use.block.name}", {name} {why}', at=use.block)


def _check_index(use: Use, indices: Sequence[Expr], anchor: Anchor) -> None:
    """What the index itself loads is the same where the copy is made, beside the anchor."""
    loads = {part.buffer for i in indices for part in walk(i) if isinstance(part, Load)}
    own = [buffer.name for buffer in stored_in(anchor.stmt) & loads]
    if own:
        _unclear(use, f"has an index that reads {min(own)}, which the same loops write")


def _check_bounds(use: Use, indices: tuple[Expr, ...], used: Sequence[BlockIter]) -> None:
    """The copy takes all values of the iters, also those that conditions in the block leave out."""
    probe = Access(
        use.buffer, indices, False, tuple(map(iter_loop, used)), (), None, "", 0, use.block
    )
    escape = next(escapes(probe), None)
    if escape is None:
        return
    if not escape.example:
        _unclear(use, "has an index that is not known to stay within bounds")
    why = f"the index of {use.buffer.name} leaves its bounds for some iters of "
    why += f'"{use.block.name}", where the block does not use it'
    example = f"{escape.example}, its shape is {use.buffer.shape}"
    hint = "pad the buffer in a block of its own first"
    refuse("E117", why, at=use.block, example=example, hint=hint)


def _reindexed(use: Use, indices: tuple[Expr, ...], used: Sequence[BlockIter]) -> End:
    """The buffer, indexed as the block does it."""

    def index_of(values: Sequence[Expr]) -> tuple[Expr, ...]:
        mapping: dict[Node, Node] = {it.var: v for it, v in zip(used, values, strict=True)}
        return tuple(substitute(part, mapping) for part in indices)

    return End(use.buffer, index_of)
