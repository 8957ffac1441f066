"""Demands of a scheduled program on a machine, as numbers that a cost model learns from.

They are read off its loops and accesses, without running or lowering it. Where data is reused, and
what of it a cache keeps in between, is estimated by footprints: an access moves with some of the
loops around it; the innermost loops whose accesses together fit a cache fill it once. After the
features of L. Zheng et al., Ansor (2020), and the footprints of M. Wolf and M. Lam (1991).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log2, prod
from typing import NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import Binary, Buffer, Const, Expr, For, Load, PrimFunc, Store, Var
from minimlc.loops.proofs.access import Access, accesses, loop_extent, shared_loops
from minimlc.loops.proofs.arith import linear, variables
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.node import children
from minimlc.loops.values.target import Target

LINE = 64
"""Bytes of a cache line."""

CHAINS = 8
"""Vectors of sums that hide the latency of adding to one: four cycles, two units."""

SLOW = 8
"""Operations that a division or a function counts as."""

RATES = {"l2_bytes": 32.0, "l3_bytes": 12.0, "memory_bytes": 5.0}
"""Bytes a cycle that come from a level; usual ones of a core."""

NAMES = {
    "operations": "operations on elements; a * b + c counts as one, a division as 8",
    "instructions": "the same, by vectors of the machine's width where loops are vectorized",
    "loads": "instructions that read memory, without what stays in registers",
    "stores": "instructions that write memory",
    "gathered": "elements of vectors that do not lie side by side",
    "l2_bytes": "bytes that the first cache does not keep until they are used again",
    "l3_bytes": "bytes that the second cache does not keep",
    "memory_bytes": "bytes that the third cache does not keep",
    "iterations": "ends of loop iterations that are not written out",
    "code": "statements after writing out, the largest number in one place",
    "sums": "vectors of sums that are added to side by side, in the block with most work",
    "spilled": "vectors of sums beyond the registers there are",
    "waiting": "cycles that too few sums side by side wait for each other",
    "guarded": "executions of statements under a condition",
    "allocated": "bytes of buffers that the function has of its own",
    "copied": "elements that are moved without being computed with",
    "parallel": "iterations of parallel loops, in the block with most work",
    "idle": "the share of the cores' time that is lost as iterations do not share out evenly",
    "starts": "times that a parallel loop is entered",
    "prefetched": "loops that ask for data ahead",
    "blocks": "statements that compute something",
    "cycles": "the analytical model's estimate of the time, in cycles",
}
"""Each feature's meaning. A vector has the binary logarithms of 1 + each, in this order."""


class Work(NamedTuple):
    """The loops around a store by extent and kind, outer to inner, and how many elements a step of
    each moves its accesses along each axis; which loop is vectorized, and elements in a vector.
    """

    extents: tuple[int, ...]
    kinds: tuple[str, ...]
    touches: tuple["Touch", ...]
    reduces: bool
    lane: int | None
    width: int


