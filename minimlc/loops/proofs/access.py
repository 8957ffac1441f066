"""Every read and write of a statement, with the loops and conditions around it.

Indices and conditions are given over loop variables alone: the iters of blocks are replaced by
their values, so all analyses see the same thing whatever the blocks look like.
"""

from collections.abc import Container, Hashable, Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.operators import REDUCERS
from minimlc.loops.ir.walks import MOST_ITERATIONS, condition_of, inner_stmts, rounds, stored_in
from minimlc.loops.proofs.arith import EVERYTHING, conjuncts, constant_value, has_loads, key, loaded
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.values.node import Node, children


class Access(NamedTuple):
    """One load or store as it stands in the program.

    `loops` go from outer to inner; `guards` are conditions that hold when it happens, all over
    loop variables. `block` is the innermost block around it; `role` is "init" inside a block's
    init, "update" for the two accesses of a reduction's target, else "". `order` counts accesses
    in program order. `runs_where` are the guards under which the block itself runs. `into` is the
    store whose value a read is part of; None where it decides what runs, or where.
    """

    buffer: ir.Buffer
    indices: tuple[ir.Expr, ...]
    is_write: bool
    loops: tuple[ir.For, ...]
    guards: tuple[ir.Expr, ...]
    block: ir.Block | None
    role: str
    order: int
    node: Node
    runs_where: tuple[ir.Expr, ...] = ()
    into: ir.Store | None = None

    def below(self, loop: ir.For | None) -> tuple[ir.For, ...]:
        """The loops around this access that lie inside `loop` (all of them for None)."""
        return self.loops if loop is None else self.loops[self.loops.index(loop) + 1 :]


def element_key(item: Access | ir.Load | ir.Store) -> Hashable:
    """A key that is equal for accesses of the same element."""
    return (item.buffer, *map(key, item.indices))


@lru_cache(maxsize=256)
def keys_of(exprs: tuple[ir.Expr, ...]) -> tuple[Hashable, ...]:
    """Keys that are equal for equal expressions."""
    return tuple(map(key, exprs))


@lru_cache(maxsize=128)
def nest_key(loops: tuple[ir.For, ...]) -> tuple[tuple[ir.Var, Hashable], ...]:
    """A key that is equal for nests with the same variables and extents."""
    return tuple((loop.var, key(loop.extent)) for loop in loops)


def shared_loops(first: Access, second: Access) -> tuple[ir.For, ...]:
    """The loops around both accesses."""
    pairs = zip(first.loops, second.loops, strict=False)
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] is pair[1], pairs))


def loop_extent(loop: ir.For, ranges: Ranges | None = None) -> int:
    """The greatest number of iterations of a loop; `MOST_ITERATIONS` where nothing is known."""
    if isinstance(loop.extent, ir.Const):
        return int(loop.extent.value)
    high = (ranges or Ranges()).bounds(loop.extent)[1]
    known = high < EVERYTHING[1] or constant_value(loop.extent) is not None
    return high if known else MOST_ITERATIONS


def loop_ranges(loops: tuple[ir.For, ...], outer: Ranges | None = None) -> Ranges:
    """The ranges of the variables of nested loops."""
    ranges = (outer or Ranges()).extended({})
    for loop in loops:
        ranges.variables[loop.var] = (0, max(1, loop_extent(loop, ranges)) - 1)
    return ranges


def loop_extents(loops: tuple[ir.For, ...]) -> dict[ir.Var, int]:
    """Each loop variable's greatest number of values."""
    ranges = loop_ranges(loops)
    return {loop.var: int(ranges.variables[loop.var][1]) + 1 for loop in loops}


def reducer_of(block: ir.Block) -> str | None:
    """The operator of a block of the form `X[i] = X[i] op e`, or `X[i] = X[i] op e op f`, in any
    order, where e and f do not read X.
    """
    store = update_of(block)
    if store is None or _target_of(store) is None:
        return None
    assert isinstance(store.value, ir.Binary)
    return store.value.op


