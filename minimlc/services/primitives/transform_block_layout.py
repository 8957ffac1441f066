"""Primitives on a block's own iteration space: transform_block_layout, reorder_block_iter_var."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from minimlc.loops.ir.nodes import Block, Expr, IterKind, PrimFunc, index, substitute
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.regions import is_commutative_reduction, repeats
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names, fresh_iters, sweep, whole
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.shape import (
    check_full_domain,
    check_plain_path,
    check_serial,
    names_loops,
)
from minimlc.loops.schedule.tree import Place, find_block, nest, replaced
from minimlc.loops.values.node import Node, replace
from minimlc.services.layouts.index_map import IndexMap


@primitive(keeps_order=False)
def transform_block_layout(
    func: PrimFunc, block: str, index_map: str | Callable[..., Any]
) -> PrimFunc:
    """Run a block over other iters, which `index_map` makes of the old ones.

        for i, j in grid(8, m):            for ax0, ax1, ax2 in grid(2, m, 4):
            S(vi=i, vj=j)           -->        S(vi=v0 * 4 + v2, vj=v1)

    Here for `i, j -> i // 4, j, i % 4`. Legal when the block is alone in its nest and runs once
    for each value of its iters; when the map is one-to-one, fills its shape, keeps spatial and
    reduce iters apart and the first instance of a reduction the first; and when the instances may
    be taken in any order: spatial iters, and reductions by a commutative operator.
    """
    place = find_block(func, block)
    target = place.stmt
    layout = IndexMap.of(index_map)
    _check_alone(target, place)
    sizes = [it.extent for it in target.iters]
    back = _check_map(target, layout, sizes)
    kinds = [_kind(target, layout, out) for out in layout.outputs]
    _check_any_order(target, layout, kinds, place)
    shape = layout.shape(sizes)
    top = place.nest().top
    names = Names(replaced(func, {top: target}))
    loops, indices, _ = sweep(whole(shape), shape, names, units=True)
    iters = fresh_iters(indices, shape, names, kinds)
    values = back([it.var for it in iters])
    old: dict[Node, Node] = {it.var: v for it, v in zip(target.iters, values, strict=True)}
    for at, given in enumerate(layout.inputs):
        if given in layout.outputs:  # an iter of extent 1 stays one
            old[target.iters[at].var] = iters[layout.outputs.index(given)].var
    init = None if target.init is None else substitute(target.init, old)
    body = substitute(target.body, old)
    new = nest(loops, replace(target, iters=iters, predicate=None, init=init, body=body))
    hint = "a map made of sums, quotients and remainders that divide the extents"
    return finish(replaced(func, {top: new}), "E149", hint)


def _check_alone(block: Block, place: Place[Block]) -> None:
    """Refuse unless the block's own loops run through all of its iters, once for each value."""
    loops = place.nest().own
    check_plain_path(s for s in place.around if isinstance(s, Block))
    ordered = [it.var.name for it in block.iters if it.kind == "O"]
    if ordered:
        why = f'the instances of block "{block.name}" must be taken in order along {ordered[0]}'
        refuse("E149", why, at=block)
    check_serial(block, loops)
    if names_loops(block, loops):
        refuse("E149", "uses the variables of its loops directly", of=block)
    check_full_domain(block, block.iters, loops, place.loops)
    for loop in repeats(block, place.loops):
        if loop in loops:
            why = f'block "{block.name}" runs anew in each iteration of "{loop.var.name}"'
            refuse("E149", why)


def _check_map(block: Block, layout: IndexMap, sizes: Sequence[int]) -> IndexMap:
    """The map from the new iters back to the block's."""
    if len(layout.inputs) != len(sizes):
        listed = ", ".join(it.var.name for it in block.iters)
        why = f'the index map has {len(layout.inputs)} input(s), block "{block.name}" has '
        refuse("E146", f"{why}{len(sizes)} iter(s): {listed}")
    layout.check_one_to_one(sizes)
    back = layout.inverse(sizes)
    if back is None:
        refuse("E146", f"the inverse of {layout} is not found")
    if not layout.is_onto(sizes):
        shape = layout.shape(sizes)
        why = f"{layout} does not fill its shape {shape}: {prod(sizes)} of {prod(shape)}"
        refuse("E146", why, hint="factors that divide the iters' extents")
    return back


def _kind(block: Block, layout: IndexMap, out: Expr) -> IterKind:
    """The kind of a new iter: that of the iters it is made of."""
    used = variables(out)
    pairs = zip(layout.inputs, block.iters, strict=True)
    kinds = {it.kind for var, it in pairs if var in used}
    if len(kinds) > 1:
        hint = "an output of spatial iters alone, or of reduce iters alone"
        why = f"{out.script()} mixes spatial and reduce iters"
        refuse("E149", why, at=block, hint=hint)
    return kinds.pop() if kinds else "S"


def _check_any_order(
    block: Block, layout: IndexMap, kinds: Sequence[IterKind], place: Place[Block]
) -> None:
    """Refuse unless a reduction's instances may be exchanged, and its first stays the first."""
    if not any(it.kind == "R" for it in block.iters):
        return
    if not is_commutative_reduction(block, place.loops):
        refuse("E149", "is not a reduction whose instances may be exchanged", of=block)
    start = layout([index(0)] * len(layout.inputs))
    for out, kind, first in zip(layout.outputs, kinds, start, strict=True):
        if kind == "R" and constant_value(simplify(first, Ranges())) != 0:
            why = f'the init of block "{block.name}" would not run first: '
            refuse("E149", f"{why}{out.script()} does not start at 0", at=block)


@primitive(keeps_order=False)
def reorder_block_iter_var(func: PrimFunc, block: str, order: Sequence[int]) -> PrimFunc:
    """Name a block's iters in another order: `order` are their numbers, first to last.

        vi, vj = remap("SS", [i, j])        -->        vj, vi = remap("SS", [j, i])

    Always legal: the loops alone determine the order of instances.
    """
    target = find_block(func, block).stmt
    count = len(target.iters)
    if sorted(order) != list(range(count)):
        why = f'the order of the {count} iter(s) of block "{block}" names '
        refuse("E118", f"{why}each of 0..{count - 1} once, got {list(order)}")
    iters = tuple(target.iters[number] for number in order)
    return finish(replaced(func, {target: replace(target, iters=iters)}))
