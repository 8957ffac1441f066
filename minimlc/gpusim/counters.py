"""Count what a kernel does: instructions, memory transactions, threads that sit idle."""

from collections import Counter

import numpy as np

from minimlc.codegen.gpu.kernels import Barrier, Kernel
from minimlc.codegen.gpu.shuffles import Shuffle
from minimlc.codegen.gpu.warps import Warp
from minimlc.dtypes import is_float, to_numpy
from minimlc.gpusim.active import Active
from minimlc.gpusim.execute import Watch
from minimlc.gpusim.memory import Memory, bytes_of, space_of
from minimlc.gpusim.profile import Access, KernelProfile, Statement
from minimlc.gpusim.transactions import SECTOR, WIDEST, by_warps
from minimlc.gpusim.values import Value
from minimlc.node import Node, children, span_of, walk
from minimlc.tir.analysis.threads import SHARED
from minimlc.tir.nodes import (
    ARITHMETIC,
    Binary,
    Buffer,
    Cast,
    Expr,
    For,
    IfThenElse,
    Intrin,
    Load,
    Select,
    Stmt,
    Store,
    Unary,
    While,
)
from minimlc.tir.walks import statements_in

Pending = dict[Load | Store, list[tuple[Value, Active]]]
COUNTED = (Store, IfThenElse, While, Barrier, Warp, Shuffle)
"""The statements that have instructions of their own."""


