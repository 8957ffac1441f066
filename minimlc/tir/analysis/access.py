"""Every read and write of a statement, with the loops and conditions around it.

Indices and conditions are given over loop variables alone: the iters of blocks are replaced by
their values, so all analyses see the same thing whatever the blocks look like.
"""

from collections.abc import Container, Hashable, Iterator
from functools import lru_cache
from typing import NamedTuple

from minimlc.node import Node, walk
from minimlc.tir.analysis.arith import conjuncts, has_loads, key
from minimlc.tir.analysis.ranges import Ranges
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
    Unary,
    Var,
    conjunction,
    index,
    substitute,
)
from minimlc.tir.operators import REDUCERS
from minimlc.tir.walks import condition_of, inner_stmts, statements_in, stored_in  # noqa: F401


class Access(NamedTuple):
    """One load or store as it stands in the program.

    `loops` go from outer to inner; `guards` are conditions that hold when it happens, all over
    loop variables. `block` is the innermost block around it; `role` is "init" inside a block's
    init, "update" for the two accesses of a reduction's target, else "". `order` counts accesses
    in program order. `runs_where` are the guards under which the block itself runs. `into` is the
    store whose value a read is part of; None where it decides what runs, or where.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_write: bool
    loops: tuple[For, ...]
    guards: tuple[Expr, ...]
    block: Block | None
    role: str
    order: int
    node: Node
    runs_where: tuple[Expr, ...] = ()
    into: Store | None = None

    def below(self, loop: For | None) -> tuple[For, ...]:
        """The loops around this access that lie inside `loop` (all of them for None)."""
        if loop is None:
            return self.loops
        return self.loops[self.loops.index(loop) + 1 :]


def element_key(item: Access | Load | Store) -> Hashable:
    """Equal for accesses of the same element."""
    return (item.buffer, *map(key, item.indices))


def loop_extent(loop: For, ranges: Ranges | None = None) -> int:
    """The greatest number of iterations of a loop."""
    high = (ranges or Ranges()).bounds(loop.extent)[1]
    return int(high) if high < 2**62 else 2**62


def loop_ranges(loops: tuple[For, ...], outer: Ranges | None = None) -> Ranges:
    """What is known of the variables of nested loops."""
    ranges = outer or Ranges()
    for loop in loops:
        ranges = ranges.extended({loop.var: max(1, loop_extent(loop, ranges))})
    return ranges


def loop_extents(loops: tuple[For, ...]) -> dict[Var, int]:
    """Each loop variable's greatest number of values."""
    ranges = loop_ranges(loops)
    return {loop.var: int(ranges.variables[loop.var][1]) + 1 for loop in loops}


def reducer_of(block: Block) -> str | None:
    """The operator of a block of the form `X[i] = X[i] op e`, or `X[i] = X[i] op e op f`, where e
    and f do not read X.
    """
    store = update_of(block)
    if store is None or _target_of(store) is None:
        return None
    assert isinstance(store.value, Binary)
    return store.value.op


def update_of(block: Block) -> Store | None:
    """The block's only store, also behind a condition that does not read its target."""
    conditions, body = _behind_conditions(block.body)
    if not isinstance(body, Store) or any(reads(part, body.buffer) for part in conditions):
        return None
    return body


def reduction_parts(block: Block) -> tuple[str, Load, Expr] | None:
    """Operator, target and combined value of a reduction block that combines with one value."""
    store = update_of(block)
    target = None if store is None else _target_of(store)
    if store is None or target is None:
        return None
    assert isinstance(store.value, Binary)
    op, a, b = store.value.op, store.value.a, store.value.b
    if target not in (a, b):
        return None
    return op, target, b if target is a else a


def _target_of(store: Store) -> Load | None:
    """What a store combines with other values, by operators of one kind from left to right."""
    value = store.value
    if not isinstance(value, Binary) or value.op not in REDUCERS:
        return None
    op, parts = value.op, [value.b]
    value = value.a
    while isinstance(value, Binary) and value.op == op:
        parts.append(value.b)
        value = value.a
    parts.append(value)
    own = [part for part in parts if reads(part, store.buffer)]
    if len(own) != 1 or not isinstance(own[0], Load):
        return None
    return own[0] if element_key(own[0]) == element_key(store) else None


