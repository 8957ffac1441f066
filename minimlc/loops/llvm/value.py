"""The values and the text of one LLVM function while it is being written.

A value is uniform (one scalar), a vector of lanes, or a ramp: lanes that count up from a scalar
base by a constant stride. Ramps stay symbolic as long as they can, so that an address that grows
by one element per lane becomes one vector load.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import Buffer
from minimlc.loops.llvm.lines import FIRST
from minimlc.loops.values.dtypes import DTYPES, INDEX, integer_range, to_numpy

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
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "bool": "i1",
    "half": "half",
}
"""The type of a dtype in a register: 16-bit floats as the float32 of the same value. "half" is
the CPU's float16, which values pass through on their way from and to memory."""

MEMORY = {**REGISTER, "float16": "i16", "bfloat16": "i16", "bool": "i8"}
"""The type of a dtype in memory."""

SIZE = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1}
Number = int | float | bool
Typed = tuple[str, str]
"""An operand of a call: its LLVM type and its text."""


IN_PLACE = "in_place"
"""The attribute of a function whose result may be the memory of a parameter it is computed from."""


def symbol(name: str) -> str:
    """The function's name in machine code; the dot keeps clear of the C library's names."""
    return f"mlc.{plain_name(name)}"


def plain_name(name: str) -> str:
    """The name as LLVM can read it: other letters than ASCII's by their numbers."""
    return "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"${ord(c):x}$" for c in name
    )


def element_size(buffer: Buffer) -> int:
    """The bytes of one element in memory."""
    return SIZE[MEMORY[buffer.dtype]]


def vector_type(element: str, lanes: int) -> str:
    """The LLVM type of `lanes` elements; of a scalar for 0."""
    return f"<{lanes} x {element}>" if lanes else element


def suffix(element: str, lanes: int) -> str:
    """A type as it is spelled in the names of LLVM's intrinsics."""
    name = {"float": "f32", "double": "f64"}.get(element, element)
    return f"v{lanes}{name}" if lanes else name


class Value(NamedTuple):
    """A value: `lanes` 0 means uniform; `stride` not 0 makes a ramp whose base is `text`.

    `const` is the value (of a ramp: its base) where it is known at compile time. Of a `mixed`
    condition it is known that it holds in some lanes and not in others.
    """

    text: str
    dtype: str
    lanes: int = 0
    const: Number | None = None
    stride: int = 0
    mixed: bool = False

    @property
    def type(self) -> str:
        """The LLVM type."""
        return vector_type(REGISTER[self.dtype], self.lanes)

    @property
    def typed(self) -> Typed:
        return self.type, self.text

    @property
    def base(self) -> "Value":
        """The first lane of a ramp; a uniform value itself."""
        return Value(self.text, self.dtype, const=self.const)

    @property
    def known(self) -> bool:
        """Whether it is uniform and known at compile time."""
        return self.const is not None and not self.stride


def number_text(value: Number, dtype: str) -> str:
    """A number as LLVM spells it: floats as the bits of a double, so that none is rounded."""
    if dtype == "bool":
        return "true" if value else "false"
    if not dtype.startswith(("float", "bfloat")):
        return str(int(value))
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(value, np.float64).astype(to_numpy(dtype)))
    return f"0x{struct.unpack('>Q', struct.pack('>d', rounded))[0]:016X}"


@lru_cache(maxsize=1024)
def _index_constant(value: int) -> Value:
    return Value(str(value), INDEX, const=value)


def constant(value: Number, dtype: str) -> Value:
    """A uniform constant."""
    if dtype == INDEX:
        return _index_constant(int(value))
    if dtype == "bool":
        value = bool(value)
    elif DTYPES[dtype].kind == "uint":
        value = int(value) & integer_range(dtype)[1]
    return Value(number_text(value, dtype), dtype, const=value)


@dataclass
class Module:
    """The shared parts of an LLVM module: declarations and finished definitions.

    Where it is `lined`, each instruction notes its line of the script; `scopes` counts the
    functions, each with a record for that.
    """

    lined: bool = False
    declarations: dict[str, str] = field(default_factory=dict)
    definitions: list[str] = field(default_factory=list)
    tasks: int = 0
    scopes: int = 0

    def declare(self, name: str, result: str, parameters: str, attributes: str = "") -> None:
        """Make the function `name` known."""
        text = f"declare {result} @{name}({parameters}) {attributes}".rstrip()
        self.declarations[name] = text


IMPURE = ("load", "call", "tail", "phi", "alloca", "atomic", "cmpxchg", "freeze", "va_arg")
"""Instructions that may give another result the next time."""


