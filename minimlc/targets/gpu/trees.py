"""Reductions over the threads of a block, as trees in shared memory.

`bind` lets threads combine values: all of them update one element, and their order does not matter
to the result. Run at once they would race. So each thread combines its own values, pairs of threads
combine theirs, half as many in each step, and one thread updates the element:

    for k in threadIdx.x(32):        for k in threadIdx.x(32):
        C[i] = C[i] + A[i, k]  -->       C_block[k] = A[i, k]
                                     for k in threadIdx.x(32):
                                         if k < 16:
                                             C_block[k] = C_block[k] + C_block[k + 16]
                                     ...
                                     C[i] = C[i] + C_block[0]

A sum of floats is rounded in another order than by a serial loop, as with `rfactor`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.nodes import SHARED, THREAD
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.lower.lower import TENSOR
from minimlc.loops.proofs.access import Access, accesses, reads_any
from minimlc.loops.proofs.arith import conjuncts, constant_value, has_loads, variables
from minimlc.loops.proofs.legality import combined, commutes
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.reducers import Reducer, reducer
from minimlc.loops.proofs.simplify import Simplifier
from minimlc.loops.schedule.fresh import Names
from minimlc.loops.schedule.tree import replaced
from minimlc.loops.values.node import Node, replace
from minimlc.targets.gpu.refusal import refused
from minimlc.targets.gpu.shuffles import HALVES, SHUFFLES
from minimlc.targets.gpu.warps import LANES, X


def with_trees(func: tir.PrimFunc) -> tir.PrimFunc:
    """`func` without reductions over the threads of a block. Raises `BuildError` for one that is
    not of the form that a tree needs.
    """
    items = accesses(func)
    private = [buffer for buffer in func.allocs if not buffer.scope.startswith(SHARED)]
    reductions: dict[tir.Block, list[tir.For]] = {}
    for loop in loops_in(func.body):
        if loop.thread.startswith(THREAD):
            for block in combined(loop, items, private):
                reductions.setdefault(block, []).append(loop)
    if not reductions:
        return func
    names = Names(func)
    trees = [_tree(block, loops, items, names) for block, loops in reductions.items()]
    func = replaced(func, {tree.chain[0]: tree.stmt() for tree in trees})
    return replace(func, allocs=(*func.allocs, *(b for tree in trees for b in tree.buffers)))


class _Tree(NamedTuple):
    """A reduction: the `chain` of loops with nothing but `block` inside; the loops in it whose
    threads combine values, `combining`; the loops of threads `around` it. `buffers` keep the values
    of a block of threads, and the value of one thread.
    """

    block: tir.Block
    chain: tuple[tir.For, ...]
    combining: tuple[tir.For, ...]
    around: tuple[tir.For, ...]
    reducer: Reducer
    buffers: tuple[tir.Buffer, tir.Buffer]

    @property
    def bound(self) -> list[tir.For]:
        return [loop for loop in self.chain if loop.thread]

    @property
    def serial(self) -> list[tir.For]:
        return [loop for loop in self.chain if not loop.thread]

    @property
    def inner(self) -> set[tir.Var]:
        """The variables that distinguish the instances that are combined."""
        return {loop.var for loop in (*self.combining, *self.serial)}

    @property
    def values(self) -> dict[Node, Node]:
        return {it.var: it.value for it in self.block.iters}

    @property
    def guards(self) -> list[tir.Expr]:
        """The conditions under which an instance combines a value, over the loops."""
        inside = (tir.substitute(part, self.values) for part in _conditions(self.block.body))
        return [*conjuncts(self.block.predicate), *inside]

    def stmt(self) -> tir.Stmt:
        """The statement that replaces the outermost loop of the chain."""
        rest = [loop for loop in self.bound if loop not in self.combining]
        parts: list[tir.Stmt] = [_looped(self._partial(), self.bound)]
        for is_near, steps in groupby(self._halves(), lambda step: 0 < step[0] <= LANES // 2):
            listed = list(steps)
            parts += [stmt for _, stmt in listed]
            if is_near:
                whole = len(parts) == len(listed) + 1
                parts = self._near(parts, [half for half, _ in listed], whole)
        return tir.seq((*parts, _looped(self._result(), rest)))

    def _near(self, parts: list[tir.Stmt], halves: list[int], whole: bool) -> list[tir.Stmt]:
        """Parts whose last ones are steps within a warp, these as a block; all are if `whole`."""
        count = len(parts) if whole else len(halves)
        notes = (TENSOR, SHUFFLES), (HALVES, tuple(halves))
        name = f"{self.block.name}_tree"
        return [*parts[:-count], tir.Block(name, (), None, None, tir.seq(parts[-count:]), notes)]

    def both(self, place: tir.Load, value: tir.Expr) -> tir.Store:
        """`value` combined with what is in a place."""
        update = self.reducer.stores[0].value
        assert isinstance(update, tir.Binary)
        return _stored(place, tir.Binary(update.op, place, value))

    def _place(self, moved: Mapping[tir.Var, tir.Expr]) -> tir.Load:
        """The value of a thread, of another one where variables have `moved`."""
        loops = [*self.around, *_threads(self.chain)]
        return tir.Load(self.buffers[0], tuple(moved.get(loop.var, loop.var) for loop in loops))

    def _partial(self) -> tir.Stmt:
        """The statement by which a thread combines its values alone."""
        shared, guard = self._place({}), tir.conjunction(self.guards)
        value = tir.substitute(self.reducer.values[0], self.values)
        if not self.serial and guard is None:
            return _stored(shared, value)
        kept = tir.Load(self.buffers[1], (tir.index(0),))
        body: tir.Stmt = self.both(kept, value)
        body = body if guard is None else tir.IfThenElse(guard, body)
        for loop in reversed(self.serial):
            body = replace(loop, body=body)
        return tir.seq((_stored(kept, self.reducer.start[0]), body, _stored(shared, kept)))

    def _halves(self) -> Iterator[tuple[int, tir.Stmt]]:
        """The steps of the tree, one axis after the other; the distance between the threads on
        axis X, 0 on others.
        """
        done: list[tir.Expr] = []
        for loop in reversed(self.combining):
            count = _extent(loop)
            while count > 1:
                half = (count + 1) // 2
                other = self._place({loop.var: loop.var + half})
                active = tir.conjunction([loop.var < count - half, *done])
                assert active is not None
                step = tir.IfThenElse(active, self.both(self._place({}), other))
                yield half * (loop.thread == X), _looped(step, self.bound)
                count = half
            done.append(tir.Binary("==", loop.var, tir.index(0)))

    def _result(self) -> tir.Block:
        """The work of one thread with the value of all: the block at its first instance. Where no
        instance is to run, neither does that: with an init, the first one runs if any does
        (`first_comes_first`); without one, to combine the start changes nothing.
        """
        block, zero = self.block, {var: tir.index(0) for var in self.inner}
        held: Iterable[tir.Expr] = conjuncts(block.predicate)
        if block.init is None:
            held = (part for part in self.guards if not variables(part) & self.inner)
        else:
            loops = (*self.combining, *self.serial)
            ends = (loop.extent for loop in loops if _extent(loop) < 1)
            held = [*held, *(tir.Binary(">", end, tir.index(0)) for end in ends)]
        held = [_simplified(part, zero) for part in held]
        iters = tuple(replace(it, value=_simplified(it.value, zero)) for it in block.iters)
        kept = tir.Load(self.reducer.stores[0].buffer, self.reducer.stores[0].indices)
        body = self.both(kept, self._place({**zero}))
        return replace(block, iters=iters, predicate=tir.conjunction(held), body=body)


def _conditions(body: tir.Stmt) -> list[tir.Expr]:
    """The conditions around the update that a block's body is."""
    match body:
        case tir.Store():
            return []
        case tir.IfThenElse(condition, inside, None):
            return [*conjuncts(condition), *_conditions(inside)]
        case _:
            raise refused("threads combine values by more than an update of one element")


