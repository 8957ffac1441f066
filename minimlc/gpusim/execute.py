"""Run a kernel: all threads of a chunk of blocks take each statement together."""

from collections.abc import Sequence
from math import prod

import numpy as np

from minimlc.gpusim.active import ALL, WARP, Active
from minimlc.gpusim.memory import Memories, Memory, in_chunk
from minimlc.gpusim.values import UNARY, Value, binary_values, cast_values, intrin_values
from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.intrinsics import is_formula
from minimlc.loops.ir.operators import OPERATORS
from minimlc.loops.lower.bounds import Site, outside
from minimlc.loops.math.scalars import expanded
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import span_of
from minimlc.targets.gpu.launch import BLOCK, Barrier, Kernel, Touch
from minimlc.targets.gpu.shuffles import Shuffle
from minimlc.targets.gpu.warps import Warp

COUNTED = (tir.Store, tir.IfThenElse, tir.While, Barrier, Warp, Shuffle)
"""The statements that are instructions themselves."""


class Watch:
    """An observer of a running kernel; this one does nothing."""

    def begin(self, blocks: range) -> None:
        """Other blocks run from now on."""

    def statement(self, item: tir.Stmt, active: Active) -> None:
        """A store, a condition or a barrier runs."""

    def access(self, item: Touch, memory: Memory, element: Value, active: Active) -> None:
        """An element is read or written, by each active thread."""

    def lanes(self, begins: bool) -> None:
        """A vectorized loop begins, or ends."""


