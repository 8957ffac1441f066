"""What recipes share: questions about a schedule, and steps that several of them take."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any, TypeVar

from minimlc.dtypes import DTYPES
from minimlc.errors import ScheduleError
from minimlc.node import Node, walk
from minimlc.schedule import Schedule
from minimlc.schedule.shape import loops_feeding
from minimlc.schedule.tree import find_block
from minimlc.target import Target
from minimlc.tir.analysis.arith import constant_value
from minimlc.tir.nodes import Block, For, Load, Store

V = TypeVar("V")
HINT = "mlc.recipes.apply(mod)  # chooses a recipe for each function"

WORTH_THREADS = 1 << 18
"""Elements from which on starting threads pays."""


def started(sch: Schedule, target: str | Target | None) -> Target:
    """The machine that a recipe is to choose for; refuses anything but a schedule."""
    if not isinstance(sch, Schedule):
        why = f"a recipe takes a Schedule, got {type(sch).__name__}"
        raise ScheduleError(why, code="E132", hint="mlc.Schedule(mod, check=False)")
    return Target.of(target)


def refusal(why: str, hint: str = HINT) -> ScheduleError:
    """The error for what a recipe is not for."""
    return ScheduleError(why, code="E170", hint=hint)


def first(
    sch: Schedule, block: str | None, question: Callable[[Block], V | None]
) -> tuple[str, V] | None:
    """The block named, or the first one, for which `question` has an answer, and that answer."""
    for name in [block] if block is not None else sch.blocks():
        answer = question(block_of(sch, name))
        if answer is not None:
            return name, answer
    return None


# Questions


def block_of(sch: Schedule, name: str) -> Block:
    """The block of that name."""
    block = find_block(sch.func, name).stmt
    assert isinstance(block, Block)
    return block


def added(before: Schedule, after: Schedule) -> list[str]:
    """The blocks that are new, in program order."""
    old = set(before.blocks())
    return [name for name in after.blocks() if name not in old]


def store_of(sch: Schedule, block: str) -> Store:
    """What a block writes (the first element, if several)."""
    body = walk(block_of(sch, block).body)
    return next(part for part in body if isinstance(part, Store))


def buffer_of(sch: Schedule, block: str) -> str:
    """The buffer that a block writes (the first, if several)."""
    return store_of(sch, block).buffer.name


def loads_in(item: Node) -> list[Load]:
    """What is read, in the order in which it is written down."""
    return [part for part in walk(item) if isinstance(part, Load)]


def loops_of(sch: Schedule, block: str, kind: str) -> list[str]:
    """The loops around a block that feed its iters of a kind ("S" or "R"), outer to inner."""
    place = find_block(sch.func, block)
    iters = [it for it in block_of(sch, block).iters if it.kind == kind]
    return [loop.var.name for loop in loops_feeding(iters, place.loops)]


def loops_feeding_axis(sch: Schedule, block: str, axis: int) -> list[str]:
    """The loops that feed the iter by which a block indexes an axis of what it writes."""
    index = store_of(sch, block).indices[axis]
    iters = [it for it in block_of(sch, block).iters if it.var is index]
    return [loop.var.name for loop in loops_feeding(iters, find_block(sch.func, block).loops)]


def loops_below(sch: Schedule, block: str, loop: str) -> list[str]:
    """The loops around a block that are inside of `loop`, outer to inner."""
    loops = sch.loops(block)
    return loops[loops.index(loop) + 1 :]


def extent(sch: Schedule, block: str, loop: str) -> int:
    """How often a loop around a block runs."""
    (item,) = [lp for lp in find_block(sch.func, block).loops if lp.var.name == loop]
    assert isinstance(item, For)
    return constant_value(item.extent) or 0


def iterations(sch: Schedule, block: str, loops: Iterable[str] | None = None) -> int:
    """How often loops around a block, by default all of them, run together."""
    return prod(extent(sch, block, loop) for loop in (sch.loops(block) if loops is None else loops))


def bytes_of(dtype: str) -> int:
    """The size of an element."""
    return DTYPES[dtype].bits // 8


def lanes_of(target: Target, dtype: str) -> int:
    """How many elements a vector has."""
    return target.vector_bits // DTYPES[dtype].bits


def vector_registers(target: Target) -> int:
    """How many vector registers a CPU has, by its features."""
    many = {"+avx512f", "+neon", "+sve"}.intersection(target.features.split(","))
    return 32 if many else 16


def divisor(size: int, most: int) -> int:
    """The largest divisor of `size` that is at most `most`; 1 of nothing."""
    return max((d for d in range(1, min(size, most) + 1) if size % d == 0), default=1)


# Steps


def making(sch: Schedule, primitive: str, *args: Any, **options: Any) -> tuple[Schedule, list[str]]:
    """A primitive applied, and the blocks that it makes."""
    after = sch.apply(primitive, *args, **options)
    return after, added(sch, after)


def cut(sch: Schedule, block: str, loop: str, size: int) -> tuple[Schedule, list[str]]:
    """A loop around a block split into runs of `size`; both loops' names, too."""
    after = sch.split(loop, [None, size])
    old = sch.loops(block)
    return after, [name for name in after.loops(block) if name not in old]


def unrolled(sch: Schedule, loops: Iterable[str]) -> Schedule:
    """Loops as straight code."""
    for loop in loops:
        sch = sch.unroll(loop)
    return sch


def in_registers(sch: Schedule, loops: list[str]) -> Schedule:
    """The innermost loop becomes vector lanes, the others are written out."""
    return unrolled(sch.vectorize(loops[-1]), loops[:-1])
