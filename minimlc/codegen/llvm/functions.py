"""The programs of `minimlc.tir.math.functions`, and the C library's functions, on values.

A program's arithmetic carries no flag that lets LLVM contract it as the surrounding code may let
it: scalar and vector code give the same bits.
"""

from dataclasses import dataclass

from minimlc.codegen.llvm.cast import Conversions
from minimlc.codegen.llvm.value import REGISTER, Value, constant, register_type
from minimlc.dtypes import DTYPES
from minimlc.errors import BuildError
from minimlc.tir.math.functions import PROGRAMS
from minimlc.tir.nodes import Binary, Cast, Const, Expr, Intrin, Select, Unary, Var

_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_SHIFT = {"<<": "shl", ">>": "ashr"}
_BITS = {"bits": ("i32", "int32"), "number": ("float", "float32")}
_EXACT = {"abs": "llvm.fabs", "floor": "llvm.floor", "muladd": "llvm.fmuladd"}


@dataclass
class _Steps:
    """The expressions of a program, written `on` the function under construction."""

    on: Conversions
    values: dict[Var, Value]

    def expr(self, item: Expr) -> Value:
        match item:
            case Var():
                return self.values[item]
            case Const():
                return constant(item.value, item.dtype)
            case Unary():
                return self.on.unary(item.op, self.expr(item.a))
            case Binary():
                return self._operator(item)
            case Select():
                parts = (item.condition, item.a, item.b)
                return self.on.select(*(self.expr(part) for part in parts))
            case Cast():
                return self.on.cast(self.expr(item.a), item.dtype)
            case Intrin():
                return self._call(item)
            case _:
                raise BuildError(f"a mathematical function has no {type(item).__name__}")

    def _operator(self, item: Binary) -> Value:
        a, b = self.expr(item.a), self.expr(item.b)
        if item.op in _FLOAT and DTYPES[a.dtype].kind == "float":
            return self.on.apply(_FLOAT[item.op], a.dtype, a, b)
        if item.op in _SHIFT:  # by a constant that fits
            return self.on.apply(_SHIFT[item.op], a.dtype, a, b)
        return self.on.binary(item.op, a, b)

    def _call(self, item: Intrin) -> Value:
        arguments = [self.expr(argument) for argument in item.args]
        if item.name in _BITS:
            return self.on.convert("bitcast", arguments[0], *_BITS[item.name])
        return self.on.lanewise(_EXACT[item.name], *arguments)


class Functions(Conversions):
    """Each takes and gives values, uniform or vectors."""

    def in_float32(self, name: str, arguments: list[Value]) -> Value:
        """A function in float32; where it is rare, the C library's in all lanes."""
        item, lanes = PROGRAMS[name], max(value.lanes for value in arguments)
        given = [self.spread(value, lanes) for value in arguments]
        steps = _Steps(self, dict(zip(item.params, given, strict=True)))
        for var, expr in item.steps:
            steps.values[var] = steps.expr(expr)
        result = steps.expr(item.result)
        if item.rare is None:
            return result
        return self._unless_rare(name, given, steps.expr(item.rare), result)

    def _unless_rare(self, name: str, given: list[Value], rare: Value, usual: Value) -> Value:
        code, kind = self.code, register_type(usual)
        library, join = code.name("library"), code.name("join")
        before = code.label
        code.branch(self.any(rare), library, join)
        code.block(library)
        other = self.select(rare, self.library(name, given), usual)
        code.jump(join)
        code.block(join)
        ways = f"[{usual.text}, %{before}], [{other.text}, %{library}]"
        return Value(code.value(f"phi {kind} {ways}"), usual.dtype, usual.lanes)

    def any(self, mask: Value) -> str:
        """Whether the condition holds in some lane."""
        if not mask.lanes:
            return mask.text
        kind = register_type(mask)
        target = self.code.module.declare(f"llvm.vector.reduce.or.v{mask.lanes}i1", "i1", kind)
        return self.code.value(f"call i1 {target}({kind} {mask.text})")

    def library(self, name: str, arguments: list[Value]) -> Value:
        """A function of the C mathematical library, called once per lane."""
        lanes = max(a.lanes for a in arguments)
        kind = REGISTER[arguments[0].dtype]
        symbol = name if kind == "double" else f"{name}f"
        parameters = ", ".join([kind] * len(arguments))
        target = self.code.module.declare(
            symbol, kind, parameters, "nounwind willreturn memory(none)"
        )
        results = []
        for number in range(max(lanes, 1)):
            parts = [self.lane(a, number) for a in arguments]
            texts = ", ".join(f"{kind} {part.text}" for part in parts)
            results.append(
                Value(self.code.value(f"call {kind} {target}({texts})"), arguments[0].dtype)
            )
        return self.gather(results) if lanes else results[0]
