"""Expressions of the loop IR as Python expressions on numpy scalars."""

from collections.abc import Mapping
from typing import NamedTuple

from minimlc.codegen.bounds import Site
from minimlc.dtypes import DTYPES, INDEX, integer_range, is_float, is_integer
from minimlc.errors import CompileError
from minimlc.literals import float_literal
from minimlc.node import Node, span_of
from minimlc.tir.intrinsics import GELU_END, GELU_SCALE
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
from minimlc.tir.values import HALF

HELPERS = {
    "maximum": '''\
def maximum(a, b):
    """The greater one; NaN where one is NaN."""
    return a if a >= b or a != a else b''',
    "minimum": '''\
def minimum(a, b):
    """The lesser one; NaN where one is NaN."""
    return a if a <= b or a != a else b''',
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
    "saturate": '''\
def saturate(x, dtype):
    """A float as an integer: without its fraction, at most the type's range, NaN as 0."""
    low, high, wide = np.iinfo(dtype).min, np.iinfo(dtype).max, float(x)
    if wide != wide:
        return dtype(0)
    return dtype(low if wide <= low else high if wide >= high else int(wide))''',
    "sigmoid": """\
def sigmoid(x):
    grown = np.exp(-abs(x))
    return (grown if x < 0 else 1) / (1 + grown)""",
    "rsqrt": """\
def rsqrt(x):
    return 1 / np.sqrt(x)""",
    "erf": """\
def erf(x):
    return type(x)(math.erf(x))""",
    "gelu": f"""\
def gelu(x, end={GELU_END}, scale={GELU_SCALE}):
    return type(x)(0.5 * max(float(x), end) * math.erfc(max(float(x), end) * scale))""",
    "pow": """\
def pow(x, y):
    kind = np.result_type(x, y)
    return np.power(np.array([x], kind), np.array([y], kind))[0]""",
}
"""Functions that the source defines where it needs them."""

INSIDE = '''\
def inside(number, *index):
    """The place of an element, where it is in its buffer."""
    if all(0 <= i < size for i, size in zip(index, sites[number].shape)):
        return index
    raise outside(sites[number], index)'''
"""What checks the accesses, each known by its number."""

NUMPY = {"abs": "abs", "round": "rint"}
"""numpy's names of intrinsics, where they differ."""

