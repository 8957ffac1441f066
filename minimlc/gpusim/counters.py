"""Count what a kernel does: instructions, memory transactions, threads that sit idle."""

from collections import Counter, defaultdict
from itertools import chain

import numpy as np

from minimlc.deploy.work import is_flop
from minimlc.gpusim.active import Active
from minimlc.gpusim.execute import COUNTED, Watch
from minimlc.gpusim.memory import Memory, space_of
from minimlc.gpusim.profile import Access, KernelProfile, Statement
from minimlc.gpusim.transactions import SECTOR, WIDEST, by_warps
from minimlc.gpusim.values import Value
from minimlc.graphs.plan import nbytes
from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.nodes import SHARED
from minimlc.loops.ir.walks import statements_in
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.node import Node, children, span_of
from minimlc.targets.gpu.launch import Barrier, Kernel, Touch, touches
from minimlc.targets.gpu.places import places
from minimlc.targets.gpu.shuffles import Shuffle
from minimlc.targets.gpu.warps import Warp


class Counters(Watch):
    """Counts while a kernel runs.

    An instruction is an operation on values, a warp's access to memory, or a barrier; a product and
    the sum of it are one. Indices, loops and what is in registers cost nothing. The iterations of a
    vectorized loop access memory by one instruction of up to 16 bytes where these are aligned and
    in a row.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.counts: defaultdict[Node, Counter[str]] = defaultdict(Counter)
        self.touched = {b: np.zeros(-(-nbytes(b) // SECTOR), np.bool_) for b in kernel.params}
        items: list[tir.Stmt] = [it for it in statements_in(kernel.body) if isinstance(it, COUNTED)]
        inside = {part for it in items if isinstance(it, Warp) for part in statements_in(it.body)}
        self.costs = {item: _cost(item) for item in items if item not in inside}
        self.samples: dict[Node, tuple[int, tuple[int, ...]]] = {}
        self.pending: dict[Touch, list[tuple[Value, Active]]] | None = None

    def statement(self, item: tir.Stmt, active: Active) -> None:
        if item in self.costs:  # what a warp does together is one instruction
            self.counts[item].update(warps=active.warps, threads=active.threads)

    def access(self, item: Touch, memory: Memory, element: Value, active: Active) -> None:
        if space_of(item.buffer, self.kernel) == "":
            return
        size = _size(item)
        if self.pending is None:
            self._count(item, element * size, active, size)
        else:
            self.pending.setdefault(item, []).append((element * size, active))

    def lanes(self, begins: bool) -> None:
        pending, self.pending = self.pending, {} if begins else None
        for item, parts in (pending or {}).items():
            self._vector(item, parts)

    def _vector(self, item: Touch, parts: list[tuple[Value, Active]]) -> None:
        """Count what the iterations of a vectorized loop access, by the widest instructions."""
        first, active = parts[0]
        together = all(threads is active for _, threads in parts)
        if together and all(np.array_equal(address, first) for address, _ in parts):
            parts = parts[:1]
        size = _size(item)
        row = (np.array_equal(a, first + n * size) for n, (a, _) in enumerate(parts))
        wide = _widest(first, active, size, len(parts)) if together and all(row) else 1
        for address, threads in parts[::wide]:
            self._count(item, address, threads, size * wide)

    def _count(self, item: Touch, address: Value, active: Active, size: int) -> None:
        warps, counts = by_warps(address, active), self.counts[item]
        counts.update(requests=warps.requests)
        if item not in self.samples:
            self.samples[item] = size, warps.first()
        if space_of(item.buffer, self.kernel) == SHARED:
            most, least = warps.wavefronts(size, loads=isinstance(item, tir.Load))
            counts.update(wavefronts=most, conflicts=most - least)
        else:
            counts.update(sectors=warps.sectors)
            self.touched[item.buffer][active.those(address // SECTOR)] = True

    def profile(self) -> KernelProfile:
        """The profile of all that was counted so far."""
        kernel, rows = self.kernel, tuple(map(self._row, self.costs))
        shared = places(kernel.body).size
        moved = SECTOR * sum(int(sectors.sum()) for sectors in self.touched.values())
        return KernelProfile(kernel.name, kernel.grid, kernel.block, shared, moved, rows)

    def _row(self, item: tir.Stmt) -> Statement:
        span, (instructions, flops) = span_of(item), self.costs[item]
        warps, threads = self.counts[item]["warps"], self.counts[item]["threads"]
        code = item.condition if isinstance(item, tir.IfThenElse | tir.While) else item
        code = item.body if isinstance(item, Warp) else code
        parts = [part for part in touches(code) if space_of(part.buffer, self.kernel)]
        accesses = tuple(self._access(part) for part in dict.fromkeys(parts))
        instructions = warps * instructions + sum(access.requests for access in accesses)
        line, text = 0 if span is None else span.line, statement_text(item)
        return Statement(line, text, warps, threads, instructions, threads * flops, accesses)

    def _access(self, item: Touch) -> Access:
        names = ("requests", "sectors", "wavefronts", "conflicts")
        numbers = {name: self.counts[item][name] for name in names}
        action, space = type(item).__name__.lower(), space_of(item.buffer, self.kernel)
        size, sample = self.samples.get(item, (0, ()))
        return Access(item.buffer.name, action, space, **numbers, size=size, sample=sample)


def _size(item: Touch) -> int:
    """The bytes of an element."""
    return to_numpy(item.buffer.dtype).itemsize


def _widest(address: Value, active: Active, size: int, count: int) -> int:
    """How many of `count` elements in a row one instruction may access."""
    address = active.those(address)
    fitting = (n for n in (16, 8, 4, 2) if n * size <= WIDEST and count % n == 0)
    return next((n for n in fitting if not np.any(address % (n * size))), 1)


def _cost(item: tir.Stmt) -> tuple[int, int]:
    """A statement's instructions besides those that access memory, and its float operations."""
    match item:
        case tir.Store(value=value) | tir.IfThenElse(condition=value) | tir.While(condition=value):
            operations = [part for part in _computed(value) if isinstance(part, OPERATION)]
        case Warp(flops=flops):
            return 1, flops
        case _:  # other nodes: a barrier
            return 1, 0
    flops = sum(map(is_flop, operations))
    return len(operations) - sum(map(_is_fused, operations)), flops


OPERATION = (tir.Unary, tir.Binary, tir.Select, tir.Cast, tir.Intrin)


def _computed(item: tir.Expr) -> list[tir.Expr]:
    """The parts of an expression that are computed, without what decides where to load."""
    inner = () if isinstance(item, tir.Load) else children(item)
    parts = (_computed(part) for part in inner if isinstance(part, tir.Expr))
    return [item, *chain.from_iterable(parts)]


def _is_fused(item: tir.Expr) -> bool:
    """Whether a sum takes a product with it, in a fused multiply-add."""
    if not isinstance(item, tir.Binary) or item.op not in ("+", "-") or not is_flop(item):
        return False
    return any(isinstance(part, tir.Binary) and part.op == "*" for part in (item.a, item.b))


def statement_text(item: tir.Stmt) -> str:
    """A statement in one line."""
    match item:
        case Barrier(why):
            return f"barrier: {why}"
        case Warp(name):
            return f"a warp: {name}"
        case Shuffle(_, source, down):
            return f"shuffle: {source.script()} of the thread {down} further on"
        case tir.IfThenElse(condition=condition) | tir.While(condition=condition):
            return f"{'if' if isinstance(item, tir.IfThenElse) else 'while'} {condition.script()}:"
        case _:  # other nodes: a store
            return item.script(full=False)
