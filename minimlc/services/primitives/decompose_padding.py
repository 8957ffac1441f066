"""The primitive decompose_padding: fill first, then copy what is inside."""

from collections.abc import Iterable
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Const,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    conjunction,
    seq,
    substitute,
)
from minimlc.loops.proofs.access import reads
from minimlc.loops.proofs.arith import conjuncts, has_loads, variables
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names, sibling
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.shape import check_alone, names_loops
from minimlc.loops.schedule.tree import (
    Place,
    find_block,
    find_loop_around,
    replaced,
    replaced_in,
    runs,
)
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.node import replace


class Padded(NamedTuple):
    """The store of a padding block: `value` where `inside` holds, else a constant."""

    store: Store
    inside: Expr
    value: Expr
    constant: Const


@primitive(keeps_order=True)
def decompose_padding(func: PrimFunc, block: str, loop: str) -> PrimFunc:
    """Fill with the padding first; then copy only what is inside.

        for i in range(n + 2):                      for i in range(n + 2):
            B[i] = select(inside, A[i - 1], 0)          B[i] = 0
                                             -->    for i in range(n + 2):
                                                        if inside:
                                                            B[i] = A[i - 1]

    The fill, block `B_pad`, stands in front of `loop`; the condition becomes the block's
    predicate. Legal when the block stores one element for each value of its spatial iters, the
    condition uses these alone, and nothing else in `loop` touches what it writes, but for reads of
    what the same iteration has written before.
    """
    place = find_block(func, block)
    target = place.stmt
    padded = _padded_copy(target, place)
    before = find_loop_around(func, place, loop, "E153")
    path = place.path(before)
    _check_path(target, path)
    hint = "fill before a loop in which all is written before it is read"
    check_alone(func, target, before, "E153", hint, again=True)
    fill = replace(padded.store, value=padded.constant)
    parts = (*conjuncts(target.predicate), *(it.value for it in target.iters))
    used = {var for part in parts for var in variables(part)}
    loops = [lp for lp in path if isinstance(lp, For) and lp.var in used]
    fills = sibling(target, fill, target.iters, loops, "pad", Names(func))
    condition = substitute(padded.inside, {it.var: it.value for it in target.iters})
    held = conjunction((*conjuncts(target.predicate), *conjuncts(condition)))
    copy = replace(target, predicate=held, body=replace(padded.store, value=padded.value))
    return finish(replaced(func, {before: seq((fills, replaced_in(before, {target: copy})))}))


def _padded_copy(block: Block, place: Place[Block]) -> Padded:
    store = block.body
    if not isinstance(store, Store) or block.init is not None:
        refuse("E153", "is not a single store", of=block)
    match store.value:
        case Select(inside, value, Const() as constant):
            pass
        case Select(outside, Const() as constant, value):
            inside = _negation(outside)
        case _:  # other nodes: refused
            refuse("E153", "does not select a value or a constant by a condition", of=block)
    if reads(store, store.buffer):
        refuse("E153", f"reads {store.buffer.name}, which it writes", of=block)
    plain = {part for part in store.indices if isinstance(part, Var)}
    if any(it.kind != "S" or (it.var not in plain and it.extent > 1) for it in block.iters):
        refuse("E153", "does not store one element for each value of its iters", of=block)
    if names_loops(block, place.loops):
        refuse("E153", "uses loop variables directly, not through its iters", of=block)
    parts = (inside, block.predicate, *store.indices, *(it.value for it in block.iters))
    if any(map(has_loads, parts)):
        refuse("E153", "has a condition or an index that reads a buffer", of=block)
    return Padded(store, inside, value, constant)


def _negation(condition: Expr) -> Expr:
    """The negation of `condition`."""
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
    match condition:
        case Unary("not", a):
            return a
        case Binary("or", a, b):
            return Binary("and", _negation(a), _negation(b))
        case Binary("and", a, b):
            return Binary("or", _negation(a), _negation(b))
        case Binary(op, a, b) if op in opposite and a.dtype == INDEX:
            return Binary(opposite[op], a, b)
        case _:  # other nodes: no simpler form
            return Unary("not", condition)


def _check_path(block: Block, path: Iterable[Stmt]) -> None:
    for stmt in path:
        if isinstance(stmt, Block | IfThenElse):
            refuse("E153", "is inside a condition or another block in that loop", of=block)
        if isinstance(stmt, For) and not runs(stmt):
            why = f'runs in "{stmt.var.name}", whose extent is not a constant >= 1'
            refuse("E153", why, of=block)