def _looped(body: tir.Stmt, loops: Sequence[tir.For]) -> tir.Stmt:
    """`body` in each iteration of new copies of `loops`."""
    for loop in reversed(loops):
        var = tir.Var(loop.var.name)
        body = replace(loop, var=var, body=tir.substitute(body, {loop.var: var}))
    return body


def _simplified(item: tir.Expr, values: Mapping[tir.Var, tir.Expr]) -> tir.Expr:
    mapping: dict[Node, Node] = dict(values.items())
    new: tir.Expr = Simplifier(Ranges()).visit(tir.substitute(item, mapping))
    return new


def _stored(place: tir.Load, value: tir.Expr) -> tir.Store:
    return tir.Store(place.buffer, place.indices, value)


def _extent(loop: tir.For) -> int:
    return int(constant_value(loop.extent) or 0)


def _threads(loops: Iterable[tir.For]) -> list[tir.For]:
    return [loop for loop in loops if loop.thread.startswith(THREAD)]


def _tree(
    block: tir.Block, loops: Sequence[tir.For], items: Sequence[Access], names: Names
) -> _Tree:
    update = next(item for item in items if item.block is block and item.role == "update")
    start = min(map(update.loops.index, loops))
    kind = reducer(block)
    if kind is None:
        raise refused(f"how threads are to combine the values of {block.name} is not known")
    home = kind.stores[0].indices
    values: dict[Node, Node] = {it.var: it.value for it in block.iters}
    fixed = set().union(*(variables(tir.substitute(at, values)) for at in home))
    while start and _joins(update.loops[start - 1], update, fixed):
        start -= 1
    chain, around = update.loops[start:], _threads(update.loops[:start])
    shape = tuple(_extent(loop) for loop in (*around, *_threads(chain)))
    name, dtype = kind.stores[0].buffer.name, kind.stores[0].buffer.dtype
    shared = tir.Buffer(names.buffer(f"{name}_block"), shape, dtype, SHARED)
    private = tir.Buffer(names.buffer(f"{name}_thread"), (1,), dtype, "local")
    combining = tuple(loop for loop in chain if loop in loops)
    tree = _Tree(block, chain, combining, tuple(around), kind, (shared, private))
    _check_chain(tree)
    _check_element(tree, fixed)
    return tree