def starts_its_target(block: Block) -> bool:
    """Whether a reduction's init is one store for each element that the body updates."""
    updates, starts = updates_of(block.body), _stores(block.init)
    if updates is None or starts is None or len(updates) != len(starts):
        return False
    targets = {store.buffer for store in updates}
    alone = len(starts) == 1 or not any(reads_any(store.value, targets) for store in starts)
    same = set(map(element_key, updates)) == set(map(element_key, starts))
    return alone and len(targets) == len(updates) and same


def updates_of(body: Stmt) -> list[Store] | None:
    """The stores of a block's body, also behind conditions that read none of their targets."""
    conditions, body = _behind_conditions(body)
    stores = _stores(body)
    targets = {store.buffer for store in stores or ()}
    return None if any(reads_any(part, targets) for part in conditions) else stores


def _behind_conditions(body: Stmt) -> tuple[list[Expr], Stmt]:
    """The conditions that a statement begins with, one inside the other, and what is behind."""
    conditions = []
    while isinstance(body, IfThenElse) and body.else_case is None:
        conditions.append(body.condition)
        body = body.then_case
    return conditions, body


def _stores(stmt: Stmt | None) -> list[Store] | None:
    """The stores that a statement consists of; None for another statement."""
    stmts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    stores = [part for part in stmts if isinstance(part, Store)]
    return stores if stores and len(stores) == len(stmts) else None


def reads(expr: Node, buffer: Buffer) -> bool:
    """Whether an expression or statement loads from `buffer`."""
    return reads_any(expr, (buffer,))


def lasting(condition: Expr | None, stmt: Stmt) -> Expr | None:
    """The parts of a condition that hold throughout `stmt`: it writes nothing that they read."""
    if not has_loads(condition):
        return condition
    written = stored_in(stmt)
    return conjunction(part for part in conjuncts(condition) if not reads_any(part, written))


def reads_any(expr: Node, buffers: Container[Buffer]) -> bool:
    """Whether an expression or statement loads from one of `buffers`."""
    return any(isinstance(n, Load) and n.buffer in buffers for n in walk(expr))


class _Context(NamedTuple):
    loops: tuple[For, ...] = ()
    guards: tuple[Expr, ...] = ()
    values: dict[Node, Node] = {}  # noqa: RUF012 (never changed)
    block: Block | None = None
    role: str = ""
    runs_where: tuple[Expr, ...] = ()
    into: Store | None = None


def accesses(stmt: Stmt | PrimFunc) -> list[Access]:
    """Every access in `stmt`, in program order."""
    return list(_in_function(stmt)) if isinstance(stmt, PrimFunc) else _collected(stmt)


@lru_cache(maxsize=32)
def _in_function(func: PrimFunc) -> tuple[Access, ...]:
    items: list[Access] = []
    for part in top_statements(func):
        start = len(items)
        items += [item._replace(order=start + item.order) for item in part_accesses(part)]
    return tuple(items)


def top_statements(func: PrimFunc) -> tuple[Stmt, ...]:
    """The statements that a function does one after the other. A step leaves most of them as they
    are, so what is known of one is worth keeping.
    """
    return func.body.stmts if isinstance(func.body, Seq) else (func.body,)


@lru_cache(maxsize=128)
def part_accesses(stmt: Stmt) -> tuple[Access, ...]:
    """Every access in one of a function's own statements."""
    return tuple(_collected(stmt))


def touched(stmt: Stmt) -> frozenset[Buffer]:
    """The buffers that a function's statement reads or writes."""
    return frozenset(item.buffer for item in part_accesses(stmt))


@lru_cache(maxsize=256)
def _in_block(block: Block) -> tuple[Access, ...]:
    collector = _Collector()
    collector.block(block, _Context())
    return tuple(collector.found)


def _collected(stmt: Stmt) -> list[Access]:
    collector = _Collector()
    collector.stmt(stmt, _Context())
    return collector.found


