"""Expressions of the loop IR as C text, with no more parentheses than C needs.

16-bit floats are held as `float`. Integer arithmetic is written with C's own operators where the
values of the loops show that it cannot overflow (as in nearly every index), and with a small
function that wraps where they do not.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from minimlc.codegen.interval import Interval, Intervals
from minimlc.dtypes import INDEX, is_float, is_integer, to_numpy
from minimlc.errors import BuildError
from minimlc.tir.math.scalars import definition
from minimlc.tir.nodes import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Intrin,
    Load,
    Select,
    Unary,
    Var,
)
from minimlc.tir.values import HALF

SHORT = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "bool",
}
"""The dtypes' names in those of helpers."""

VALUE = {
    "float64": "double",
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
"""The C type that a dtype is computed in."""

STORED = {**VALUE, "float16": "uint16_t", "bfloat16": "uint16_t", "bool": "uint8_t"}
"""The C type of a buffer's elements."""

SMALL = ("int16", "int8", "uint8")
"""Integers that C computes as `int`."""

PRIMARY, UNARY, TIMES, PLUS, COMPARE, BITS, AND, OR, CHOICE = 9, 8, 7, 6, 5, 4, 3, 2, 1
_LEVELS = {
    **dict.fromkeys(("*", "/"), TIMES),
    **dict.fromkeys(("+", "-"), PLUS),
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARE),
    **dict.fromkeys(("&", "|", "^"), BITS),
    "&&": AND,
    "||": OR,
}
_WRAPPING = {"+": "add", "-": "sub", "*": "mul"}
_NAMED = {**_WRAPPING, "//": "floordiv", "%": "floormod", "<<": "shl", ">>": "shr"}
_LIBRARY = {"abs": "fabs", "round": "rint"}


class C(NamedTuple):
    """An expression's text and how tightly its outermost operator binds."""

    text: str
    level: int = PRIMARY

    def inside(self, level: int) -> str:
        """The text as an operand that must bind at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass
class Expressions(Intervals):
    """Writes expressions: `names` of symbols, and the `ranges` of the loops' variables."""

    names: dict[Var | Buffer, str] = field(default_factory=dict)
    ranges: dict[Var, Interval] = field(default_factory=dict)

    def expr(self, item: Expr) -> C:
        """The text of an expression."""
        match item:
            case Var():
                return self._variable(item)
            case Const():
                return constant(item)
            case Unary():
                return self._unary(item)
            case Binary():
                return self._binary(item)
            case Select():
                condition = self.expr(item.condition).inside(OR)
                a, b = self.expr(item.a).inside(OR), self.expr(item.b).inside(OR)
                return C(f"{condition} ? {a} : {b}", CHOICE)
            case Cast():
                return self._cast(item)
            case Intrin():
                return self._intrinsic(item)
            case Load():
                return self._load(item)
            case _:
                raise BuildError(f"C code has no expression {type(item).__name__}")

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
        """`buffer[i][j]`; a buffer without dimensions is an array of one."""
        places = [self.expr(i).text for i in indices] or ["0"]
        return self.names[buffer] + "".join(f"[{place}]" for place in places)

    def stored(self, value: Expr) -> str:
        """A value as it is stored; one that is rounded to 16 bits is not widened again."""
        if value.dtype not in HALF:
            return self.expr(value).text
        if isinstance(value, Load):
            return self.element(value.buffer, value.indices)
        wide = value.a if isinstance(value, Cast) and value.a.dtype == "float32" else value
        return call(f"f32_to_{SHORT[value.dtype]}", self.expr(wide)).text

    def _variable(self, item: Var) -> C:
        name = self.names[item]
        return C(name) if item.dtype == INDEX else C(f"({VALUE[item.dtype]}){name}", UNARY)

    def _load(self, item: Load) -> C:
        text = C(self.element(item.buffer, item.indices))
        if item.dtype in HALF:
            return call(f"{SHORT[item.dtype]}_to_f32", text)
        return C(f"{text.text} != 0", COMPARE) if item.dtype == "bool" else text

    def _unary(self, item: Unary) -> C:
        a = self.expr(item.a)
        small = item.dtype in SMALL
        if item.op == "-" and is_integer(item.dtype) and not small and self.wraps(item):
            return call(f"neg_{SHORT[item.dtype]}", a)
        operand = a.inside(UNARY)
        sign = {"-": "-", "~": "~", "not": "!"}[item.op]
        text = C(f"{sign}({operand})" if operand.startswith("-") else f"{sign}{operand}", UNARY)
        return self._narrow(text, item) if small else text

    def _binary(self, item: Binary) -> C:
        op, dtype = item.op, item.a.dtype
        if op in ("and", "or"):
            return self._infix("&&" if op == "and" else "||", item)
        if op in _LEVELS and (is_float(dtype) or op not in _WRAPPING):
            return self._infix(op, item)
        if op in _WRAPPING and (dtype in SMALL or not self.wraps(item)):
            return self._narrow(self._plain(op, item), item)
        if op in ("//", "%") and is_integer(dtype) and self._rounds_down(item):
            return self._infix("/" if op == "//" else "%", item)
        made = call(function_name(op, dtype), self.expr(item.a), self.expr(item.b))
        return self._narrow(made, item) if op in ("//", "%") and dtype in SMALL else made

    def _rounds_down(self, item: Binary) -> bool:
        """Whether C's own division rounds as ours does."""
        return self.interval(item.a)[0] >= 0 and self.interval(item.b)[0] > 0

    def _infix(self, op: str, item: Binary) -> C:
        level = _LEVELS.get(op, TIMES)
        inner = {BITS: UNARY, COMPARE: PLUS, OR: COMPARE}.get(level, level)
        outer = inner if level == AND else max(inner, level + 1)
        left, right = self.expr(item.a).inside(inner), self.expr(item.b).inside(outer)
        return C(f"{left} {op} {right}", level)

    def _plain(self, op: str, item: Binary) -> C:
        """C's operator; `a - 1` for `a + -1`."""
        b = item.b
        if op == "+" and isinstance(b, Const) and -(2**31) < b.value < 0:
            return C(f"{self.expr(item.a).inside(PLUS)} - {-b.value}", PLUS)
        return self._infix(op, item)

    def _narrow(self, made: C, item: Expr) -> C:
        """Back to a small integer type where C computed an `int` that may not fit."""
        if item.dtype in ("int64", "int32"):
            return made
        if self.stays_in(item, item.dtype):
            return made
        return C(f"({VALUE[item.dtype]}){made.inside(UNARY)}", UNARY)

    def _cast(self, item: Cast) -> C:
        source, target = item.a.dtype, item.dtype
        a = self.expr(item.a)
        if source == target or (source in HALF and target == "float32"):
            return a
        if target == "bool":
            return C(f"{a.inside(PLUS)} != 0", COMPARE)
        if target in HALF:
            return call(f"round_{SHORT[target]}", a)
        if is_float(source) and is_integer(target):
            return call(f"to_{SHORT[target]}", a)
        return C(f"({VALUE[target]}){a.inside(UNARY)}", UNARY)

    def _intrinsic(self, item: Intrin) -> C:
        """A function of C's mathematical library, or one that the text defines."""
        name, dtype = item.name, item.args[0].dtype
        arguments = [self.expr(a) for a in item.args]
        if name == "isnan":
            return C(f"(bool){call('isnan', *arguments).text}", UNARY)
        if definition(name, dtype) is None:
            return call(_LIBRARY.get(name, name) + ("" if dtype == "float64" else "f"), *arguments)
        result = call(function_name(name, dtype), *arguments)
        return self._narrow(result, item) if name == "abs" and dtype in SMALL else result


