"""The primitive rfactor: partial results of a reduction, and their combination."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from minimlc.loops.ir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Stmt,
    Store,
    conjunction,
    index,
    seq,
    substitute,
)
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.proofs.access import loop_ranges, reads_any
from minimlc.loops.proofs.arith import conjuncts, constant_value, has_loads, key, variables
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.reducers import Reducer, reducer, tuple_reducer
from minimlc.loops.proofs.regions import init_comes_first, repeats
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Move, Redirect
from minimlc.loops.schedule.shape import check_plain_path, loops_feeding
from minimlc.loops.schedule.tree import (
    Nest,
    Place,
    find_block,
    find_loop,
    nest,
    replaced,
    runs,
    with_allocs,
)
from minimlc.loops.values.node import Mutator, Node, replace, walk

CODE = "E150"


@primitive(keeps_order=False)
def rfactor(func: PrimFunc, loop: str, axis: int = 0) -> PrimFunc:
    """Reduce each iteration of a reduction loop into a partial result; then combine these.

        for i, k_0, k_1 in grid(n, m, 4):        for i, k_0, k_1 in grid(n, m, 4):
            C[i] += A[i, k_0 * 4 + k_1]   -->        C_rf[k_1, i] += A[i, k_0 * 4 + k_1]
                                                 for i, k_1 in grid(n, 4):
                                                     C[i] += C_rf[k_1, i]

    Here `k_1` was factored; it is spatial in block `C_rf`, at position `axis` of buffer `C_rf` (a
    negative one counts from the end).
    Each partial result starts from the reducer's identity; the block's own init, if it has one,
    counts once, where the partial results are combined. A block that reduces several elements at
    once, as an argmax, has a buffer of partial results for each. Legal when the block is alone in
    its loops, its reducer is associative, commutative and has an identity, its init surely runs
    first, and no loop serves spatial and reduce iters. Sums of floats are rounded in another order.
    """
    place, factor = _block_in(func, loop)
    block = place.stmt
    around = place.nest()
    reducing = _reduce_loops(block, around, factor)
    check_plain_path(place.around)
    how = _reducer(block, place, around)
    most = min(len(store.indices) for store in how.stores)
    if not -most - 1 <= axis <= most:
        refuse("E118", f"axis is a number from {-most - 1} to {most}, got {axis!r}")
    axis %= most + 1
    always, sometimes = _conditions(block, how, around.own, reducing)
    names = Names(func)
    cut = _Cut(block, how, around.own, reducing, factor, axis, names)
    caches = [cut.cache(store.buffer) for store in how.stores]
    new = seq((_partial(cut, caches, always, sometimes), _final(cut, caches, always)))
    return finish(with_allocs(replaced(func, {around.top: new}), caches))


class _Cut(NamedTuple):
    """A reduction, its loops, and the one to factor, which becomes dimension `axis` of the
    partial results.
    """

    block: Block
    how: Reducer
    own: Sequence[For]
    reducing: Sequence[For]
    factor: For
    axis: int
    names: Names

    def with_factor(self, parts: tuple, factor: Any) -> tuple:
        return (*parts[: self.axis], factor, *parts[self.axis :])

    def cache(self, result: Buffer) -> Buffer:
        shape = self.with_factor(result.shape, _size(self.factor))
        return Buffer(self.names.buffer(f"{result.name}_rf"), shape, result.dtype)


def _size(loop: For) -> int:
    return int(constant_value(loop.extent) or 0)


def _partial(
    cut: _Cut, caches: Sequence[Buffer], always: Sequence[Expr], sometimes: Sequence[Expr]
) -> Stmt:
    """The block of partial results, an iter per reduction loop; each of them starts anew."""
    block, how, names = cut.block, cut.how, cut.names
    loops = {lp: names.var(f"v{lp.var.name}") for lp in cut.reducing}
    over_loops: dict[Node, Node] = {lp.var: var for lp, var in loops.items()}
    moved = names.again(iters=_spatial(block))
    kept = [replace(it, var=moved[it.var]) for it in _spatial(block)]
    reduced = (it for it in block.iters if it.kind == "R")
    moved |= {it.var: substitute(it.value, over_loops) for it in reduced} | over_loops
    moves: dict[Buffer, Move] = {}
    starts: list[Stmt] = []
    for store, cache, start in zip(how.stores, caches, _starts(block, how), strict=True):
        at = cut.with_factor(store.indices, loops[cut.factor])
        at = tuple(substitute(part, moved) for part in at)
        moves[store.buffer] = _place(cache, at)
        starts.append(Store(cache, at, start))
    body = Redirect(moves).visit(substitute(block.body, moved))
    held: dict[Node, Node] = {lp.var: it.var for it in kept for lp in cut.own if it.value is lp.var}
    condition = conjunction(substitute(part, {**over_loops, **held}) for part in sometimes)
    if condition is not None:
        body = IfThenElse(condition, body)
    iters = [
        BlockIter(var, _size(lp), "S" if lp is cut.factor else "R", lp.var)
        for lp, var in loops.items()
    ]
    name = names.block(f"{block.name}_rf")
    return nest(cut.own, Block(name, (*kept, *iters), conjunction(always), seq(starts), body))


def _place(cache: Buffer, at: tuple[Expr, ...]) -> Move:
    """One place for every access; a store is a new one, which no line of the source shows."""

    def move(item: Load | Store) -> Load | Store:
        if isinstance(item, Load):
            return replace(item, buffer=cache, indices=at)
        return Store(cache, at, item.value)

    return move


def _starts(block: Block, how: Reducer) -> Sequence[Const]:
    """The identity; a plain 0.0 will do for a float sum that starts from 0.0 anyway."""
    match block.init, how.start:
        case Store(_, _, Const() as init), (Const() as start,) if init.value == start.value:
            return (init,)
        case _:  # other nodes: not a plain start
            return how.start


def _final(cut: _Cut, caches: Sequence[Buffer], always: Sequence[Expr]) -> Stmt:
    """The block that combines partial results instead of values: one iter for all of them."""
    block, how, factor = cut.block, cut.how, cut.factor
    loops = [lp for lp in cut.own if lp not in cut.reducing] + [factor]
    again = cut.names.again(loops)
    step = cut.names.var(f"v{factor.var.name}")
    at_zero: dict[Node, Node] = {it.var: index(0) for it in block.iters if it.kind == "R"}
    partials = {
        key(value): Load(cache, cut.with_factor(store.indices, step))
        for value, cache, store in zip(how.values, caches, how.stores, strict=True)
    }
    stores = [replace(store, value=_Exchange(partials).visit(store.value)) for store in how.stores]
    combined = replace(
        block,
        iters=(*_spatial(block), BlockIter(step, _size(factor), "R", factor.var)),
        predicate=conjunction(always),
        init=None if block.init is None else substitute(block.init, at_zero),
        body=seq(stores),
    )
    around = [replace(lp, kind="serial", thread="", annotations=()) for lp in loops]
    return substitute(nest(around, combined), again)


class _Exchange(Mutator):
    """Other expressions in the place of some, which are given by their keys."""

    def __init__(self, changes: Mapping[Any, Expr]):
        self.changes = changes

    def visit(self, value: Any) -> Any:
        if isinstance(value, Expr) and key(value) in self.changes:
            return self.changes[key(value)]
        return super().visit(value)

    def visit_Load(self, item: Load) -> Expr:
        return item  # an index may look like a value


def _block_in(func: PrimFunc, loop: str) -> tuple[Place[Block], For]:
    factor = find_loop(func, loop).stmt
    inside = blocks_in(factor)
    if len(inside) != 1:
        refuse(CODE, f'"{loop}" holds {len(inside)} blocks, not one', at=factor)
    place = find_block(func, inside[0].name)
    if any(isinstance(stmt, Block) for stmt in place.around):
        refuse(CODE, f'"{inside[0].name}" is inside another block', at=place.stmt)
    return place, factor


def _reducer(block: Block, place: Place[Block], around: Nest) -> Reducer:
    """How the block combines, where its values may be grouped in any way."""
    how = reducer(block)
    if how is None:
        _refuse_reducer(block)
    if any(has_loads(part) for store in how.stores for part in store.indices):
        refuse(CODE, f'where block "{block.name}" writes is read from a buffer', at=block)
    if any(it.kind == "O" for it in block.iters):
        refuse(CODE, f'the instances of block "{block.name}" must be taken in order')
    for loop in repeats(block, around.own):  # those it shares repeat partial results as well
        where = f'in each iteration of "{loop.var.name}"'
        refuse(CODE, f'block "{block.name}" runs anew {where}')
    guards = tuple(conjuncts(block.predicate))
    if block.init is not None and not init_comes_first(block, place.loops, guards):
        refuse(CODE, f'the init of block "{block.name}" does not surely run first')
    return how


def _refuse_reducer(block: Block) -> NoReturn:
    several = tuple_reducer(block)
    if several is None:
        why = "is not of the form X[...] = X[...] op value, with a commutative op"
        refuse(CODE, f"{why}", of=block)
    names = ", ".join(store.buffer.name for store in several.stores)
    if several.associative and several.commutative:
        refuse(CODE, f"there is no ({names}) that leaves all others as they are", at=block)
    hint = "decide ties by the index too: x > V or (x == V and k < I)"
    if not several.associative:
        hint = "say which of NaN and a number is kept: x != x holds for NaN alone"
    verb = "exchanged" if several.associative else "grouped otherwise"
    why = f'what block "{block.name}" combines may not be {verb}'
    refuse(CODE, why, at=block, example=f"({names}): {several.example}", hint=hint)


def _reduce_loops(block: Block, nest: Nest, factor: For) -> list[For]:
    reducing = [it for it in block.iters if it.kind == "R"]
    every = loops_feeding(reducing, [*nest.shared, *nest.own])
    if constant_value(factor.extent) == 1 and not loops_feeding(block.iters, [factor]):
        every.append(factor)  # it may be one as well
    both = loops_feeding(_spatial(block), every)
    if factor not in every or factor in both:
        why = f'"{factor.var.name}" is not a reduction loop of block "{block.name}"'
        refuse(CODE, why, at=factor)
    if both:
        refuse(CODE, f'"{both[0].var.name}" serves spatial and reduce iters', at=both[0])
    if not set(every) <= set(nest.own):
        refuse(CODE, f'a reduction loop of "{block.name}" holds other statements too')
    for lp in nest.own:
        if not runs(lp):
            refuse(CODE, f'the extent of "{lp.var.name}" is not a constant >= 1', at=lp)
    inside = set(walk(block.init)) if block.init is not None else set()
    if inside & {lp.var for lp in every}:
        refuse(CODE, f'the init of "{block.name}" uses reduction loops', at=block)
    return every


def _conditions(
    block: Block, how: Reducer, loops: Sequence[For], reducing: Sequence[For]
) -> tuple[list[Expr], list[Expr]]:
    """The conditions under which an element is reduced at all, and those that leave out values.

    Where an init runs first, an element is reduced where its first instance runs: where
    the condition holds with the reduction loops at 0.
    """
    kept = {store.buffer for store in how.stores}
    always: list[Expr] = []
    sometimes: list[Expr] = []
    reduced = {lp.var for lp in reducing}
    zero: dict[Node, Node] = {lp.var: index(0) for lp in reducing}
    exact = {it.value for it in _spatial(block)}
    spatial_loops = {lp.var for lp in loops} - reduced
    for part in conjuncts(block.predicate):
        if reads_any(part, kept):
            refuse(CODE, f"runs only where {part.script()}", of=block)
        used = variables(part)
        if not used & reduced:
            always.append(part)
            continue
        sometimes.append(part)
        if used & spatial_loops - exact:
            why = f"the condition {part.script()} uses more than iters"
            refuse(CODE, why, at=block)
        if block.init is not None:
            always.append(simplify(substitute(part, zero)))
    if block.init is None and any(variables(part) - reduced for part in sometimes):
        _check_inside(block, how, loops, always)
    return always, sometimes


def _check_inside(block: Block, how: Reducer, loops: Sequence[For], always: Sequence[Expr]) -> None:
    """Refuse if, without the other conditions, an iter or index may leave its range."""
    ranges = loop_ranges(tuple(loops)).assume(conjunction(always))
    inner = ranges.extended({it.var: it.extent for it in block.iters})
    places = [(it.value, it.extent) for it in _spatial(block)]
    fine = all(_within(ranges, *place) for place in places) and all(
        _within(inner, part, size)
        for store in how.stores
        for part, size in zip(store.indices, store.buffer.shape, strict=True)
    )
    if not fine:
        refuse(CODE, f'the conditions of block "{block.name}" keep it in range', at=block)


def _within(ranges: Ranges, value: Expr, size: int) -> bool:
    low, high = ranges.bounds(value)
    return low >= 0 and high < size


def _spatial(block: Block) -> list[BlockIter]:
    return [it for it in block.iters if it.kind != "R"]
