"""The 16-bit floats: held as float32, rounded to nearest even after every operation.

Everything is written in plain instructions, so no compiler support library is needed; float16
uses the CPU's conversions where it has them.
"""

from minimlc.codegen.llvm.ops import Ops
from minimlc.codegen.llvm.value import Value


def rounded(ops: Ops, value: Value) -> Value:
    """A float32 result rounded to the 16-bit dtype it is tagged with; others as they are."""
    if value.dtype == "bfloat16":
        return _round_bfloat16(ops, value)
    if value.dtype == "float16":
        return from_bits(ops, to_bits(ops, value), "float16")
    return value


def _round_bfloat16(ops: Ops, value: Value) -> Value:
    apply = ops.apply
    bits = ops.convert("bitcast", value, "int32")
    odd = apply("and", apply("lshr", bits, 16), 1)
    near = apply("add", bits, apply("add", odd, 0x7FFF))
    quiet = apply("or", bits, 0x400000)
    nearest = ops.select(apply("fcmp uno", value, value), quiet, near)
    return ops.convert("bitcast", apply("and", nearest, -0x10000), "bfloat16")


def to_bits(ops: Ops, value: Value) -> Value:
    """A 16-bit float as it is stored (its value is rounded already, or rounds here)."""
    if value.dtype == "bfloat16":
        bits = ops.convert("bitcast", value, "int32")
        return ops.convert("trunc", ops.apply("lshr", bits, 16), "int16")
    if not ops.half_conversions:
        return _float16_bits(ops, value)
    return ops.convert("bitcast", ops.convert("fptrunc", value, "half"), "int16")


def from_bits(ops: Ops, bits: Value, dtype: str) -> Value:
    """The value of a stored 16-bit float."""
    if dtype == "bfloat16":
        wide = ops.convert("zext", bits, "int32")
        return ops.convert("bitcast", ops.apply("shl", wide, 16), dtype)
    if not ops.half_conversions:
        return _float16_value(ops, bits)
    return ops.convert("fpext", ops.convert("bitcast", bits, "half"), dtype)


def _float16_bits(ops: Ops, value: Value) -> Value:
    """Round to float16 with integer steps (after F. Giesen, float_to_half_fast3_rtne)."""
    apply, convert, select = ops.apply, ops.convert, ops.select
    bits = convert("bitcast", value, "int32")
    sign = apply("and", apply("lshr", bits, 16), 0x8000)
    size = apply("and", bits, 0x7FFFFFFF)
    shifted = apply("fadd", convert("bitcast", size, "float32"), 0.5)
    tiny = apply("sub", convert("bitcast", shifted, "int32"), 0x3F000000)
    odd = apply("and", apply("lshr", size, 13), 1)
    biased = apply("add", size, ((15 - 127) << 23) + 0xFFF)
    usual = apply("lshr", apply("add", biased, odd), 13)
    result = select(apply("icmp ult", size, 0x38800000), tiny, usual)
    result = select(apply("icmp uge", size, 0x47800000), 0x7C00, result)
    result = select(apply("fcmp uno", value, value), 0x7E00, result)
    return convert("trunc", apply("or", result, sign), "int16")


def _float16_value(ops: Ops, bits: Value) -> Value:
    """The inverse: shift the exponent into place, then rescale (also right for subnormals)."""
    apply, convert = ops.apply, ops.convert
    wide = convert("zext", bits, "int32")
    sign = apply("shl", apply("and", wide, 0x8000), 16)
    size = apply("and", wide, 0x7FFF)
    placed = apply("shl", size, 13)
    scaled = apply("fmul", convert("bitcast", placed, "float32"), 2.0**112)
    usual = convert("bitcast", scaled, "int32")
    special = apply("icmp uge", size, 0x7C00)
    endless = apply("or", placed, 0x7F800000)
    result = apply("or", ops.select(special, endless, usual), sign)
    return convert("bitcast", result, "float16")
