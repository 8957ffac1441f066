"""Expressions of the loop IR as LLVM instructions, for one instance or for several lanes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import TypeVar

from minimlc.loops.ir import nodes as ir
from minimlc.loops.llvm.memory import Memory
from minimlc.loops.llvm.operators import Values
from minimlc.loops.llvm.value import Code, Module, Value, constant, having
from minimlc.loops.lower.bounds import Site
from minimlc.loops.proofs.arith import expression, flat
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.node import Node, span_of, walk

T = TypeVar("T")
MOST_ASKED = 8
"""The most nested choices that test whether all lanes agree."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The vectorized loop being written: its variable, the first lane's iteration, and which
    lanes are meant: a ramp over all of them, or the number of one.
    """

    var: ir.Var
    first: Value
    number: Value


@dataclass
class Expressions:
    """Writes expressions, and stores of them. `variables` has the values of names.

    In a vectorized loop, `lanes` is set and its variable stands for a ramp; `private` buffers
    have as many copies there, one per lane. With `sites`, each access is checked, and a failure
    jumps to "fail". `asked` is the number of choices around that test their lanes.
    """

    memory: Memory
    sites: list[Site] | None = None
    variables: dict[ir.Var, Value] = field(default_factory=dict)
    private: dict[ir.Buffer, int] = field(default_factory=dict)
    lanes: Lanes | None = None
    asked: int = 0

    @property
    def values(self) -> Values:
        return self.memory.values

    @property
    def width(self) -> int:
        """The number of lanes being written; 0 outside of vectorized loops."""
        return self.lanes.number.lanes if self.lanes else 0

    @property
    def plain(self) -> bool:
        """Whether code for one instance is written, without checks."""
        return self.lanes is None and self.sites is None

    def expr(self, item: ir.Expr) -> Value:
        """The value of an expression. An index is written once per block for the same values of its
        variables: unrolled loops share most of their indices.
        """
        if isinstance(item, ir.Binary) and item.dtype == INDEX:
            return self._once(item, lambda: self._expr(item))
        return self._expr(item)

    def _once(self, item: ir.Expr | ir.Load | ir.Store, write: Callable[[], Value]) -> Value:
        """The value that `write` gives, or gave in this block for the same values of variables."""
        used = _variables(item)
        if used is None or (self.lanes is not None and not self.width):
            return write()
        computed, key = self.values.code.computed, (item, *[self.variables[var] for var in used])
        if key not in computed:
            computed[key] = write()
        return computed[key]

    def _expr(self, item: ir.Expr) -> Value:
        match item:
            case ir.Var():
                return self._variable(item)
            case ir.Const():
                return constant(item.value, item.dtype)
            case ir.Unary():
                return self._unary(item)
            case ir.Binary():
                return self._binary(item)
            case ir.Select():
                return self._select(item)
            case ir.Cast():
                return self.values.cast(self.expr(item.a), item.dtype)
            case ir.Intrin():
                return self.values.operation(item.name, *map(self.expr, item.args))
            case ir.Load():
                return self._load(item)
            case ir.Let():
                self.variables[item.var] = self.expr(item.value)
                return self.expr(item.body)
            case _:
                raise BuildError(f"LLVM code has no expression {type(item).__name__}")

    def _variable(self, item: ir.Var) -> Value:
        """The value of a variable; in code for one lane, that lane of a `Let` around it."""
        value, lanes = self.variables[item], self.lanes
        if lanes is None or lanes.number.lanes or not value.lanes:
            return value
        return self.values.lane(value, lanes.number)

    def _unary(self, item: ir.Unary) -> Value:
        value = self.expr(item.a)
        if item.op == "not" and value.const is not None:
            return constant(not value.const, "bool")
        return self.values.unary(item.op, value)

    def _binary(self, item: ir.Binary) -> Value:
        a = self.expr(item.a)
        if item.op in ("and", "or"):
            decided = item.op == "or"
            if a.const is decided:
                return a
            if a.const is None and _reads_memory(item.b):
                other = constant(decided, "bool")
                taken, skipped = (lambda: self.expr(item.b)), (lambda: other)
                sides = (skipped, taken) if decided else (taken, skipped)
                return self._choose(item, a, *sides)
        return self.values.binary(item.op, a, self.expr(item.b))

    def _select(self, item: ir.Select) -> Value:
        condition = self.expr(item.condition)
        if condition.const is not None:
            return self.expr(item.a if condition.const else item.b)
        if not (_reads_memory(item.a) or _reads_memory(item.b)):
            return self.values.select(condition, self.expr(item.a), self.expr(item.b))
        return self._choose(item, condition, lambda: self.expr(item.a), lambda: self.expr(item.b))

    def _choose(
        self, item: ir.Expr, condition: Value, a: Callable[[], Value], b: Callable[[], Value]
    ) -> Value:
        """Evaluate one side only. Lanes that disagree are evaluated under a mask where all that
        they read are neighbours, else one after the other.
        """
        if not condition.lanes:
            return self._either(condition.text, a, b)

        def masked() -> Value:
            rest = self.values.unary("not", condition)
            sides = self.under(condition, a), self.under(rest, b)
            return self.values.select(condition, *sides)

        def mixed() -> Value:
            if self.maskable(item):
                return masked()
            numbers = [constant(n, INDEX) for n in range(condition.lanes)]
            lanes = [self.in_lane(n, lambda: self.expr(item)) for n in numbers]
            return self.values.gather(lanes)

        # Each choice that asks whether the lanes agree writes what is inside of it once more.
        if self.memory.mask is not None:
            return masked()
        if condition.mixed or self.asked == MOST_ASKED:
            return mixed()
        reduce = self.values.reduce
        with having(self, asked=self.asked + 1):
            every, some = reduce("and", condition), reduce("or", condition)
            return self._either(every, a, lambda: self._either(some, mixed, b))

    def _either(self, condition: str, a: Callable[[], Value], b: Callable[[], Value]) -> Value:
        """The value of one of two pieces of code, as many lanes wide as are being written."""
        code = self.values.code
        then, other, join = code.names("then", "else", "join")
        code.branch(condition, then, other)
        arrivals = []
        for label, side in ((then, a), (other, b)):
            with code.part(label, join):
                value = self.values.spread(side(), self.width)
                arrivals.append((value.text, code.label))
        code.block(join)
        return Value(code.phi(value.type, *arrivals), value.dtype, value.lanes)

    def in_lane(self, number: Value, work: Callable[[], T]) -> T:
        """The result of `work`, written for one lane only."""
        outer = self.lanes
        assert outer is not None
        ramp = self.variables[outer.var]
        position = self.values.binary("+", outer.first, number)
        self.variables[outer.var] = self.values.cast(position, outer.var.dtype)
        with having(self, lanes=Lanes(outer.var, outer.first, number)):
            result = work()
        self.variables[outer.var] = ramp
        return result

    def under(self, mask: Value, work: Callable[[], T]) -> T:
        """The result of `work`, written for the lanes of a mask (and of the mask around it)."""
        outer = self.memory.mask
        both = mask if outer is None else self.values.binary("and", outer, mask)
        with having(self.memory, mask=both):
            return work()

    def maskable(self, *items: Node) -> bool:
        """Whether a mask can take part of all accesses in it: vectors of neighbours, and loads of
        every second element.

        All variables of the items must have values: no loop is among them. The indices' code, by
        which this is decided, is thrown away.
        """
        parts = [part for item in items for part in walk(item)]
        stores = self.strides([part for part in parts if isinstance(part, ir.Store)])
        return stores <= {1} and self.strides([p for p in parts if isinstance(p, ir.Load)]) <= {
            1,
            2,
        }

    def strides(self, accesses: Sequence[ir.Load | ir.Store]) -> set[int | None]:
        """The distances in memory from lane to lane of accesses: 0 where they are one element, None
        where they depend on memory.
        """
        if any(_reads_memory(position) for access in accesses for position in access.indices):
            return {None}
        values = replace(self.values, code=Code(Module()))
        trial = replace(self, memory=replace(self.memory, values=values))
        flats = [trial._flat(access) for access in accesses]
        return {flat.stride or (None if flat.lanes else 0) for flat in flats}

    def _load(self, item: ir.Load) -> Value:
        """The value of `buffer[indices]`."""
        flat = self._flat(item)
        if not flat.lanes or flat.stride == 1:
            return self.memory.load(item.buffer, flat.base, flat.lanes)
        if flat.stride == 2:
            return self.memory.load_every_second(item.buffer, flat)
        if self._is_column(item.buffer, flat):
            return self.memory.load_column(item.buffer, flat)
        places = [self.values.lane(flat, number) for number in range(flat.lanes)]
        return self.values.gather([self.memory.load(item.buffer, place, 0) for place in places])

    def _is_column(self, buffer: ir.Buffer, flat: Value) -> bool:
        """Whether lanes are a column of a whole square in a private buffer: its side is a power of
        two, and it stays in registers.
        """
        lanes, first = flat.lanes, flat.base.const
        if buffer not in self.private or flat.stride != lanes or lanes & (lanes - 1) or lanes < 4:
            return False
        whole = first is not None and int(first) // lanes * lanes + lanes * lanes
        return bool(whole) and whole <= prod(buffer.shape) and not self.memory.is_partial

    def store(self, item: ir.Store) -> None:
        """Write the value of a store; of several lanes that hit one element, the last stays."""
        buffer, values, store = item.buffer, self.values, self.memory.store
        value = self.memory.in_memory(self.expr(item.value))
        flat = self._flat(item)
        if not flat.lanes:
            store(buffer, flat.base, values.lane(value, value.lanes - 1))
        elif flat.stride == 1:
            store(buffer, flat.base, values.spread(value, flat.lanes))
        else:
            for number in range(flat.lanes):
                store(buffer, values.lane(flat, number), values.lane(value, number))

    def _flat(self, item: ir.Load | ir.Store) -> Value:
        """The number in memory of the element that is accessed."""
        buffer = item.buffer
        if self.sites is not None:
            self._check([self.expr(i) for i in item.indices], item, self.sites)
        flat = self._once(item, lambda: self._number(item))
        copies = self.private.get(buffer)
        if not copies or self.lanes is None:
            return flat
        scaled = self.values.binary("*", flat, copies)
        return self.values.binary("+", scaled, self.lanes.number)

    def _number(self, item: ir.Load | ir.Store) -> Value:
        joined = _flat_expr(item)
        if joined is not None:
            return self.expr(joined)
        return self.memory.flat(item.buffer, map(self.expr, item.indices))

    def _check(self, values: list[Value], item: ir.Load | ir.Store, sites: list[Site]) -> None:
        """Leave through "fail" when an index is outside, noting the place and the index."""
        buffer, code = item.buffer, self.values.code
        inside: Value = constant(True, "bool")
        for value, size in zip(values, buffer.shape, strict=True):
            fits = self.values.apply("icmp ult", value, size)
            inside = self.values.binary("and", inside, fits)
        action = "load" if isinstance(item, ir.Load) else "store"
        sites.append(Site(buffer.name, buffer.shape, action, span_of(item)))
        if inside.const is True:
            return
        bad, good = code.names("outside", "inside")
        code.branch(inside.text, good, bad)
        code.block(bad)
        for slot, value in enumerate([constant(len(sites) - 1, INDEX), *values]):
            place = code.place("i64", "%error", slot)
            code.do(f"store i64 {value.text}, ptr {place}, align 8")
        code.fail(1)
        code.block(good)


@lru_cache(maxsize=512)
def _variables(item: ir.Expr | ir.Store) -> tuple[ir.Var, ...] | None:
    """The variables of an index, or of an access's indices; None where they depend on more: on
    memory, or on a `Let`.
    """
    roots = item.indices if isinstance(item, ir.Load | ir.Store) else (item,)
    parts = [part for root in roots for part in walk(root)]
    if not all(isinstance(part, ir.Binary | ir.Const | ir.Unary | ir.Var) for part in parts):
        return None
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, ir.Var)))


@lru_cache(maxsize=256)
def _flat_expr(item: ir.Load | ir.Store) -> ir.Expr | None:
    """The number of an element as one sum, in which a quotient and its remainder may meet; None
    where there is no quotient. Unrolled loops ask for it once an iteration.
    """
    parts = (part for position in item.indices for part in walk(position))
    if not any(isinstance(part, ir.Binary) and part.op == "//" for part in parts):
        return None
    return expression(flat(item.indices, item.buffer.shape))


def _reads_memory(item: ir.Expr) -> bool:
    return any(isinstance(part, ir.Load) for part in walk(item))


@lru_cache(maxsize=256)
def is_plain(item: ir.Stmt) -> bool:
    """Whether a statement only computes and stores floats, without choices: no lane can fail."""
    parts = [*walk(item)]
    plain = ir.Binary | ir.Buffer | ir.Const | ir.Load | ir.Seq | ir.Store | ir.Unary | ir.Var
    floats = all(
        part.dtype in ("float32", "float64") for part in parts if isinstance(part, ir.Buffer)
    )
    return floats and all(isinstance(part, plain) for part in parts)
