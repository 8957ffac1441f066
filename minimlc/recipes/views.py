"""Questions that recipes ask of a schedule: a block's loops, what it writes, what is new."""

from minimlc.errors import ScheduleError
from minimlc.node import walk
from minimlc.schedule import Schedule
from minimlc.schedule.shape import loops_feeding
from minimlc.schedule.tree import find_block
from minimlc.target import Target
from minimlc.tir.analysis.arith import constant_value
from minimlc.tir.nodes import Block, For, Store

HINT = "mlc.recipes.apply(mod)  # chooses a recipe for each function"

WORTH_THREADS = 1 << 18
"""Elements from which on starting threads pays."""


def started(sch: Schedule, target: str | Target | None) -> Target:
    """The machine that a recipe is to choose for; refuses what is no schedule to begin with."""
    if not isinstance(sch, Schedule):
        why = f"a recipe takes a Schedule, got {type(sch).__name__}"
        raise ScheduleError(why, code="E132", hint="mlc.Schedule(mod, check=False)")
    return Target.of(target)


def block_of(sch: Schedule, name: str) -> Block:
    """The block of that name."""
    found = find_block(sch.func, name).stmt
    assert isinstance(found, Block)
    return found


def added(before: Schedule, after: Schedule) -> list[str]:
    """The blocks that are new, in program order."""
    old = set(before.blocks())
    return [name for name in after.blocks() if name not in old]


def buffer_of(sch: Schedule, block: str) -> str:
    """The buffer that a block writes (the first, if several)."""
    stores = [part for part in walk(block_of(sch, block).body) if isinstance(part, Store)]
    return stores[0].buffer.name


def loops_of(sch: Schedule, block: str, kind: str) -> list[str]:
    """The loops around a block that feed its iters of a kind ("S" or "R"), outer to inner."""
    place = find_block(sch.func, block)
    iters = [it for it in block_of(sch, block).iters if it.kind == kind]
    return [loop.var.name for loop in loops_feeding(iters, place.loops)]


def loops_feeding_axis(sch: Schedule, block: str, axis: int) -> list[str]:
    """The loops that feed the iter by which a block indexes an axis of what it writes."""
    item = block_of(sch, block)
    (store, *_) = [part for part in walk(item.body) if isinstance(part, Store)]
    iters = [it for it in item.iters if it.var is store.indices[axis]]
    return [loop.var.name for loop in loops_feeding(iters, find_block(sch.func, block).loops)]


def loops_below(sch: Schedule, block: str, loop: str) -> list[str]:
    """The loops around a block that are inside of `loop`, outer to inner."""
    loops = sch.loops(block)
    return loops[loops.index(loop) + 1 :]


def cut(sch: Schedule, block: str, loop: str, size: int) -> tuple[Schedule, list[str]]:
    """A loop around a block split into runs of `size`; both loops' names, too."""
    after = sch.split(loop, [None, size])
    old = sch.loops(block)
    return after, [name for name in after.loops(block) if name not in old]


def extent(sch: Schedule, block: str, loop: str) -> int:
    """How often a loop around a block runs."""
    (found,) = [lp for lp in find_block(sch.func, block).loops if lp.var.name == loop]
    assert isinstance(found, For)
    return constant_value(found.extent) or 0


def vector_registers(target: Target) -> int:
    """How many vector registers a CPU has, by its features."""
    many = {"+avx512f", "+neon", "+sve"}.intersection(target.features.split(","))
    return 32 if many else 16


def divisor(size: int, most: int) -> int:
    """The largest divisor of `size` that is at most `most`; 1 of nothing."""
    return max((d for d in range(1, min(size, most) + 1) if size % d == 0), default=1)
