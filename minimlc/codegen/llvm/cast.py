"""Conversions between dtypes."""

from minimlc.codegen.llvm.float16 import rounded
from minimlc.codegen.llvm.ops import Ops
from minimlc.codegen.llvm.value import REGISTER, Value, constant, suffix, vector_type
from minimlc.dtypes import DTYPES
from minimlc.tir.values import converter


def cast(ops: Ops, value: Value, dtype: str) -> Value:
    """`value` converted as numpy's `astype` does; float to integer saturates, NaN gives 0."""
    if value.dtype == dtype:
        return value
    source, target = DTYPES[value.dtype].kind, DTYPES[dtype].kind
    if target == "bool":
        return ops.apply("fcmp une" if source == "float" else "icmp ne", value, 0)
    if source == "float":
        convert = _float_to_float if target == "float" else _float_to_integer
        return convert(ops, value, dtype)
    if target == "float":
        operation = "sitofp" if source == "int" else "uitofp"
        return rounded(ops, ops.convert(operation, value, dtype))
    return _integer_to_integer(ops, value, dtype)


def _integer_to_integer(ops: Ops, value: Value, dtype: str) -> Value:
    if value.known:
        return constant(converter(value.dtype, dtype)(value.const), dtype)
    before, after = DTYPES[value.dtype], DTYPES[dtype]
    if value.dtype != "bool" and before.bits == after.bits:
        value = ops.spread(value, value.lanes)
        return Value(value.text, dtype, value.lanes)
    if value.dtype != "bool" and after.bits < before.bits:
        return ops.convert("trunc", value, dtype)
    return ops.convert("sext" if before.kind == "int" else "zext", value, dtype)


def _float_to_integer(ops: Ops, value: Value, dtype: str) -> Value:
    operation = "llvm.fptosi.sat" if DTYPES[dtype].kind == "int" else "llvm.fptoui.sat"
    result, source = REGISTER[dtype], REGISTER[value.dtype]
    name = f"{operation}.{suffix(result, value.lanes)}.{suffix(source, value.lanes)}"
    text = ops.code.call(vector_type(result, value.lanes), name, value.typed)
    return Value(text, dtype, value.lanes)


def _float_to_float(ops: Ops, value: Value, dtype: str) -> Value:
    if dtype == "float64":
        return ops.convert("fpext", value, dtype)
    if value.dtype != "float64":
        return rounded(ops, Value(value.text, dtype, value.lanes))
    return rounded(ops, ops.convert("fptrunc", value, dtype))