def function_name(operation: str, dtype: str) -> str:
    """What the function of an operation on operands of `dtype` is called."""
    wide = dtype
    if dtype in HALF:
        wide = "float32"
    elif operation in ("//", "%", "min", "max", "abs") and dtype in (*SMALL, "bool"):
        wide = "int32"
    return f"{_NAMED.get(operation, operation)}_{SHORT[wide]}"


def call(name: str, *arguments: C) -> C:
    """A call of a helper or of a function of the C library."""
    return C(f"{name}({', '.join(a.text for a in arguments)})")


def constant(item: Const) -> C:
    """A number as C spells it: floats with as few digits as give the value back."""
    if is_float(item.dtype):
        return _float_constant(float(item.value), item.dtype)
    if item.dtype == "bool":
        return C("true" if item.value else "false")
    value = int(item.value)
    if item.dtype == "uint8":
        return C(str(value & 255))
    bits = 64 if item.dtype == INDEX else 32
    if value == -(2 ** (bits - 1)):
        return C(f"INT{bits}_MIN")
    text = f"INT64_C({abs(value)})" if abs(value) > 2**31 - 1 else str(abs(value))
    return C(f"-{text}", UNARY) if value < 0 else C(text)


def _float_constant(value: float, dtype: str) -> C:
    with np.errstate(over="ignore"):
        exact = np.asarray(value, np.float64).astype(to_numpy(dtype))
    number = exact.astype(np.float64 if dtype == "float64" else np.float32)[()]
    sign = "-" if np.signbit(number) and number == number else ""
    if number != number:
        return C("NAN")
    text = "INFINITY" if np.isinf(number) else str(abs(number))
    if text != "INFINITY" and dtype != "float64":
        text += "f"
    return C(f"{sign}{text}", UNARY if sign else PRIMARY)
