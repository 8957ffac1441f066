"""The primitive decompose_sum: the terms of a sum are summed up apart."""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from minimlc.dtypes import integer_range, is_integer
from minimlc.node import Node, replace, walk
from minimlc.schedule.finish import finish
from minimlc.schedule.more.sums import einsum_of, no_einsum, own_nest
from minimlc.schedule.primitive import primitive
from minimlc.schedule.tree import Names, find_block, nest, replaced, with_alloc
from minimlc.tir.analysis.arith import key
from minimlc.tir.nodes import (
    Binary,
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Unary,
    const,
    seq,
    substitute,
)

VERB = "decompose_sum"

MOST_TERMS = 16
"""Four factors of two terms each have so many."""


class Term(NamedTuple):
    """A product: a whole number times some values."""

    factor: int
    values: tuple[Expr, ...]


@primitive(keeps_order=False)
def decompose_sum(func: PrimFunc, block: str) -> PrimFunc:
    """Sum up the terms of a sum apart, each over the axes that it speaks of.

        for i, j, k in grid(n, m, p):                 for j, k in grid(m, p):
            C[i, j] += (A[i, k] - 8) * B[k, j]            C_j[j] += -8 * B[k, j]
                                              -->     for i, j, k in grid(n, m, p):
                                                          C_i_j[i, j] += A[i, k] * B[k, j]
                                                      for i, j in grid(n, m):
                                                          C[i, j] = C_j[j] + C_i_j[i, j]

    Products of sums are multiplied out; terms that speak of the same spatial iters stay together,
    and those that speak of none go with the fewest. Legal when the block is alone in loops that are
    its iters and adds up integers from a constant: those wrap around, so that any order gives the
    same bits. Floats would lose what cancels.
    """
    place = find_block(func, block)
    target = place.stmt
    assert isinstance(target, Block)
    top, own = own_nest(func, place, VERB)
    einsum = einsum_of(place, VERB)
    store = einsum.store
    if not is_integer(store.buffer.dtype):
        why = f"adds up {store.buffer.dtype}, where terms apart would lose what cancels in them"
        no_einsum(VERB, target, why)
    groups = _by_axes(_terms(einsum.value, target), store.indices)
    if len(groups) < 2:
        why = "adds up terms that all speak of the same axes"
        no_einsum(VERB, target, why, hint=f'sch.rfactor("{own[-1].var.name}") sums up parts of it')
    names = Names(func)
    nests: list[Stmt] = []
    sums: list[Expr] = []
    start = einsum.start
    for axes, terms in sorted(groups.items(), key=lambda group: len(group[0])):
        spoken = [it for axis in axes for it in target.iters if it.var is axis]
        name = "_".join([store.buffer.name, *(it.value.script() for it in spoken)])
        shape = tuple(it.extent for it in spoken)
        made = Buffer(names.buffer(name), shape, store.buffer.dtype)
        nests.append(_sum_nest(target, own, made, axes, start, terms, names))
        sums.append(Load(made, axes))
        func = with_alloc(func, made)
        start = const(0, made.dtype)
    nests.append(_combined(target, own, store, sums, names))
    return finish(replaced(func, {top: seq(nests)}))


def _terms(value: Expr, block: Block) -> list[Term]:
    """What a value is the sum of."""
    match value:
        case Const():
            found = [Term(int(value.value), ())]
        case Unary("-", a):
            found = [Term(-term.factor, term.values) for term in _terms(a, block)]
        case Binary("+", a, b):
            found = _terms(a, block) + _terms(b, block)
        case Binary("-", a, b):
            found = _terms(a, block) + _terms(Unary("-", b), block)
        case Binary("*", a, b):
            others = _terms(b, block)
            found = [_product(one, other) for one in _terms(a, block) for other in others]
        case _:
            found = [Term(1, (value,))]
    if len(found) > MOST_TERMS:
        no_einsum(VERB, block, f"adds up more than {MOST_TERMS} terms: {value.script()}")
    return found


def _product(one: Term, other: Term) -> Term:
    return Term(one.factor * other.factor, one.values + other.values)


def _by_axes(terms: Sequence[Term], axes: Sequence[Expr]) -> dict[tuple[Expr, ...], list[Term]]:
    """Terms by the axes they speak of, in their order; what speaks of none is with the fewest."""
    alike: dict[tuple, Term] = {}
    for term in terms:
        values = tuple(map(key, term.values))
        before = alike.get(values, Term(0, term.values))
        alike[values] = Term(before.factor + term.factor, term.values)
    groups: dict[tuple[Expr, ...], list[Term]] = {}
    for term in alike.values():
        spoken = {node for value in term.values for node in walk(value)}
        own = tuple(axis for axis in axes if axis in spoken)
        groups.setdefault(own, []).append(term)
    if () in groups and len(groups) > 1:
        alone = groups.pop(())
        groups[min(groups, key=len)] += alone
    return groups


def _sum_nest(
    block: Block,
    own: Sequence[For],
    made: Buffer,
    axes: Sequence[Expr],
    start: Const,
    terms: Sequence[Term],
    names: Names,
) -> Stmt:
    """A block that sums up terms over some of the axes."""
    kept = [it for it in block.iters if it.kind == "R" or it.var in axes]
    loops, iters, fresh = _renamed(kept, own, names)
    at = tuple(substitute(axis, fresh) for axis in axes)
    total = _sum([substitute(_value(term, made.dtype), fresh) for term in terms])
    name = names.block(made.name)
    body = Store(made, at, Load(made, at) + total)
    return nest(
        loops, replace(block, name=name, iters=iters, init=Store(made, at, start), body=body)
    )


def _value(term: Term, dtype: str) -> Expr:
    """A term's value; its factor as the dtype, which wraps around, has it."""
    low, high = integer_range(dtype)
    factor = (term.factor - low) % (high - low + 1) + low
    number = [] if term.values and factor == 1 else [const(factor, dtype)]
    return reduce(operator.mul, [*term.values, *number])


def _combined(
    block: Block, own: Sequence[For], store: Store, sums: Sequence[Expr], names: Names
) -> Stmt:
    """The block writes what is the sum of its sums."""
    loops, iters, fresh = _renamed([it for it in block.iters if it.kind == "S"], own, names)
    body = substitute(replace(store, value=_sum(sums)), fresh)
    return nest(loops, replace(block, iters=iters, init=None, body=body))


def _sum(parts: Sequence[Expr]) -> Expr:
    return reduce(operator.add, parts)


def _renamed(
    iters: Sequence[BlockIter], own: Sequence[For], names: Names
) -> tuple[list[For], tuple[BlockIter, ...], dict[Node, Node]]:
    """Iters and their loops once more, under fresh names."""
    loops: list[For] = []
    fresh: dict[BlockIter, BlockIter] = {}
    for loop in own:
        for it in iters:
            if it.value is loop.var:
                var = names.var(loop.var.name)
                loops.append(replace(loop, var=var))
                fresh[it] = replace(it, var=names.var(it.var.name), value=var)
    return loops, tuple(fresh.values()), {it.var: new.var for it, new in fresh.items()}