class _Collector:
    def __init__(self) -> None:
        self.found: list[Access] = []

    def stmt(self, item: Stmt, at: _Context) -> None:
        match item:
            case For():
                self.expr(item.extent, at)
                inner = at._replace(loops=(*at.loops, item))
                extent = substitute(item.extent, at.values)
                if extent is not item.extent and not has_loads(extent):
                    # The loop itself stays, as others are known by it, with iters in its extent.
                    inner = self.guarded(inner, Binary("<", item.var, extent))
                self.stmt(item.body, inner)
            case Seq() | Alloc():
                for inside in inner_stmts(item):
                    self.stmt(inside, at)
            case IfThenElse(condition):
                self.expr(condition, at)
                for inside in inner_stmts(item):
                    self.stmt(inside, self.guarded(at, condition_of(item, inside)))
            case Block() if at.block is None:
                self.placed(item, at)
            case Block():
                self.block(item, at)
            case Store(buffer, indices, value):
                role = at.role
                target = None
                if role == "" and at.block is not None and reducer_of(at.block):
                    role = "update"
                    target = _target_of(item)
                for part in indices:
                    self.expr(part, at)
                self.expr(value, at._replace(into=item), target)
                self.add(item, buffer, indices, True, at._replace(role=role))
            case _:
                raise TypeError(f"no statement: {type(item).__name__}")

    def placed(self, block: Block, at: _Context) -> None:
        """The accesses of an outer block, which are the same wherever it stands but for what is
        around.
        """
        for item in _in_block(block):
            self.found.append(
                item._replace(
                    loops=at.loops + item.loops,
                    guards=at.guards + item.guards,
                    order=len(self.found),
                    runs_where=at.guards + item.runs_where if item.block else (),
                )
            )

    def block(self, block: Block, at: _Context) -> None:
        for it in block.iters:
            self.expr(it.value, at)
        if block.predicate is not None:
            self.expr(block.predicate, at)
            at = self.guarded(at, block.predicate)
        values: dict[Node, Node] = {it.var: substitute(it.value, at.values) for it in block.iters}
        inner = at._replace(values={**at.values, **values}, block=block, runs_where=at.guards)
        if block.init is not None:
            first = tuple(
                Binary("==", substitute(it.value, at.values), index(0))
                for it in block.iters
                if it.kind == "R"
            )
            self.stmt(block.init, inner._replace(guards=(*inner.guards, *first), role="init"))
        self.stmt(block.body, inner)

    def guarded(self, at: _Context, condition: Expr | None) -> _Context:
        parts = tuple(substitute(part, at.values) for part in conjuncts(condition))
        return at._replace(guards=(*at.guards, *parts))

    def expr(self, expr: Expr, at: _Context, target: Load | None = None) -> None:
        match expr:
            # other nodes: what is evaluated inside them is, whatever their operands are
            case Load(buffer, indices):
                for part in indices:
                    self.expr(part, at._replace(into=None))
                role = "update" if expr is target else at.role
                self.add(expr, buffer, indices, False, at._replace(role=role))
            case Select(condition, a, b):
                self.expr(condition, at)
                self.expr(a, self.guarded(at, condition), target)
                self.expr(b, self.guarded(at, Unary("not", condition)), target)
            case Binary(("and" | "or") as op, a, b):
                self.expr(a, at)
                self.expr(b, self.guarded(at, a if op == "and" else Unary("not", a)))
            case _:
                for part in _operands(expr):
                    self.expr(part, at, target)

    def add(
        self, node: Node, buffer: Buffer, indices: tuple[Expr, ...], write: bool, at: _Context
    ) -> None:
        over_loops = tuple(substitute(part, at.values) for part in indices)
        order = len(self.found)
        self.found.append(
            Access(
                buffer,
                over_loops,
                write,
                at.loops,
                at.guards,
                at.block,
                at.role,
                order,
                node,
                at.runs_where,
                at.into,
            )
        )


def _operands(expr: Expr) -> Iterator[Expr]:
    for name in expr._fields:
        value = getattr(expr, name)
        if isinstance(value, Expr):
            yield value
        elif isinstance(value, tuple):
            yield from (v for v in value if isinstance(v, Expr))
