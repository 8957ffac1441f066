"""Expressions of the loop IR as Python expressions on numpy scalars."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from minimlc.codegen.bounds import Site
from minimlc.codegen.dialect import Dialect, halves_in_float32
from minimlc.codegen.interval import Interval, Intervals
from minimlc.dtypes import INDEX, holds, integer_range, is_float, is_integer
from minimlc.errors import CompileError
from minimlc.literals import float_literal
from minimlc.node import Node, span_of
from minimlc.tir.math.scalars import definition
from minimlc.tir.nodes import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Intrin,
    Load,
    Select,
    Store,
    Unary,
    Var,
)

HELPERS = {
    "floordiv": '''\
def floordiv(a, b):
    """Integer division, towards minus infinity."""
    if b == 0:
        raise ZeroDivisionError(f"integer division by zero: {a} // 0")
    return a // b''',
    "modulo": '''\
def modulo(a, b):
    """What floordiv leaves over."""
    if b == 0:
        raise ZeroDivisionError(f"integer division by zero: {a} % 0")
    return a % b''',
    "erf": """\
def erf(x):
    return type(x)(math.erf(x))""",
    "erfc": """\
def erfc(x):
    return type(x)(math.erfc(x))""",
    "pow": """\
def pow(x, y):
    kind = np.result_type(x, y)
    return np.power(np.array([x], kind), np.array([y], kind))[0]""",
}
"""Functions that the source defines where it needs them, beside those of definitions."""

INSIDE = '''\
def inside(number, *index):
    """The place of an element, where it is in its buffer."""
    if all(0 <= i < size for i, size in zip(index, sites[number].shape)):
        return index
    raise outside(sites[number], index)'''
"""What checks the accesses, each known by its number."""

NAMED = {"min": "minimum", "max": "maximum"}
NUMPY = {"abs": "abs", "round": "rint"}
"""numpy's names of intrinsics, where they differ."""

