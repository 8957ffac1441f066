"""Blocks become flat loops, and buffers get storage: the form that every target starts from."""

from collections.abc import Sequence
from typing import Any

from minimlc.codegen.dialect import PLAIN, Dialect, Legalize
from minimlc.node import Mutator, Node, replace
from minimlc.tir.analysis.access import Access, accesses, lasting, loop_ranges, reads
from minimlc.tir.analysis.arith import constant_value
from minimlc.tir.analysis.legality import has_lanes
from minimlc.tir.analysis.ranges import Ranges
from minimlc.tir.analysis.regions import Box, enclosing_box, is_private
from minimlc.tir.analysis.simplify import Simplifier
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    conjunction,
    index,
    seq,
    substitute,
)

TENSOR = "tensor_intrin"
"""The annotation of a block that a tensor intrinsic has taken over."""


def lower(
    func: PrimFunc,
    *,
    dialect: Dialect = PLAIN,
    named: bool = False,
    tensors: bool = False,
    whole: bool = False,
) -> PrimFunc:
    """`func` without blocks: loops, conditions and stores, with storage placed by `Alloc`.

    A buffer is placed in the innermost loop whose iterations can own it (each writes every
    element before it reads it), and is cut to the box of elements that one iteration touches.
    With `named`, a block without iters stays around what was a block, to say its name; with
    `tensors`, one stays around what was tensorized. With `whole`, no buffer is cut: an index is
    outside of the buffer that was written, and says so. Expressions are of the `dialect`'s own
    operations.
    """
    placed = _place_all(func, whole)
    body = _Flatten(named, tensors).visit(placed.body)
    body = _Simplify(Ranges()).visit(body)
    return replace(placed, body=Legalize(dialect).visit(body))


def _place_all(func: PrimFunc, whole: bool) -> PrimFunc:
    body = func.body
    for buffer in func.allocs:
        items = accesses(body)
        body = _place(buffer, body, items, (), whole)
    return replace(func, allocs=(), body=body)


def _place(
    buffer: Buffer,
    stmt: Stmt,
    items: Sequence[Access],
    loops: tuple[For, ...],
    whole: bool,
) -> Stmt:
    """`stmt` with an `Alloc` of `buffer` as far inside as is right."""
    match stmt:  # other nodes: no further inside
        case Seq(stmts):
            users = [part for part in stmts if _uses(part, buffer)]
            if len(users) == 1 and not isinstance(users[0], Store):
                new = _place(buffer, users[0], items, loops, whole)
                return Seq(tuple(new if part is users[0] else part for part in stmts))
        case For():
            if not has_lanes(stmt) and is_private(buffer, stmt, items):
                return replace(stmt, body=_place(buffer, stmt.body, items, (*loops, stmt), whole))
        case IfThenElse(condition, then_case, None) if not reads(condition, buffer):
            return replace(stmt, then_case=_place(buffer, then_case, items, loops, whole))
        case Block(init=None) if not _is_read_outside(stmt, buffer):
            return replace(stmt, body=_place(buffer, stmt.body, items, loops, whole))
        case Alloc():
            return replace(stmt, body=_place(buffer, stmt.body, items, loops, whole))
    if whole and any(item.buffer is buffer for item in items):
        return Alloc(buffer, stmt)
    return _allocate(buffer, stmt, items, loops)


def _is_read_outside(block: Block, buffer: Buffer) -> bool:
    """Whether a block's predicate or its iters' values read a buffer."""
    outside = [it.value for it in block.iters]
    outside += [] if block.predicate is None else [block.predicate]
    return any(reads(expr, buffer) for expr in outside)


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return any(item.buffer is buffer for item in accesses(stmt))


def _allocate(buffer: Buffer, stmt: Stmt, items: Sequence[Access], loops: tuple[For, ...]) -> Stmt:
    mine = [item for item in items if item.buffer is buffer]
    if not mine:
        return stmt
    box = enclosing_box(buffer, mine, [loop.var for loop in loops])
    small = replace(buffer, shape=tuple(side.extent for side in box))
    if small is buffer:
        return Alloc(buffer, stmt)
    return Alloc(small, _Shrink(buffer, small, box).visit(stmt))


class _Shrink(Mutator):
    """Moves the accesses of a buffer to a smaller one that starts at a box's corner."""

    def __init__(self, old: Buffer, new: Buffer, box: Box):
        self.old, self.new = old, new
        self.starts = [side.start for side in box]

    def visit_Load(self, item: Load) -> Any:
        item = self.visit_children(item)
        if item.buffer is not self.old:
            return item
        return replace(item, buffer=self.new, indices=self._moved(item.indices))

    def visit_Store(self, item: Store) -> Any:
        item = self.visit_children(item)
        if item.buffer is not self.old:
            return item
        return replace(item, buffer=self.new, indices=self._moved(item.indices))

    def _moved(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        pairs = zip(indices, self.starts, strict=True)
        return tuple(i if constant_value(s) == 0 else i - s for i, s in pairs)


class _Flatten(Mutator):
    """Iters become their values, predicates and inits become conditions.

    The threads of a GPU become iterations one after the other: no target has such threads yet.
    """

    def __init__(self, named: bool, tensors: bool):
        self.named = named
        self.tensors = tensors

    def visit_For(self, item: For) -> Stmt:
        item = self.visit_children(item)
        return replace(item, kind="serial", thread="") if item.kind == "thread_binding" else item

    def visit_Block(self, block: Block) -> Stmt:
        values: dict[Node, Node] = {it.var: it.value for it in block.iters}
        body = self.visit(substitute(block.body, values))
        if self.tensors and any(key == TENSOR for key, _ in block.annotations):
            body = Block(block.name, (), None, None, body, block.annotations)
        if block.init is not None:
            first = conjunction(
                Binary("==", it.value, index(0)) for it in block.iters if it.kind == "R"
            )
            init = self.visit(substitute(block.init, values))
            body = seq((init if first is None else IfThenElse(first, init), body))
        flat = body if block.predicate is None else IfThenElse(block.predicate, body)
        return Block(block.name, (), None, None, flat) if self.named else flat


class _Simplify(Mutator):
    """Simplifies indices and conditions by what the loops and conditions around them say."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges

    def visit(self, value: Any) -> Any:
        if isinstance(value, Expr):
            return Simplifier(self.ranges).visit(value)
        return super().visit(value)

    def visit_For(self, item: For) -> Stmt:
        inner = _Simplify(loop_ranges((item,), self.ranges))
        return replace(item, extent=self.visit(item.extent), body=inner.visit(item.body))

    def visit_IfThenElse(self, item: IfThenElse) -> Stmt:
        condition = self.visit(item.condition)
        if isinstance(condition, Const):
            chosen = item.then_case if condition.value else item.else_case
            return Seq(()) if chosen is None else self.visit(chosen)
        held = self.ranges.assume(lasting(condition, item.then_case))
        then_case = _Simplify(held).visit(item.then_case)
        return replace(
            item, condition=condition, then_case=then_case, else_case=self.visit(item.else_case)
        )
