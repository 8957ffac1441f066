"""Values and text: what one LLVM function is made of while it is being written.

A value is uniform (one scalar), a vector of lanes, or a ramp: lanes that count up from a scalar
base by a constant stride. Ramps stay symbolic as long as they can, so that an address that grows
by one element per lane becomes one vector load.
"""

import struct
from dataclasses import dataclass, field
from math import prod

import numpy as np

from minimlc.dtypes import to_numpy
from minimlc.tir.nodes import Buffer

REGISTER = {
    "float64": "double",
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "i8",
    "bool": "i1",
}
"""How a dtype is held in a register: 16-bit floats as the float32 of the same value."""

MEMORY = {**REGISTER, "float16": "i16", "bfloat16": "i16", "bool": "i8"}
"""How a dtype is stored."""

SIZE = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1}
Number = int | float | bool


@dataclass(frozen=True, slots=True)
class Value:
    """A value: `lanes` 0 means uniform; `stride` not 0 makes a ramp whose base is `text`.

    `const` is the value (of a ramp: its base) where it is known at compile time.
    """

    text: str
    dtype: str
    lanes: int = 0
    const: Number | None = None
    stride: int = 0


def vector_type(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements; of a scalar for 0."""
    return f"<{lanes} x {element}>" if lanes else element


def register_type(value: Value) -> str:
    return vector_type(REGISTER[value.dtype], value.lanes)


def number_text(value: Number, dtype: str) -> str:
    """A number as LLVM spells it: floats as the bits of a double, so that none is rounded."""
    if dtype == "bool":
        return "true" if value else "false"
    if not dtype.startswith(("float", "bfloat")):
        return str(int(value))
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(value, np.float64).astype(to_numpy(dtype)))
    return f"0x{struct.unpack('>Q', struct.pack('>d', rounded))[0]:016X}"


def constant(value: Number, dtype: str) -> Value:
    """A uniform constant."""
    if dtype == "bool":
        value = bool(value)
    elif dtype == "uint8":
        value = int(value) & 255
    return Value(number_text(value, dtype), dtype, const=value)


def splat_text(text: str, element: str) -> str:
    """A vector constant whose lanes are all the same."""
    return f"splat ({element} {text})"


@dataclass
class Module:
    """What all functions of an LLVM module share: declarations and finished definitions."""

    declarations: dict[str, str] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    tasks: int = 0
    scopes: int = 0

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> str:
        """Make the function `name` known; returns its name as an operand."""
        text = f"declare {result} @{name}({parameters}) {attributes}".rstrip()
        self.declarations[name] = text
        return f"@{name}"


@dataclass
class Code:
    """The text of one LLVM function under construction."""

    module: Module
    lines: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    count: int = 0
    label: str = "start"

    def fresh(self) -> "Code":
        """The beginning of another function of the module."""
        return Code(self.module)

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def value(self, instruction: str) -> str:
        """Append an instruction; returns its result as an operand."""
        name = f"%{self.name()}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def block(self, label: str) -> None:
        """Start a basic block; the one before must have ended in a branch."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, other: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{other}")

    def on_stack(self, element: str, count: int) -> str:
        """Storage in the function's frame; LLVM turns small ones into registers."""
        name = f"%{self.name('stack')}"
        self.entry.append(f"  {name} = alloca [{max(count, 1)} x {element}], align 64")
        return name

    def function(self, header: str) -> str:
        """The finished definition."""
        body = "\n".join(["entry:", *self.entry, "  br label %start", "start:", *self.lines])
        return f"{header} {{\n{body}\n}}"


def facts(buffer: Buffer, *, own: bool = False) -> str:
    """What LLVM may rely on about a pointer to a buffer: nothing else reaches its bytes, all of
    them are there, and how it is aligned: to an element, storage of our own to a cache line.
    """
    size = SIZE[MEMORY[buffer.dtype]]
    bytes_there = prod(buffer.shape) * size
    known = f"noalias align {64 if own else size}"
    return f"{known} dereferenceable({bytes_there})" if bytes_there else known
