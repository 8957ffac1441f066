"""Run a primitive function as it stands: its blocks, predicates and inits, without lowering it.

The function is translated once into nested Python closures, one per node, each taking the frame:
the list of the current values of variables and buffers.

The elements of a function's own buffers are undefined until they are written. Reading one is not an
error by itself, as copying a whole tile may do it: the value is marked as unwritten, and so is
whatever is computed from it. The error is to decide by it (a condition, an index, an extent) or to
store it in a parameter.
"""

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from minimlc.loops.interpreter.elements import Eval, Frame, Marks, checked_place, marks_of, poison
from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.intrinsics import is_formula
from minimlc.loops.ir.values import (
    binary_value,
    constant_value,
    converter,
    intrin_value,
    unary_value,
)
from minimlc.loops.math.scalars import expanded
from minimlc.loops.proofs.unwritten import Unwritten
from minimlc.loops.values.dtypes import is_float
from minimlc.loops.values.errors import BoundsError, CompileError, Span
from minimlc.loops.values.node import span_of, walk


def execute(func: ir.PrimFunc, args: Sequence[np.ndarray]) -> None:
    """Run `func` on arrays that fit its parameters. Loops of every kind run in order.

    `BoundsError` for an access outside its buffer or a block's iter outside its extent;
    `CompileError` for an integer division by zero, and for the use of an unwritten element.
    """
    with np.errstate(all="ignore"):
        Translate(func).run(args)


