"""Scalar operations on values: constants fold, ramps stay ramps.

An operation becomes LLVM's instruction for it, or else its definition in
`minimlc.loops.math.scalars`, written out. A definition's arithmetic carries no flag that lets LLVM
contract it as the surrounding code may let it: scalar and vector code give the same bits.
"""

import math
from collections.abc import Sequence

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.values import HALF, binary_value, converter
from minimlc.loops.llvm.ops import Item, Ops, resolved
from minimlc.loops.llvm.value import REGISTER, Value, constant, number_text, suffix
from minimlc.loops.lower.dialect import SHIFTS, is_count
from minimlc.loops.math.float_steps import Program
from minimlc.loops.math.scalars import definition
from minimlc.loops.values.dtypes import DTYPES, INDEX
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import children

_INTEGER = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_CONTRACTED = {"+": "fadd contract", "-": "fsub contract", "*": "fmul contract", "/": "fdiv"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_BITCAST = {"bits": "int32", "number": "float32"}
_EXACT = {
    "abs": "llvm.fabs",
    "sqrt": "llvm.sqrt",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "round": "llvm.rint",
    "trunc": "llvm.trunc",
    "muladd": "llvm.fmuladd",
    "copysign": "llvm.copysign",
}
"""Functions of floats that are an LLVM intrinsic, of any number of lanes."""

_INSTRUCTIONS = {
    "float": {"fmod": "frem"},
    "int": {"quotient": "sdiv", "remainder": "srem", "shift_left": "shl", "shift_right": "ashr"},
    "uint": {"quotient": "udiv", "remainder": "urem", "shift_left": "shl", "shift_right": "lshr"},
}
"""Functions that are an instruction, by the kind of their dtype."""


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
        if op in ir.COMPARISONS:
            return self._compare(op, a, b)
        if op in ("and", "or"):
            return self._logical(op, a, b)
        if kind == "float":
            return self._float(op, a, b)
        if op in _INTEGER:
            return self.apply(_INTEGER[op], a, b)
        if op in ("min", "max"):
            return self.select(self._compare("<=" if op == "min" else ">=", a, b), a, b)
        divisor = int(b.const) if b.known and b.const is not None else 0
        if op in ("//", "%") and divisor > 0:
            return self._divide_by_constant(op, a, divisor, kind)
        return self.operation(op, a, b)

    def operation(self, name: str, *items: Item) -> Value:
        """An operation that is not a plain instruction for operators: LLVM's, or by its
        definition, or the C library's. 16-bit floats are computed in float32 and rounded once.
        """
        values = self.alike(*items)
        dtype = values[0].dtype
        kind = DTYPES[dtype].kind
        if name == "isnan":
            return self.apply("fcmp uno", values[0], values[0])
        if dtype in HALF:
            wide = self.operation(name, *(value._replace(dtype="float32") for value in values))
            return self.rounded(wide._replace(dtype=dtype))
        if name in _EXACT and kind == "float":
            return self.lanewise(_EXACT[name], *values)
        if name in _INSTRUCTIONS[kind]:
            return self.apply(_INSTRUCTIONS[kind][name], *values)
        program = definition(name, dtype, scales=self.scales)
        if program is None:
            return self._library(name, values)
        result, rare = self._run(program, values)
        return result if rare is None else self._unless_rare(name, values, rare, result)

    def _run(self, program: Program, arguments: Sequence[Value]) -> tuple[Value, Value | None]:
        """A program's result, and where its rare case holds."""
        known = dict(zip(program.params, arguments, strict=True))
        for var, step in program.steps:
            known[var] = self._step(step, known)
        result = self._step(program.result, known)
        return result, None if program.rare is None else self._step(program.rare, known)

    def _step(self, item: ir.Expr, known: dict[ir.Var, Value]) -> Value:
        """An expression of a program, whose variables have values."""
        if isinstance(item, ir.Var):
            return known[item]
        parts = [self._step(part, known) for part in children(item) if isinstance(part, ir.Expr)]
        match item:
            case ir.Const():
                return constant(item.value, item.dtype)
            case ir.Unary():
                return self.unary(item.op, *parts)
            case ir.Binary(op) if op in _FLOAT and DTYPES[item.a.dtype].kind == "float":
                return self.apply(_FLOAT[op], *parts)
            case ir.Binary(op, _, count) if op in SHIFTS and is_count(count):
                return self.operation(SHIFTS[op], *parts)
            case ir.Binary(op):
                return self.binary(op, *parts)
            case ir.Select():
                return self.select(*parts)
            case ir.Cast():
                return self.cast(parts[0], item.dtype)
            case ir.Intrin("ldexp"):
                return _scaled(self, *parts)
            case ir.Intrin(name) if name in _BITCAST:
                return self.convert("bitcast", parts[0], _BITCAST[name])
            case ir.Intrin(name):
                return self.operation(name, *parts)
            case _:
                raise BuildError(f"a definition has no {type(item).__name__}")

    def _unless_rare(self, name: str, values: list[Value], rare: Value, usual: Value) -> Value:
        """A program's result, with the C library's in the lanes where its rare case holds."""
        code = self.code
        library, join = code.names("library", "join")
        before = code.label
        code.branch(self.reduce("or", rare), library, join)
        with code.part(library, join):
            other = self.select(rare, self._library(name, values), usual)
        code.block(join)
        text = code.phi(usual.type, (usual.text, before), (other.text, library))
        return Value(text, usual.dtype, usual.lanes)

    def _library(self, name: str, values: list[Value]) -> Value:
        """A function of the C mathematical library, called once per lane."""
        first = values[0]
        if DTYPES[first.dtype].kind != "float":
            raise BuildError(f"LLVM code has no {name} of {first.dtype}")
        kind = REGISTER[first.dtype]
        symbol, pure = name if kind == "double" else f"{name}f", "nounwind willreturn memory(none)"
        results = []
        for number in range(max(first.lanes, 1)):
            operands = [self.lane(value, number).typed for value in values]
            text = self.code.call(kind, symbol, *operands, attributes=pure)
            results.append(Value(text, first.dtype))
        return self.gather(results) if first.lanes else results[0]

    def rounded(self, value: Value) -> Value:
        """A float32 result rounded to the 16-bit dtype it is tagged with; others as they are."""
        if value.dtype == "float16":
            return self.from_bits(self.to_bits(value), "float16")
        if value.dtype != "bfloat16":
            return value
        bits = self.operation("store_bfloat16", value._replace(dtype="float32"))
        return self.operation("load_bfloat16", bits)._replace(dtype="bfloat16")

    def to_bits(self, value: Value) -> Value:
        """A 16-bit float as it is stored; float16 is rounded here, bfloat16 is already."""
        if value.dtype == "bfloat16":
            bits = self.apply("lshr", self.convert("bitcast", value, "int32"), 16)
        elif self.half_conversions:
            return self.convert("bitcast", self.convert("fptrunc", value, "half"), "int16")
        else:
            bits = self.operation("store_float16", value._replace(dtype="float32"))
        return self.convert("trunc", bits, "int16")

    def from_bits(self, bits: Value, dtype: str) -> Value:
        """The value of a stored 16-bit float."""
        if dtype == "float16" and self.half_conversions:
            return self.convert("fpext", self.convert("bitcast", bits, "half"), dtype)
        wide = self.convert("zext", bits, "int32")
        return self.operation(f"load_{dtype}", wide)._replace(dtype=dtype)

    def cast(self, value: Value, dtype: str) -> Value:
        """`value` converted as numpy's `astype` does; float to integer saturates, NaN gives 0."""
        if value.dtype == dtype:
            return value
        source, target = DTYPES[value.dtype].kind, DTYPES[dtype].kind
        if target == "bool":
            return self.apply("fcmp une" if source == "float" else "icmp ne", value, 0)
        if source == "float":
            convert = self._float_to_float if target == "float" else self.to_integer
            return convert(value, dtype)
        if target == "float":
            operation = "sitofp" if source == "int" else "uitofp"
            return self.rounded(self.convert(operation, value, dtype))
        return self._integer_to_integer(value, dtype)

    def _integer_to_integer(self, value: Value, dtype: str) -> Value:
        if value.known:
            return constant(converter(value.dtype, dtype)(value.const), dtype)
        before, after = DTYPES[value.dtype], DTYPES[dtype]
        if value.dtype != "bool" and before.bits == after.bits:
            value = self.spread(value, value.lanes)
            return Value(value.text, dtype, value.lanes)
        if value.dtype != "bool" and after.bits < before.bits:
            return self.convert("trunc", value, dtype)
        return self.convert("sext" if before.kind == "int" else "zext", value, dtype)

    def _float_to_float(self, value: Value, dtype: str) -> Value:
        if dtype == "float64":
            return self.convert("fpext", value, dtype)
        if value.dtype != "float64":
            if dtype in HALF and value.dtype not in HALF:
                # Nor is a float32 operation that may be fused one of 16 bits.
                value = self.lanewise("llvm.arithmetic.fence", value)
            return self.rounded(Value(value.text, dtype, value.lanes))
        return self.rounded(self.convert("fptrunc", value, dtype))

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
            return None if op in ir.BITWISE else _folded(op, a, b)
        if op in ir.COMPARISONS and a.const is not None and b.const is not None:
            return _compared(op, a, b)
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
            # A CPU that calculates with 16 bits would fuse what has to be rounded twice.
            names = _FLOAT if a.dtype in HALF else _CONTRACTED
            return self.rounded(self.apply(names[op], a, b))
        if op in ("min", "max"):
            return self._float_extreme(op, a, b)
        return self.operation(op, a, b)

    def _float_extreme(self, op: str, a: Value, b: Value) -> Value:
        """numpy's minimum and maximum: a where a <= b (>= b) or a is NaN, else b; of two NaN, b.

        An accumulator is `a`: its chain has two instructions, one of them x86's for this.
        """
        if a.const is not None and not math.isnan(a.const):
            return self.select(self.apply(f"fcmp o{'le' if op == 'min' else 'ge'}", a, b), a, b)
        beyond = self.select(self.apply(f"fcmp o{'lt' if op == 'min' else 'gt'}", b, a), b, a)
        if b.const is not None and not math.isnan(b.const):
            return beyond
        # LLVM would make one selection of two that have a value in common, by way of masks.
        return self.select(self.apply("fcmp uno", b, b), constant(math.nan, b.dtype), beyond)

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
    dtype = "bool" if op in ir.COMPARISONS else INDEX
    return constant(binary_value(op, INDEX)(a.const, b.const), dtype)


def _compared(op: str, a: Value, b: Value) -> Value:
    """A comparison of a ramp from a known base: one answer, if all lanes have the same."""
    lanes, plus = range(max(a.lanes, b.lanes)), binary_value("+", INDEX)
    sides = ([plus(side.const, lane * side.stride) for lane in lanes] for side in (a, b))
    answers = list(map(binary_value(op, INDEX), *sides))
    if len(set(answers)) == 1:
        return constant(answers[0], "bool")
    texts = ", ".join(f"i1 {number_text(answer, 'bool')}" for answer in answers)
    return Value(f"<{texts}>", "bool", len(lanes), mixed=True)


def _scaled(values: Values, value: Value, power: Value) -> Value:
    """value * 2**power, rounded once."""
    lanes = max(value.lanes, power.lanes)
    pair = values.spread(value, lanes), values.spread(power, lanes)
    name = ".".join(["llvm.ldexp", *(suffix(REGISTER[part.dtype], lanes) for part in pair)])
    text = values.code.call(pair[0].type, name, *(part.typed for part in pair))
    return Value(text, value.dtype, lanes)
