"""The primitives reindex, reindex_cache_read and reindex_cache_write: a copy of a buffer that is
laid out by the iters of the block that uses it.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NoReturn

from minimlc.loops.ir.nodes import BlockIter, Buffer, Expr, Load, PrimFunc, Store, Var, substitute
from minimlc.loops.ir.walks import stored_in
from minimlc.loops.proofs.access import Access
from minimlc.loops.proofs.arith import key, variables
from minimlc.loops.proofs.inside import escapes
from minimlc.loops.proofs.regions import enclosing_box
from minimlc.loops.proofs.wellformed import iter_loop
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import End, Names, Space, copy_nest
from minimlc.loops.schedule.memory import (
    Anchor,
    Use,
    anchors,
    beside,
    check_scope,
    is_written,
    no_copy,
    reading_anchor,
    unfit_to_write,
    use_of,
)
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Redirect, fixed, to
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.node import Node, replace, walk
from minimlc.services.layouts.index_map import IndexMap
from minimlc.services.layouts.layout import is_too_large


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
    return _with_copy(func, use_of(func, block, buffer), f"{buffer}_reindex", "global", None)


@primitive(keeps_order=True)
def reindex_cache_read(
    func: PrimFunc, block: str, buffer: str, scope: str, index_map: str | Callable[..., Any]
) -> PrimFunc:
    """Let a block read a copy of a buffer that is laid out by a map of the block's iters.

        C[vi] += A[vi + vr] * W[vr]    -->    A_local[v1, v0] = A[v0 + v1]
                                              C[vi] += A_local[vr, vi] * W[vr]

    Here for `vi, vr -> vr, vi`. Legal where `reindex` is, when the map is one-to-one on the iters
    that occur in the block's index and uses no other.
    """
    use = use_of(func, block, buffer)
    if any(item.is_write for item in use.mine):
        refuse("E117", f"writes {buffer}: reindex_cache_write", of=use.block)
    check_scope(scope)
    return _with_copy(func, use, f"{buffer}_{scope.split('.')[-1]}", scope, index_map)


@primitive(keeps_order=True)
def reindex_cache_write(
    func: PrimFunc, block: str, buffer: str, scope: str, index_map: str | Callable[..., Any]
) -> PrimFunc:
    """Let a block write a separate buffer that is laid out by a map of its iters, and copied out
    after it.

        C[vi * 4 + vj] = f(vi, vj)     -->    C_local[vj, vi] = f(vi, vj)
                                              C[v0 * 4 + v1] = C_local[v1, v0]

    Here for `vi, vj -> vj, vi`. Legal where `reindex` is, when the map is one-to-one on the iters
    that occur in the block's index and uses no other.
    """
    use = use_of(func, block, buffer)
    if not any(item.is_write for item in use.mine):
        refuse("E117", f"does not write {buffer}", of=use.block)
    check_scope(scope)
    return _with_copy(func, use, f"{buffer}_{scope.split('.')[-1]}", scope, index_map)


def _with_copy(
    func: PrimFunc, use: Use, name: str, scope: str, index_map: str | Callable[..., Any] | None
) -> PrimFunc:
    """The function in which a block uses a copy, laid out by its iters or by a map of them."""
    indices, buffer = _only_index(use), use.buffer.name
    used = [it for it in use.block.iters if any(it.var in variables(i) for i in indices)]
    if not used:
        refuse("E117", f"the index of {buffer} is the same for all iters", at=use.block)
    _check_bounds(use, indices, used)
    sizes = tuple(it.extent for it in used)
    layout = _layout(use, used, index_map)
    layout.check_one_to_one(sizes)
    names, shape = Names(func), layout.shape(sizes)
    if is_too_large(shape, replace(use.buffer, shape=sizes)):
        refuse("E146", f"{buffer} would have a copy of {prod(shape)} elements", at=use.block)
    cache = Buffer(names.buffer(name), shape, use.buffer.dtype, scope)
    inside, outside = End(cache, layout), _reindexed(use, indices, used)
    at = fixed(layout([it.var for it in used]))
    new = Redirect({use.buffer: to(cache, at)}).visit(use.block)
    if not any(item.is_write for item in use.mine):
        anchor = reading_anchor(use)
        _check_index(use, indices, anchor)
        copy = copy_nest(outside, inside, Space(sizes), names, cache.name)
        return finish(beside(func, anchor.stmt, use.block, new, [copy], [], cache))
    places = anchors(use.place)
    anchor = next((a for a in places if not unfit_to_write(use, a)), places[0])
    _check_written(use, used, anchor)
    _check_index(use, indices, anchor)
    copy = copy_nest(inside, outside, _space(use, used, anchor), names, cache.name)
    result = beside(func, anchor.stmt, use.block, new, [], [copy], cache)
    if not is_written(result, use, cache, anchor):
        no_copy(use, f'block "{use.block.name}" does not surely run for all its iters')
    return finish(result)


def _space(use: Use, used: Sequence[BlockIter], anchor: Anchor) -> Space:
    """The values that iters take inside the loops around a copy; outside of loops, all of them."""
    where = Buffer("values", tuple(it.extent for it in used), INDEX)
    if not anchor.loops:
        return Space(where.shape)
    item = use.mine[0]._replace(buffer=where, indices=tuple(it.value for it in used))
    fixed = [loop.var for loop in anchor.loops]
    return Space(where.shape, enclosing_box(where, [item], fixed), anchor.loops)


def _layout(
    use: Use, used: Sequence[BlockIter], index_map: str | Callable[..., Any] | None
) -> IndexMap:
    """Where an element of the copy is, by the iters that the block's index is made of."""
    if index_map is None:
        inputs = tuple(Var(it.var.name) for it in used)
        return IndexMap(inputs, inputs)
    layout, iters = IndexMap.of(index_map), use.block.iters
    if len(layout.inputs) != len(iters):
        why = f"the index map has {len(layout.inputs)} input(s), "
        listed = ", ".join(it.var.name for it in iters)
        refuse("E146", f'{why}block "{use.block.name}" has {len(iters)} iter(s): {listed}')
    pairs = list(zip(layout.inputs, iters, strict=True))
    for var, it in pairs:
        if it not in used and any(var in variables(out) for out in layout.outputs):
            why = f"the index map uses {var}, and {use.buffer.name} is the same for all {it.var}"
            refuse("E146", why, at=use.block)
    return IndexMap(tuple(var for var, it in pairs if it in used), layout.outputs)


def _check_written(use: Use, used: Sequence[BlockIter], anchor: Anchor) -> None:
    """Refuse a write that cannot be copied out: each element must start anew, with one value."""
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
    iters = {it.var for it in block.iters}
    if not all(variables(part) <= iters for part in indices):
        _unclear(use, "is indexed by loops directly")
    return indices


def _unclear(use: Use, why: str) -> NoReturn:
    name = use.buffer.name
    refuse("E117", f'in block "{use.block.name}", {name} {why}', at=use.block)


def _check_index(use: Use, indices: Sequence[Expr], anchor: Anchor) -> None:
    """Refuse an index that loads what the anchor writes, as the copy is made beside the anchor."""
    loads = {part.buffer for i in indices for part in walk(i) if isinstance(part, Load)}
    changed = [buffer.name for buffer in stored_in(anchor.stmt) & loads]
    if changed:
        _unclear(use, f"has an index that reads {min(changed)}, which the same loops write")


def _check_bounds(use: Use, indices: tuple[Expr, ...], used: Sequence[BlockIter]) -> None:
    """Refuse an index out of bounds: the copy takes all iters, whatever the conditions."""
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