class Chunk:
    """Some blocks of a launch. `numbers` are theirs, `memory` is what they share with others."""

    def __init__(self, kernel: Kernel, numbers: range, memory: Memories, watches: Sequence[Watch]):
        self.threads = prod(kernel.block)
        self.width = -(-self.threads // WARP) * WARP
        self.numbers = numbers
        self.memory = dict(memory)
        self.watches = watches
        self.values: dict[tir.Var, Value] = {}
        self.statement: tir.Stmt = kernel.body
        blocks = np.arange(numbers.start, numbers.stop).reshape(-1, 1)
        threads = np.minimum(np.arange(self.width), self.threads - 1)
        for axis in kernel.axes:
            block = axis.name.startswith(BLOCK)
            number, sizes = (blocks, kernel.grid) if block else (threads, kernel.block)
            side = "xyz".index(axis.name[-1])
            self.values[axis.var] = number // prod(sizes[:side]) % sizes[side]

    def run(self, body: tir.Stmt) -> None:
        """Run a statement by all threads, as many as there are."""
        mask = ALL if self.threads == self.width else np.arange(self.width) < self.threads
        for watch in self.watches:
            watch.begin(self.numbers)
        self.stmt(body, Active(len(self.numbers), self.width, mask))

    def stmt(self, item: tir.Stmt, active: Active) -> None:
        if isinstance(item, COUNTED):
            self.seen(item, active)
        match item:
            case tir.Seq(stmts):
                for part in stmts:
                    self.stmt(part, active)
            case tir.Block(body=body) | Warp(body=body):
                self.stmt(body, active)
            case tir.For():
                self.loop(item, active)
            case tir.Store():
                value = self.expr(item.value, active)
                element = self.element(item, active)
                self.memory[item.buffer].store(element, value, active)
            case tir.IfThenElse():
                self.branch(item, active)
            case tir.While():
                self.repeat(item, active)
            case tir.Alloc(buffer, body):
                if buffer not in self.memory:
                    self.memory[buffer] = in_chunk(buffer, *active.shape)
                self.stmt(body, active)
            case Barrier():
                pass
            case Shuffle():
                self.shuffle(item, active)
            case _:
                raise CompileError(f"no meaning for the statement {type(item).__name__}")

    def seen(self, item: tir.Stmt, active: Active) -> None:
        """Notify the watches that a statement runs."""
        self.statement = item
        for watch in self.watches:
            watch.statement(item, active)

    def loop(self, item: tir.For, active: Active) -> None:
        """Iterations in order; threads that have no more of them wait for the others."""
        self.statement = item
        extent, number = self.expr(item.extent, active), np.int64(0)
        watches = self.watches if item.kind == "vectorized" else ()
        for watch in watches:
            watch.lanes(True)
        while (inside := active.where(number < extent)) is not None:
            self.values[item.var] = number
            self.stmt(item.body, inside)
            number += 1
        for watch in watches:
            watch.lanes(False)

    def branch(self, item: tir.IfThenElse, active: Active) -> None:
        test = self.expr(item.condition, active)
        for case, holds in ((item.then_case, test), (item.else_case, np.logical_not(test))):
            if case is not None and (inside := active.where(holds)) is not None:
                self.stmt(case, inside)

    def repeat(self, item: tir.While, active: Active) -> None:
        inside = active.where(self.expr(item.condition, active))
        while inside is not None:
            self.stmt(item.body, inside)
            self.seen(item, inside)
            inside = inside.where(self.expr(item.condition, inside))

    def shuffle(self, item: Shuffle, active: Active) -> None:
        """Values from threads further on; a thread without one there keeps its own."""
        values = np.broadcast_to(self.expr(item.source, active), active.shape)
        lanes = np.arange(active.shape[1])
        taken = np.where(lanes % WARP + item.down < WARP, lanes + item.down, lanes)
        self.memory[item.target.buffer].store(np.int64(0), values[:, taken], active)

    def element(self, item: Touch, active: Active) -> Value:
        """Which element of its buffer each thread accesses, in row-major order."""
        element: Value = np.int64(0)
        sane: Value = np.True_
        indices = [self.expr(part, active) for part in item.indices]
        for index, size in zip(indices, item.buffer.shape, strict=True):
            element = element * size + index
            sane = sane & (index >= 0) & (index < size)
        if not np.all(sane):
            if (wrong := active.where(~sane)) is not None:
                span = span_of(item) or span_of(self.statement)
                site = Site(item.buffer.name, item.buffer.shape, type(item).__name__.lower(), span)
                raise outside(site, [self._first(index, wrong) for index in indices])
            element = np.where(sane, element, 0)
        for watch in self.watches:
            watch.access(item, self.memory[item.buffer], element, active)
        return element

    def _first(self, value: Value, active: Active) -> int:
        """The value that the first active thread has."""
        return active.those(value).flat[0]

    def expr(self, item: tir.Expr, active: Active) -> Value:
        match item:
            case tir.Var():
                return self.values[item]
            case tir.Const():
                return to_numpy(item.dtype).type(item.value)
            case tir.Load():
                element = self.element(item, active)
                return self.memory[item.buffer].load(element, active)
            case tir.Binary("and" | "or"):
                return self.logical(item, active)
            case tir.Binary():
                return self.binary(item, active)
            case tir.Unary():
                return UNARY[item.op](self.expr(item.a, active))
            case tir.Select():
                return self.select(item, active)
            case tir.Cast():
                return cast_values(item.a.dtype, item.dtype, self.expr(item.a, active))
            case tir.Intrin(name) if is_formula(name):
                return self.expr(expanded(item), active)
            case tir.Intrin(name, args):
                values = [self.expr(arg, active) for arg in args]
                return intrin_values(name, args[0].dtype, values)
            case tir.Let():
                self.values[item.var] = self.expr(item.value, active)
                return self.expr(item.body, active)
            case _:
                raise CompileError(f"no meaning for the expression {type(item).__name__}")

    def logical(self, item: tir.Binary, active: Active) -> Value:
        """`and` and `or`: the threads that the first operand does not decide for go on."""
        a = self.expr(item.a, active)
        rest = active.where(a if item.op == "and" else np.logical_not(a))
        if rest is None:
            return a
        return OPERATORS[item.op].array(a, self.expr(item.b, rest))

    def select(self, item: tir.Select, active: Active) -> Value:
        test = self.expr(item.condition, active)
        then, other = active.where(test), active.where(np.logical_not(test))
        if other is None or then is None:
            return self.expr(item.b if then is None else item.a, active)
        return np.where(test, self.expr(item.a, then), self.expr(item.b, other))

    def binary(self, item: tir.Binary, active: Active) -> Value:
        a, b = self.expr(item.a, active), self.expr(item.b, active)
        divides = item.op in ("//", "%") and not is_float(item.a.dtype)
        if divides and (zero := active.where(b == 0)) is not None:
            why = f"integer division by zero: {self._first(a, zero)} {item.op} 0"
            raise CompileError(why, code="E312", span=span_of(self.statement))
        return binary_values(item.op, item.a.dtype, a, b)
