"""The primitive decompose_sum: the terms of a sum are summed up apart."""

import operator
from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
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
from minimlc.loops.proofs.arith import key
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.tree import find_block, nest, replaced, with_allocs
from minimlc.loops.values.dtypes import integer_range, is_integer
from minimlc.loops.values.node import replace, walk
from minimlc.services.primitives.sums import einsum_of, iter_nest

MOST_TERMS = 16
"""Four factors of two terms each have so many."""


class Term(NamedTuple):
    """A product: a whole number times some values."""

    factor: int
    values: tuple[Expr, ...]


@primitive(keeps_order=False)
def decompose_sum(func: PrimFunc, block: str) -> PrimFunc:
    """Sum up the terms of a sum apart, each over the axes that it uses.

        for i, j, k in grid(n, m, p):                 for j, k in grid(m, p):
            C[i, j] += (A[i, k] - 8) * B[k, j]            C_j[j] += -8 * B[k, j]
                                              -->     for i, j, k in grid(n, m, p):
                                                          C_i_j[i, j] += A[i, k] * B[k, j]
                                                      for i, j in grid(n, m):
                                                          C[i, j] = C_j[j] + C_i_j[i, j]

    Products of sums are multiplied out; terms that use the same spatial iters stay together,
    and those that use none go with the fewest. Legal when the block is alone in loops that are
    its iters and adds up integers from a constant: those wrap around, so that any order gives the
    same bits. Floats would lose what cancels.
    """
    place = find_block(func, block)
    target = place.stmt
    top, loops = iter_nest(place)
    einsum = einsum_of(place)
    store = einsum.store
    if not is_integer(store.buffer.dtype):
        why = f"adds up {store.buffer.dtype}, where terms apart would lose what cancels in them"
        refuse("E154", why, of=target)
    groups = _by_axes(_terms(einsum.value, target), store.indices)
    if len(groups) < 2:
        hint = f'sch.rfactor("{loops[-1].var.name}") sums up parts of it'
        refuse("E154", "adds up terms that all use the same axes", of=target, hint=hint)
    names = Names(func)
    part = partial(_part, target, loops, names)
    nests: list[Stmt] = []
    sums: list[Load] = []
    start = einsum.start
    for axes, terms in sorted(groups.items(), key=lambda group: len(group[0])):
        used = [it for axis in axes for it in target.iters if it.var is axis]
        name = "_".join([store.buffer.name, *(it.value.script() for it in used)])
        shape = tuple(it.extent for it in used)
        buffer = Buffer(names.buffer(name), shape, store.buffer.dtype)
        total = _sum([_value(term, buffer.dtype) for term in terms])
        sums.append(Load(buffer, axes))
        init, body = Store(buffer, axes, start), Store(buffer, axes, Load(buffer, axes) + total)
        kept = [it for it in target.iters if it.kind == "R" or it.var in axes]
        nests.append(part(kept, names.block(buffer.name), init, body))
        start = const(0, buffer.dtype)
    spatial = [it for it in target.iters if it.kind == "S"]
    nests.append(part(spatial, block, None, replace(store, value=_sum(sums))))
    buffers = [item.buffer for item in sums]
    return finish(replaced(with_allocs(func, buffers), {top: seq(nests)}))


def _part(
    block: Block,
    loops: Sequence[For],
    names: Names,
    iters: Sequence[BlockIter],
    name: str,
    init: Store | None,
    body: Store,
) -> Stmt:
    """A block over some of its iters, with other contents, in a separate nest; all that it binds
    has fresh names.
    """
    by_loop = {it.value: it for it in iters}
    loops = [loop for loop in loops if loop.var in by_loop]
    ordered = tuple(by_loop[loop.var] for loop in loops)
    fresh = names.again(loops, ordered)
    part = replace(block, name=name, iters=ordered, init=init, body=body)
    return substitute(nest(loops, part), fresh)


def _terms(value: Expr, block: Block) -> list[Term]:
    """The terms that a value is the sum of."""
    match value:
        case Const():
            terms = [Term(int(value.value), ())]
        case Unary("-", a):
            terms = [Term(-term.factor, term.values) for term in _terms(a, block)]
        case Binary("+", a, b):
            terms = _terms(a, block) + _terms(b, block)
        case Binary("-", a, b):
            terms = _terms(a, block) + _terms(Unary("-", b), block)
        case Binary("*", a, b):
            others = _terms(b, block)
            terms = [
                Term(one.factor * other.factor, one.values + other.values)
                for one in _terms(a, block)
                for other in others
            ]
        case _:  # other nodes: a term by itself
            terms = [Term(1, (value,))]
    if len(terms) > MOST_TERMS:
        refuse("E154", f"adds up more than {MOST_TERMS} terms: {value.script()}", of=block)
    return terms


def _by_axes(terms: Sequence[Term], axes: Sequence[Expr]) -> dict[tuple[Expr, ...], list[Term]]:
    """Terms by the axes that occur in them, in order; terms without join those with the fewest."""
    alike: dict[tuple, Term] = {}
    for term in terms:
        values = tuple(map(key, term.values))
        before = alike.get(values, Term(0, term.values))
        alike[values] = Term(before.factor + term.factor, term.values)
    groups: dict[tuple[Expr, ...], list[Term]] = {}
    for term in alike.values():
        nodes = {node for value in term.values for node in walk(value)}
        used = tuple(axis for axis in axes if axis in nodes)
        groups.setdefault(used, []).append(term)
    if () in groups and len(groups) > 1:
        alone = groups.pop(())
        groups[min(groups, key=len)] += alone
    return groups


def _value(term: Term, dtype: str) -> Expr:
    """A term's value; its factor as the dtype, which wraps around, has it."""
    low, high = integer_range(dtype)
    factor = (term.factor - low) % (high - low + 1) + low
    number = [] if term.values and factor == 1 else [const(factor, dtype)]
    return reduce(operator.mul, [*term.values, *number])


def _sum(parts: Sequence[Expr]) -> Expr:
    return reduce(operator.add, parts)