CHOICE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MULTIPLY, NEGATE, ATOM = range(
    13
)
LEVELS = {"or": OR, "and": AND, "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND}
LEVELS |= {"<<": SHIFT, ">>": SHIFT, "+": ADD, "-": ADD}
LEVELS |= dict.fromkeys(("*", "/", "//", "%"), MULTIPLY)


def _computed_in(name: str, dtype: str) -> str:
    """numpy has the operators of 16-bit floats, and Python the erfc of gelu in float64."""
    if name in ("+", "-", "*", "/"):
        return dtype
    return "float64" if name == "gelu" and dtype == "float32" else halves_in_float32(name, dtype)


NUMPY_DIALECT = Dialect(_computed_in, approximate=False)


class Piece(NamedTuple):
    """A Python expression, how tightly it binds, and what Python has when it is evaluated.

    "scalar": a numpy scalar of its dtype, or a truth value. "weak": a number literal, which takes
    the dtype of the scalar it is combined with. "int": a Python int for an index.
    """

    code: str
    level: int = ATOM
    kind: str = "scalar"


def _at(piece: Piece, level: int) -> str:
    """The code as an operand of an operator that binds at `level`."""
    return piece.code if piece.level >= level else f"({piece.code})"


class Expressions(Intervals):
    """Emits the expressions of one function; notes the words (dtypes, helpers) they use, and the
    `definitions` of the operations that numpy lacks.

    With `sites`, each access is checked, and noted there.
    """

    def __init__(
        self,
        names: Mapping[Node, str],
        used: set[str],
        definitions: dict[str, str],
        sites: list[Site] | None = None,
    ):
        self.names = names
        self.used = used
        self.definitions = definitions
        self.sites = sites
        self.ranges: dict[Var, Interval] = {}

    def word(self, dtype: str) -> str:
        """A dtype's name in the source."""
        self.used.add("bool_" if dtype == "bool" else dtype)
        return "bool_" if dtype == "bool" else dtype

    def make(self, dtype: str, code: str) -> Piece:
        return Piece(f"{self.word(dtype)}({code})")

    def helper(self, name: str, *codes: str) -> Piece:
        self.used.add(name)
        return Piece(f"{name}({', '.join(codes)})")

    def scalar(self, item: Expr, piece: Piece | None = None) -> Piece:
        """`item` as a numpy scalar of its dtype."""
        made = self.expr(item) if piece is None else piece
        return made if made.kind == "scalar" else self.make(item.dtype, made.code)

    def stored(self, item: Expr) -> str:
        """A value to store: a plain number will do, the array gives it its dtype."""
        piece = self.expr(item)
        return self.scalar(item, piece).code if item.dtype == "bfloat16" else piece.code

    def element(self, item: Load | Store) -> str:
        buffer = item.buffer
        place = ", ".join(self.expr(i).code for i in item.indices) or "()"
        if self.sites is not None and item.indices:
            action = "load" if isinstance(item, Load) else "store"
            place = f"inside({len(self.sites)}, {place})"
            self.sites.append(Site(buffer.name, buffer.shape, action, span_of(item)))
        return f"{self.names[buffer]}[{place}]"

    def expr(self, item: Expr) -> Piece:
        match item:
            case Var():
                return self.variable(item)
            case Const():
                return self.const(item)
            case Load():
                return Piece(self.element(item))
            case Unary():
                return self.unary(item)
            case Binary():
                return self.binary(item)
            case Select():
                return self.select(item)
            case Cast():
                return self.cast(item)
            case Intrin():
                return self.intrin(item)
            case _:
                raise CompileError(f"no Python for the expression {type(item).__name__}")

    def variable(self, item: Var) -> Piece:
        name = self.names[item]
        if item.dtype != INDEX:
            return self.make(item.dtype, name)
        return Piece(name, ATOM, "int")

    def const(self, item: Const) -> Piece:
        value = item.value
        if item.dtype == "bool":
            return Piece(repr(value))
        if is_float(item.dtype):
            code = "np.nan" if value != value else float_literal(float(value))
            return Piece(code, NEGATE if code[0] == "-" else ATOM, "weak")
        level = NEGATE if value < 0 else ATOM
        if item.dtype == INDEX:
            return Piece(repr(value), level, "int")
        return Piece(repr(value), level, "weak")

    def unary(self, item: Unary) -> Piece:
        a = self.expr(item.a)
        if item.op == "not":
            return Piece(f"not {_at(a, NOT)}", NOT)
        code = item.op + _at(a, NEGATE)
        if a.kind == "int" and self.stays_in(item, INDEX):
            return Piece(code, NEGATE, "int")
        return Piece(item.op + _at(self.scalar(item.a, a), NEGATE), NEGATE)

    def binary(self, item: Binary) -> Piece:
        op, dtype = item.op, item.a.dtype
        a, b = self.expr(item.a), self.expr(item.b)
        if op in ("and", "or"):
            level = LEVELS[op]
            return Piece(f"{_at(a, level)} {op} {_at(b, level + 1)}", level)
        whole = a.kind == b.kind == "int" and self.is_whole(item)
        if op in ("min", "max"):
            return self.extreme(item, a, b, whole)
        if not whole:
            a, b = self.operands(item, a, b)
        if op in COMPARISONS:
            return Piece(f"{_at(a, BIT_OR)} {op} {_at(b, BIT_OR)}", COMPARE)
        if not whole and op in ("//", "%") and not is_float(dtype) and _may_be_zero(item.b):
            return self.helper("floordiv" if op == "//" else "modulo", a.code, b.code)
        level = LEVELS[op]
        code = f"{_at(a, level)} {op} {_at(b, level + 1)}"
        return Piece(code, level, "int" if whole else "scalar")

    def operands(self, item: Binary, a: Piece, b: Piece) -> tuple[Piece, Piece]:
        """Both sides, of which at least one is a numpy scalar: it gives the result its dtype."""
        if item.a.dtype == "bfloat16":
            return self.scalar(item.a, a), self.scalar(item.b, b)
        if item.op in ("<<", ">>") or "scalar" not in (a.kind, b.kind):
            return self.scalar(item.a, a), b
        return a, b

    def is_whole(self, item: Binary) -> bool:
        """Whether an operation on Python ints gives what it gives on indices, which wrap."""
        if item.op in COMPARISONS:
            return True
        if item.op in ("//", "%") and self.interval(item.b)[0] <= 0:
            return False
        return item.op not in ("<<", ">>") and self.stays_in(item, INDEX)

    def extreme(self, item: Binary, a: Piece, b: Piece, whole: bool) -> Piece:
        if whole:
            return Piece(f"{item.op}({a.code}, {b.code})", ATOM, "int")
        codes = self.scalar(item.a, a).code, self.scalar(item.b, b).code
        if is_float(item.a.dtype):
            return self.defined(item.op, item.a.dtype, codes)
        return Piece(f"{item.op}({', '.join(codes)})")

    def defined(self, operation: str, dtype: str, codes: Iterable[str]) -> Piece:
        """The call of a function that is made of the operation's definition."""
        name = NAMED.get(operation, operation)
        text = self.function(name, operation, dtype)
        if self.definitions.get(name, text) != text:
            name = f"{name}_{dtype}"
            text = self.function(name, operation, dtype)
        self.definitions[name] = text
        return Piece(f"{name}({', '.join(codes)})")

    def function(self, name: str, operation: str, dtype: str) -> str:
        """An operation's definition as a Python function."""
        program = definition(operation, dtype, approximate=False)
        if program is None:
            raise CompileError(f"no Python for {operation} of {dtype}")
        names: dict[Node, str] = {var: var.name for var in program.params}
        steps = _Steps(names, self.used, self.definitions)
        lines = [f"def {name}({', '.join(names.values())}):"]
        lines += [f'    """{program.note}"""'] if program.note else []
        for var, value in program.steps:
            lines.append(f"    {var.name} = {steps.expr(value).code}")
            names[var] = var.name
        cases, rest = program.cases()
        for condition, value in cases:
            lines.append(f"    if {steps.expr(condition).code}:")
            lines.append(f"        return {steps.scalar(value).code}")
        return "\n".join([*lines, f"    return {steps.scalar(rest).code}"])

    def select(self, item: Select) -> Piece:
        test, a, b = self.expr(item.condition), self.expr(item.a), self.expr(item.b)
        if not a.kind == b.kind == "int":
            a, b = self.scalar(item.a, a), self.scalar(item.b, b)
        return Piece(f"{_at(a, OR)} if {_at(test, OR)} else {_at(b, CHOICE)}", CHOICE, a.kind)

    def intrin(self, item: Intrin) -> Piece:
        dtype, name = item.args[0].dtype, item.name
        codes = [self.scalar(x).code for x in item.args]
        if name != "abs" and definition(name, dtype, approximate=False) is not None:
            return self.defined(name, dtype, codes)
        if name in HELPERS:
            return self.helper(name, *codes)
        return Piece(f"np.{NUMPY.get(name, name)}({', '.join(codes)})")

    def cast(self, item: Cast) -> Piece:
        source, target, a = item.a.dtype, item.dtype, self.expr(item.a)
        if source == target:
            return a
        if target == "bool":
            return Piece(f"{_at(self.scalar(item.a, a), BIT_OR)} != 0", COMPARE)
        if a.kind == "int" and self.fits(item):
            return self.make(target, a.code)
        a = self.scalar(item.a, a)
        if is_integer(target):
            return self.to_integer(source, target, a)
        return self.make(target, a.code)

    def fits(self, item: Cast) -> bool:
        """Whether the dtype's own conversion of a Python int is right for every value it takes."""
        low, high = self.interval(item.a)
        limit = {"float64": 2**63, "float32": 2**53, "float16": 2**24}.get(item.dtype, 0)
        least, most = integer_range(item.dtype) if is_integer(item.dtype) else (-limit, limit)
        return least <= low and high <= most

    def to_integer(self, source: str, target: str, a: Piece) -> Piece:
        if is_float(source):
            wide = a if source == "float64" else self.make("float64", a.code)
            return self.defined(f"to_{target}", "float64", [wide.code])
        if source == "bool" or holds(target, source):
            return self.make(target, a.code)
        return Piece(f"{_at(a, ATOM)}.astype({self.word(target)})")


def _may_be_zero(divisor: Expr) -> bool:
    return not (isinstance(divisor, Const) and divisor.value != 0)


class _Steps(Expressions):
    """The expressions of a definition."""

    def variable(self, item: Var) -> Piece:
        return Piece(self.names[item])

    def cast(self, item: Cast) -> Piece:
        if is_float(item.a.dtype) and is_integer(item.dtype):
            return self.make(item.dtype, self.expr(item.a).code)
        return super().cast(item)