class Translate:
    """Nodes to closures: `expr` makes one that returns a value, `stmt` one that acts.

    `unwritten` is the unwritten element that the value under evaluation depends on, if any.
    """

    def __init__(self, func: ir.PrimFunc):
        self.func = func
        self.slots: dict[Hashable, int] = {}
        self.span: Span | None = None
        self.nest: tuple[ir.Var, ...] = ()
        self.inside: ir.Block | None = None
        self.into: ir.Store | None = None
        self.unwritten: Unwritten | None = None
        for buffer in (*func.params, *func.allocs):
            self.slot(buffer)
        self.body = self.stmt(func.body)

    def run(self, args: Sequence[np.ndarray]) -> None:
        frame: list[Any] = [*args, *[None] * (len(self.slots) - len(args))]
        for buffer in self.func.allocs:
            self.renew(frame, buffer)
        self.body(frame)

    def renew(self, frame: Frame, buffer: ir.Buffer) -> None:
        """Give an internal buffer new, undefined content."""
        frame[self.slots[buffer]] = poison(buffer.shape, buffer.dtype)
        if marks_of(buffer) in self.slots:
            frame[self.slots[marks_of(buffer)]] = Marks(np.zeros(buffer.shape, np.bool_), {})

    def is_own(self, buffer: ir.Buffer) -> bool:
        return buffer not in self.func.params

    def slot(self, symbol: Hashable) -> int:
        return self.slots.setdefault(symbol, len(self.slots))

    def place(self, symbol: ir.Var | ir.Buffer) -> int:
        if symbol not in self.slots:
            raise CompileError(f'"{symbol.name}" is not defined here')
        return self.slots[symbol]

    def stmt(self, item: ir.Stmt) -> Eval:
        outer, self.span = self.span, span_of(item) or self.span
        closure = self.stmt_of(item)
        self.span = outer
        return closure

    def stmt_of(self, item: ir.Stmt) -> Eval:
        match item:
            case ir.Seq():
                return _sequence([self.stmt(s) for s in item.stmts])
            case ir.For():
                return self.loop(item)
            case ir.Block():
                return self.block(item)
            case ir.Store():
                return self.store(item)
            case ir.IfThenElse():
                return self.branch(item)
            case ir.Alloc():
                return self.alloc(item)
            case ir.While():
                return self.repeat(item)
            case _:
                raise CompileError(f"no meaning for the statement {type(item).__name__}")

    def loop(self, item: ir.For) -> Eval:
        extent, slot = self.deciding(item.extent), self.slot(item.var)
        outer, self.nest = self.nest, (*self.nest, item.var)
        body = self.stmt(item.body)
        self.nest = outer

        def loop(frame: Frame) -> None:
            for value in range(extent(frame)):
                frame[slot] = value
                body(frame)

        return loop

    def block(self, item: ir.Block) -> Eval:
        outer, self.inside = self.inside, item
        predicate = None if item.predicate is None else self.deciding(item.predicate)
        iters = []
        for it in item.iters:
            value = self.deciding(it.value)
            iters.append((self.slot(it.var), value, it.extent, it.var.name))
        reduce = [self.slot(it.var) for it in item.iters if it.kind == "R"]
        init = None if item.init is None else self.stmt(item.init)
        body = self.stmt(item.body)
        self.inside = outer
        name, span = item.name, self.span

        def block(frame: Frame) -> None:
            if predicate is not None and not predicate(frame):
                return
            for slot, value, extent, var in iters:
                frame[slot] = current = value(frame)
                if not 0 <= current < extent:
                    why = f"block {name} runs with {var} = {current}, outside 0 ... {extent - 1}"
                    raise BoundsError(why, code="E310", span=span)
            if init is not None and not any(frame[slot] for slot in reduce):
                init(frame)
            body(frame)

        return block

    def store(self, item: ir.Store) -> Eval:
        slot, self.into = self.place(item.buffer), item
        value, self.into = self.expr(item.value), None
        indices = self.indices(item.buffer, item.indices)
        if self.is_own(item.buffer):
            return self.store_own(item.buffer, value, indices)

        def store(frame: Frame) -> None:
            result = value(frame)
            place = indices(frame)
            if self.unwritten is not None:
                raise self.unwritten.error(item.buffer, place)
            frame[slot][place] = result

        return store

    def store_own(self, buffer: ir.Buffer, value: Eval, indices: Eval) -> Eval:
        slot, marks = self.place(buffer), self.slot(marks_of(buffer))

        def store(frame: Frame) -> None:
            result = value(frame)
            place = indices(frame)
            frame[slot][place] = result
            written, sources = frame[marks]
            written[place] = self.unwritten is None
            if self.unwritten is not None:
                sources[place] = self.unwritten
                self.unwritten = None

        return store

    def branch(self, item: ir.IfThenElse) -> Eval:
        condition, then_case = self.deciding(item.condition), self.stmt(item.then_case)
        else_case = self.stmt(item.else_case or ir.Seq(()))

        def branch(frame: Frame) -> None:
            (then_case if condition(frame) else else_case)(frame)

        return branch

    def repeat(self, item: ir.While) -> Eval:
        condition, body = self.deciding(item.condition), self.stmt(item.body)

        def repeat(frame: Frame) -> None:
            while condition(frame):
                body(frame)

        return repeat

    def alloc(self, item: ir.Alloc) -> Eval:
        self.slot(item.buffer)
        body = self.stmt(item.body)

        def alloc(frame: Frame) -> None:
            self.renew(frame, item.buffer)
            body(frame)

        return alloc

    def indices(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> Eval:
        """The element's place as a tuple, each index checked."""
        return checked_place(buffer, [self.deciding(i) for i in indices], self.span)

    def expr(self, item: ir.Expr) -> Eval:
        outer, self.span = self.span, span_of(item) or self.span
        closure = self.expr_of(item)
        self.span = outer
        return closure

    def expr_of(self, item: ir.Expr) -> Eval:
        match item:
            case ir.Var():
                return operator.itemgetter(self.place(item))
            case ir.Const():
                value = constant_value(item)
                return lambda frame: value
            case ir.Unary():
                return self.unary(item)
            case ir.Binary():
                return self.binary(item)
            case ir.Select():
                test, a, b = self.expr(item.condition), self.expr(item.a), self.expr(item.b)
                return lambda frame: a(frame) if test(frame) else b(frame)
            case ir.Cast():
                inner, convert = self.expr(item.a), converter(item.a.dtype, item.dtype)
                return lambda frame: convert(inner(frame))
            case ir.Intrin():
                return self.intrin(item)
            case ir.Load():
                return self.load(item)
            case ir.Let():
                return self.let(item)
            case _:
                raise CompileError(f"no meaning for the expression {type(item).__name__}")

    def let(self, item: ir.Let) -> Eval:
        value, slot = self.expr(item.value), self.slot(item.var)
        body = self.expr(item.body)

        def let(frame: Frame) -> Any:
            frame[slot] = value(frame)
            return body(frame)

        return let

    def load(self, item: ir.Load) -> Eval:
        slot, indices = self.place(item.buffer), self.indices(item.buffer, item.indices)
        if self.is_own(item.buffer):
            return self.load_own(item, slot, indices)
        if is_float(item.dtype):
            return lambda frame: frame[slot][indices(frame)]
        return lambda frame: frame[slot].item(indices(frame))

    def load_own(self, item: ir.Load, slot: int, indices: Eval) -> Eval:
        marks, nest = self.slot(marks_of(item.buffer)), self.nest
        block, into = self.inside, self.into
        loops = [self.slots[var] for var in nest]
        exact = is_float(item.dtype)

        def load(frame: Frame) -> Any:
            place = indices(frame)
            written, sources = frame[marks]
            if not written[place]:
                if place not in sources:
                    values = {var.name: frame[n] for var, n in zip(nest, loops, strict=True)}
                    sources[place] = Unwritten(item, place, values, block, into)
                self.unwritten = self.unwritten or sources[place]
            return frame[slot][place] if exact else frame[slot].item(place)

        return load

    def reads_own(self, item: ir.Expr) -> bool:
        return any(isinstance(n, ir.Load) and self.is_own(n.buffer) for n in walk(item))

    def deciding(self, item: ir.Expr) -> Eval:
        """A value that decides what runs, or where; an error if it depends on an unwritten one."""
        outer, self.into = self.into, None
        value = self.expr(item)
        self.into = outer
        if not self.reads_own(item):
            return value

        def decide(frame: Frame) -> Any:
            before, self.unwritten = self.unwritten, None
            result = value(frame)
            if self.unwritten is not None:
                raise self.unwritten.error()
            self.unwritten = before
            return result

        return decide

    def unary(self, item: ir.Unary) -> Eval:
        a, apply = self.expr(item.a), unary_value(item.op, item.dtype)
        return lambda frame: apply(a(frame))

    def binary(self, item: ir.Binary) -> Eval:
        a, b, op = self.expr(item.a), self.expr(item.b), item.op
        if op == "and":
            return lambda frame: a(frame) and b(frame)
        if op == "or":
            return lambda frame: a(frame) or b(frame)
        apply = binary_value(op, item.a.dtype)
        if op in ("//", "%") and not is_float(item.dtype):
            return self.divide(op, apply, a, b)
        return lambda frame: apply(a(frame), b(frame))

    def divide(self, op: str, apply: Callable[[int, int], int], a: Eval, b: Eval) -> Eval:
        span = self.span

        def divide(frame: Frame) -> int:
            value, divisor = a(frame), b(frame)
            if divisor == 0:
                why = f"integer division by zero: {value} {op} 0"
                raise CompileError(why, code="E312", span=span)
            return apply(value, divisor)

        return divide

    def intrin(self, item: ir.Intrin) -> Eval:
        if is_formula(item.name):
            return self.expr(expanded(item))
        args = [self.expr(arg) for arg in item.args]
        apply = intrin_value(item.name, item.args[0].dtype)
        if len(args) == 1:
            only = args[0]
            return lambda frame: apply(only(frame))
        return lambda frame: apply(*[arg(frame) for arg in args])


def _sequence(parts: list[Eval]) -> Eval:
    def run(frame: Frame) -> None:
        for part in parts:
            part(frame)

    return run
