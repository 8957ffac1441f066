"""Arithmetic on values: constants fold, ramps stay ramps, and uniform meets vector by a splat."""

import math
from collections.abc import Callable
from typing import Any

from minimlc.codegen.llvm.float16 import Rounding
from minimlc.codegen.llvm.value import (
    REGISTER,
    Number,
    Value,
    constant,
    register_type,
    splat_text,
    vector_type,
)
from minimlc.dtypes import DTYPES, INDEX, integer_range

_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_INTEGER = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_FLOAT = {"+": "fadd contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def wrap(value: Number, dtype: str) -> int:
    """An integer wrapped into its dtype's range."""
    low, high = integer_range(dtype)
    return (int(value) - low) % (high - low + 1) + low


class Arithmetic(Rounding):
    """Every operator of the loop IR on values."""

    def spread(self, value: Value, lanes: int) -> Value:
        """`value` as a plain vector of `lanes` lanes (0: as it is, uniform)."""
        if not lanes or (value.lanes and not value.stride):
            return value
        element = REGISTER[value.dtype]
        vector = vector_type(element, lanes)
        if value.stride:
            base = self.spread(Value(value.text, value.dtype, const=value.const), lanes)
            steps = ", ".join(f"{element} {lane * value.stride}" for lane in range(lanes))
            return Value(self.code.value(f"add {vector} {base.text}, <{steps}>"), INDEX, lanes)
        if value.const is not None:
            return Value(splat_text(value.text, element), value.dtype, lanes)
        first = self.code.value(f"insertelement {vector} poison, {element} {value.text}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        text = self.code.value(f"shufflevector {vector} {first}, {vector} poison, {zeros}")
        return Value(text, value.dtype, lanes)

    def apply(self, operation: str, result: str, *values: Value) -> Value:
        """One LLVM instruction, lane by lane, on operands of one type."""
        lanes = max(value.lanes for value in values)
        operands = [self.spread(value, lanes) for value in values]
        texts = ", ".join(operand.text for operand in operands)
        text = self.code.value(f"{operation} {register_type(operands[0])} {texts}")
        return Value(text, result, lanes)

    def lane(self, value: Value, number: int | Value) -> Value:
        """One lane of a value, as a uniform value."""
        if not value.lanes:
            return value
        if value.stride:
            base = Value(value.text, value.dtype, const=value.const)
            at = constant(number, INDEX) if isinstance(number, int) else number
            return self.binary("+", base, self.binary("*", at, constant(value.stride, INDEX)))
        at_text = str(number) if isinstance(number, int) else number.text
        text = self.code.value(f"extractelement {register_type(value)} {value.text}, i64 {at_text}")
        return Value(text, value.dtype)

    def gather(self, parts: list[Value]) -> Value:
        """A vector of the given uniform values."""
        element, lanes = REGISTER[parts[0].dtype], len(parts)
        text = "poison"
        for number, part in enumerate(parts):
            text = self.code.value(
                f"insertelement {vector_type(element, lanes)} {text}, {element} {part.text}, "
                f"i64 {number}"
            )
        return Value(text, parts[0].dtype, lanes)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """`a op b`, both sides evaluated."""
        if a.dtype == INDEX and (folded := self._index(op, a, b)) is not None:
            return folded
        kind = DTYPES[a.dtype].kind
        if op in _COMPARE:
            return self._compare(op, a, b, kind)
        if op in ("and", "or"):
            return self._logical(op, a, b)
        if kind == "float":
            return self._float(op, a, b)
        if op in _INTEGER:
            return self.apply(_INTEGER[op], a.dtype, a, b)
        if op in ("min", "max"):
            keep = self._compare("<=" if op == "min" else ">=", a, b, kind)
            return self.select(keep, a, b)
        if op in ("<<", ">>"):
            return self._shift(op, a, b, kind)
        return self._divide(op, a, b, kind)

    def _index(self, op: str, a: Value, b: Value) -> Value | None:
        """An index computed at compile time, or as a ramp, or simplified away."""
        if a.const is not None and b.const is not None and not (a.stride or b.stride):
            if op not in _FOLDS:
                return None
            result = _FOLDS[op](a.const, b.const)
            return constant(wrap(result, INDEX) if type(result) is int else result, _type_of(op))
        plain = (a.lanes and not a.stride) or (b.lanes and not b.stride)
        if op in ("+", "-"):
            if b.const == 0 and not b.stride and (a.lanes or not b.lanes):
                return a
            if op == "+" and a.const == 0 and not a.stride and (b.lanes or not a.lanes):
                return b
            if (a.stride or b.stride) and not plain:
                stride = a.stride + b.stride if op == "+" else a.stride - b.stride
                return self._ramp(op, a, b, stride, max(a.lanes, b.lanes))
        if op == "*":
            if b.const is None or b.stride:
                a, b = b, a
            if b.const is not None and not b.stride:
                if b.const in (0, 1):
                    return a if b.const else b
                if a.stride:
                    return self._ramp(op, a, b, a.stride * int(b.const), a.lanes)
        if op in ("//", "%") and b.const == 1 and not b.stride:
            return a if op == "//" else constant(0, INDEX)
        return None

    def _ramp(self, op: str, a: Value, b: Value, stride: int, lanes: int) -> Value:
        first, second = (Value(v.text, v.dtype, const=v.const) for v in (a, b))
        base = self.binary(op, first, second)
        return Value(base.text, INDEX, lanes if stride else 0, base.const, stride)

    def _compare(self, op: str, a: Value, b: Value, kind: str) -> Value:
        if kind == "float":
            order = "u" if op == "!=" else "o"
            return self.apply(f"fcmp {order}{_COMPARE[op]}", "bool", a, b)
        sign = "" if op in ("==", "!=") else ("s" if kind == "int" else "u")
        return self.apply(f"icmp {sign}{_COMPARE[op]}", "bool", a, b)

    def _logical(self, op: str, a: Value, b: Value) -> Value:
        for one, other in ((a, b), (b, a)):
            if one.const is not None:
                absorbs = one.const is (op == "or")
                return one if absorbs else other
        return self.apply(op, "bool", a, b)

    def _float(self, op: str, a: Value, b: Value) -> Value:
        if op in _FLOAT:
            return self.rounded(self.apply(_FLOAT[op], a.dtype, a, b))
        if op in ("min", "max"):
            return self._float_extreme(op, a, b)
        return self._float_divide(op, a, b)

    def _float_extreme(self, op: str, a: Value, b: Value) -> Value:
        """numpy's minimum and maximum: a where a <= b (>= b) or a is NaN, else b."""
        order = "le" if op == "min" else "ge"
        if b.const is not None and not math.isnan(b.const):
            return self.select(self.apply(f"fcmp u{order}", "bool", a, b), a, b)
        keep = self.apply(f"fcmp o{order}", "bool", a, b)
        if a.const is None or math.isnan(a.const):
            keep = self.apply("or", "bool", keep, self.apply("fcmp uno", "bool", a, a))
        return self.select(keep, a, b)

    def _float_divide(self, op: str, a: Value, b: Value) -> Value:
        """numpy's floor_divide and remainder for floats, step by step."""
        zero = constant(0.0, a.dtype)
        rest = self.apply("frem", a.dtype, a, b)
        nonzero = self.apply("fcmp une", "bool", rest, zero)
        opposite = self.apply(
            "xor",
            "bool",
            self.apply("fcmp olt", "bool", rest, zero),
            self.apply("fcmp olt", "bool", b, zero),
        )
        shifted = self.select(opposite, self.apply("fadd", a.dtype, rest, b), rest)
        if op == "%":
            return self.rounded(self.select(nonzero, shifted, self.copysign(zero, b)))
        shift = self.apply("and", "bool", nonzero, opposite)
        exact = self.apply("fdiv", a.dtype, self.apply("fsub", a.dtype, a, rest), b)
        below = self.apply("fsub", a.dtype, exact, constant(1.0, a.dtype))
        exact = self.select(shift, below, exact)
        floor = self.lanewise("llvm.floor", exact)
        above = self.apply("fsub", a.dtype, exact, floor)
        up = self.apply("fcmp ogt", "bool", above, constant(0.5, a.dtype))
        floor = self.select(up, self.apply("fadd", a.dtype, floor, constant(1.0, a.dtype)), floor)
        ratio = self.apply("fdiv", a.dtype, a, b)
        empty = self.apply("fcmp oeq", "bool", exact, zero)
        floor = self.select(empty, self.copysign(zero, ratio), floor)
        return self.rounded(self.select(self.apply("fcmp oeq", "bool", b, zero), ratio, floor))

    def copysign(self, a: Value, b: Value) -> Value:
        return self.lanewise("llvm.copysign", a, b)

    def lanewise(self, name: str, *values: Value) -> Value:
        """An LLVM intrinsic that works on vectors too, overloaded by its operand type."""
        lanes = max(value.lanes for value in values)
        operands = [self.spread(value, lanes) for value in values]
        kind = register_type(operands[0])
        element = {"float": "f32", "double": "f64"}.get(REGISTER[values[0].dtype])
        suffix = (f"v{lanes}" if lanes else "") + (element or REGISTER[values[0].dtype])
        target = self.code.module.declare(f"{name}.{suffix}", kind, ", ".join([kind] * len(values)))
        texts = ", ".join(f"{kind} {operand.text}" for operand in operands)
        return Value(self.code.value(f"call {kind} {target}({texts})"), values[0].dtype, lanes)

    def _shift(self, op: str, a: Value, b: Value, kind: str) -> Value:
        """Shifting by the width or more gives what shifting one bit at a time would."""
        bits = DTYPES[a.dtype].bits
        last = constant(bits - 1, a.dtype)
        fits = self.apply("icmp ule", "bool", b, last)
        safe = self.select(fits, b, last)
        if op == ">>" and kind == "int":
            return self.apply("ashr", a.dtype, a, safe)
        shifted = self.apply("shl" if op == "<<" else "lshr", a.dtype, a, safe)
        return self.select(fits, shifted, constant(0, a.dtype))

    def _divide(self, op: str, a: Value, b: Value, kind: str) -> Value:
        """Rounding towards minus infinity; by zero gives 0, as numpy does; nothing traps."""
        if b.const is not None and b.const > 0 and not b.stride:
            return self._divide_by_constant(op, a, b, int(b.const), kind)
        zero, one = constant(0, a.dtype), constant(1, a.dtype)
        by_zero = self.apply("icmp eq", "bool", b, zero)
        if kind != "int":
            safe = self.select(by_zero, one, b)
            result = self.apply("udiv" if op == "//" else "urem", a.dtype, a, safe)
            return self.select(by_zero, zero, result)
        negates = self.apply("icmp eq", "bool", b, constant(-1, a.dtype))
        safe = self.select(self.apply("or", "bool", by_zero, negates), one, b)
        quotient = self.apply("sdiv", a.dtype, a, safe)
        rest = self.apply("srem", a.dtype, a, safe)
        below = self.apply("icmp slt", "bool", self.apply("xor", a.dtype, rest, safe), zero)
        below = self.apply("and", "bool", below, self.apply("icmp ne", "bool", rest, zero))
        if op == "%":
            rest = self.select(below, self.apply("add", a.dtype, rest, safe), rest)
            exact = self.apply("or", "bool", by_zero, negates)
            return self.select(exact, zero, rest)
        quotient = self.select(below, self.apply("sub", a.dtype, quotient, one), quotient)
        quotient = self.select(negates, self.apply("sub", a.dtype, zero, a), quotient)
        return self.select(by_zero, zero, quotient)

    def _divide_by_constant(self, op: str, a: Value, b: Value, divisor: int, kind: str) -> Value:
        power = divisor & (divisor - 1) == 0
        if power and op == "%":
            return self.apply("and", a.dtype, a, constant(divisor - 1, a.dtype))
        if power:
            shift = constant(divisor.bit_length() - 1, a.dtype)
            return self.apply("ashr" if kind == "int" else "lshr", a.dtype, a, shift)
        if kind != "int":
            return self.apply("udiv" if op == "//" else "urem", a.dtype, a, b)
        rest = self.apply("srem", a.dtype, a, b)
        sign = self.apply("ashr", a.dtype, rest, constant(DTYPES[a.dtype].bits - 1, a.dtype))
        if op == "%":
            return self.apply("add", a.dtype, rest, self.apply("and", a.dtype, sign, b))
        return self.apply("add", a.dtype, self.apply("sdiv", a.dtype, a, b), sign)

    def unary(self, op: str, a: Value) -> Value:
        if op == "not":
            return self.apply("xor", "bool", a, constant(True, "bool"))
        if op == "~":
            return self.apply("xor", a.dtype, a, constant(-1, a.dtype))
        if DTYPES[a.dtype].kind == "float":
            return self.apply("fneg", a.dtype, a)
        return self.binary("-", constant(0, a.dtype), a)


def _type_of(op: str) -> str:
    return "bool" if op in _COMPARE else INDEX
