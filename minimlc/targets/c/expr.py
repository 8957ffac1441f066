"""Expressions of the loop IR as C text, with no more parentheses than C needs.

16-bit floats are held as `float`. Integer arithmetic is written with C's own operators where the
bounds of the loops prove that it cannot overflow (as in nearly every index); elsewhere it calls a
small function that wraps.
"""

from typing import NoReturn

import numpy as np

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
from minimlc.loops.ir.values import HALF
from minimlc.loops.math.scalars import definition
from minimlc.loops.values.dtypes import DTYPES, INDEX, integer_range, is_float, is_integer, to_numpy
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import Node, Visitor
from minimlc.targets.source.interval import Intervals
from minimlc.targets.source.writer import Text, call, operators

SMALL = ("int16", "int8", "uint16", "uint8")
"""Integers that C computes as `int`."""

UNSIGNED = ("uint64", "uint32")
"""Integers that C computes in their own type, wrapping as ours do."""

INTEGERS = ("int64", "int32", *UNSIGNED, *SMALL)
TYPES = {
    "float64": ("f64", "double", "double"),
    "float32": ("f32", "float", "float"),
    "float16": ("f16", "float", "uint16_t"),
    "bfloat16": ("bf16", "float", "uint16_t"),
    "int64": ("i64", "int64_t", "int64_t"),
    "int32": ("i32", "int32_t", "int32_t"),
    "int16": ("i16", "int16_t", "int16_t"),
    "int8": ("i8", "int8_t", "int8_t"),
    "uint8": ("u8", "uint8_t", "uint8_t"),
    "uint16": ("u16", "uint16_t", "uint16_t"),
    "uint32": ("u32", "uint32_t", "uint32_t"),
    "uint64": ("u64", "uint64_t", "uint64_t"),
    "bool": ("bool", "bool", "uint8_t"),
}
"""By dtype: its word in helpers' names, the C type it is computed in, and that of its elements."""

SHORT, VALUE, STORED = ({dtype: row[n] for dtype, row in TYPES.items()} for n in range(3))

CHOICE, OR, AND, BITS, COMPARE, PLUS, TIMES, UNARY = range(8)
OPERATORS = {
    **operators(TIMES, "*", "/", "%"),
    **operators(PLUS, "+", "-"),
    **operators(COMPARE, *COMPARISONS, left=PLUS, right=PLUS),
    **operators(BITS, "&", "|", "^", left=UNARY, right=UNARY),
    **operators(AND, "&&", right=AND),
    **operators(OR, "||", left=COMPARE, right=COMPARE),
}
"""C's binary operators. Those of bits, and `||` around `&&`, get more parentheses than C asks for:
compilers warn without them."""

_SIGNS = {"and": "&&", "or": "||", "//": "/", "not": "!"}
WRAPPING = {"+": "add", "-": "sub", "*": "mul"}
_NAMED = {**WRAPPING, "//": "floordiv", "%": "floormod", "<<": "shl", ">>": "shr"}
_LIBRARY = {"abs": "fabs", "round": "rint"}


