"""Whether a nest of loops computes what another one describes, on parts of larger buffers."""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice, permutations
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    Stmt,
    Store,
    Var,
    index,
    substitute,
)
from minimlc.loops.proofs.arith import constant_value, expression, has_loads, linear, variables
from minimlc.loops.values.dtypes import INDEX, is_float
from minimlc.loops.values.node import Node

MOST_ORDERS = 720
"""The most pairings of loops that are tried: all of them for up to six loops of one extent."""


class Statement(NamedTuple):
    """One store and the loops around it, their variables in its indices; `block` is as written."""

    loops: tuple[For, ...]
    store: Store
    block: Block


class Operand(NamedTuple):
    """Where a parameter lies: along `dims` of a buffer, from `base` on (an index per dimension)."""

    buffer: Buffer
    dims: tuple[int, ...]
    base: tuple[Expr, ...]

    def at(self, indices: Sequence[Expr]) -> Sequence[Expr]:
        """Where in the buffer the parameter's element at `indices` is."""
        shifted = list(self.base)
        for dim, part in zip(self.dims, indices, strict=True):
            shifted[dim] = self.base[dim] + part
        return shifted


Operands = dict[Buffer, Operand]


class Mismatch(NamedTuple):
    """The first difference: `row` 0 is the loops, 1 the element stored to, 2 the value."""

    row: int
    why: str
    progress: int


def statement(stmt: Stmt) -> Statement | str:
    """The nest of one block that stores once; or why it is not one."""
    loops: list[For] = []
    values: dict[Node, Node] = {}
    while isinstance(stmt, For):
        extent = constant_value(stmt.extent)
        if extent is None:
            return f'the extent of "{stmt.var.name}" is not constant'
        if extent == 1:
            values[stmt.var] = index(0)
        else:
            loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Block):
        return "there is more than one block alone"
    if stmt.predicate is not None:
        return f'block "{stmt.name}" runs only where {stmt.predicate.script()}'
    if stmt.init is not None:
        return f'block "{stmt.name}" has an init'
    if not isinstance(stmt.body, Store):
        return f'block "{stmt.name}" does more than store once'
    over: dict[Node, Node] = {it.var: substitute(it.value, values) for it in stmt.iters}
    return Statement(tuple(loops), substitute(stmt.body, {**values, **over}), stmt)


def match(pattern: Statement, program: Statement) -> Operands | Mismatch:
    """Where each parameter of `pattern` lies in `program`; or the first difference."""
    best = Mismatch(0, _loop_difference(pattern, program), -1)
    for order in islice(_orders(pattern.loops, program.loops), MOST_ORDERS):
        names: dict[Node, Node] = {a.var: b.var for a, b in zip(pattern.loops, order, strict=True)}
        attempt = _Attempt(frozenset(lp.var for lp in program.loops))
        if attempt.store(substitute(pattern.store, names), program.store):
            return attempt.operands
        assert attempt.first is not None
        if attempt.first.progress > best.progress:
            best = attempt.first
    return best


def _orders(pattern: Sequence[For], program: Sequence[For]) -> Iterator[tuple[For, ...]]:
    """The ways to pair loops of equal extents."""
    if len(pattern) != len(program):
        return
    sizes = [constant_value(lp.extent) for lp in pattern]
    for order in permutations(program):
        if [constant_value(lp.extent) for lp in order] == sizes:
            yield order


def _loop_difference(pattern: Statement, program: Statement) -> str:
    first, second = (_extents(part.loops) for part in (pattern, program))
    return f"its loops have the extents {first}, the program's {second}"


def _extents(loops: Sequence[For]) -> str:
    return ", ".join(str(constant_value(lp.extent)) for lp in loops) or "none"