def _joins(loop: tir.For, update: Access, fixed: set[tir.Var]) -> bool:
    """Whether a thread can run a loop around the chain on its own: it only adds instances, in
    whatever order, to the same elements.
    """
    alone = update.loops[update.loops.index(loop) + 1] is loop.body
    free = loop.kind in ("serial", "unrolled") and loop.var not in fixed
    return alone and free and commutes(update, update, (loop,))


def _check_chain(tree: _Tree) -> None:
    """Check that the loops of the chain have nothing else inside, and no axis is bound twice."""
    first, name = tree.combining[0].var.name, tree.block.name
    for loop, body in zip(tree.chain, (*tree.chain[1:], tree.block), strict=True):
        if loop.body is not body:
            raise refused(
                f"threads of {first} combine values of {name}, and {loop.var.name} runs more",
                f"move {name} to a nest of its own: sch.decompose_reduction, or compute_at",
            )
    axes = [loop.thread for loop in (*tree.around, *tree.bound)]
    if len(set(axes)) < len(axes):
        raise refused(f"threads combine the values of {name} where they fetch together")


def _check_element(tree: _Tree, fixed: set[tir.Var]) -> None:
    """Check that a thread's values all go to one element, and it is known whether there is one."""
    first, kept = tree.combining[0].var.name, tree.reducer.stores[0]
    inside = [loop.var.name for loop in tree.chain if loop.var in fixed & tree.inner]
    if inside or any(map(has_loads, kept.indices)):
        raise refused(
            f"threads of {first} combine values for several elements of {kept.buffer.name}",
            *([f'sch.reorder("{inside[0]}", "{first}")'] if inside else []),
        )
    if any(reads_any(part, (kept.buffer,)) for part in tree.guards):
        raise refused(f"what threads of {first} combine depends on what {kept.buffer.name} is")
    mixed = (variables(part) for part in tree.guards)
    if tree.block.init is None and any(v & tree.inner and v - tree.inner for v in mixed):
        raise refused(f"whether any thread of {first} runs {tree.block.name} is not known")
