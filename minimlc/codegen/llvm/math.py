"""The mathematical functions: LLVM's own, the programs of `minimlc.tir.math.functions`, and the C
library's.

A program's arithmetic carries no flag that lets LLVM contract it as the surrounding code may let
it: scalar and vector code give the same bits.
"""

from minimlc.codegen.llvm.cast import cast
from minimlc.codegen.llvm.float16 import rounded
from minimlc.codegen.llvm.operators import Values
from minimlc.codegen.llvm.value import REGISTER, Value, constant
from minimlc.dtypes import DTYPES
from minimlc.errors import BuildError
from minimlc.node import children
from minimlc.tir.intrinsics import GELU_END, GELU_SCALE, INTRINSICS
from minimlc.tir.math.functions import PROGRAMS
from minimlc.tir.nodes import Binary, Cast, Const, Expr, Intrin, Select, Unary, Var

_EXACT = {
    "abs": "llvm.fabs",
    "sqrt": "llvm.sqrt",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "round": "llvm.rint",
    "trunc": "llvm.trunc",
    "muladd": "llvm.fmuladd",
}
"""Functions that are an LLVM intrinsic, of any number of lanes."""

_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_SHIFT = {"<<": "shl", ">>": "ashr"}
_BITCAST = {"bits": "int32", "number": "float32"}


def intrinsic(values: Values, name: str, arguments: list[Value]) -> Value:
    """A mathematical function; 16-bit floats are computed in float32 and rounded once."""
    first = arguments[0]
    if INTRINSICS[name].predicate:
        return values.apply("fcmp uno", first, first)
    if name == "abs" and DTYPES[first.dtype].kind != "float":
        return _integer_abs(values, first)
    if first.dtype not in ("float16", "bfloat16"):
        return _function(values, name, arguments)
    wide = [Value(a.text, "float32", a.lanes) for a in arguments]
    result = _function(values, name, wide)
    return rounded(values, Value(result.text, first.dtype, result.lanes))


def _integer_abs(values: Values, value: Value) -> Value:
    if DTYPES[value.dtype].kind == "uint":
        return value
    negative = values.apply("icmp slt", value, 0)
    return values.select(negative, values.unary("-", value), value)


def _function(values: Values, name: str, arguments: list[Value]) -> Value:
    first = arguments[0]
    if name in _EXACT:
        return values.lanewise(_EXACT[name], *arguments)
    if name == "rsqrt":
        return values.apply("fdiv", 1.0, values.lanewise("llvm.sqrt", first))
    if name in PROGRAMS and first.dtype == "float32":
        return _in_float32(values, name, arguments)
    wide = {"sigmoid": _wide_sigmoid, "gelu": _wide_gelu}.get(name)
    return wide(values, first) if wide else _library(values, name, arguments)


def _wide_sigmoid(values: Values, x: Value) -> Value:
    """Of the exponential of -|x|, which does not overflow."""
    size = values.unary("-", values.lanewise("llvm.fabs", x))
    grown = _library(values, "exp", [size])
    top = values.select(values.apply("fcmp olt", x, 0.0), grown, 1.0)
    return values.apply("fdiv", top, values.apply("fadd", 1.0, grown))


def _wide_gelu(values: Values, x: Value) -> Value:
    """Of the complementary error function, which keeps its places where it is small."""
    kept = values.select(values.apply("fcmp olt", x, GELU_END), GELU_END, x)
    part = _library(values, "erfc", [values.apply("fmul", kept, GELU_SCALE)])
    return values.apply("fmul", values.apply("fmul", 0.5, kept), part)


def _library(values: Values, name: str, arguments: list[Value]) -> Value:
    """A function of the C mathematical library, called once per lane."""
    lanes, dtype = max(a.lanes for a in arguments), arguments[0].dtype
    kind = REGISTER[dtype]
    symbol = name if kind == "double" else f"{name}f"
    results = []
    for number in range(max(lanes, 1)):
        operands = [values.lane(a, number).typed for a in arguments]
        pure = "nounwind willreturn memory(none)"
        results.append(Value(values.code.call(kind, symbol, *operands, attributes=pure), dtype))
    return values.gather(results) if lanes else results[0]


def _in_float32(values: Values, name: str, arguments: list[Value]) -> Value:
    """A function in float32; where it is rare, the C library's in all lanes."""
    program = PROGRAMS[name]
    arguments = values.alike(*arguments)
    known = dict(zip(program.params, arguments, strict=True))
    for var, step in program.steps:
        known[var] = _step(values, step, known)
    result = _step(values, program.result, known)
    if program.rare is None:
        return result
    rare, code = _step(values, program.rare, known), values.code
    library, join = code.names("library", "join")
    before = code.label
    code.branch(values.reduce("or", rare), library, join)
    with code.part(library, join):
        other = values.select(rare, _library(values, name, arguments), result)
    code.block(join)
    text = code.phi(result.type, (result.text, before), (other.text, library))
    return Value(text, result.dtype, result.lanes)


def _step(values: Values, item: Expr, known: dict[Var, Value]) -> Value:
    """An expression of a program, whose variables have values."""
    if isinstance(item, Var):
        return known[item]
    parts = [_step(values, part, known) for part in children(item) if isinstance(part, Expr)]
    match item:
        case Const():
            return constant(item.value, item.dtype)
        case Unary():
            return values.unary(item.op, *parts)
        case Binary(op) if op in _FLOAT and DTYPES[item.a.dtype].kind == "float":
            return values.apply(_FLOAT[op], *parts)
        case Binary(op) if op in _SHIFT:  # by a constant that fits
            return values.apply(_SHIFT[op], *parts)
        case Binary(op):
            return values.binary(op, *parts)
        case Select():
            return values.select(*parts)
        case Cast():
            return cast(values, parts[0], item.dtype)
        case Intrin(name) if name in _BITCAST:
            return values.convert("bitcast", parts[0], _BITCAST[name])
        case Intrin(name):
            return values.lanewise(_EXACT[name], *parts)
        case _:
            raise BuildError(f"a mathematical function has no {type(item).__name__}")