@dataclass
class Code:
    """The text of one LLVM function under construction.

    `line` is the line of the script that the next instructions are for; 0 where none is noted.
    """

    module: Module
    line: int = 0
    lines: list[str] = field(default_factory=list)
    entry: list[str] = field(default_factory=list)
    count: int = 0
    label: str = "start"
    scope: int = 0
    known: dict[str, str] = field(default_factory=dict)
    """The results of this block's instructions, each written once however often it is asked for."""
    computed: dict[Any, Value] = field(default_factory=dict)
    """The values of its index expressions, by the values of their variables."""

    def __post_init__(self) -> None:
        if self.module.lined:
            self.scope = FIRST + self.module.scopes
            self.module.scopes += 1

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def names(self, *stems: str) -> list[str]:
        return [self.name(stem) for stem in stems]

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        if self.line:
            instruction += f", !dbg !DILocation(line: {self.line}, scope: !{self.scope})"
        self.lines.append(f"  {instruction}")

    def value(self, instruction: str) -> str:
        """Append an instruction, unless this block has it; returns its result as an operand."""
        name = self.known.get(instruction)
        if name is None:
            name = f"%{self.name()}"
            self.do(f"{name} = {instruction}")
            if not instruction.startswith(IMPURE):
                self.known[instruction] = name
        return name

    def call(self, result: str, name: str, *operands: Typed, attributes: str = "") -> str:
        """Call a function from outside of the module, which is declared here; returns its result
        as an operand, "" for "void".
        """
        self.module.declare(name, result, ", ".join(kind for kind, _ in operands), attributes)
        listed = ", ".join(f"{kind} {text}" for kind, text in operands)
        instruction = f"call {result} @{name}({listed})"
        if result != "void":
            return self.value(instruction)
        self.do(instruction)
        return ""

    def place(self, element: str, pointer: str, offset: str | int) -> str:
        """A pointer `offset` elements further on, inside of the same storage."""
        return self.value(f"getelementptr inbounds {element}, ptr {pointer}, i64 {offset}")

    def block(self, label: str) -> None:
        """Start a basic block; the one before must have ended in a branch."""
        self.lines.append(f"{label}:")
        self.label = label
        self.known.clear()
        self.computed.clear()

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, then: str, other: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{other}")

    @contextmanager
    def part(self, label: str, after: str) -> Iterator[None]:
        """Write a basic block that goes on in the block `after`."""
        self.block(label)
        yield
        self.jump(after)

    def phi(self, kind: str, *arrivals: tuple[str, str]) -> str:
        """The operand that belongs to the block control comes from: (operand, label) pairs."""
        listed = ", ".join(f"[{text}, %{label}]" for text, label in arrivals)
        return self.value(f"phi {kind} {listed}")

    def fail(self, status: str | int) -> None:
        """Leave the function with a status, by the block "fail"."""
        self.do(f"store i32 {status}, ptr %status, align 4")
        self.jump("fail")

    def fail_where(self, test: str, status: str | int, *stems: str) -> None:
        """Fail where the instruction `test` gives true, else go on; `stems` name the two blocks."""
        failed, passed = self.names(*stems)
        self.branch(self.value(test), failed, passed)
        self.block(failed)
        self.fail(status)
        self.block(passed)

    def on_stack(self, element: str, count: int) -> str:
        """Storage in the function's frame; LLVM turns small ones into registers."""
        name = f"%{self.name('stack')}"
        self.entry.append(f"  {name} = alloca [{max(count, 1)} x {element}], align 64")
        return name

    def function(self, header: str) -> str:
        """The finished definition."""
        record = f" !dbg !{self.scope}" if self.module.lined else ""
        body = "\n".join(["entry:", *self.entry, "  br label %start", "start:", *self.lines])
        return f"{header}{record} {{\n{body}\n}}"


def facts(buffer: Buffer, *, own: bool = False, alone: bool = True) -> str:
    """The attributes of a pointer to a buffer, which LLVM may rely on: nothing else reaches its
    bytes (if it is `alone`), all of them are there, and its alignment: to an element, for storage
    of our `own` to a cache line.
    """
    size = element_size(buffer)
    bytes_there = prod(buffer.shape) * size
    known = f"{'noalias ' if alone else ''}align {64 if own else size}"
    return f"{known} dereferenceable({bytes_there})" if bytes_there else known


@contextmanager
def having(state: Any, **fields: Any) -> Iterator[None]:
    """Set fields of an object until the end of the `with` statement."""
    saved = {name: getattr(state, name) for name in fields}
    for name, value in fields.items():
        setattr(state, name, value)
    yield
    for name, value in saved.items():
        setattr(state, name, value)
