"""Source text in some language, with no more parentheses than it needs.

A target has a table of operators (`operators`), a visitor that writes expressions, its `Syntax`,
and a class derived from `Statements` that adds its loops and its storage.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, Protocol

from minimlc.loops.ir.nodes import Block, Expr, For, IfThenElse, Load, Seq, Store, While
from minimlc.loops.math.float_steps import Program
from minimlc.loops.values.dtypes import is_integer
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import Node, Visitor
from minimlc.targets.source.interval import Intervals

ATOM = 99
"""How tightly names, numbers and calls bind."""


class Text(NamedTuple):
    """An expression, and how tightly its outermost operator binds.

    `kind` is the target's own note on what the language has when it evaluates the expression.
    """

    code: str
    level: int = ATOM
    kind: str = ""

    def inside(self, level: int) -> str:
        """The code as an operand that must bind at least as tightly as `level`."""
        return self.code if self.level >= level else f"({self.code})"


class Infix(NamedTuple):
    """An operator between its operands: how tightly it binds, and how tightly they must."""

    sign: str
    level: int
    left: int
    right: int

    def of(self, a: Text, b: Text) -> Text:
        """The operator on two operands."""
        return Text(f"{a.inside(self.left)} {self.sign} {b.inside(self.right)}", self.level)


def operators(level: int, *signs: str, left: int = 0, right: int = 0) -> dict[str, Infix]:
    """Operators of one level by their signs; left-associative unless `left` or `right` is given."""
    return {sign: Infix(sign, level, left or level, right or level + 1) for sign in signs}


def call(name: str, *arguments: Text) -> Text:
    """The call of a function."""
    return Text(f"{name}({', '.join(argument.code for argument in arguments)})")


class Syntax(NamedTuple):
    """The spellings of statements in a language: templates for `str.format`.

    `end` closes a block where indentation alone does not, `empty` stands where there is nothing;
    `types` are for named values, by dtype.
    """

    loop: str
    let: str
    store: str
    condition: str
    otherwise: str
    result: str
    end: str = ""
    empty: str = ""
    types: Mapping[str, str] = {}
    repeat: str = ""


class Texts(Protocol):
    """A writer of expressions, with the `names` of symbols and the `bounds` of integers."""

    names: dict[Node, Text]
    bounds: Intervals

    def visit(self, item: Any) -> Text: ...
    def element(self, item: Load | Store) -> str: ...
    def stored(self, value: Expr) -> str: ...
    def returned(self, value: Expr) -> str: ...


class Statements(Visitor):
    """Writes the statements of a function as lines; the expressions in them by `exprs`."""

    def __init__(self, syntax: Syntax, exprs: Texts, scope: UniqueNames):
        self.syntax, self.exprs, self.scope = syntax, exprs, scope
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def declare(self, symbol: Any, kind: str = "") -> str:
        """Name a symbol where it is bound."""
        name = self.scope.take(symbol.name)
        self.exprs.names[symbol] = Text(name, kind=kind)
        return name

    def declare_loop(self, item: For, kind: str = "") -> str:
        """Name the variable of a loop, an index below its extent."""
        bounds, var = self.exprs.bounds, item.var
        if is_integer(var.dtype):
            bounds.ranges[var] = 0, max(0, bounds.interval(item.extent)[1] - 1)
        return self.declare(var, kind)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """A context whose lines stand under a header."""
        self.line(header)
        with self.indented():
            yield
        if self.syntax.end:
            self.line(self.syntax.end)

    def visit_children(self, item: Node) -> NoReturn:
        raise BuildError(f"this target has no statement {type(item).__name__}")

    def visit_Seq(self, item: Seq) -> None:
        for part in item.stmts:
            self.visit(part)
        if not item.stmts and self.syntax.empty:
            self.line(self.syntax.empty)

    def visit_Block(self, item: Block) -> None:
        self.visit(item.body)

    def visit_Store(self, item: Store) -> None:
        place = self.exprs.element(item)
        self.line(self.syntax.store.format(place, self.exprs.stored(item.value)))

    def visit_IfThenElse(self, item: IfThenElse) -> None:
        with self.block(self.syntax.condition.format(self.exprs.visit(item.condition).code)):
            self.visit(item.then_case)
            if item.else_case is not None:
                self.otherwise()
                self.visit(item.else_case)

    def visit_While(self, item: While) -> None:
        if not self.syntax.repeat:
            self.visit_children(item)
        with self.block(self.syntax.repeat.format(self.exprs.visit(item.condition).code)):
            self.visit(item.body)

    def otherwise(self) -> None:
        """Begin the part of a block for where its condition does not hold."""
        self.depth -= 1
        self.line(self.syntax.otherwise)
        self.depth += 1

    # Definitions of operations

    def steps(self, program: Program) -> None:
        """Write the values that a program names."""
        exprs = self.exprs
        for var, value in program.steps:
            text, name = exprs.visit(value).code, self.scope.take(var.name)
            kind = self.syntax.types.get(var.dtype, "")
            self.line(self.syntax.let.format(kind, name, text))
            exprs.names[var] = Text(name)
            if is_integer(var.dtype):
                exprs.bounds.ranges[var] = exprs.bounds.interval(value)

    def results(self, program: Program) -> None:
        """Write the results of a program, by cases."""
        cases, rest = program.cases()
        for condition, value in cases:
            self.case(condition, value)
        self.line(self.syntax.result.format(self.exprs.returned(rest)))

    def case(self, condition: Expr, result: Expr | str) -> None:
        """Write the return of `result` where a condition holds."""
        with self.block(self.syntax.condition.format(self.exprs.visit(condition).code)):
            text = result if isinstance(result, str) else self.exprs.returned(result)
            self.line(self.syntax.result.format(text))