def update_of(block: ir.Block) -> ir.Store | None:
    """The block's only store, also behind a condition that does not read its target."""
    conditions, body = _behind_conditions(block.body)
    if not isinstance(body, ir.Store) or any(reads(part, body.buffer) for part in conditions):
        return None
    return body


def reduction_parts(block: ir.Block) -> tuple[str, ir.Load, ir.Expr] | None:
    """Operator, target and combined value of a reduction block that combines with one value."""
    store = update_of(block)
    target = None if store is None else _target_of(store)
    match store:
        # other nodes: more is combined than the target and a value
        case ir.Store(value=ir.Binary(op, a, b)) if target is not None and target in (a, b):
            return op, target, b if target is a else a
    return None


def _target_of(store: ir.Store) -> ir.Load | None:
    """The load of the stored element, if a store combines it with other values by one operator."""
    if not isinstance(store.value, ir.Binary) or store.value.op not in REDUCERS:
        return None
    uses = [part for part in operands(store.value.op, store.value) if reads(part, store.buffer)]
    if len(uses) != 1 or not isinstance(uses[0], ir.Load):
        return None
    return uses[0] if element_key(uses[0]) == element_key(store) else None


def operands(op: str, value: ir.Expr) -> Iterator[ir.Expr]:
    """The operands of `a op (b op c)`, wherever the parentheses are, in their order."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, ir.Binary) and part.op == op:
            stack += (part.b, part.a)
        else:
            yield part


def starts_its_target(block: ir.Block) -> bool:
    """Whether a reduction's init is one store for each element that the body updates."""
    updates, starts = updates_of(block.body), _stores(block.init)
    if updates is None or starts is None or len(updates) != len(starts):
        return False
    targets = {store.buffer for store in updates}
    alone = len(starts) == 1 or not any(reads_any(store.value, targets) for store in starts)
    same = set(map(element_key, updates)) == set(map(element_key, starts))
    return alone and len(targets) == len(updates) and same


def updates_of(body: ir.Stmt) -> list[ir.Store] | None:
    """The stores of a block's body, also behind conditions that read none of their targets."""
    conditions, body = _behind_conditions(body)
    stores = _stores(body)
    targets = {store.buffer for store in stores or ()}
    return None if any(reads_any(part, targets) for part in conditions) else stores


def _behind_conditions(body: ir.Stmt) -> tuple[list[ir.Expr], ir.Stmt]:
    """The conditions that a statement begins with, one inside the other, and the one behind."""
    conditions = []
    while isinstance(body, ir.IfThenElse) and body.else_case is None:
        conditions.append(body.condition)
        body = body.then_case
    return conditions, body


def _stores(stmt: ir.Stmt | None) -> list[ir.Store] | None:
    """The stores that a statement consists of; None for another statement."""
    stmts = stmt.stmts if isinstance(stmt, ir.Seq) else (stmt,)
    stores = [part for part in stmts if isinstance(part, ir.Store)]
    return stores if stores and len(stores) == len(stmts) else None


def reads(expr: Node, buffer: ir.Buffer) -> bool:
    """Whether an expression or statement loads from `buffer`."""
    return reads_any(expr, (buffer,))


def lasting(condition: ir.Expr | None, stmt: ir.Stmt) -> ir.Expr | None:
    """The parts of a condition that hold throughout `stmt`: it writes nothing that they read."""
    if not has_loads(condition):
        return condition
    written = stored_in(stmt)
    return ir.conjunction(part for part in conjuncts(condition) if not reads_any(part, written))


def reads_any(expr: Node, buffers: Container[ir.Buffer]) -> bool:
    """Whether an expression or statement loads from one of `buffers`."""
    return any(buffer in buffers for buffer in loaded(expr))


