"""Conversions between dtypes, and the mathematical functions."""

from minimlc.codegen.llvm_functions import Functions
from minimlc.codegen.llvm_value import REGISTER, Value, constant, register_type, vector_type
from minimlc.dtypes import DTYPES, integer_range
from minimlc.tir.intrinsics import INTRINSICS

_ROUNDINGS = {
    "sqrt": "llvm.sqrt",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "round": "llvm.rint",
    "trunc": "llvm.trunc",
}
"""Functions that are an LLVM intrinsic, exact in every lane."""

_IN_FLOAT32 = ("exp", "log", "tanh", "erf")


class Mathematics(Functions):
    """`Cast` and `Intrin` on values."""

    def cast(self, value: Value, dtype: str) -> Value:
        """`value` converted as numpy's `astype` does; float to integer saturates, NaN gives 0."""
        if value.dtype == dtype:
            return value
        source, target = DTYPES[value.dtype].kind, DTYPES[dtype].kind
        if target == "bool":
            test = "fcmp une" if source == "float" else "icmp ne"
            return self.apply(test, "bool", value, constant(0, value.dtype))
        if source == "float" and target == "float":
            return self._float_to_float(value, dtype)
        if target == "float":
            return self._integer_to_float(value, dtype)
        if source == "float":
            return self._float_to_integer(value, dtype)
        return self._integer_to_integer(value, dtype)

    def _integer_to_integer(self, value: Value, dtype: str) -> Value:
        if value.const is not None and not value.stride:
            low, high = integer_range(dtype)
            return constant((int(value.const) - low) % (high - low + 1) + low, dtype)
        before, after = DTYPES[value.dtype], DTYPES[dtype]
        if value.dtype != "bool" and before.bits == after.bits:
            value = self.spread(value, value.lanes)
            return Value(value.text, dtype, value.lanes)
        signed = before.kind == "int"
        shrinks = value.dtype != "bool" and after.bits < before.bits
        operation = "trunc" if shrinks else ("sext" if signed else "zext")
        return self.convert(operation, value, REGISTER[dtype], dtype)

    def _integer_to_float(self, value: Value, dtype: str) -> Value:
        operation = "sitofp" if DTYPES[value.dtype].kind == "int" else "uitofp"
        return self.rounded(self.convert(operation, value, REGISTER[dtype], dtype))

    def _float_to_integer(self, value: Value, dtype: str) -> Value:
        operation = "llvm.fptosi.sat" if DTYPES[dtype].kind == "int" else "llvm.fptoui.sat"
        result, source = vector_type(REGISTER[dtype], value.lanes), register_type(value)
        prefix = f"v{value.lanes}" if value.lanes else ""
        wide = "f64" if REGISTER[value.dtype] == "double" else "f32"
        name = f"{operation}.{prefix}{REGISTER[dtype]}.{prefix}{wide}"
        target = self.code.module.declare(name, result, source)
        text = self.code.value(f"call {result} {target}({source} {value.text})")
        return Value(text, dtype, value.lanes)

    def _float_to_float(self, value: Value, dtype: str) -> Value:
        if dtype == "float64":
            return self.convert("fpext", value, "double", dtype)
        if value.dtype != "float64":
            return self.rounded(Value(value.text, dtype, value.lanes))
        return self.rounded(self.convert("fptrunc", value, "float", dtype))

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
        if name == "sigmoid":
            grown = self._function("exp", [self.unary("-", first)])
            return self.apply("fdiv", first.dtype, one, self.apply("fadd", one.dtype, one, grown))
        if name in _IN_FLOAT32 and first.dtype == "float32":
            return getattr(self, name)(self.spread(first, first.lanes))
        return self._library(name, arguments)

    def _library(self, name: str, arguments: list[Value]) -> Value:
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
