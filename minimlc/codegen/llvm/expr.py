"""Expressions of the loop IR as LLVM instructions, for one instance or for several lanes."""

from collections.abc import Callable
from dataclasses import dataclass

from minimlc.codegen.llvm.memory import Memory
from minimlc.codegen.llvm.value import Value, constant, register_type
from minimlc.dtypes import INDEX
from minimlc.errors import BuildError
from minimlc.node import walk
from minimlc.tir.nodes import (
    Binary,
    Cast,
    Const,
    Expr,
    Intrin,
    Let,
    Load,
    Select,
    Unary,
    Var,
)

MOST_ASKED = 8
"""So many choices in each other ask whether all lanes agree."""


@dataclass
class Expressions(Memory):
    """Writes expressions into `code`; `asked` is how many choices around have asked their lanes."""

    asked: int = 0

    def expr(self, item: Expr) -> Value:
        """The value of an expression."""
        match item:
            case Var():
                return self.variables[item]
            case Const():
                return constant(item.value, item.dtype)
            case Unary():
                return self._unary(item)
            case Binary():
                return self._binary(item)
            case Select():
                return self._select(item)
            case Cast():
                return self.cast(self.expr(item.a), item.dtype)
            case Intrin():
                return self.intrinsic(item.name, [self.expr(a) for a in item.args])
            case Load():
                return self.load(item)
            case Let():
                self.variables[item.var] = self.expr(item.value)
                return self.expr(item.body)
            case _:
                raise BuildError(f"LLVM code has no expression {type(item).__name__}")

    def _unary(self, item: Unary) -> Value:
        value = self.expr(item.a)
        if item.op == "not" and value.const is not None:
            return constant(not value.const, "bool")
        return self.unary(item.op, value)

    def _binary(self, item: Binary) -> Value:
        a = self.expr(item.a)
        if item.op in ("and", "or"):
            decided = item.op == "or"
            if a.const is decided:
                return a
            if a.const is None and _reads_memory(item.b):
                other = constant(decided, "bool")
                taken, skipped = (lambda: self.expr(item.b)), (lambda: other)
                sides = (skipped, taken) if decided else (taken, skipped)
                return self._choose(item, a, *sides)
        return self.binary(item.op, a, self.expr(item.b))

    def _select(self, item: Select) -> Value:
        condition = self.expr(item.condition)
        if condition.const is not None:
            return self.expr(item.a if condition.const else item.b)
        if not (_reads_memory(item.a) or _reads_memory(item.b)):
            return self.select(condition, self.expr(item.a), self.expr(item.b))
        return self._choose(item, condition, lambda: self.expr(item.a), lambda: self.expr(item.b))

    def _choose(
        self, item: Expr, condition: Value, a: Callable[[], Value], b: Callable[[], Value]
    ) -> Value:
        """Evaluate one side only. Lanes that disagree are evaluated under a mask where all that
        they read are neighbours, else one after the other.
        """
        if not condition.lanes:
            return self._phi(condition.text, a, b)

        def masked() -> Value:
            rest = self.unary("not", condition)
            return self.select(condition, self.under(condition, a), self.under(rest, b))

        def mixed() -> Value:
            if self.maskable(item):
                return masked()
            numbers = [constant(n, INDEX) for n in range(condition.lanes)]
            return self.gather([self.in_lane(n, lambda: self.expr(item)) for n in numbers])

        # Each choice that asks whether the lanes agree writes what is inside of it once more.
        if self.mask is not None:
            return masked()
        if self.asked == MOST_ASKED:
            return mixed()
        self.asked += 1
        every, some = self.reduce("and", condition), self.reduce("or", condition)
        made = self._phi(every, a, lambda: self._phi(some, mixed, b))
        self.asked -= 1
        return made

    def _phi(self, condition: str, a: Callable[[], Value], b: Callable[[], Value]) -> Value:
        """The value of one of two pieces of code, as many lanes wide as are being written."""
        code = self.code
        then, other, join = code.name("then"), code.name("else"), code.name("join")
        code.branch(condition, then, other)
        arrivals = []
        for label, side in ((then, a), (other, b)):
            code.block(label)
            value = self.spread(side(), self.width)
            arrivals.append(f"[{value.text}, %{code.label}]")
            code.jump(join)
        code.block(join)
        text = code.value(f"phi {register_type(value)} {', '.join(arrivals)}")
        return Value(text, value.dtype, value.lanes)

    def reduce(self, op: str, mask: Value) -> str:
        """Whether the condition holds in all lanes ("and"), or in any ("or")."""
        kind = register_type(mask)
        target = self.code.module.declare(f"llvm.vector.reduce.{op}.v{mask.lanes}i1", "i1", kind)
        return self.code.value(f"call i1 {target}({kind} {mask.text})")


def _reads_memory(item: Expr) -> bool:
    return any(isinstance(part, Load) for part in walk(item))
