"""rfactor: partial results of a reduction, and their combination."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from minimlc.node import Mutator, Node, replace, walk
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.shape import check_plain_path, exclusive, loops_feeding
from minimlc.schedule.tree import (
    Names,
    Place,
    find_block,
    find_loop,
    nest,
    refuse,
    replaced,
    with_alloc,
)
from minimlc.tir.analysis.access import loop_ranges, reads_any
from minimlc.tir.analysis.arith import Ranges, conjuncts, constant_value, has_loads, key, variables
from minimlc.tir.analysis.reducers import Reducer, reducer, tuple_reducer
from minimlc.tir.analysis.regions import init_comes_first, repeats
from minimlc.tir.analysis.simplify import simplify
from minimlc.tir.analysis.wellformed import blocks_in
from minimlc.tir.nodes import (
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
    Var,
    conjunction,
    index,
    seq,
    substitute,
)

CODE = "E150"


@primitive(keeps_order=False)
def rfactor(func: PrimFunc, loop: str, axis: int = 0) -> PrimFunc:
    """Reduce each iteration of a reduction loop into a partial result; then combine these.

        for i, k_0, k_1 in grid(n, m, 4):        for i, k_0, k_1 in grid(n, m, 4):
            C[i] += A[i, k_0 * 4 + k_1]   -->        C_rf[k_1, i] += A[i, k_0 * 4 + k_1]
                                                 for i, k_1 in grid(n, 4):
                                                     C[i] += C_rf[k_1, i]

    Here `k_1` was factored; it is spatial in block `C_rf`, at position `axis` of buffer `C_rf`.
    Each partial result starts from the reducer's identity; the block's own init, if it has one,
    counts once, where the partial results are combined. A block that reduces several elements at
    once, as an argmax, has a buffer of partial results for each. Legal when the block is alone in
    its loops, its reducer is associative, commutative and has an identity, its init surely runs
    first, and no loop serves spatial and reduce iters. Sums of floats are rounded in another order.
    """
    place, factor = _block_in(func, loop)
    block = place.stmt
    assert isinstance(block, Block)
    top, own, shared = exclusive(func, place)
    reduce_loops = _reduce_loops(block, own, shared, factor)
    check_plain_path(place.around, "rfactor")
    how = _reducer(block, place)
    most = min(len(store.indices) for store in how.stores)
    if not 0 <= axis <= most:
        refuse("E118", f"rfactor: axis is a number from 0 to {most}, got {axis!r}")
    return _Factoring(func, block, how, axis, own, reduce_loops, factor).run(top)


class _Factoring:
    """The two nests: `partial` has one iter for each reduction loop, `final` one for all."""

    def __init__(
        self,
        func: PrimFunc,
        block: Block,
        how: Reducer,
        axis: int,
        own: Sequence[For],
        reduce_loops: Sequence[For],
        factor: For,
    ):
        self.func, self.block, self.how, self.axis = func, block, how, axis
        self.own, self.reduce_loops, self.factor = own, reduce_loops, factor
        self.names = Names(func)
        self.size = int(constant_value(factor.extent) or 0)
        self.always, self.sometimes = _conditions(block, how, own, reduce_loops)
        self.caches = tuple(self.cache(store.buffer) for store in how.stores)

    def cache(self, kept: Buffer) -> Buffer:
        shape = self.with_factor(kept.shape, self.size)
        return Buffer(self.names.buffer(f"{kept.name}_rf"), shape, kept.dtype)

    def with_factor(self, parts: tuple, factor: Any) -> tuple:
        return (*parts[: self.axis], factor, *parts[self.axis :])

    def run(self, top: Stmt) -> PrimFunc:
        new = seq((self.partial(), self.final()))
        result = replaced(self.func, {top: new})
        for cache in self.caches:
            result = with_alloc(result, cache)
        return finish(result)

    def partial(self) -> Stmt:
        """Each partial result starts anew, whatever is left out of it."""
        block, names = self.block, self.names
        loops = {lp: names.var(f"v{lp.var.name}") for lp in self.reduce_loops}
        over_loops: dict[Node, Node] = {lp.var: var for lp, var in loops.items()}
        kept = {it: replace(it, var=names.var(it.var.name)) for it in _spatial(block)}
        moved: dict[Node, Node] = {it.var: new.var for it, new in kept.items()}
        for it in block.iters:
            if it.kind == "R":
                moved[it.var] = substitute(it.value, over_loops)
        moved.update(over_loops)
        step = loops[self.factor]
        places = {
            cache: tuple(substitute(part, moved) for part in self.with_factor(store.indices, step))
            for cache, store in zip(self.caches, self.how.stores, strict=True)
        }
        caches = {s.buffer: c for s, c in zip(self.how.stores, self.caches, strict=True)}
        starts = [
            Store(cache, places[cache], start)
            for cache, start in zip(self.caches, self.starts(), strict=True)
        ]
        body = _Redirect(caches, places).visit(substitute(block.body, moved))
        held: dict[Node, Node] = {
            lp.var: it.var for it in kept.values() for lp in self.own if it.value is lp.var
        }
        inside = [substitute(part, {**over_loops, **held}) for part in self.sometimes]
        condition = conjunction(inside)
        if condition is not None:
            body = IfThenElse(condition, body)
        iters = [
            BlockIter(var, int(constant_value(lp.extent) or 0), kind, lp.var)
            for lp, var in loops.items()
            for kind in ("S" if lp is self.factor else "R",)
        ]
        name = names.block(f"{block.name}_rf")
        return nest(
            self.own,
            Block(name, (*kept.values(), *iters), conjunction(self.always), seq(starts), body),
        )

    def starts(self) -> Sequence[Const]:
        """The identity; a plain 0.0 will do for a float sum that starts from 0.0 anyway."""
        match self.block.init, self.how.start:
            case Store(_, _, Const() as own), (Const() as start,) if own.value == start.value:
                return (own,)
        return self.how.start

    def final(self) -> Stmt:
        """The block combines partial results where it combined values."""
        block = self.block
        loops = [lp for lp in self.own if lp not in self.reduce_loops] + [self.factor]
        again: dict[Node, Node] = {lp.var: self.names.var(lp.var.name) for lp in loops}
        step = self.names.var(f"v{self.factor.var.name}")
        at_zero: dict[Node, Node] = {it.var: index(0) for it in block.iters if it.kind == "R"}
        changes = {
            key(value): Load(cache, self.with_factor(store.indices, step))
            for value, cache, store in zip(
                self.how.values, self.caches, self.how.stores, strict=True
            )
        }
        stores = [
            replace(store, value=_Exchange(changes).visit(store.value)) for store in self.how.stores
        ]
        last = BlockIter(step, self.size, "R", _var(again[self.factor.var]))
        spatial = [replace(it, value=substitute(it.value, again)) for it in _spatial(block)]
        init = None if block.init is None else substitute(block.init, at_zero)
        combined = replace(
            block,
            iters=(*spatial, last),
            predicate=conjunction([substitute(part, again) for part in self.always]),
            init=None if init is None else substitute(init, again),
            body=substitute(seq(stores), again),
        )
        around = [
            replace(lp, var=_var(again[lp.var]), kind="serial", thread="", annotations=())
            for lp in loops
        ]
        return nest(around, combined)


class _Redirect(Mutator):
    """What is kept in some buffers is kept at given places of others instead."""

    def __init__(self, buffers: Mapping[Buffer, Buffer], places: Mapping[Buffer, tuple[Expr, ...]]):
        self.buffers, self.places = buffers, places

    def visit_Load(self, item: Load) -> Expr:
        if item.buffer not in self.buffers:
            return self.visit_children(item)
        cache = self.buffers[item.buffer]
        return replace(item, buffer=cache, indices=self.places[cache])

    def visit_Store(self, item: Store) -> Stmt:
        cache = self.buffers[item.buffer]
        return Store(cache, self.places[cache], self.visit(item.value))


class _Exchange(Mutator):
    """Other expressions in the place of some, which are given by their keys."""

    def __init__(self, changes: Mapping[Any, Expr]):
        self.changes = changes

    def visit(self, value: Any) -> Any:
        if isinstance(value, Expr) and key(value) in self.changes:
            return self.changes[key(value)]
        return super().visit(value)

    def visit_Load(self, item: Load) -> Expr:
        return item  # an index that looks like a value is none


def _block_in(func: PrimFunc, loop: str) -> tuple[Place, For]:
    factor = find_loop(func, loop).stmt
    assert isinstance(factor, For)
    inside = blocks_in(factor)
    if len(inside) != 1:
        refuse(CODE, f'rfactor: "{loop}" holds {len(inside)} blocks, not one', at=factor)
    place = find_block(func, inside[0].name)
    if any(isinstance(stmt, Block) for stmt in place.around):
        refuse(CODE, f'rfactor: "{inside[0].name}" is inside another block', at=place.stmt)
    return place, factor


def _reducer(block: Block, place: Place) -> Reducer:
    """How the block combines, where its values may be grouped in any way."""
    how = reducer(block)
    if how is None:
        _refuse_reducer(block)
    if any(has_loads(part) for store in how.stores for part in store.indices):
        refuse(CODE, f'rfactor: where block "{block.name}" writes is read from a buffer', at=block)
    if any(it.kind == "O" for it in block.iters):
        refuse(CODE, f'rfactor: the instances of block "{block.name}" must be taken in order')
    again = repeats(block, place.loops)
    if again:
        where = f'in each iteration of "{again[0].var.name}"'
        refuse(CODE, f'rfactor: block "{block.name}" runs anew {where}')
    guards = tuple(conjuncts(block.predicate))
    if block.init is not None and not init_comes_first(block, place.loops, guards):
        refuse(CODE, f'rfactor: the init of block "{block.name}" does not surely run first')
    return how


def _refuse_reducer(block: Block) -> NoReturn:
    several = tuple_reducer(block)
    if several is None:
        why = "is not of the form X[...] = X[...] op value, with a commutative op"
        refuse(CODE, f'rfactor: block "{block.name}" {why}', at=block)
    names = ", ".join(store.buffer.name for store in several.stores)
    if several.associative and several.commutative:
        refuse(CODE, f"rfactor: there is no ({names}) that leaves all others as they are", at=block)
    hint = "decide ties by the index too: x > V or (x == V and k < I)"
    if not several.associative:
        hint = "say which of NaN and a number is kept: x != x holds for NaN alone"
    verb = "exchanged" if several.associative else "grouped otherwise"
    refuse(
        CODE,
        f'rfactor: what block "{block.name}" combines may not be {verb}',
        at=block,
        example=f"({names}): {several.example}",
        hint=hint,
    )


def _reduce_loops(
    block: Block, own: Sequence[For], shared: Sequence[For], factor: For
) -> list[For]:
    reducing = [it for it in block.iters if it.kind == "R"]
    every = loops_feeding(reducing, [*shared, *own])
    both = loops_feeding(_spatial(block), every)
    if factor not in every or factor in both:
        why = f'rfactor: "{factor.var.name}" is no reduction loop of block "{block.name}"'
        refuse(CODE, why, at=factor)
    if both:
        refuse(CODE, f'rfactor: "{both[0].var.name}" serves spatial and reduce iters', at=both[0])
    if not set(every) <= set(own):
        refuse(CODE, f'rfactor: a reduction loop of "{block.name}" holds other statements too')
    for lp in own:
        extent = constant_value(lp.extent)
        if extent is None or extent < 1:
            refuse(CODE, f'rfactor: the extent of "{lp.var.name}" is not a constant >= 1', at=lp)
    speaking = {n for part in (block.init,) if part is not None for n in walk(part)}
    if speaking & {lp.var for lp in every}:
        refuse(CODE, f'rfactor: the init of "{block.name}" speaks of reduction loops', at=block)
    return every


def _conditions(
    block: Block, how: Reducer, own: Sequence[For], reducing: Sequence[For]
) -> tuple[list[Expr], list[Expr]]:
    """The conditions under which an element is reduced at all, and those that leave out values.

    Where an init runs first, an element is reduced where its first instance runs: that is what a
    condition says where the reduction loops are at 0.
    """
    kept = {store.buffer for store in how.stores}
    always: list[Expr] = []
    sometimes: list[Expr] = []
    own_vars = {lp.var for lp in reducing}
    zero: dict[Node, Node] = {lp.var: index(0) for lp in reducing}
    exact = {it.value for it in _spatial(block)}
    spatial_loops = {lp.var for lp in own} - own_vars
    for part in conjuncts(block.predicate):
        if reads_any(part, kept):
            refuse(CODE, f'rfactor: block "{block.name}" runs only where {part.script()}', at=block)
        spoken = variables(part)
        if not spoken & own_vars:
            always.append(part)
            continue
        sometimes.append(part)
        if spoken & spatial_loops - exact:
            why = f"rfactor: the condition {part.script()} speaks of more than iters"
            refuse(CODE, why, at=block)
        if block.init is not None:
            always.append(simplify(substitute(part, zero)))
    if block.init is None and any(variables(part) - own_vars for part in sometimes):
        _check_inside(block, how, own, always)
    return always, sometimes


def _check_inside(block: Block, how: Reducer, own: Sequence[For], always: Sequence[Expr]) -> None:
    """Without the other conditions, no iter and no index leaves its range."""
    ranges = loop_ranges(tuple(own)).assume(conjunction(always))
    inner = ranges.extended({it.var: it.extent for it in block.iters})
    places = [(it.value, it.extent) for it in _spatial(block)]
    fine = all(_within(ranges, *place) for place in places) and all(
        _within(inner, part, size)
        for store in how.stores
        for part, size in zip(store.indices, store.buffer.shape, strict=True)
    )
    if not fine:
        refuse(CODE, f'rfactor: the conditions of block "{block.name}" keep it in range', at=block)


def _within(ranges: Ranges, value: Expr, size: int) -> bool:
    low, high = ranges.bounds(value)
    return low >= 0 and high < size


def _spatial(block: Block) -> list[BlockIter]:
    return [it for it in block.iters if it.kind != "R"]


def _var(node: Node) -> Var:
    assert isinstance(node, Var)
    return node
