"""Conversions between dtypes."""

from minimlc.codegen.llvm.ops import Arithmetic
from minimlc.codegen.llvm.value import REGISTER, Value, constant, register_type, vector_type
from minimlc.dtypes import DTYPES, integer_range


class Conversions(Arithmetic):
    """`Cast` on values."""

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