class _Context(NamedTuple):
    """The context of a statement; `values` are those that iters have, over loop variables."""

    loops: tuple[ir.For, ...] = ()
    guards: tuple[ir.Expr, ...] = ()
    values: dict[Node, Node] = {}  # noqa: RUF012 (never changed)
    block: ir.Block | None = None
    role: str = ""
    runs_where: tuple[ir.Expr, ...] = ()
    into: ir.Store | None = None

    def over_loops(self, exprs: Iterable[ir.Expr]) -> tuple[ir.Expr, ...]:
        if not self.values:
            return tuple(exprs)
        return tuple([ir.substitute(expr, self.values) for expr in exprs])

    def where(self, condition: ir.Expr | None) -> "_Context":
        """This context where a condition holds too."""
        if condition is None:
            return self
        more = self.over_loops(conjuncts(condition))
        return self._replace(guards=(*self.guards, *more))

    def inside(self, item: ir.Stmt) -> Iterator[tuple[ir.Stmt, "_Context"]]:
        """The statements directly inside one in this context, each with its own context."""
        match item:
            # other nodes: all that is around what they hold is around them too
            case ir.For() | ir.While():
                yield item.body, self.in_loop(rounds(item))
            case ir.Block():
                inner = self._in_block(item)
                if item.init is not None:
                    reduced = self.over_loops(it.value for it in item.iters if it.kind == "R")
                    first = (ir.Binary("==", value, ir.index(0)) for value in reduced)
                    yield item.init, inner._replace(guards=(*inner.guards, *first), role="init")
                yield item.body, inner
            case _:
                for part in inner_stmts(item):
                    yield part, self.where(condition_of(item, part))

    def in_loop(self, loop: ir.For) -> "_Context":
        inner = _Context((*self.loops, loop), *self[1:])
        is_const = isinstance(loop.extent, ir.Const)
        (extent,) = (loop.extent,) if is_const else self.over_loops([loop.extent])
        if extent is loop.extent or has_loads(extent):
            return inner
        # The loop itself stays, as others are known by it, with iters in its extent.
        return inner.where(ir.Binary("<", loop.var, extent))

    def _in_block(self, block: ir.Block) -> "_Context":
        inner = self.where(block.predicate)
        new: dict[Node, Node] = {it.var: ir.substitute(it.value, self.values) for it in block.iters}
        values = {**self.values, **new}
        return inner._replace(values=values, block=block, runs_where=inner.guards)


def accesses(stmt: ir.Stmt | ir.PrimFunc) -> list[Access]:
    """Every access in `stmt`, in program order."""
    return list(_in_function(stmt)) if isinstance(stmt, ir.PrimFunc) else _collected(stmt)


@lru_cache(maxsize=32)
def _in_function(func: ir.PrimFunc) -> tuple[Access, ...]:
    items: list[Access] = []
    for part in top_statements(func):
        start = len(items)
        items += [item._replace(order=start + item.order) for item in part_accesses(part)]
    return tuple(items)


def top_statements(func: ir.PrimFunc) -> tuple[ir.Stmt, ...]:
    """A function's statements, one after the other. A step leaves most of them as they are, so
    facts about one are worth keeping.
    """
    return func.body.stmts if isinstance(func.body, ir.Seq) else (func.body,)


@lru_cache(maxsize=128)
def part_accesses(stmt: ir.Stmt) -> tuple[Access, ...]:
    """Every access in one of a function's top statements."""
    return tuple(_collected(stmt))


def touched(stmt: ir.Stmt) -> frozenset[ir.Buffer]:
    """The buffers that a function's statement reads or writes."""
    return frozenset(item.buffer for item in part_accesses(stmt))


class Alone(NamedTuple):
    """The parts of a block that do not depend on its iters' values: most steps keep them."""

    iters: tuple[tuple[ir.Var, int, ir.IterKind], ...]
    init: ir.Stmt | None
    body: ir.Stmt

    @classmethod
    def of(cls, block: ir.Block) -> "Alone":
        iters = tuple((it.var, it.extent, it.kind) for it in block.iters)
        return cls(iters, block.init, block.body)


