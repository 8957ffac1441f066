"""Expressions of the loop IR as Python expressions on numpy scalars."""

from dataclasses import dataclass, field
from typing import NoReturn

from minimlc.loops.ir.intrinsics import is_formula
from minimlc.loops.ir.nodes import (
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
from minimlc.loops.lower.bounds import Site
from minimlc.loops.lower.dialect import Dialect, Legalize, halves_in_float32
from minimlc.loops.math.float_steps import Program
from minimlc.loops.math.scalars import definition
from minimlc.loops.values.dtypes import DTYPES, INDEX, holds, integer_range, is_float, is_integer
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.literals import float_literal
from minimlc.loops.values.names import RESERVED, UniqueNames
from minimlc.loops.values.node import Node, Visitor, span_of
from minimlc.targets.source.interval import Intervals
from minimlc.targets.source.writer import ATOM, Statements, Syntax, Text, call, operators

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
"""Functions that the source defines where it calls them, beside those made from definitions."""

INSIDE = '''\
def inside(number, *index):
    """The place of an element, where it is in its buffer."""
    if all(0 <= i < size for i, size in zip(index, sites[number].shape)):
        return index
    raise outside(sites[number], index)'''
"""The function that checks accesses, each known by its number."""

NAMED = {"min": "minimum", "max": "maximum"}
NUMPY = {"round": "rint"}
"""numpy's names of intrinsics, where they differ."""
VIEWED = ("bits", "number")
"""Functions that are another view of the same bits."""
_DIVISIONS = {"//": "floordiv", "%": "modulo"}

CHOICE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MULTIPLY, NEGATE = range(12)
OPERATORS = {
    **operators(OR, "or"),
    **operators(AND, "and"),
    **operators(COMPARE, *COMPARISONS, left=BIT_OR, right=BIT_OR),
    **operators(BIT_OR, "|"),
    **operators(BIT_XOR, "^"),
    **operators(BIT_AND, "&"),
    **operators(SHIFT, "<<", ">>"),
    **operators(ADD, "+", "-"),
    **operators(MULTIPLY, "*", "/", "//", "%"),
}
SYNTAX = Syntax(
    loop="for {} in range({}):",
    let="{1} = {2}",
    store="{} = {}",
    condition="if {}:",
    repeat="while {}:",
    otherwise="else:",
    result="return {}",
    empty="pass",
)


def _computed_in(name: str, dtype: str) -> str:
    """numpy has the operators of 16-bit floats, and Python the erfc of gelu in float64."""
    if name in ("+", "-", "*", "/"):
        return dtype
    return "float64" if name == "gelu" and dtype == "float32" else halves_in_float32(name, dtype)


NUMPY_DIALECT = Dialect(_computed_in, approximate=False)


@dataclass
class Shared:
    """The state that the functions of one source share.

    `used` are the words they need at its top (dtypes, helpers), `definitions` the operations that
    numpy lacks. With `sites`, each access is checked, and noted there.
    """

    sites: list[Site] | None = None
    used: set[str] = field(default_factory=set)
    definitions: dict[str, str] = field(default_factory=dict)

    def word(self, dtype: str) -> str:
        """A dtype's name in the source."""
        word = "bool_" if dtype == "bool" else dtype
        self.used.add(word)
        return word


class Expressions(Visitor):
    """Writes the expressions of one function.

    The kind of an expression is what Python has when it is evaluated. "": a numpy scalar of its
    dtype, or a truth value. "weak": a number literal, which takes the dtype of the scalar it is
    combined with. "int": a Python int for an index.
    """

    def __init__(self, shared: Shared):
        self.shared = shared
        self.names: dict[Node, Text] = {}
        self.bounds = Intervals()

    def visit_children(self, item: Node) -> NoReturn:
        raise BuildError(f"no Python for the expression {type(item).__name__}")

    def call(self, name: str, *arguments: Text) -> Text:
        """The call of a function, which is noted."""
        self.shared.used.add(name)
        return call(name, *arguments)

    def converted(self, dtype: str, a: Text) -> Text:
        return call(self.shared.word(dtype), a)

    def scalar(self, item: Expr, text: Text | None = None) -> Text:
        """`item` as a numpy scalar of its dtype."""
        text = text or self.visit(item)
        return self.converted(item.dtype, text) if text.kind else text

    def stored(self, value: Expr) -> str:
        """A value to store: a plain number will do, the array gives it its dtype."""
        return (self.scalar if value.dtype == "bfloat16" else self.visit)(value).code

    def returned(self, value: Expr) -> str:
        return self.scalar(value).code

    def element(self, item: Load | Store) -> str:
        buffer, sites = item.buffer, self.shared.sites
        place = ", ".join(self.visit(i).code for i in item.indices) or "()"
        if sites is not None and item.indices:
            action = "load" if isinstance(item, Load) else "store"
            place = f"inside({len(sites)}, {place})"
            sites.append(Site(buffer.name, buffer.shape, action, span_of(item)))
        return f"{self.names[buffer].code}[{place}]"

    def visit_Load(self, item: Load) -> Text:
        return Text(self.element(item))

    def visit_Var(self, item: Var) -> Text:
        text = self.names[item]
        return text if item.dtype == INDEX else self.scalar(item, text)

    def visit_Const(self, item: Const) -> Text:
        value = item.value
        if item.dtype == "bool":
            return Text(repr(value))
        code = repr(value)
        if is_float(item.dtype):
            code = "np.nan" if value != value else float_literal(float(value))
        level = NEGATE if code[0] == "-" else ATOM
        return Text(code, level, "int" if item.dtype == INDEX else "weak")

    def visit_Unary(self, item: Unary) -> Text:
        a = self.visit(item.a)
        if item.op == "not":
            return Text(f"not {a.inside(NOT)}", NOT)
        whole = a.kind == "int" and self.bounds.stays_in(item, INDEX)
        operand = a if whole else self.scalar(item.a, a)
        return Text(item.op + operand.inside(NEGATE), NEGATE, "int" if whole else "")

    def visit_Binary(self, item: Binary) -> Text:
        op = item.op
        a, b = self.visit(item.a), self.visit(item.b)
        if op in ("and", "or"):
            return OPERATORS[op].of(a, b)
        whole = a.kind == b.kind == "int" and self.is_whole(item)
        if not whole:
            a, b = self.operands(item, a, b)
        if op in ("min", "max"):
            if not whole and is_float(item.dtype):
                return self.defined(op, item.dtype, a, b)
            result = self.call(op, a, b)
        elif op in _DIVISIONS and not whole and is_integer(item.dtype) and _may_be_zero(item.b):
            return self.call(_DIVISIONS[op], a, b)
        else:
            result = OPERATORS[op].of(a, b)
        return result._replace(kind="int" if whole and op not in COMPARISONS else "")

    def operands(self, item: Binary, a: Text, b: Text) -> tuple[Text, Text]:
        """Both sides, at least one as a numpy scalar, which gives the result its dtype."""
        both = item.a.dtype == "bfloat16" or item.op in ("min", "max")
        if both or item.op in ("<<", ">>") or (a.kind and b.kind):
            a = self.scalar(item.a, a)
        return a, self.scalar(item.b, b) if both else b

    def is_whole(self, item: Binary) -> bool:
        """Whether an operation gives the same on Python ints as on indices, which wrap."""
        if item.op in COMPARISONS:
            return True
        if item.op in ("//", "%") and self.bounds.interval(item.b)[0] <= 0:
            return False
        return item.op not in ("<<", ">>") and self.bounds.stays_in(item, INDEX)

    def defined(self, operation: str, dtype: str, *arguments: Text) -> Text:
        """The call of a function written from the operation's definition."""
        name = f"scalar_{operation}" if is_formula(operation) else NAMED.get(operation, operation)
        text = self.function(name, operation, dtype)
        if self.shared.definitions.get(name, text) != text:
            name = f"{name}_{dtype}"
            text = self.function(name, operation, dtype)
        self.shared.definitions[name] = text
        return call(name, *arguments)

    def function(self, name: str, operation: str, dtype: str) -> str:
        """An operation's definition as a Python function."""
        program = definition(operation, dtype, approximate=False)
        if program is None:
            raise BuildError(f"no Python for {operation} of {dtype}")
        program = Program(*Legalize(NUMPY_DIALECT).visit(program))
        reserved = {*RESERVED, "np", "math", "type", "bool_", *DTYPES, *HELPERS}
        scope = UniqueNames(reserved=reserved)
        body = Statements(SYNTAX, Expressions(self.shared), scope)
        parameters = ", ".join([body.declare(var) for var in program.params])
        if program.note:
            body.line(f'"""{program.note}"""')
        body.steps(program)
        body.results(program)
        return "\n".join([f"def {name}({parameters}):", *body.lines])

    def visit_Select(self, item: Select) -> Text:
        test, a, b = self.visit(item.condition), self.visit(item.a), self.visit(item.b)
        if not a.kind == b.kind == "int":
            a, b = self.scalar(item.a, a), self.scalar(item.b, b)
        code = f"{a.inside(OR)} if {test.inside(OR)} else {b.inside(CHOICE)}"
        return Text(code, CHOICE, a.kind)

    def visit_Intrin(self, item: Intrin) -> Text:
        dtype, name = item.args[0].dtype, item.name
        arguments = [self.scalar(x) for x in item.args]
        if name in VIEWED:
            return Text(f"{arguments[0].inside(ATOM)}.view({self.shared.word(item.dtype)})")
        if name.startswith("truncate_"):
            return self.converted(item.dtype, arguments[0])
        if name != "abs" and definition(name, dtype, approximate=False) is not None:
            return self.defined(name, dtype, *arguments)
        return self.call(name if name in HELPERS else f"np.{NUMPY.get(name, name)}", *arguments)

    def visit_Cast(self, item: Cast) -> Text:
        source, target, a = item.a.dtype, item.dtype, self.visit(item.a)
        if source == target:
            return a
        if target == "bool":
            return Text(f"{self.scalar(item.a, a).inside(BIT_OR)} != 0", COMPARE)
        if a.kind == "int" and self.fits(item):
            return self.converted(target, a)
        a = self.scalar(item.a, a)
        if not is_integer(target) or source == "bool" or holds(target, source):
            return self.converted(target, a)
        if is_float(source):
            wide = a if source == "float64" else self.converted("float64", a)
            return self.defined(f"to_{target}", "float64", wide)
        return Text(f"{a.inside(ATOM)}.astype({self.shared.word(target)})")

    def fits(self, item: Cast) -> bool:
        """Whether the dtype's own conversion of a Python int is right for every value it takes."""
        low, high = self.bounds.interval(item.a)
        limit = {"float64": 2**63, "float32": 2**53, "float16": 2**24}.get(item.dtype, 0)
        least, most = integer_range(item.dtype) if is_integer(item.dtype) else (-limit, limit)
        return least <= low and high <= most


def _may_be_zero(divisor: Expr) -> bool:
    return not (isinstance(divisor, Const) and divisor.value != 0)
