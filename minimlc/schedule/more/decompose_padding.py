"""The primitive decompose_padding: fill first, then copy what is inside."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from minimlc.dtypes import INDEX
from minimlc.node import Node, replace, walk
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.tree import (
    Names,
    Place,
    copy_block,
    find_block,
    find_loop,
    nest,
    refuse,
    replaced,
)
from minimlc.tir.analysis.access import accesses, reads
from minimlc.tir.analysis.arith import conjuncts, constant_value, has_loads, variables
from minimlc.tir.nodes import (
    Binary,
    Block,
    Buffer,
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

VERB = "decompose_padding"


class Padded(NamedTuple):
    """What a padding block stores: `value` where `inside` holds, else a constant."""

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
    condition speaks of these alone, and nothing else in `loop` touches what it writes.
    """
    place = find_block(func, block)
    target = place.stmt
    assert isinstance(target, Block)
    padded = _padded_copy(target, place)
    before = find_loop(func, loop).stmt
    assert isinstance(before, For)
    if before not in place.around:
        listed = ", ".join(lp.var.name for lp in place.loops)
        refuse("E153", f'"{loop}" is no loop of block "{block}"', hint=f"its loops: {listed}")
    _check_path(target, place.around[place.around.index(before) :])
    _check_alone(func, target, before, padded.store.buffer)
    inside = place.loops[place.loops.index(before) :]
    fill = _fill_nest(target, padded, inside, Names(func))
    condition = substitute(padded.inside, {it.var: it.value for it in target.iters})
    held = conjunction((*conjuncts(target.predicate), *conjuncts(condition)))
    copy = replace(target, predicate=held, body=replace(padded.store, value=padded.value))
    body = replaced(replace(func, body=before), {target: copy}).body
    return finish(replaced(func, {before: seq((fill, body))}))


def _no_padding(block: Block, why: str, hint: str = "") -> NoReturn:
    refuse("E153", f'{VERB}: block "{block.name}" {why}', at=block, hint=hint)


def _padded_copy(block: Block, place: Place) -> Padded:
    store = block.body
    if not isinstance(store, Store) or block.init is not None:
        _no_padding(block, "is not a single store")
    match store.value:
        case Select(inside, value, Const() as constant):
            pass
        case Select(outside, Const() as constant, value):
            inside = _negation(outside)
        case _:
            _no_padding(block, "does not store a value or a constant, as a condition says")
    if reads(store, store.buffer):
        _no_padding(block, f"reads {store.buffer.name}, which it writes")
    plain = {part for part in store.indices if isinstance(part, Var)}
    if any(it.kind != "S" or (it.var not in plain and it.extent > 1) for it in block.iters):
        _no_padding(block, "does not store one element for each value of its iters")
    if {n for n in walk(store) if isinstance(n, Var)} & {lp.var for lp in place.loops}:
        _no_padding(block, "speaks of loops directly, not through its iters")
    told = (inside, block.predicate, *store.indices, *(it.value for it in block.iters))
    if any(map(has_loads, told)):
        _no_padding(block, "has a condition or an index that reads a buffer")
    return Padded(store, inside, value, constant)


def _negation(condition: Expr) -> Expr:
    """What holds where `condition` does not."""
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
    return Unary("not", condition)


def _check_path(block: Block, path: Iterable[Stmt]) -> None:
    for stmt in path:
        if isinstance(stmt, Block | IfThenElse) and stmt is not block:
            _no_padding(block, "is inside a condition or another block in that loop")
        if isinstance(stmt, For) and (constant_value(stmt.extent) or 0) < 1:
            _no_padding(block, f'runs in "{stmt.var.name}", whose extent is no constant >= 1')


def _check_alone(func: PrimFunc, block: Block, loop: For, buffer: Buffer) -> None:
    """Nobody may see the padding where an element is to come, nor write before it."""
    for item in accesses(func):
        if loop in item.loops and item.block is not block and item.buffer is buffer:
            refuse(
                "E153",
                f'{VERB}: {buffer.name} is used elsewhere in "{loop.var.name}"',
                at=item.node,
                hint="fill before a loop that holds nothing else",
            )


def _fill_nest(block: Block, padded: Padded, inside: Sequence[For], names: Names) -> Stmt:
    """The padding of all the elements that the block stores in `inside`."""
    plain = replace(
        block, body=replace(padded.store, value=padded.constant), predicate=None, annotations=()
    )
    copy = copy_block(plain, names, f"{block.name}_pad")
    parts = list(conjuncts(block.predicate))
    used = {var for part in (*parts, *(it.value for it in copy.iters)) for var in variables(part)}
    loops = [lp for lp in inside if lp.var in used]
    fresh: dict[Node, Node] = {lp.var: names.var(f"{lp.var.name}_pad") for lp in loops}
    iters = tuple(replace(it, value=substitute(it.value, fresh)) for it in copy.iters)
    held = conjunction([substitute(part, fresh) for part in parts])
    around = [replace(lp, var=fresh[lp.var], annotations=()) for lp in loops]
    return nest(around, replace(copy, iters=iters, predicate=held))
