"""Sums of products, alone in loops that are their iters, as some primitives take them."""

from collections.abc import Sequence
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Cast,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    Stmt,
    Store,
    Unary,
)
from minimlc.loops.proofs.access import reduction_parts, starts_its_target
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.schedule.primitive import refuse
from minimlc.loops.schedule.shape import check_serial, names_loops
from minimlc.loops.schedule.tree import Place
from minimlc.loops.values.node import replace


class Einsum(NamedTuple):
    """A sum of products: `store` adds `value` to its target, which begins with `start`."""

    store: Store
    value: Expr
    start: Const


def iter_nest(place: Place[Block]) -> tuple[Stmt, Sequence[For]]:
    """A block's nest: one serial loop for each iter, and nothing else."""
    block = place.stmt
    top, loops, _ = place.nest()
    if any(isinstance(stmt, Block | IfThenElse) for stmt in place.around):
        refuse("E154", "is inside a condition or another block", of=block)
    if block.predicate is not None:
        refuse("E154", f"runs only where {block.predicate.script()}", of=block)
    check_serial(block, loops)
    extents = {loop.var: constant_value(loop.extent) for loop in loops}
    bound = {it.value: it.extent for it in block.iters}
    if len(bound) != len(block.iters) or bound != extents or min(bound.values(), default=1) < 1:
        why = "is not alone in loops that are its iters, one for each"
        hint = "do this step before its loops are cut or fused, or its init decomposed"
        refuse("E154", why, of=block, hint=hint)
    return top, loops


def einsum_of(place: Place[Block]) -> Einsum:
    """A block as a sum of products."""
    block = place.stmt
    parts = reduction_parts(block)
    if parts is None or parts[0] != "+" or not isinstance(block.body, Store):
        refuse("E154", "is not of the form: X[...] = X[...] + products of elements", of=block)
    if not starts_its_target(block) or not isinstance(block.init, Store):
        hint = "do this step before decompose_reduction"
        refuse("E154", "has no init of its own", of=block, hint=hint)
    if not isinstance(block.init.value, Const):
        why = f"starts from {block.init.value.script()}, which is not a constant"
        refuse("E154", why, of=block)
    if any(it.kind == "O" for it in block.iters):
        refuse("E154", "must take its iterations in order", of=block)
    spatial = {it.var for it in block.iters if it.kind == "S"}
    store = block.body
    if set(store.indices) != spatial or len(store.indices) != len(spatial):
        refuse("E154", f"does not index {store.buffer.name} by each spatial iter once", of=block)
    if names_loops(replace(block, init=None), place.loops):
        refuse("E154", "uses loop variables directly, not through its iters", of=block)
    _check_products(block, parts[2])
    return Einsum(store, parts[2], block.init.value)


def _check_products(block: Block, value: Expr) -> None:
    """Refuse a value that is not made of elements and constants by +, - and *."""
    match value:
        case Load() | Const():
            pass
        case Cast(_, a) | Unary("-", a):
            _check_products(block, a)
        case Binary("+" | "-" | "*", a, b):
            _check_products(block, a)
            _check_products(block, b)
        case _:  # other nodes: refused
            refuse("E154", f"adds up {value.script()}, which is not a sum of products", of=block)