CHOICE, OR, AND, NOT, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT, ADD, MULTIPLY, NEGATE, ATOM = range(
    13
)
LEVELS = {"or": OR, "and": AND, "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND}
LEVELS |= {"<<": SHIFT, ">>": SHIFT, "+": ADD, "-": ADD}
LEVELS |= dict.fromkeys(("*", "/", "//", "%"), MULTIPLY)
LOW, HIGH = integer_range(INDEX)


class Piece(NamedTuple):
    """A Python expression, how tightly it binds, and what Python has when it is evaluated.

    "scalar": a numpy scalar of its dtype, or a truth value. "weak": a number literal, which takes
    the dtype of the scalar it is combined with. "int": a Python int for an index, within
    low ... high.
    """

    code: str
    level: int = ATOM
    kind: str = "scalar"
    low: int = LOW
    high: int = HIGH


def _integer(code: str, level: int, low: int, high: int) -> Piece | None:
    """A Python int, unless it may leave the range in which it needs no wrapping."""
    return Piece(code, level, "int", low, high) if low >= LOW and high <= HIGH else None


def _at(piece: Piece, level: int) -> str:
    """The code as an operand of an operator that binds at `level`."""
    return piece.code if piece.level >= level else f"({piece.code})"


class Expressions:
    """Emits the expressions of one function; notes the words (dtypes, helpers) they use.

    With `sites`, each access is checked, and noted there.
    """

    def __init__(self, names: Mapping[Node, str], used: set[str], sites: list[Site] | None = None):
        self.names = names
        self.used = used
        self.sites = sites
        self.limits: dict[Var, int] = {}

    def limit(self, var: Var, extent: Piece) -> None:
        """A loop variable takes 0 ... extent-1."""
        self.limits[var] = max(extent.high - 1, 0)

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
        return Piece(name, ATOM, "int", 0, self.limits[item])

    def const(self, item: Const) -> Piece:
        value = item.value
        if item.dtype == "bool":
            return Piece(repr(value))
        if is_float(item.dtype):
            code = "np.nan" if value != value else float_literal(float(value))
            return Piece(code, NEGATE if code[0] == "-" else ATOM, "weak")
        level = NEGATE if value < 0 else ATOM
        if item.dtype == INDEX:
            return Piece(repr(value), level, "int", int(value), int(value))
        return Piece(repr(value), level, "weak")

    def unary(self, item: Unary) -> Piece:
        a = self.expr(item.a)
        if item.op == "not":
            return Piece(f"not {_at(a, NOT)}", NOT)
        code = item.op + _at(a, NEGATE)
        if a.kind == "int":
            bounds = (-a.high, -a.low) if item.op == "-" else (~a.high, ~a.low)
            whole = _integer(code, NEGATE, *bounds)
            if whole is not None:
                return whole
        return Piece(item.op + _at(self.scalar(item.a, a), NEGATE), NEGATE)

    def binary(self, item: Binary) -> Piece:
        op, dtype = item.op, item.a.dtype
        a, b = self.expr(item.a), self.expr(item.b)
        if op in ("and", "or"):
            level = LEVELS[op]
            return Piece(f"{_at(a, level)} {op} {_at(b, level + 1)}", level)
        if a.kind == b.kind == "int":
            whole = self.whole(op, a, b)
            if whole is not None:
                return whole
        if op in ("min", "max"):
            return self.extreme(item, a, b)
        if op in ("//", "%") and dtype in HALF:
            name = "floor_divide" if op == "//" else "remainder"
            wide = [self.widened(x, p) for x, p in ((item.a, a), (item.b, b))]
            return self.make(dtype, f"np.{name}({', '.join(wide)})")
        a, b = self.operands(item, a, b)
        if op in COMPARISONS:
            return Piece(f"{_at(a, BIT_OR)} {op} {_at(b, BIT_OR)}", COMPARE)
        if op in ("//", "%") and not is_float(dtype) and _may_be_zero(item.b):
            return self.helper("floordiv" if op == "//" else "modulo", a.code, b.code)
        level = LEVELS[op]
        return Piece(f"{_at(a, level)} {op} {_at(b, level + 1)}", level)

    def operands(self, item: Binary, a: Piece, b: Piece) -> tuple[Piece, Piece]:
        """Both sides, of which at least one is a numpy scalar: it gives the result its dtype."""
        if item.a.dtype == "bfloat16":
            return self.scalar(item.a, a), self.scalar(item.b, b)
        if item.op in ("<<", ">>") or "scalar" not in (a.kind, b.kind):
            return self.scalar(item.a, a), b
        return a, b

    def whole(self, op: str, a: Piece, b: Piece) -> Piece | None:
        """An operation on Python ints that gives a Python int, or a truth value."""
        if op in COMPARISONS:
            return Piece(f"{_at(a, BIT_OR)} {op} {_at(b, BIT_OR)}", COMPARE)
        if op in ("min", "max"):
            pick = min if op == "min" else max
            code = f"{op}({a.code}, {b.code})"
            return _integer(code, ATOM, pick(a.low, b.low), pick(a.high, b.high))
        if op in ("//", "%") and b.low <= 0:
            return None
        if op in ("<<", ">>"):
            return None
        low, high = _bounds(op, a, b)
        level = LEVELS[op]
        return _integer(f"{_at(a, level)} {op} {_at(b, level + 1)}", level, low, high)

    def extreme(self, item: Binary, a: Piece, b: Piece) -> Piece:
        codes = self.scalar(item.a, a).code, self.scalar(item.b, b).code
        if is_float(item.a.dtype):
            return self.helper("minimum" if item.op == "min" else "maximum", *codes)
        return Piece(f"{item.op}({', '.join(codes)})")

    def select(self, item: Select) -> Piece:
        test, a, b = self.expr(item.condition), self.expr(item.a), self.expr(item.b)
        if not a.kind == b.kind == "int":
            a, b = self.scalar(item.a, a), self.scalar(item.b, b)
        code = f"{_at(a, OR)} if {_at(test, OR)} else {_at(b, CHOICE)}"
        return Piece(code, CHOICE, a.kind, min(a.low, b.low), max(a.high, b.high))

    def widened(self, item: Expr, piece: Piece | None = None) -> str:
        """A 16-bit float as a float32."""
        return self.make("float32", self.scalar(item, piece).code).code

    def intrin(self, item: Intrin) -> Piece:
        dtype, name = item.args[0].dtype, item.name
        half = dtype in HALF
        codes = [self.widened(x) if half else self.scalar(x).code for x in item.args]
        if name in HELPERS:
            made = self.helper(name, *codes)
        else:
            made = Piece(f"np.{NUMPY.get(name, name)}({', '.join(codes)})")
        return self.make(dtype, made.code) if half and item.dtype == dtype else made

    def cast(self, item: Cast) -> Piece:
        source, target, a = item.a.dtype, item.dtype, self.expr(item.a)
        if source == target:
            return a
        if target == "bool":
            return Piece(f"{_at(self.scalar(item.a, a), BIT_OR)} != 0", COMPARE)
        if a.kind == "int" and _fits(a, target):
            return self.make(target, a.code)
        a = self.scalar(item.a, a)
        if is_integer(target):
            return self.to_integer(source, target, a)
        if target == "bfloat16" or (target == "float16" and not _is_exact(source)):
            return self.make(target, self.make("float32", a.code).code)
        return self.make(target, a.code)

    def to_integer(self, source: str, target: str, a: Piece) -> Piece:
        if is_float(source):
            return self.helper("saturate", a.code, self.word(target))
        if source == "bool" or _contains(target, source):
            return self.make(target, a.code)
        return Piece(f"{_at(a, ATOM)}.astype({self.word(target)})")


def _may_be_zero(divisor: Expr) -> bool:
    return not (isinstance(divisor, Const) and divisor.value != 0)


def _bounds(op: str, a: Piece, b: Piece) -> tuple[int, int]:
    """The least and the greatest result; the divisor is positive."""
    if op == "+":
        return a.low + b.low, a.high + b.high
    if op == "-":
        return a.low - b.high, a.high - b.low
    if op in ("*", "//"):
        ends = [_apply(op, x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(ends), max(ends)
    if op == "%":
        return 0, b.high - 1
    return LOW, HIGH


def _apply(op: str, x: int, y: int) -> int:
    return x * y if op == "*" else x // y


def _fits(piece: Piece, target: str) -> bool:
    """Whether `target(i)` is right for every value of a Python int."""
    if is_integer(target):
        low, high = integer_range(target)
        return low <= piece.low and piece.high <= high
    limit = {"float64": 2**63, "float32": 2**53, "float16": 2**24}.get(target, 0)
    return -limit <= piece.low and piece.high <= limit


def _contains(target: str, source: str) -> bool:
    (low, high), (least, most) = integer_range(target), integer_range(source)
    return low <= least and most <= high


def _is_exact(source: str) -> bool:
    """Whether float32 holds every value of a dtype."""
    return source == "bool" or DTYPES[source].bits <= (32 if is_float(source) else 16)
