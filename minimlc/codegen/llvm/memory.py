"""Loads and stores: one element, a vector of neighbours, or lane by lane."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from minimlc.codegen.bounds import Site
from minimlc.codegen.llvm.math import Mathematics
from minimlc.codegen.llvm.value import (
    MEMORY,
    SIZE,
    Code,
    Module,
    Value,
    constant,
    register_type,
    vector_type,
)
from minimlc.dtypes import INDEX
from minimlc.node import Node, span_of, walk
from minimlc.tir.analysis.arith import linear, recombined
from minimlc.tir.nodes import Binary, Buffer, Expr, Load, Store, Var, index

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vectorized loop being written: its variable, the first lane's iteration, and which
    lanes are meant: a ramp over all of them, or the number of one.
    """

    var: Var
    first: Value
    number: Value


@dataclass
class Memory(Mathematics):
    """Writes accesses into `code`. `variables` and `pointers` say what names stand for.

    In a vectorized loop, `lanes` is set and its variable stands for a ramp; `private` buffers
    have so many copies there, one per lane. Where lanes go different ways, `mask` says which of
    them are meant. With `sites`, each access is checked, and what fails jumps to "fail".
    """

    code: Code
    half_conversions: bool = True
    sites: list[Site] | None = None
    variables: dict[Var, Value] = field(default_factory=dict)
    pointers: dict[Buffer, str] = field(default_factory=dict)
    private: dict[Buffer, int] = field(default_factory=dict)
    lanes: Lanes | None = None
    mask: Value | None = None
    nontemporal: object = None

    def expr(self, item: Expr) -> Value:
        raise NotImplementedError

    @property
    def width(self) -> int:
        """The number of lanes being written; 0 outside of vectorized loops."""
        return self.lanes.number.lanes if self.lanes else 0

    def in_lane(self, number: Value, work: Callable[[], T]) -> T:
        """What `work` writes for one lane only."""
        saved = self.lanes
        assert saved is not None
        ramp = self.variables[saved.var]
        self.lanes = Lanes(saved.var, saved.first, number)
        self.variables[saved.var] = self.cast(
            self.binary("+", saved.first, number), saved.var.dtype
        )
        result = work()
        self.lanes, self.variables[saved.var] = saved, ramp
        return result

    def under(self, mask: Value, work: Callable[[], T]) -> T:
        """What `work` writes for the lanes that a mask holds (and the one around it)."""
        saved = self.mask
        self.mask = mask if saved is None else self.binary("and", saved, mask)
        result = work()
        self.mask = saved
        return result

    def maskable(self, *items: Node) -> bool:
        """Whether all accesses in it are vectors of neighbours, which a mask can take part of.

        All variables of the items must have values: no loop is among them. The indices' code, by
        which this is decided, is thrown away.
        """
        parts = [p for item in items for p in walk(item) if isinstance(p, Load | Store)]
        if any(isinstance(inner, Load) for p in parts for i in p.indices for inner in walk(i)):
            return False
        saved, self.code = self.code, Code(Module())
        flat = [self._flat(part.buffer, part.indices, part) for part in parts]
        self.code = saved
        return all(place.stride == 1 for place in flat)

    def load(self, item: Load) -> Value:
        """The value of `buffer[indices]`."""
        buffer = item.buffer
        flat = self._flat(buffer, item.indices, item)
        if not flat.lanes or flat.stride == 1:
            return self._load_at(buffer, Value(flat.text, INDEX, const=flat.const), flat.lanes)
        places = [self.lane(flat, number) for number in range(flat.lanes)]
        return self.gather([self._load_at(buffer, place, 0) for place in places])

    def _load_at(self, buffer: Buffer, base: Value, lanes: int) -> Value:
        element = MEMORY[buffer.dtype]
        pointer = self._address(buffer, base)
        kind = vector_type(element, lanes)
        if lanes and self.mask is not None:
            text = self._masked("load", kind, f"ptr {pointer}", element, "zeroinitializer")
        else:
            text = self.code.value(f"load {kind}, ptr {pointer}, align {SIZE[element]}")
        if element == "i16" and buffer.dtype != "int16":
            return self.from_bits(Value(text, "int16", lanes), buffer.dtype)
        if buffer.dtype == "bool":
            byte = Value(text, "uint8", lanes)
            return self.apply("icmp ne", "bool", byte, constant(0, "uint8"))
        return Value(text, buffer.dtype, lanes)

    def store(self, item: Store) -> None:
        """Write the value of a store; of several lanes that hit one element, the last stays."""
        buffer = item.buffer
        value = self._stored(self.expr(item.value))
        flat = self._flat(buffer, item.indices, item)
        base = Value(flat.text, INDEX, const=flat.const)
        if not flat.lanes:
            last = self.lane(value, value.lanes - 1)
            self._store_at(buffer, base, last)
        elif flat.stride == 1:
            self._store_at(buffer, base, self.spread(value, flat.lanes))
        else:
            for number in range(flat.lanes):
                self._store_at(buffer, self.lane(flat, number), self.lane(value, number))

    def _stored(self, value: Value) -> Value:
        """A value in the form in which it is stored."""
        if value.dtype in ("float16", "bfloat16"):
            return self.to_bits(self.spread(value, value.lanes))
        return self.cast(value, "uint8") if value.dtype == "bool" else value

    def _store_at(self, buffer: Buffer, base: Value, value: Value) -> None:
        pointer = self._address(buffer, base)
        element = MEMORY[buffer.dtype]
        if self.mask is not None:
            self._masked("store", register_type(value), f"ptr {pointer}", element, value.text)
            return
        past = ", !nontemporal !{i32 1}" if value.lanes and buffer.name == self.nontemporal else ""
        kind = register_type(value)
        self.code.do(f"store {kind} {value.text}, ptr {pointer}, align {SIZE[element]}{past}")

    def _masked(self, verb: str, kind: str, pointer: str, element: str, other: str) -> str:
        """LLVM's masked load (`other` fills the lanes left out) or store (of `other`)."""
        mask = self.mask
        assert mask is not None
        lanes = f"<{mask.lanes} x i1>"
        bits = {"float": "f32", "double": "f64"}.get(element, element)
        name = f"llvm.masked.{verb}.v{mask.lanes}{bits}.p0"
        where = f"i32 {SIZE[element]}, {lanes} {self.spread(mask, mask.lanes).text}"
        if verb == "load":
            target = self.code.module.declare(name, kind, f"ptr, i32, {lanes}, {kind}")
            return self.code.value(f"call {kind} {target}({pointer}, {where}, {kind} {other})")
        target = self.code.module.declare(name, "void", f"{kind}, ptr, i32, {lanes}")
        self.code.do(f"call void {target}({kind} {other}, {pointer}, {where})")
        return ""

    def _address(self, buffer: Buffer, flat: Value) -> str:
        pointer = self.pointers[buffer]
        if flat.const == 0:
            return pointer
        element = MEMORY[buffer.dtype]
        # A lane that is left out may be outside.
        inside = "" if self.mask is not None else "inbounds "
        place = f"{element}, ptr {pointer}, i64 {flat.text}"
        return self.code.value(f"getelementptr {inside}{place}")

    def _flat(self, buffer: Buffer, indices: tuple[Expr, ...], item: Load | Store) -> Value:
        """The number of the element in memory, row-major."""
        values = [self.expr(i) for i in indices]
        if self.sites is not None:
            self._check(buffer, values, item)
        if any(isinstance(part, Binary) and part.op == "//" for i in indices for part in walk(i)):
            flat = self.expr(_flat_expr(buffer, indices))
        else:
            flat = constant(0, INDEX)
            for value, size in zip(values, buffer.shape, strict=True):
                flat = self.binary("+", self.binary("*", flat, constant(size, INDEX)), value)
        copies = self.private.get(buffer)
        if not copies or self.lanes is None:
            return flat
        scaled = self.binary("*", flat, constant(copies, INDEX))
        return self.binary("+", scaled, self.lanes.number)

    def _check(self, buffer: Buffer, values: list[Value], item: Load | Store) -> None:
        """Leave through "fail" when an index is outside, noting the place and the index."""
        assert self.sites is not None
        inside: Value = constant(True, "bool")
        for value, size in zip(values, buffer.shape, strict=True):
            fits = self.apply("icmp ult", "bool", value, constant(size, INDEX))
            inside = self.binary("and", inside, fits)
        action = "load" if isinstance(item, Load) else "store"
        self.sites.append(Site(buffer.name, buffer.shape, action, span_of(item)))
        if inside.const is True:
            return
        code = self.code
        bad, good = code.name("outside"), code.name("inside")
        code.branch(inside.text, good, bad)
        code.block(bad)
        for slot, value in enumerate([constant(len(self.sites) - 1, INDEX), *values]):
            place = code.value(f"getelementptr inbounds i64, ptr %error, i64 {slot}")
            code.do(f"store i64 {value.text}, ptr {place}, align 8")
        code.do("store i32 1, ptr %status, align 4")
        code.jump("fail")
        code.block(good)


def _flat_expr(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The number of an element as one sum, in which a quotient and its remainder may meet."""
    flat: Expr = index(0)
    for position, size in zip(indices, buffer.shape, strict=True):
        flat = flat * size + position
    return recombined(linear(flat)).to_expr()