@lru_cache(maxsize=256)
def accesses_alone(alone: Alone) -> tuple[Access, ...]:
    """The accesses of a block over its own iters."""
    iters = tuple(ir.BlockIter(var, extent, kind, var) for var, extent, kind in alone.iters)
    return tuple(accesses(ir.Block("alone", iters, None, alone.init, alone.body)))


@lru_cache(maxsize=256)
def _in_block(block: ir.Block) -> tuple[Access, ...]:
    collector = _Collector()
    collector.evaluated(block, _Context())
    return tuple(collector.items)


def _collected(stmt: ir.Stmt) -> list[Access]:
    collector = _Collector()
    collector.stmt(stmt, _Context())
    return collector.items


class _Collector:
    def __init__(self) -> None:
        self.items: list[Access] = []

    def stmt(self, item: ir.Stmt, at: _Context) -> None:
        if isinstance(item, ir.Block) and at.block is None:
            self.placed(item, at)
        else:
            self.evaluated(item, at)

    def placed(self, block: ir.Block, at: _Context) -> None:
        """Add the accesses of an outer block: only their loops and guards depend on where it
        stands.
        """
        for item in _in_block(block):
            loops, guards = at.loops + item.loops, at.guards + item.guards
            where = at.guards + item.runs_where if item.block else ()
            place = (item.block, item.role, len(self.items), item.node, where, item.into)
            placed = Access(item.buffer, item.indices, item.is_write, loops, guards, *place)
            self.items.append(placed)

    def evaluated(self, item: ir.Stmt, at: _Context) -> None:
        match item:
            case ir.Seq() | ir.Alloc():
                pass
            case ir.For(extent=expr) | ir.IfThenElse(condition=expr):
                self.expr(expr, at)
            case ir.Block(iters=iters, predicate=predicate):
                for it in iters:
                    self.expr(it.value, at)
                if predicate is not None:
                    self.expr(predicate, at)
            case ir.Store():
                self.store(item, at)
            case ir.While(condition):
                self.expr(condition, at.in_loop(rounds(item)))
            case _:
                raise TypeError(f"not a statement: {type(item).__name__}")
        for part, inner in at.inside(item):
            self.stmt(part, inner)

    def store(self, item: ir.Store, at: _Context) -> None:
        updates = at.role == "" and at.block is not None and reducer_of(at.block) is not None
        for part in item.indices:
            self.expr(part, at)
        self.expr(item.value, at._replace(into=item), _target_of(item) if updates else None)
        self.add(item, True, at._replace(role="update") if updates else at)

    def expr(self, expr: ir.Expr, at: _Context, target: ir.Load | None = None) -> None:
        if not has_loads(expr):
            return
        match expr:
            # other nodes: what is evaluated inside them is, whatever their operands are
            case ir.Load():
                for part in expr.indices:
                    self.expr(part, at._replace(into=None))
                self.add(expr, False, at._replace(role="update") if expr is target else at)
            case ir.Select(condition, a, b):
                self.expr(condition, at)
                self.expr(a, at.where(condition), target)
                self.expr(b, at.where(ir.Unary("not", condition)), target)
            case ir.Binary(("and" | "or") as op, a, b):
                self.expr(a, at)
                self.expr(b, at.where(a if op == "and" else ir.Unary("not", a)))
            case _:
                for operand in children(expr):
                    self.expr(operand, at, target)  # type: ignore[arg-type]

    def add(self, node: ir.Load | ir.Store, is_write: bool, at: _Context) -> None:
        indices, order = at.over_loops(node.indices), len(self.items)
        around = (at.loops, at.guards, at.block, at.role, order, node, at.runs_where, at.into)
        self.items.append(Access(node.buffer, indices, is_write, *around))
