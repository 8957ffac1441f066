"""Sums of products, alone in loops that are their iters: what some primitives are for."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from minimlc.node import walk
from minimlc.schedule.shape import exclusive
from minimlc.schedule.tree import Place, refuse
from minimlc.tir.analysis.access import reduction_parts, starts_its_target
from minimlc.tir.analysis.arith import constant_value
from minimlc.tir.nodes import (
    Binary,
    Block,
    Cast,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Unary,
    Var,
)


class Einsum(NamedTuple):
    """A sum of products: `store` adds `value` to its target, which begins with `start`."""

    store: Store
    value: Expr
    start: Const


def no_einsum(verb: str, block: Block, why: str, *, example: str = "", hint: str = "") -> NoReturn:
    """Refuse: a block is no such sum."""
    refuse("E154", f'{verb}: block "{block.name}" {why}', at=block, example=example, hint=hint)


def own_nest(func: PrimFunc, place: Place, verb: str) -> tuple[Stmt, Sequence[For]]:
    """A block's nest: one serial loop for each iter, and nothing else."""
    block = place.stmt
    assert isinstance(block, Block)
    top, own, _ = exclusive(func, place)
    if any(isinstance(stmt, Block | IfThenElse) for stmt in place.around):
        no_einsum(verb, block, "is inside a condition or another block")
    if block.predicate is not None:
        no_einsum(verb, block, f"runs only where {block.predicate.script()}")
    for loop in own:
        if loop.kind != "serial":
            refuse(
                "E119",
                f'{verb}: loop "{loop.var.name}" of block "{block.name}" is {loop.kind} already',
                hint=f"do this step before the one that made {loop.var.name} {loop.kind}",
            )
    extents = {loop.var: constant_value(loop.extent) for loop in own}
    bound = {it.value: it.extent for it in block.iters}
    if len(bound) != len(block.iters) or bound != extents or min(bound.values(), default=1) < 1:
        no_einsum(
            verb,
            block,
            "is not alone in loops that are its iters, one for each",
            hint="do this step before its loops are cut or fused, or its init decomposed",
        )
    return top, own


def einsum_of(place: Place, verb: str) -> Einsum:
    """The sum of products that a block is."""
    block = place.stmt
    assert isinstance(block, Block)
    parts = reduction_parts(block)
    if parts is None or parts[0] != "+" or not isinstance(block.body, Store):
        no_einsum(verb, block, "is not of the form: X[...] = X[...] + products of elements")
    if not starts_its_target(block) or not isinstance(block.init, Store):
        no_einsum(
            verb, block, "has no init of its own", hint="do this step before decompose_reduction"
        )
    if not isinstance(block.init.value, Const):
        no_einsum(verb, block, f"starts from {block.init.value.script()}, which is no constant")
    if any(it.kind == "O" for it in block.iters):
        no_einsum(verb, block, "must take its iterations in order")
    spatial = {it.var for it in block.iters if it.kind == "S"}
    store = block.body
    if set(store.indices) != spatial or len(store.indices) != len(spatial):
        no_einsum(verb, block, f"does not index {store.buffer.name} by each spatial iter once")
    if {n for n in walk(block.body) if isinstance(n, Var)} & {lp.var for lp in place.loops}:
        no_einsum(verb, block, "speaks of loops directly, not through its iters")
    _check_products(verb, block, parts[2])
    return Einsum(store, parts[2], block.init.value)


def _check_products(verb: str, block: Block, value: Expr) -> None:
    """A value is made of elements and constants by +, - and *."""
    match value:
        case Load() | Const():
            pass
        case Cast(_, a) | Unary("-", a):
            _check_products(verb, block, a)
        case Binary("+" | "-" | "*", a, b):
            _check_products(verb, block, a)
            _check_products(verb, block, b)
        case _:
            no_einsum(verb, block, f"adds up {value.script()}, which is no sum of products")