class Counters(Watch):
    """Counts while a kernel runs.

    An instruction is an operation on values, a warp's access to memory, or a barrier; a product and
    the sum of it are one. Indices, loops and what is in registers cost nothing. The iterations of a
    vectorized loop access memory by one instruction of up to 16 bytes where these are aligned and
    in a row.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.counts: Counter[tuple[Node, str]] = Counter()
        self.touched: dict[Buffer, np.ndarray] = {}
        together = [part for part in statements_in(kernel.body) if isinstance(part, Warp)]
        inside = {part for item in together for part in statements_in(item.body)}
        items = [item for item in statements_in(kernel.body) if isinstance(item, COUNTED)]
        self.rows = [item for item in items if item not in inside]
        self.samples: dict[Node, tuple[int, tuple[int, ...]]] = {}
        self.costs: dict[Stmt, tuple[int, int]] = {item: _cost(item) for item in self.rows}
        self.pending: Pending | None = None

    def statement(self, item: Stmt, active: Active) -> None:
        if item not in self.costs:
            return  # what a warp does together is one instruction
        instructions, flops = self.costs[item]
        self.counts[item, "warps"] += active.warps
        self.counts[item, "threads"] += active.threads
        self.counts[item, "instructions"] += active.warps * instructions
        self.counts[item, "flops"] += active.threads * flops

    def access(self, item: Load | Store, memory: Memory, element: Value, active: Active) -> None:
        if space_of(item.buffer, self.kernel) == "":
            return
        address = element * _size(item)
        if self.pending is None:
            self._count(item, address, active)
        else:
            self.pending.setdefault(item, []).append((address, active))

    def lanes(self, loop: For, begins: bool) -> None:
        pending, self.pending = self.pending, {} if begins else None
        for item, parts in ({} if begins else pending or {}).items():
            self._vector(item, parts)

    def _vector(self, item: Load | Store, parts: list[tuple[Value, Active]]) -> None:
        """Count what the iterations of a vectorized loop access, by the widest instructions."""
        first, active = parts[0]
        together = all(each is active for _, each in parts)
        if together and all(np.array_equal(address, first) for address, _ in parts):
            return self._count(item, first, active)
        size = _size(item)
        row = (np.array_equal(a, first + n * size) for n, (a, _) in enumerate(parts))
        wide = _widest(first, active, size, len(parts)) if together and all(row) else 1
        for address, each in parts[::wide]:
            self._count(item, address, each, size * wide)
        return None

    def _count(
        self, item: Load | Store, address: Value, active: Active, size: int | None = None
    ) -> None:
        warps, counts, size = by_warps(address, active), self.counts, size or _size(item)
        counts[item, "requests"] += warps.requests
        if item not in self.samples:
            self.samples[item] = size, warps.first()
        if space_of(item.buffer, self.kernel) == SHARED:
            most, least = warps.wavefronts(size)
            counts[item, "wavefronts"] += most
            counts[item, "conflicts"] += most - least
        else:
            counts[item, "sectors"] += warps.sectors
            self._touch(item.buffer, address // SECTOR, active)

    def _touch(self, buffer: Buffer, sector: Value, active: Active) -> None:
        if buffer not in self.touched:
            self.touched[buffer] = np.zeros(-(-bytes_of(buffer) // SECTOR), np.bool_)
        self.touched[buffer][active.those(sector)] = True

    def profile(self) -> KernelProfile:
        """What was counted so far."""
        kernel = self.kernel
        return KernelProfile(
            kernel.name,
            kernel.grid,
            kernel.block,
            sum(map(bytes_of, kernel.shared)),
            SECTOR * sum(int(sectors.sum()) for sectors in self.touched.values()),
            tuple(map(self._row, self.rows)),
        )

    def _row(self, item: Stmt) -> Statement:
        span, count = span_of(item), self.counts
        own = item.condition if isinstance(item, IfThenElse | While) else item
        own = item.body if isinstance(item, Warp) else own
        parts = dict.fromkeys(p for p in walk(own) if isinstance(p, Load | Store))
        accesses = [self._access(part) for part in parts if space_of(part.buffer, self.kernel)]
        return Statement(
            0 if span is None else span.line,
            statement_text(item),
            count[item, "warps"],
            count[item, "threads"],
            count[item, "instructions"] + sum(each.requests for each in accesses),
            count[item, "flops"],
            tuple(accesses),
        )

    def _access(self, item: Load | Store) -> Access:
        names = ("requests", "sectors", "wavefronts", "conflicts")
        numbers = {name: self.counts[item, name] for name in names}
        action, space = type(item).__name__.lower(), space_of(item.buffer, self.kernel)
        size, sample = self.samples.get(item, (0, ()))
        return Access(item.buffer.name, action, space, **numbers, size=size, sample=sample)


def _size(item: Load | Store) -> int:
    """The bytes of an element."""
    return to_numpy(item.buffer.dtype).itemsize


def _widest(address: Value, active: Active, size: int, count: int) -> int:
    """How many of `count` elements in a row one instruction may access."""
    address = active.those(address)
    fitting = (n for n in (16, 8, 4, 2) if n * size <= WIDEST and count % n == 0)
    return next((n for n in fitting if not np.any(address % (n * size))), 1)


def _cost(item: Stmt) -> tuple[int, int]:
    """A statement's instructions besides those that access memory, and its float operations."""
    match item:
        case Store(value=value) | IfThenElse(condition=value) | While(condition=value):
            operations = [part for part in _computed(value) if isinstance(part, OPERATION)]
        case Warp(flops=flops):
            return 1, flops
        case _:  # other nodes: a barrier
            return 1, 0
    flops = sum(_is_flop(part) for part in operations)
    return len(operations) - sum(map(_is_fused, operations)), flops


OPERATION = (Unary, Binary, Select, Cast, Intrin)


def _computed(item: Expr) -> list[Expr]:
    """The parts of an expression that are computed, without what decides where to load."""
    inner = [] if isinstance(item, Load) else [p for p in children(item) if isinstance(p, Expr)]
    return [item, *(part for each in inner for part in _computed(each))]


def _is_flop(item: Expr) -> bool:
    arithmetic = isinstance(item, Binary) and item.op in ARITHMETIC
    return is_float(item.dtype) and (arithmetic or isinstance(item, Intrin))


def _is_fused(item: Expr) -> bool:
    """Whether a sum takes a product with it, in a fused multiply-add."""
    if not isinstance(item, Binary) or item.op not in ("+", "-") or not _is_flop(item):
        return False
    return any(isinstance(part, Binary) and part.op == "*" for part in (item.a, item.b))


def statement_text(item: Stmt) -> str:
    """A statement in one line."""
    match item:
        case Barrier(why):
            return f"barrier: {why}"
        case Warp(name):
            return f"a warp: {name}"
        case Shuffle(_, source, down):
            return f"shuffle: {source.script()} of the thread {down} further on"
        case IfThenElse(condition=condition):
            return f"if {condition.script()}:"
        case While(condition=condition):
            return f"while {condition.script()}:"
        case _:  # other nodes: a store
            return item.script(full=False)
