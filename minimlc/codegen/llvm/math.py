"""The mathematical functions."""

from minimlc.codegen.llvm.functions import Functions
from minimlc.codegen.llvm.value import Value, constant
from minimlc.dtypes import DTYPES
from minimlc.tir.intrinsics import GELU_END, GELU_SCALE, INTRINSICS
from minimlc.tir.math.functions import PROGRAMS

_ROUNDINGS = {
    "sqrt": "llvm.sqrt",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "round": "llvm.rint",
    "trunc": "llvm.trunc",
}
"""Functions that are an LLVM intrinsic, exact in every lane."""


class Mathematics(Functions):
    """`Intrin` on values."""

    def intrinsic(self, name: str, arguments: list[Value]) -> Value:
        """A mathematical function; 16-bit floats are computed in float32 and rounded once."""
        first = arguments[0]
        if INTRINSICS[name].predicate:
            return self.apply("fcmp uno", "bool", first, first)
        if name == "abs" and DTYPES[first.dtype].kind != "float":
            return self._integer_abs(first)
        dtype = first.dtype
        if dtype in ("float16", "bfloat16"):
            wide = [Value(a.text, "float32", a.lanes) for a in arguments]
            result = self._function(name, wide)
            return self.rounded(Value(result.text, dtype, result.lanes))
        return self._function(name, arguments)

    def _integer_abs(self, value: Value) -> Value:
        if DTYPES[value.dtype].kind == "uint":
            return value
        negative = self.apply("icmp slt", "bool", value, constant(0, value.dtype))
        return self.select(negative, self.unary("-", value), value)

    def _function(self, name: str, arguments: list[Value]) -> Value:
        first = arguments[0]
        one = constant(1.0, first.dtype)
        if name == "abs":
            return self.lanewise("llvm.fabs", first)
        if name in _ROUNDINGS:
            return self.lanewise(_ROUNDINGS[name], first)
        if name == "rsqrt":
            return self.apply("fdiv", first.dtype, one, self.lanewise("llvm.sqrt", first))
        if name in PROGRAMS and first.dtype == "float32":
            return self.in_float32(name, arguments)
        if name == "sigmoid":
            return self._wide_sigmoid(first)
        if name == "gelu":
            return self._wide_gelu(first)
        return self.library(name, arguments)

    def _wide_sigmoid(self, x: Value) -> Value:
        """Of the exponential of -|x|, which does not overflow."""
        one, zero = constant(1.0, x.dtype), constant(0.0, x.dtype)
        size = self.unary("-", self.lanewise("llvm.fabs", x))
        grown = self.library("exp", [size])
        top = self.select(self.apply("fcmp olt", "bool", x, zero), grown, one)
        return self.apply("fdiv", x.dtype, top, self.apply("fadd", x.dtype, one, grown))

    def _wide_gelu(self, x: Value) -> Value:
        """Of the complementary error function, which keeps its places where it is small."""
        end, scale, half = (constant(c, x.dtype) for c in (GELU_END, GELU_SCALE, 0.5))
        kept = self.select(self.apply("fcmp olt", "bool", x, end), end, x)
        part = self.library("erfc", [self.apply("fmul", x.dtype, kept, scale)])
        return self.apply("fmul", x.dtype, self.apply("fmul", x.dtype, half, kept), part)
