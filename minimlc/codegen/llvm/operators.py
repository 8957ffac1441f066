"""The operators of the loop IR on values: constants fold, ramps stay ramps."""

import math

from minimlc.codegen.llvm.float16 import rounded
from minimlc.codegen.llvm.ops import Item, Ops, resolved
from minimlc.codegen.llvm.value import Value, constant
from minimlc.dtypes import DTYPES, INDEX
from minimlc.tir.nodes import BITWISE, COMPARISONS
from minimlc.tir.values import binary_value

_INTEGER = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_FLOAT = {"+": "fadd contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


class Values(Ops):
    """Every operator of the loop IR on values."""

    def unary(self, op: str, a: Value) -> Value:
        if op == "not":
            return self.apply("xor", a, True)
        if op == "~":
            return self.apply("xor", a, -1)
        if DTYPES[a.dtype].kind == "float":
            return self.apply("fneg", a)
        return self.binary("-", 0, a)

    def binary(self, op: str, left: Item, right: Item) -> Value:
        """`left op right`, both sides evaluated."""
        a, b = resolved(left, right)
        if a.dtype == INDEX and (folded := self._index(op, a, b)) is not None:
            return folded
        kind = DTYPES[a.dtype].kind
        if op in COMPARISONS:
            return self._compare(op, a, b)
        if op in ("and", "or"):
            return self._logical(op, a, b)
        if kind == "float":
            return self._float(op, a, b)
        if op in _INTEGER:
            return self.apply(_INTEGER[op], a, b)
        if op in ("min", "max"):
            return self.select(self._compare("<=" if op == "min" else ">=", a, b), a, b)
        if op in ("<<", ">>"):
            return self._shift(op, a, b, kind)
        if b.known and b.const is not None and b.const > 0:
            return self._divide_by_constant(op, a, int(b.const), kind)
        return self._divide(op, a, b) if kind == "int" else self._divide_unsigned(op, a, b)

    def lane(self, value: Value, number: int | Value) -> Value:
        """One lane of a value, as a uniform value."""
        if not value.lanes:
            return value
        at = constant(number, INDEX) if isinstance(number, int) else number
        if value.stride:
            return self.binary("+", value.base, self.binary("*", at, value.stride))
        text = self.code.value(f"extractelement {value.type} {value.text}, i64 {at.text}")
        return Value(text, value.dtype)

    def _index(self, op: str, a: Value, b: Value) -> Value | None:
        """An index computed at compile time, or as a ramp, or simplified away."""
        if a.known and b.known:
            return None if op in BITWISE else _folded(op, a, b)
        if op == "*" and not b.known:
            a, b = b, a
        ramps = (a.stride or b.stride) and all(v.stride or not v.lanes for v in (a, b))
        match op:
            case "+" | "-" if b.known and b.const == 0:
                return a
            case "+" if a.known and a.const == 0:
                return b
            case "+" | "-" if ramps:
                return self._ramp(op, a, b, a.stride + (b.stride if op == "+" else -b.stride))
            case "*" if b.known and b.const in (0, 1):
                return a if b.const else b
            case "*" if b.known and b.const is not None and a.stride:
                return self._ramp(op, a, b, a.stride * int(b.const))
            case "//" | "%" if b.known and b.const == 1:
                return a if op == "//" else constant(0, INDEX)
            case _:  # an operator on strings, not a node: nothing to simplify
                return None

    def _ramp(self, op: str, a: Value, b: Value, stride: int) -> Value:
        base = self.binary(op, a.base, b.base)
        lanes = max(a.lanes, b.lanes) if stride else 0
        return Value(base.text, INDEX, lanes, base.const, stride)

    def _compare(self, op: str, a: Value, b: Value) -> Value:
        kind, name = DTYPES[a.dtype].kind, _COMPARE[op]
        if kind == "float":
            return self.apply(f"fcmp {'u' if op == '!=' else 'o'}{name}", a, b)
        sign = "" if op in ("==", "!=") else ("s" if kind == "int" else "u")
        return self.apply(f"icmp {sign}{name}", a, b)

    def _logical(self, op: str, a: Value, b: Value) -> Value:
        for one, other in ((a, b), (b, a)):
            if one.const is not None:
                return one if one.const is (op == "or") else other
        return self.apply(op, a, b)

    def _float(self, op: str, a: Value, b: Value) -> Value:
        if op in _FLOAT:
            return rounded(self, self.apply(_FLOAT[op], a, b))
        if op in ("min", "max"):
            return self._float_extreme(op, a, b)
        return rounded(self, self._float_divide(op, a, b))

    def _float_extreme(self, op: str, a: Value, b: Value) -> Value:
        """numpy's minimum and maximum: a where a <= b (>= b) or a is NaN, else b."""
        order = "le" if op == "min" else "ge"
        if b.const is not None and not math.isnan(b.const):
            return self.select(self.apply(f"fcmp u{order}", a, b), a, b)
        keep = self.apply(f"fcmp o{order}", a, b)
        if a.const is None or math.isnan(a.const):
            keep = self.apply("or", keep, self.apply("fcmp uno", a, a))
        return self.select(keep, a, b)

    def _float_divide(self, op: str, a: Value, b: Value) -> Value:
        """numpy's floor_divide and remainder for floats, step by step."""
        apply, select = self.apply, self.select
        rest = apply("frem", a, b)
        nonzero = apply("fcmp une", rest, 0.0)
        opposite = apply("xor", apply("fcmp olt", rest, 0.0), apply("fcmp olt", b, 0.0))
        shifted = select(opposite, apply("fadd", rest, b), rest)
        if op == "%":
            return select(nonzero, shifted, self.lanewise("llvm.copysign", 0.0, b))
        shift = apply("and", nonzero, opposite)
        exact = apply("fdiv", apply("fsub", a, rest), b)
        exact = select(shift, apply("fsub", exact, 1.0), exact)
        floor = self.lanewise("llvm.floor", exact)
        up = apply("fcmp ogt", apply("fsub", exact, floor), 0.5)
        floor = select(up, apply("fadd", floor, 1.0), floor)
        ratio = apply("fdiv", a, b)
        empty = apply("fcmp oeq", exact, 0.0)
        floor = select(empty, self.lanewise("llvm.copysign", 0.0, ratio), floor)
        return select(apply("fcmp oeq", b, 0.0), ratio, floor)

    def _shift(self, op: str, a: Value, b: Value, kind: str) -> Value:
        """Shifting by the width or more gives what shifting one bit at a time would."""
        last = DTYPES[a.dtype].bits - 1
        fits = self.apply("icmp ule", b, last)
        safe = self.select(fits, b, last)
        if op == ">>" and kind == "int":
            return self.apply("ashr", a, safe)
        return self.select(fits, self.apply("shl" if op == "<<" else "lshr", a, safe), 0)

    def _divide(self, op: str, a: Value, b: Value) -> Value:
        """Rounding towards minus infinity; by zero gives 0, as numpy does; nothing traps."""
        apply, select = self.apply, self.select
        by_zero, negates = apply("icmp eq", b, 0), apply("icmp eq", b, -1)
        safe = select(apply("or", by_zero, negates), 1, b)
        quotient, rest = apply("sdiv", a, safe), apply("srem", a, safe)
        below = apply("icmp slt", apply("xor", rest, safe), 0)
        below = apply("and", below, apply("icmp ne", rest, 0))
        if op == "%":
            rest = select(below, apply("add", rest, safe), rest)
            return select(apply("or", by_zero, negates), 0, rest)
        quotient = select(below, apply("sub", quotient, 1), quotient)
        quotient = select(negates, apply("sub", 0, a), quotient)
        return select(by_zero, 0, quotient)

    def _divide_unsigned(self, op: str, a: Value, b: Value) -> Value:
        by_zero = self.apply("icmp eq", b, 0)
        safe = self.select(by_zero, 1, b)
        return self.select(by_zero, 0, self.apply("udiv" if op == "//" else "urem", a, safe))

    def _divide_by_constant(self, op: str, a: Value, divisor: int, kind: str) -> Value:
        power, signed = divisor & (divisor - 1) == 0, kind == "int"
        if power and op == "%":
            return self.apply("and", a, divisor - 1)
        if power:
            return self.apply("ashr" if signed else "lshr", a, divisor.bit_length() - 1)
        if not signed:
            return self.apply("udiv" if op == "//" else "urem", a, divisor)
        rest = self.apply("srem", a, divisor)
        sign = self.apply("ashr", rest, DTYPES[a.dtype].bits - 1)
        if op == "%":
            return self.apply("add", rest, self.apply("and", sign, divisor))
        return self.apply("add", self.apply("sdiv", a, divisor), sign)


def _folded(op: str, a: Value, b: Value) -> Value:
    if op in ("//", "%") and b.const == 0:
        return constant(0, INDEX)
    dtype = "bool" if op in COMPARISONS else INDEX
    return constant(binary_value(op, INDEX)(a.const, b.const), dtype)
