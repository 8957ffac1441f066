"""Elements of buffers: one, or a vector of neighbours, under a mask where lanes are left out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from minimlc.loops.ir.nodes import Buffer
from minimlc.loops.llvm.operators import Values
from minimlc.loops.llvm.value import (
    MEMORY,
    Value,
    constant,
    element_size,
    having,
    suffix,
    vector_type,
)
from minimlc.loops.values.dtypes import INDEX


@dataclass
class Memory:
    """Loads and stores; `pointers` has the addresses of buffers.

    Where lanes go different ways, `mask` selects those that take part; at the end of a loop, only
    the `filled` first ones of a vector do (0: all). Vectors are stored past the caches into the
    buffer called `nontemporal`. After a buffer in `roomy`, which no other thread sees, there is
    room for a vector.
    """

    values: Values
    pointers: dict[Buffer, str] = field(default_factory=dict)
    mask: Value | None = None
    filled: int = 0
    nontemporal: object = None
    roomy: set[Buffer] = field(default_factory=set)

    def flat(self, buffer: Buffer, indices: Iterable[Value]) -> Value:
        """The number of an element in memory, row-major."""
        number, position = constant(0, INDEX), iter(indices)
        for size in buffer.shape:
            number = self.values.binary("*", number, size)
            number = self.values.binary("+", number, next(position))
        return number

    def address(self, buffer: Buffer, flat: Value) -> str:
        """A pointer to an element."""
        pointer, element = self.pointers[buffer], MEMORY[buffer.dtype]
        if flat.const == 0:
            return pointer
        code = self.values.code
        if self.mask is None:
            return code.place(element, pointer, flat.text)
        # A lane that is left out may be outside.
        return code.value(f"getelementptr {element}, ptr {pointer}, i64 {flat.text}")

    def load(self, buffer: Buffer, base: Value, lanes: int) -> Value:
        """The value of `lanes` neighbours from `base` on (0: of one element)."""
        pointer, size = self.address(buffer, base), element_size(buffer)
        kind = vector_type(MEMORY[buffer.dtype], lanes)
        mask = self._mask(buffer, lanes)
        if lanes and mask is not None:
            zeros = (kind, "zeroinitializer")
            text = self._masked(mask, "load", kind, buffer, ("ptr", pointer), after=(zeros,))
        else:
            text = self.values.code.value(f"load {kind}, ptr {pointer}, align {size}")
        if buffer.dtype in ("float16", "bfloat16"):
            return self.values.from_bits(Value(text, "int16", lanes), buffer.dtype)
        if buffer.dtype == "bool":
            return self.values.apply("icmp ne", Value(text, "uint8", lanes), 0)
        return Value(text, buffer.dtype, lanes)

    def load_every_second(self, buffer: Buffer, flat: Value) -> Value:
        """The lanes of a ramp of stride 2: what lies between the first and the last is loaded, as
        two vectors that share an element, and no element outside.
        """
        lanes, last = flat.lanes, flat.lanes - 1
        low, high = (
            self._load_part(buffer, self.values.binary("+", flat.base, first), lanes, first)
            for first in (0, last)
        )
        places = [at if at < lanes else at + 1 for at in range(0, 2 * lanes, 2)]
        mask = f"<{lanes} x i32> <{', '.join(f'i32 {place}' for place in places)}>"
        vectors = f"{low.type} {low.text}, {high.type} {high.text}"
        text = self.values.code.value(f"shufflevector {vectors}, {mask}")
        return Value(text, low.dtype, lanes)

    @property
    def is_partial(self) -> bool:
        """Whether some lanes are left out."""
        return self.mask is not None or bool(self.filled)

    def load_column(self, buffer: Buffer, flat: Value) -> Value:
        """The lanes of a ramp whose stride is their number: a column of a square. It is turned by
        whole rows, two at a time, first in squares of two, then in larger ones; so columns have
        the first steps in common (J. O. Eklundh, IEEE Transactions on Computers 21, 1972).
        """
        lanes, first = flat.lanes, int(flat.base.const or 0)
        column = first % lanes
        starts = [constant(first - column + row * lanes, INDEX) for row in range(lanes)]
        rows = [self.load(buffer, start, lanes) for start in starts]
        return self._turned(rows, column, lanes // 2)

    def _turned(self, rows: list[Value], at: int, side: int) -> Value:
        """Row `at` after squares of up to twice `side` have been turned."""
        if not side:
            return rows[at]
        one, other = (self._turned(rows, row, side // 2) for row in (at & ~side, at | side))
        lanes, moved = len(rows), at & side
        places = (p + moved if not p & side else lanes + p - side + moved for p in range(lanes))
        mask = f"<{lanes} x i32> <{', '.join(f'i32 {place}' for place in places)}>"
        vectors = f"{one.type} {one.text}, {other.type} {other.text}"
        return Value(self.values.code.value(f"shufflevector {vectors}, {mask}"), one.dtype, lanes)

    def _load_part(self, buffer: Buffer, base: Value, lanes: int, first: int) -> Value:
        """Neighbours from `base` on, `first` elements into a ramp of stride 2; under a mask, only
        the elements whose lanes it holds.
        """
        mask = self._mask(buffer, lanes)
        if mask is not None:
            places = [at // 2 if at % 2 == 0 else lanes for at in range(first, first + lanes)]
            chosen = f"<{lanes} x i32> <{', '.join(f'i32 {place}' for place in places)}>"
            kind, text = mask.typed
            text = f"shufflevector {kind} {text}, {kind} zeroinitializer, {chosen}"
            mask = Value(self.values.code.value(text), "bool", lanes)
        with having(self, mask=mask, filled=0):
            return self.load(buffer, base, lanes)

    def in_memory(self, value: Value) -> Value:
        """A value in the form in which it is stored."""
        if value.dtype in ("float16", "bfloat16"):
            return self.values.to_bits(value)
        return self.values.cast(value, "uint8") if value.dtype == "bool" else value

    def store(self, buffer: Buffer, base: Value, value: Value) -> None:
        """Store a value, which is `in_memory`, from `base` on."""
        pointer = self.address(buffer, base)
        mask = self._mask(buffer, value.lanes)
        if mask is not None:
            self._masked(mask, "store", "void", buffer, value.typed, ("ptr", pointer))
            return
        last = base.const is not None and base.const + self.filled == prod(buffer.shape)
        if value.lanes and self.filled and not last:
            front, old = self._front(value.lanes), self.load(buffer, base, value.lanes)
            value = self.values.select(front, value, old)
        past = ", !nontemporal !{i32 1}" if value.lanes and buffer.name == self.nontemporal else ""
        place = f"ptr {pointer}, align {element_size(buffer)}{past}"
        self.values.code.do(f"store {value.type} {value.text}, {place}")

    def _mask(self, buffer: Buffer, lanes: int) -> Value | None:
        """Which lanes of a buffer to load or store; None for all."""
        partly = lanes and self.filled and buffer not in self.roomy
        return self._front(lanes) if partly else self.mask

    def _front(self, lanes: int) -> Value:
        """The mask of the lanes that are filled."""
        bits = (f"i1 {'true' if lane < self.filled else 'false'}" for lane in range(lanes))
        return Value(f"<{', '.join(bits)}>", "bool", lanes)

    def _masked(
        self,
        mask: Value,
        verb: str,
        result: str,
        buffer: Buffer,
        *before: tuple[str, str],
        after: tuple[tuple[str, str], ...] = (),
    ) -> str:
        """LLVM's masked load or store, with its operands before and after the mask."""
        name = f"llvm.masked.{verb}.{suffix(MEMORY[buffer.dtype], mask.lanes)}.p0"
        lanes = self.values.spread(mask, mask.lanes).typed
        where = (("i32", str(element_size(buffer))), lanes)
        return self.values.code.call(result, name, *before, *where, *after)