class Expressions(Visitor):
    """Writes expressions: `names` of symbols, and `bounds` of integers."""

    def __init__(self) -> None:
        self.names: dict[Node, Text] = {}
        self.bounds = Intervals()

    def visit_children(self, item: Node) -> NoReturn:
        raise BuildError(f"C code has no expression {type(item).__name__}")

    def element(self, item: Load | Store) -> str:
        """`buffer[i][j]`; a buffer without dimensions is an array of one."""
        places = [self.visit(i).code for i in item.indices] or ["0"]
        return self.names[item.buffer].code + "".join(f"[{place}]" for place in places)

    def stored(self, value: Expr) -> str:
        """A value as it is stored; one that is rounded to 16 bits is not widened again."""
        if value.dtype not in HALF:
            return self.returned(value)
        if isinstance(value, Load):
            return self.element(value)
        wide = value.a if isinstance(value, Cast) and value.a.dtype == "float32" else value
        return call(f"f32_to_{SHORT[value.dtype]}", self.visit(wide)).code

    def returned(self, value: Expr) -> str:
        return self.visit(value).code

    def visit_Var(self, item: Var) -> Text:
        return self.names[item]

    def visit_Const(self, item: Const) -> Text:
        return constant(item)

    def visit_Select(self, item: Select) -> Text:
        parts = [self.visit(part).inside(OR) for part in (item.condition, item.a, item.b)]
        return Text("{} ? {} : {}".format(*parts), CHOICE)

    def visit_Load(self, item: Load) -> Text:
        element = Text(self.element(item))
        if item.dtype in HALF:
            return call(f"{SHORT[item.dtype]}_to_f32", element)
        return Text(f"{element.code} != 0", COMPARE) if item.dtype == "bool" else element

    def visit_Unary(self, item: Unary) -> Text:
        a = self.visit(item.a)
        if item.op == "-" and self.overflows(item):
            return call(f"neg_{SHORT[item.dtype]}", a)
        operand = a.inside(UNARY)
        sign = _SIGNS.get(item.op, item.op)
        text = f"{sign}({operand})" if operand.startswith("-") else f"{sign}{operand}"
        return self._narrow(Text(text, UNARY), item)

    def visit_Binary(self, item: Binary) -> Text:
        op, dtype = item.op, item.a.dtype
        a, b = self.visit(item.a), self.visit(item.b)
        if not self._is_native(item):
            result = call(function_name(op, dtype), a, b)
            return self._narrow(result, item) if op in ("//", "%") else result
        if op == "*" and dtype == "uint16" and self.bounds.wraps(item):
            a = converted(a, "uint32_t")  # not C's int, which overflows
        added = item.b.value if isinstance(item.b, Const) else 0
        if op == "+" and is_integer(dtype) and -(2**31) < added < 0:
            op, b = "-", Text(str(-added))  # a - 1 for a + -1
        result = OPERATORS[_SIGNS.get(op, op)].of(a, b)
        return self._narrow(result, item) if op in WRAPPING else result

    def _is_native(self, item: Binary) -> bool:
        """Whether C's own operator means what ours does."""
        op, dtype = item.op, item.a.dtype
        if op in ("//", "%"):
            down = is_integer(dtype) and self.bounds.interval(item.a)[0] >= 0
            return down and self.bounds.interval(item.b)[0] > 0
        wraps = op in WRAPPING and self.overflows(item)
        return not wraps and op not in ("<<", ">>", "min", "max")

    def overflows(self, item: Expr) -> bool:
        """Whether an integer may leave its range where C has no meaning for that."""
        return item.dtype in ("int64", "int32") and self.bounds.wraps(item)

    def _narrow(self, text: Text, item: Expr) -> Text:
        """Back to a small integer type where C computed an `int` that may not fit."""
        if item.dtype not in SMALL or self.bounds.stays_in(item, item.dtype):
            return text
        return converted(text, VALUE[item.dtype])

    def visit_Cast(self, item: Cast) -> Text:
        source, target = item.a.dtype, item.dtype
        a = self.visit(item.a)
        if source == target or (source in HALF and target == "float32"):
            return a
        if target == "bool":
            return Text(f"{a.inside(PLUS)} != 0", COMPARE)
        if target in HALF:
            return call(f"round_{SHORT[target]}", a)
        if is_float(source) and is_integer(target):
            return call(f"to_{SHORT[target]}", a)
        return converted(a, VALUE[target])

    def visit_Intrin(self, item: Intrin) -> Text:
        """A function of C's mathematical library, or one that the text defines."""
        name, dtype = item.name, item.args[0].dtype
        arguments = [self.visit(a) for a in item.args]
        if name == "isnan":
            return converted(call("isnan", *arguments), "bool")
        if definition(name, dtype) is None:
            return call(_LIBRARY.get(name, name) + ("" if dtype == "float64" else "f"), *arguments)
        result = call(function_name(name, dtype), *arguments)
        return self._narrow(result, item) if name == "abs" else result


def converted(text: Text, kind: str) -> Text:
    """C's own conversion to a type."""
    return Text(f"({kind}){text.inside(UNARY)}", UNARY)


def function_name(operation: str, dtype: str) -> str:
    """The name of the function for an operation on operands of `dtype`."""
    wide = "float32" if dtype in HALF else dtype
    if operation in ("//", "%", "min", "max", "abs") and dtype in (*SMALL, "bool"):
        wide = "int32"
    name = f"scalar_{operation}" if is_formula(operation) else _NAMED.get(operation, operation)
    return f"{name}_{SHORT[wide]}"


def constant(item: Const) -> Text:
    """A number as C spells it: floats with just enough digits to read back the same value."""
    if is_float(item.dtype):
        return _float_constant(float(item.value), item.dtype)
    if item.dtype == "bool":
        return Text("true" if item.value else "false")
    value = int(item.value)
    if DTYPES[item.dtype].kind == "uint":
        number = str(value & integer_range(item.dtype)[1])
        if item.dtype == "uint64":
            return converted(Text(f"{number}u"), "uint64_t")
        return Text(f"{number}u" if item.dtype in UNSIGNED else number)
    bits = 64 if item.dtype == INDEX else 32
    if value == -(2 ** (bits - 1)):
        return Text(f"INT{bits}_MIN")
    size = str(abs(value))
    return _signed(f"INT64_C({size})" if abs(value) > 2**31 - 1 else size, value < 0)


def _signed(size: str, negative: bool) -> Text:
    return Text(f"-{size}", UNARY) if negative else Text(size)


def _float_constant(value: float, dtype: str) -> Text:
    with np.errstate(over="ignore"):
        exact = np.asarray(value, np.float64).astype(to_numpy(dtype))
    number = exact.astype(np.float64 if dtype == "float64" else np.float32)[()]
    if np.isnan(number):
        return Text("NAN")
    size = str(abs(number)) + ("" if dtype == "float64" else "f")
    return _signed("INFINITY" if np.isinf(number) else size, bool(np.signbit(number)))