class Touch(NamedTuple):
    """One access of a work. `steps` has, for each axis, the step of each loop that moves it."""

    buffer: Buffer
    is_write: bool
    steps: tuple[dict[int, float], ...]

    def moves(self, loop: int) -> bool:
        """Whether it is of another element in a loop's next iteration."""
        return any(loop in axis for axis in self.steps)

    def bytes_below(self, extents: Sequence[int], loop: int) -> float:
        """The bytes that the loops from one on touch together, by whole lines."""
        size = DTYPES[self.buffer.dtype].bits // 8
        spans = [
            min(full, 1 + sum(step * (extents[at] - 1) for at, step in axis.items() if at >= loop))
            for axis, full in zip(self.steps, self.buffer.shape, strict=True)
        ]
        if not spans:
            return size
        row = spans[-1] * size
        return prod(spans[:-1]) * (row if row % LINE == 0 else row + min(LINE, row) // 2)

    def jumps(self, loop: int) -> bool:
        """Whether elements in a loop's iterations do not lie side by side."""
        *outer, last = self.steps or ({},)
        return self.moves(loop) and (last.get(loop) != 1 or any(loop in axis for axis in outer))


def features(func: PrimFunc, target: Target) -> np.ndarray:
    """The features of a function, float64 of shape (len(NAMES),)."""
    numbers = measures(func, target)
    return np.array([log2(1.0 + max(numbers[name], 0.0)) for name in NAMES])


@lru_cache(maxsize=4096)
def measures(func: PrimFunc, target: Target) -> dict[str, float]:
    """The features by name, not yet as logarithms."""
    total: dict[str, float] = defaultdict(float)
    main, starts = 0.0, dict[For | None, float]()
    works = [*_works(func)]
    for store, around, parts in works:
        loops = tuple((lp.var, min(loop_extent(lp), 1 << 40), lp.kind) for lp in around)
        one = dict(_of_store(store, loops, parts, target))
        for name in ("code", "sums", "parallel", "idle"):
            value = one.pop(name)
            largest = one["operations"] >= main if name != "code" else value > total[name]
            total[name] = value if largest else total[name]
        main = max(main, one["operations"])
        starts[next((lp for lp in around if lp.kind == "parallel"), None)] = one.pop("starts")
        for name, value in one.items():
            total[name] += value
    total["starts"] = sum(starts.values())
    total["allocated"] = sum(_size(buffer) for buffer in func.allocs)
    every = {loop for _, around, _ in works for loop in around}
    total["prefetched"] = sum(any(key == "prefetch" for key, _ in lp.annotations) for lp in every)
    total["blocks"] = len(works)
    return total


Nest = tuple[tuple[Var, int, str], ...]
"""Loops from outer to inner: variable, extent and kind."""

Parts = tuple[tuple[Access, int], ...]
"""Accesses, less their loops and place, and inside how many loops all uses of its buffer are."""


def _works(func: PrimFunc) -> Iterator[tuple[Store, tuple[For, ...], Parts]]:
    """The function's stores, the loops around each, and its accesses. Loops around all uses of a
    local buffer do not move it: each of their iterations uses the same place again.
    """
    together: dict[Store, list[Access]] = defaultdict(list)
    items = accesses(func)
    common: dict[Buffer, tuple[For, ...]] = {}
    local = set(func.allocs)
    for item in items:
        if item.buffer in local:
            first = common.setdefault(item.buffer, item.loops)
            if first != item.loops:
                same = item._replace(loops=first)
                common[item.buffer] = shared_loops(same, item)
        store = item.node if isinstance(item.node, Store) else item.into
        if store is not None:
            together[store].append(item)
    for store, parts in together.items():
        alone = (it._replace(loops=(), order=0, block=None, node=store) for it in parts)
        fixed = (len(common.get(item.buffer, ())) for item in parts)
        yield store, parts[0].loops, tuple(zip(alone, fixed, strict=True))


@lru_cache(maxsize=1024)
def _of_store(store: Store, loops: Nest, parts: Parts, target: Target) -> dict[str, float]:
    """One store's part of the features: programs of one space have many stores in common."""
    places = {var: at for at, (var, _, _) in enumerate(loops)}
    extents, kinds = tuple(size for _, size, _ in loops), tuple(kind for *_, kind in loops)
    touches = tuple(
        _touch(item, fixed, places, extents)
        for item, fixed in parts
        if item.role != "update" or item.is_write
    )
    reduces = any(item.role == "update" for item, _ in parts)
    guarded = any(item.guards for item, _ in parts)
    runs = prod(extents)
    operations = _operations(store.value)
    width = target.vector_bits // DTYPES[store.buffer.dtype].bits or 1
    lane = next((at for at, kind in enumerate(kinds) if kind == "vectorized"), None)
    work = Work(extents, kinds, touches, reduces, lane, width)
    vectors = runs / min(width, extents[lane]) if lane is not None else runs
    out = [at for at, kind in enumerate(kinds) if kind == "unrolled"]
    numbers = dict.fromkeys(("loads", "stores", "gathered"), 0.0)
    numbers |= {"operations": runs * operations, "instructions": vectors * operations}
    sums = _sums_beside(work)
    for touch in touches:
        _count(numbers, touch, work, vectors)
    below = [[it.bytes_below(extents, at) for it in touches] for at in range(len(extents) + 1)]
    for name, bytes_ in zip(RATES, (target.l1, target.l2, target.l3), strict=True):
        numbers[name] = float(_traffic(work, below, bytes_))
    registers = 32 if target.vector_bits >= 512 or "+neon" in target.features else 16
    counted = (at for at in range(len(kinds)) if at != lane and at not in out)
    last = max(counted, default=0)
    looped = [size for at, size in enumerate(extents[: last + 1]) if at not in out]
    numbers["iterations"] = float(prod(looped))
    numbers["code"] = float(prod(extents[at] for at in out))
    numbers |= {"sums": float(sums), "spilled": float(max(0, sums + 2 - registers))}
    chained = sums and numbers["instructions"] * 4 / min(sums, CHAINS) - numbers["instructions"] / 2
    numbers["waiting"] = max(0.0, float(chained))
    numbers["guarded"], numbers["copied"] = guarded * float(runs), (not operations) * float(runs)
    shared = [extents[at] for at, kind in enumerate(kinds) if kind == "parallel"]
    count = prod(shared)
    share = -(-count // target.cores) * target.cores
    numbers["parallel"] = float(count if shared else 0)
    numbers["idle"] = (share - count) / share if shared else 1 - 1 / target.cores
    first = next((at for at, kind in enumerate(kinds) if kind == "parallel"), None)
    numbers["starts"] = float(prod(extents[:first])) if first is not None else 0.0
    numbers["cycles"] = _cycles(numbers) / (target.cores * (1 - numbers["idle"]))
    return numbers


def _touch(item: Access, fixed: int, places: dict[Var, int], extents: tuple[int, ...]) -> Touch:
    steps = tuple(
        {
            at: step
            for at, step in _steps(index, places)
            if at >= fixed and step * extents[at] > 1 < extents[at]
        }
        for index in item.indices
    )
    return Touch(item.buffer, item.is_write, steps)


def _steps(expr: Expr, places: dict[Var, int]) -> Iterator[tuple[int, float]]:
    """How far an index goes in one step of each loop; of `a // n`, in n steps of `a`."""
    for atom, coefficient in linear(expr).terms.items():
        match atom.expr:
            case Var() as var if var in places:
                yield places[var], abs(coefficient)
            case Binary(op="//" | "%" as op, a=a, b=Const(value=by)):
                for at, step in _steps(a, places):
                    yield at, abs(coefficient) * (step / by if op == "//" else step % by)
            case _:  # other nodes: some step for what they depend on
                yield from ((places[v], 1) for v in variables(atom.expr) if v in places)


def _cycles(numbers: dict[str, float]) -> float:
    """Arithmetic and accesses go side by side; what caches do not have, and loops, come on top."""
    read = numbers["loads"] + numbers["gathered"]
    busy = max(numbers["instructions"] / 2, read / 2, numbers["stores"])
    moved = sum(numbers[name] / rate for name, rate in RATES.items())
    spilled = numbers["spilled"] / max(numbers["sums"], 1.0) * numbers["instructions"]
    late = max(0.0, numbers["code"] - 512) / 512 * numbers["iterations"]
    overhead = numbers["iterations"] + 2000.0 * numbers["starts"] + 2 * numbers["guarded"] / 8
    return busy + numbers["waiting"] + 0.7 * moved + spilled + overhead + late


def _count(numbers: dict[str, float], touch: Touch, work: Work, vectors: float) -> None:
    """Add an access's instructions. Written-out loops that do not move it use a register again;
    so do loops around them, if it is a sum.
    """
    again, inside, lane = 1, True, work.lane
    for at in reversed(range(len(work.extents))):
        if at == lane:
            continue
        inside = inside and (work.kinds[at] == "unrolled" or touch.is_write)
        if not inside:
            break
        if not touch.moves(at):
            again *= work.extents[at]
        elif work.kinds[at] != "unrolled":
            break
    count = vectors / again
    if lane is not None and not touch.moves(lane):
        count /= max(1.0, work.extents[lane] / work.width)
    numbers["stores" if touch.is_write else "loads"] += count
    if lane is not None and touch.jumps(lane):
        numbers["gathered"] += count * min(work.width, work.extents[lane])


def _sums_beside(work: Work) -> int:
    """The vectors of sums in flight in a reduction; 0 of others."""
    target = next(touch for touch in work.touches if touch.is_write)
    if not work.reduces:
        return 0
    lanes = 1 if work.lane is None else max(1, work.extents[work.lane] // work.width)
    out = (at for at, kind in enumerate(work.kinds) if kind == "unrolled" and target.moves(at))
    return lanes * prod(work.extents[at] for at in out)


def _traffic(work: Work, below: Sequence[Sequence[float]], cache: int) -> float:
    """The bytes that come from beyond a cache: what the innermost loops that fit it touch, anew in
    each iteration around them that moves an access, or pushes it out. `below` has what each access
    touches in the loops from each one on.
    """
    loop = len(work.extents)
    while loop and sum(below[loop - 1]) <= cache:
        loop -= 1
    total = 0.0
    for touch, size in zip(work.touches, below[loop], strict=True):
        outer = loop
        while outer and not touch.moves(outer - 1) and size <= cache // 2:
            outer -= 1
        moved = size * prod(work.extents[:outer])
        total += moved if outer else 0.0 if _stays(touch, cache) else size
    return total


def _stays(touch: Touch, cache: int) -> bool:
    """Whether a whole buffer may have been in the cache before."""
    return 2 * _size(touch.buffer) <= cache


def _size(buffer: Buffer) -> int:
    return prod(buffer.shape) * DTYPES[buffer.dtype].bits // 8


def _operations(value: Expr) -> int:
    """Operations on elements in a value, without its indices."""
    match value:
        case Load():
            return 0
        case (
            Binary(op="+" | "-", a=Binary(op="*", a=a, b=b), b=c)
            | Binary(op="+" | "-", a=c, b=Binary(op="*", a=a, b=b))
        ):
            return 1 + _operations(a) + _operations(b) + _operations(c)
        case Binary(op=op, a=a, b=b):
            cost = 1 if op in ("+", "-", "*", "min", "max") else SLOW
            return cost + _operations(a) + _operations(b)
        case _:  # other nodes: variables and constants have no parts, functions are slow
            parts = [part for part in children(value) if isinstance(part, Expr)]
            return (SLOW // 2 if parts else 0) + sum(map(_operations, parts))