class _Attempt:
    """One way to pair the loops: the operands so far, and the difference furthest on."""

    def __init__(self, inside: frozenset[Var]):
        self.inside = inside
        self.operands: Operands = {}
        self.progress = 0
        self.row = 1
        self.first: Mismatch | None = None

    def fail(self, why: str) -> bool:
        if self.first is None or self.progress > self.first.progress:
            self.first = Mismatch(self.row, why, self.progress)
        return False

    def store(self, pattern: Store, program: Store) -> bool:
        if not self.access(pattern, program):
            return False
        self.row = 2
        return self.expr(pattern.value, program.value)

    def expr(self, pattern: Expr, program: Expr) -> bool:
        if pattern.dtype != program.dtype:
            return self.fail(
                f"{_short(pattern)} is {pattern.dtype}, {_short(program)} {program.dtype}"
            )
        match pattern, program:
            # other nodes: compared field by field, below
            case Load(), Load():
                return self.access(pattern, program)
            case _ if pattern.dtype == INDEX and not has_loads(pattern) and not has_loads(program):
                return _equal(pattern, program) or self.differ(pattern, program)
            case Const(), Const():
                return repr(pattern.value) == repr(program.value) or self.differ(pattern, program)
            case Binary(), Binary() if pattern.op == program.op and _commutes(pattern):
                return self.either(pattern, program)
            case Binary(), Binary() if pattern.op == program.op and pattern.op in SIGNED:
                return self.in_order(pattern, program)
        if type(pattern) is not type(program):
            return self.differ(pattern, program)
        self.progress += 1
        return all(
            self.field(getattr(pattern, name), getattr(program, name), pattern, program)
            for name in pattern._fields
        )

    def field(self, a: object, b: object, pattern: Expr, program: Expr) -> bool:
        if isinstance(a, Expr) and isinstance(b, Expr):
            return self.expr(a, b)
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return all(self.field(x, y, pattern, program) for x, y in zip(a, b, strict=True))
        return a == b or self.differ(pattern, program)

    def differ(self, pattern: Expr, program: Expr) -> bool:
        return self.fail(f"{_short(pattern)} is wanted, {_short(program)} is there")

    def either(self, pattern: Binary, program: Binary) -> bool:
        """Whether the operands of a commutative operator fit in either order."""
        self.progress += 1
        operands, progress = dict(self.operands), self.progress
        for a, b in ((program.a, program.b), (program.b, program.a)):
            self.operands, self.progress = dict(operands), progress
            if self.expr(pattern.a, a) and self.expr(pattern.b, b):
                return True
        return False

    def in_order(self, pattern: Binary, program: Binary) -> bool:
        """Whether the operands fit in their order; an error where only the other order fits."""
        operands, progress = dict(self.operands), self.progress + 1
        self.progress = progress
        if self.expr(pattern.a, program.a) and self.expr(pattern.b, program.b):
            return True
        first, self.operands, self.progress = self.first, operands, progress
        if self.expr(pattern.a, program.b) and self.expr(pattern.b, program.a):
            why = f"{_short(pattern)} and {_short(program)} have their operands swapped, by which "
            return self.fail(f"{why}0.0 and -0.0 differ for floats: write them in one order")
        self.first = first
        return False

    def access(self, pattern: Load | Store, program: Load | Store) -> bool:
        """Whether a parameter's element is the buffer's at a constant distance."""
        param, buffer = pattern.buffer, program.buffer
        if param.dtype != buffer.dtype:
            why = f"{param.name} holds {param.dtype}, {buffer.name} {buffer.dtype}"
            return self.fail(why)
        place = self.place(pattern.indices, buffer, program.indices)
        if place is None:
            listed = ", ".join(part.script() for part in program.indices)
            param_place = ", ".join(part.script() for part in pattern.indices)
            return self.fail(f"{param.name}[{param_place}] does not lie in {buffer.name}[{listed}]")
        known = self.operands.setdefault(param, place)
        if (
            known.buffer is not buffer
            or known.dims != place.dims
            or not all(map(_equal, known.base, place.base))
        ):
            return self.fail(f"{param.name} would be in two places")
        self.progress += 1
        return True

    def place(
        self, pattern: Sequence[Expr], buffer: Buffer, program: Sequence[Expr]
    ) -> Operand | None:
        """The dimensions in which the element moves as the parameter's does, the last ones first,
        and the constant base.
        """
        for dims in reversed(list(combinations(range(len(program)), len(pattern)))):
            base = list(program)
            for dim, part in zip(dims, pattern, strict=True):
                base[dim] = expression(linear(program[dim] - part))
            fixed = not any(variables(part) & self.inside or has_loads(part) for part in base)
            if fixed:
                return Operand(buffer, dims, tuple(base))
        return None


SIGNED = ("min", "max")
"""Operators that may give 0.0 or -0.0 by the order of their operands."""


def _equal(a: Expr, b: Expr) -> bool:
    return constant_value(a - b) == 0


def _commutes(item: Binary) -> bool:
    """Whether the operands may be exchanged; `max` and `min` of floats may give another zero."""
    if item.op in SIGNED:
        return not is_float(item.dtype)
    return item.op in ("+", "*", "&", "|", "^", "==", "!=")


def _short(item: Expr) -> str:
    text = item.script()
    return text if len(text) <= 36 else f"{text[:33]}..."
