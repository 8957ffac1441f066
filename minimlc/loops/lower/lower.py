"""Blocks become flat loops, and buffers get storage: the form that every target starts from."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.walks import buffers_in, statements_in
from minimlc.loops.lower.dialect import PLAIN, Dialect, Legalize
from minimlc.loops.proofs.access import Access, accesses, lasting, loop_ranges, reads
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.legality import has_lanes
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.regions import Side, enclosing_box, is_private
from minimlc.loops.proofs.simplify import Simplifier
from minimlc.loops.schedule.redirect import Redirect, to
from minimlc.loops.schedule.tree import replaced_in
from minimlc.loops.values.node import Mutator, Node, replace

TENSOR = "tensor_intrin"
"""The annotation of a block that a tensor intrinsic has taken over."""

MOST_COPIES = 1024
"""Unrolled loops make at most this many copies of a statement; past that they stay loops."""


def lower(
    func: ir.PrimFunc,
    *,
    dialect: Dialect = PLAIN,
    named: bool = False,
    tensors: bool = False,
    whole: bool = False,
    threads: bool = False,
) -> ir.PrimFunc:
    """`func` without blocks: loops, conditions and stores, with storage placed by `Alloc`.

    A buffer is placed in the innermost loop whose iterations can own it (each writes every
    element before it reads it), and is cut to the box of elements that one iteration touches.
    With `named`, a block without iters stays around what was a block, for its name; with `tensors`,
    around what was tensorized. With `whole`, no buffer is cut, so that an index error shows the
    buffer as the user wrote it. With `threads`, loops that are bound to a GPU's axes stay, and
    shared memory is outside loops of a block's threads; else all are serial. Expressions use the
    `dialect`'s operations only.
    """
    placed = _place_all(func, whole, threads)
    body = _Flatten(named, tensors, threads).visit(placed.body)
    body = _Simplify(Ranges()).visit(body)
    return replace(placed, body=Legalize(dialect).visit(body))


def _place_all(func: ir.PrimFunc, whole: bool, threads: bool) -> ir.PrimFunc:
    body = func.body
    for buffer in func.allocs:
        outside = ir.THREAD if threads and buffer.scope.startswith(ir.SHARED) else ""
        body = _Placement(buffer, accesses(body), whole, outside).place(body)
    return replace(func, allocs=(), body=body)


class _Placement(NamedTuple):
    """The storage of a buffer with these `accesses`; with `whole`, it is not cut. It stays outside
    of loops bound to axes whose names begin with `outside`.
    """

    buffer: ir.Buffer
    accesses: Sequence[Access]
    whole: bool
    outside: str

    def place(self, stmt: ir.Stmt, loops: tuple[ir.For, ...] = ()) -> ir.Stmt:
        """`stmt`, which is in these loops, with an `Alloc` as far inside as is right."""
        buffer = self.buffer
        match stmt:  # other nodes: no further inside
            case ir.Seq(stmts):
                users = [part for part in stmts if _uses(part, buffer)]
                if len(users) == 1 and not isinstance(users[0], ir.Store):
                    new = self.place(users[0], loops)
                    return ir.Seq(tuple(new if part is users[0] else part for part in stmts))
            case ir.For():
                if not has_lanes(stmt) and is_private(buffer, stmt, self.accesses):
                    if self.outside and stmt.thread.startswith(self.outside):
                        return _lifted(replace(stmt, body=self.place(stmt.body, loops)), stmt)
                    return replace(stmt, body=self.place(stmt.body, (*loops, stmt)))
            case ir.IfThenElse(condition, then_case, None) if not reads(condition, buffer):
                return replace(stmt, then_case=self.place(then_case, loops))
            case ir.Block(init=None) if not _is_read_outside(stmt, buffer):
                return replace(stmt, body=self.place(stmt.body, loops))
            case ir.Alloc():
                return replace(stmt, body=self.place(stmt.body, loops))
        return self._allocated(stmt, loops)

    def _allocated(self, stmt: ir.Stmt, loops: tuple[ir.For, ...]) -> ir.Stmt:
        buffer, uses = self.buffer, [item for item in self.accesses if item.buffer is self.buffer]
        if not uses:
            return stmt
        box = enclosing_box(buffer, uses, [loop.var for loop in loops])
        small = replace(buffer, shape=tuple(map(self._kept, box, buffer.shape)))
        if self.whole or small is buffer:
            return ir.Alloc(buffer, stmt)

        def at(indices: Sequence[ir.Expr]) -> list[ir.Expr]:
            """An element's indices relative to the box's corner."""
            pairs = zip(indices, box, strict=True)
            return [i if constant_value(side.start) == 0 else i - side.start for i, side in pairs]

        return ir.Alloc(small, Redirect({buffer: to(small, at)}).visit(stmt))

    def _kept(self, side: Side, size: int) -> int:
        """The size of an axis that is cut to a box's side. Threads' shared memory keeps elements
        that nothing touches, as its rows may be padded to begin in other banks.
        """
        return size if self.outside and constant_value(side.start) == 0 else side.extent


def _lifted(stmt: ir.Stmt, old: ir.Stmt) -> ir.Stmt:
    """`stmt` with an `Alloc` that `old` lacks moved around it."""
    known = set(buffers_in(old))
    for item in statements_in(stmt):
        if isinstance(item, ir.Alloc) and item.buffer not in known:
            return ir.Alloc(item.buffer, replaced_in(stmt, {item: item.body}))
    return stmt


def _is_read_outside(block: ir.Block, buffer: ir.Buffer) -> bool:
    """Whether a block's predicate or its iters' values read a buffer."""
    outside = [it.value for it in block.iters]
    outside += [] if block.predicate is None else [block.predicate]
    return any(reads(expr, buffer) for expr in outside)


def _uses(stmt: ir.Stmt, buffer: ir.Buffer) -> bool:
    return any(item.buffer is buffer for item in accesses(stmt))


class _Flatten(Mutator):
    """Iters become their values, predicates and inits become conditions.

    The threads of a GPU become iterations of a serial loop where the target has no `threads`.
    """

    def __init__(self, named: bool, tensors: bool, threads: bool):
        self.named = named
        self.tensors = tensors
        self.threads = threads

    def visit_For(self, item: ir.For) -> ir.Stmt:
        item = self.visit_children(item)
        bound = item.kind == "thread_binding" and not self.threads
        return replace(item, kind="serial", thread="") if bound else item

    def visit_Block(self, block: ir.Block) -> ir.Stmt:
        values: dict[Node, Node] = {it.var: it.value for it in block.iters}
        body = self.visit(ir.substitute(block.body, values))
        if self.tensors and any(key == TENSOR for key, _ in block.annotations):
            body = ir.Block(block.name, (), None, None, body, block.annotations)
        if block.init is not None:
            first = ir.conjunction(
                ir.Binary("==", it.value, ir.index(0)) for it in block.iters if it.kind == "R"
            )
            init = self.visit(ir.substitute(block.init, values))
            body = ir.seq((init if first is None else ir.IfThenElse(first, init), body))
        flat = body if block.predicate is None else ir.IfThenElse(block.predicate, body)
        return ir.Block(block.name, (), None, None, flat) if self.named else flat


class _Simplify(Mutator):
    """Simplifies indices and conditions by the loops and conditions around them."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges

    def visit(self, value: Any) -> Any:
        if isinstance(value, ir.Expr):
            return Simplifier(self.ranges).visit(value)
        return super().visit(value)

    def visit_For(self, item: ir.For) -> ir.Stmt:
        inner = _Simplify(loop_ranges((item,), self.ranges))
        return replace(item, extent=self.visit(item.extent), body=inner.visit(item.body))

    def visit_IfThenElse(self, item: ir.IfThenElse) -> ir.Stmt:
        condition = self.visit(item.condition)
        if isinstance(condition, ir.Const):
            chosen = item.then_case if condition.value else item.else_case
            return ir.Seq(()) if chosen is None else self.visit(chosen)
        held = self.ranges.assume(lasting(condition, item.then_case))
        then_case = _Simplify(held).visit(item.then_case)
        return replace(
            item, condition=condition, then_case=then_case, else_case=self.visit(item.else_case)
        )
