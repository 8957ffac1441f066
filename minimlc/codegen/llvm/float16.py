"""The 16-bit floats: held as float32, rounded to nearest even after every operation.

Everything is written in plain instructions, so no compiler support library is needed; float16
uses the CPU's conversions where it has them.
"""

from minimlc.codegen.llvm.value import Code, Value, constant, register_type, vector_type


class Rounding:
    """Rounding to 16-bit floats, and their form in memory."""

    code: Code
    half_conversions: bool

    def apply(self, operation: str, result: str, *values: Value) -> Value:
        raise NotImplementedError

    def spread(self, value: Value, lanes: int) -> Value:
        raise NotImplementedError

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where `condition` holds, else `b`; both are evaluated already."""
        if condition.const is not None:
            return a if condition.const else b
        lanes = max(condition.lanes, a.lanes, b.lanes)
        a, b = self.spread(a, lanes), self.spread(b, lanes)
        condition = self.spread(condition, lanes) if condition.lanes else condition
        kinds = (register_type(condition), register_type(a), register_type(b))
        texts = [f"{k} {v.text}" for k, v in zip(kinds, (condition, a, b), strict=True)]
        return Value(self.code.value(f"select {', '.join(texts)}"), a.dtype, lanes)

    def convert(self, operation: str, value: Value, to: str, dtype: str) -> Value:
        """An LLVM conversion (`operation ... to`) lane by lane."""
        value = self.spread(value, value.lanes)
        kind = vector_type(to, value.lanes)
        text = self.code.value(f"{operation} {register_type(value)} {value.text} to {kind}")
        return Value(text, dtype, value.lanes)

    def rounded(self, value: Value) -> Value:
        """A float32 result rounded to the 16-bit dtype it is tagged with; others as they are."""
        if value.dtype == "bfloat16":
            return self._round_bfloat16(value)
        if value.dtype == "float16":
            return self.from_bits(self.to_bits(value), "float16")
        return value

    def _round_bfloat16(self, value: Value) -> Value:
        bits = self.convert("bitcast", value, "i32", "int32")
        odd = self.apply("lshr", "int32", bits, constant(16, "int32"))
        odd = self.apply("and", "int32", odd, constant(1, "int32"))
        bias = self.apply("add", "int32", odd, constant(0x7FFF, "int32"))
        near = self.apply("add", "int32", bits, bias)
        quiet = self.apply("or", "int32", bits, constant(0x400000, "int32"))
        nan = self.apply("fcmp uno", "bool", value, value)
        chosen = self.select(nan, quiet, near)
        kept = self.apply("and", "int32", chosen, constant(-0x10000, "int32"))
        return self.convert("bitcast", kept, "float", "bfloat16")

    def to_bits(self, value: Value) -> Value:
        """A 16-bit float as it is stored (its value is rounded already, or rounds here)."""
        if value.dtype == "bfloat16":
            bits = self.convert("bitcast", value, "i32", "int32")
            high = self.apply("lshr", "int32", bits, constant(16, "int32"))
            return self.convert("trunc", high, "i16", "int16")
        if not self.half_conversions:
            return self._float16_bits(value)
        kind, half = register_type(value), vector_type("half", value.lanes)
        short = vector_type("i16", value.lanes)
        text = self.code.value(f"fptrunc {kind} {value.text} to {half}")
        return Value(self.code.value(f"bitcast {half} {text} to {short}"), "int16", value.lanes)

    def from_bits(self, bits: Value, dtype: str) -> Value:
        """The value of a stored 16-bit float."""
        if dtype == "bfloat16":
            wide = self.convert("zext", bits, "i32", "int32")
            high = self.apply("shl", "int32", wide, constant(16, "int32"))
            return self.convert("bitcast", high, "float", dtype)
        if not self.half_conversions:
            return self._float16_value(bits)
        half, single = vector_type("half", bits.lanes), vector_type("float", bits.lanes)
        text = self.code.value(f"bitcast {register_type(bits)} {bits.text} to {half}")
        return Value(self.code.value(f"fpext {half} {text} to {single}"), dtype, bits.lanes)

    def _float16_bits(self, value: Value) -> Value:
        """Round to float16 with integer steps (after F. Giesen, float_to_half_fast3_rtne)."""

        def step(op: str, a: Value, number: int) -> Value:
            return self.apply(op, "int32", a, constant(number, "int32"))

        bits = self.convert("bitcast", value, "i32", "int32")
        sign = step("and", step("lshr", bits, 16), 0x8000)
        size = step("and", bits, 0x7FFFFFFF)
        magnitude = self.convert("bitcast", size, "float", "float32")
        shifted = self.apply("fadd", "float32", magnitude, constant(0.5, "float32"))
        tiny = step("sub", self.convert("bitcast", shifted, "i32", "int32"), 0x3F000000)
        odd = step("and", step("lshr", size, 13), 1)
        biased = step("add", size, ((15 - 127) << 23) + 0xFFF)
        usual = step("lshr", self.apply("add", "int32", biased, odd), 13)
        small = self.apply("icmp ult", "bool", size, constant(0x38800000, "int32"))
        result = self.select(small, tiny, usual)
        large = self.apply("icmp uge", "bool", size, constant(0x47800000, "int32"))
        result = self.select(large, constant(0x7C00, "int32"), result)
        nan = self.apply("fcmp uno", "bool", value, value)
        result = self.select(nan, constant(0x7E00, "int32"), result)
        return self.convert("trunc", self.apply("or", "int32", result, sign), "i16", "int16")

    def _float16_value(self, bits: Value) -> Value:
        """The inverse: shift the exponent into place, then rescale (also right for subnormals)."""
        wide = self.convert("zext", bits, "i32", "int32")
        sign = self.apply("and", "int32", wide, constant(0x8000, "int32"))
        sign = self.apply("shl", "int32", sign, constant(16, "int32"))
        size = self.apply("and", "int32", wide, constant(0x7FFF, "int32"))
        placed = self.apply("shl", "int32", size, constant(13, "int32"))
        scaled = self.convert("bitcast", placed, "float", "float32")
        scaled = self.apply("fmul", "float32", scaled, constant(2.0**112, "float32"))
        usual = self.convert("bitcast", scaled, "i32", "int32")
        special = self.apply("icmp uge", "bool", size, constant(0x7C00, "int32"))
        endless = self.apply("or", "int32", placed, constant(0x7F800000, "int32"))
        result = self.apply("or", "int32", self.select(special, endless, usual), sign)
        return self.convert("bitcast", result, "float", "float16")
