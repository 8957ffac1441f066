"""LLVM's instructions on values: uniform meets vector by a splat, numbers are constants."""

from dataclasses import dataclass

from minimlc.loops.llvm.value import REGISTER, Code, Number, Value, constant, suffix, vector_type
from minimlc.loops.values.dtypes import DTYPES, INDEX

Item = Value | Number
"""An operand; a number stands for the constant of the other operands' dtype."""


def resolved(*items: Item) -> list[Value]:
    """Operands of one dtype as values."""
    values = [item for item in items if isinstance(item, Value)]
    if len(values) == len(items):
        return values
    dtype = values[0].dtype
    return [item if isinstance(item, Value) else constant(item, dtype) for item in items]


@dataclass
class Ops:
    """Appends instructions to `code`; the results have as many lanes as the widest operand.

    With `half_conversions`, the CPU converts float16; where it `scales`, it has `ldexp`.
    """

    code: Code
    half_conversions: bool = True
    scales: bool = False

    def spread(self, value: Value, lanes: int) -> Value:
        """`value` as a plain vector of `lanes` lanes (0: as it is, uniform)."""
        if not lanes or (value.lanes and not value.stride):
            return value
        element = REGISTER[value.dtype]
        vector = vector_type(element, lanes)
        if value.stride:
            base = self.spread(value.base, lanes)
            steps = ", ".join(f"{element} {lane * value.stride}" for lane in range(lanes))
            return Value(self.code.value(f"add {vector} {base.text}, <{steps}>"), INDEX, lanes)
        if value.const is not None:
            return Value(f"splat ({element} {value.text})", value.dtype, lanes)
        first = self.code.value(f"insertelement {vector} poison, {element} {value.text}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        text = self.code.value(f"shufflevector {vector} {first}, {vector} poison, {zeros}")
        return Value(text, value.dtype, lanes)

    def alike(self, *items: Item) -> list[Value]:
        """Operands of one dtype, all as wide as the widest."""
        values = resolved(*items)
        lanes = max(value.lanes for value in values)
        return [self.spread(value, lanes) for value in values]

    def apply(self, operation: str, *items: Item) -> Value:
        """One instruction, lane by lane, on operands of one dtype; a comparison gives bool."""
        values = self.alike(*items)
        first = values[0]
        texts = ", ".join(value.text for value in values)
        text = self.code.value(f"{operation} {first.type} {texts}")
        dtype = "bool" if operation.startswith(("icmp", "fcmp")) else first.dtype
        return Value(text, dtype, first.lanes)

    def lanewise(self, name: str, *items: Item) -> Value:
        """An LLVM intrinsic that works on vectors too, overloaded by its operands' type."""
        values = self.alike(*items)
        first = values[0]
        name = f"{name}.{suffix(REGISTER[first.dtype], first.lanes)}"
        text = self.code.call(first.type, name, *(value.typed for value in values))
        return Value(text, first.dtype, first.lanes)

    def convert(self, operation: str, value: Value, dtype: str) -> Value:
        """An LLVM conversion (`operation ... to`) lane by lane."""
        value = self.spread(value, value.lanes)
        target = vector_type(REGISTER[dtype], value.lanes)
        text = self.code.value(f"{operation} {value.type} {value.text} to {target}")
        return Value(text, dtype, value.lanes)

    def to_integer(self, value: Value, dtype: str) -> Value:
        """A float as an integer: its fraction dropped, out of range the nearest, NaN 0."""
        name = "llvm.fptosi.sat" if DTYPES[dtype].kind == "int" else "llvm.fptoui.sat"
        types = [REGISTER[dtype], REGISTER[value.dtype]]
        name = ".".join([name, *(suffix(kind, value.lanes) for kind in types)])
        text = self.code.call(vector_type(types[0], value.lanes), name, value.typed)
        return Value(text, dtype, value.lanes)

    def select(self, condition: Value, a: Item, b: Item) -> Value:
        """`a` where `condition` holds, else `b`; both are evaluated already."""
        first, second = resolved(a, b)
        if condition.const is not None:
            return first if condition.const else second
        lanes = max(condition.lanes, first.lanes, second.lanes)
        first, second = self.spread(first, lanes), self.spread(second, lanes)
        sides = (condition, first, second)
        texts = ", ".join(f"{value.type} {value.text}" for value in sides)
        return Value(self.code.value(f"select {texts}"), first.dtype, lanes)

    def gather(self, parts: list[Value]) -> Value:
        """A vector of the given uniform values."""
        first, lanes, text = parts[0], len(parts), "poison"
        vector = vector_type(first.type, lanes)
        for number, part in enumerate(parts):
            element = f"{first.type} {part.text}"
            text = self.code.value(f"insertelement {vector} {text}, {element}, i64 {number}")
        return Value(text, first.dtype, lanes)

    def reduce(self, op: str, mask: Value) -> str:
        """Whether a condition holds in all lanes ("and"), or in any ("or")."""
        if not mask.lanes:
            return mask.text
        return self.code.call("i1", f"llvm.vector.reduce.{op}.v{mask.lanes}i1", mask.typed)
