"""Common parts of recipes: questions about a schedule, and steps that several of them take."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import signature
from math import prod
from typing import Any, TypeVar

from minimlc.loops.ir.nodes import Block, BlockIter, Intrin, Store
from minimlc.loops.math.functions import PROGRAMS
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.schedule import Schedule
from minimlc.loops.schedule.finish import proven
from minimlc.loops.schedule.schedule import FIELDS
from minimlc.loops.schedule.shape import loops_feeding
from minimlc.loops.schedule.tree import Place, find_block
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target

V = TypeVar("V")
S = TypeVar("S", bound=Schedule)
HINT = "mlc.recipes.apply(mod)  # chooses a recipe for each function"

NO_FIT = "E170"
"""The code of errors about functions and blocks that a recipe is not for."""

ELEMENTS = 1 << 13
"""Elements of each core from which on sharing them out pays: some microseconds."""

MANY_CORES = 32
"""The most cores that count; also their number where a target has none."""


def worth_threads(work: int, target: Target, each: int = ELEMENTS) -> bool:
    """Whether a loop is shared out: where there are `each` of its elements for each core."""
    cores = min(target.cores, MANY_CORES) if target.cores > 1 else MANY_CORES
    return work >= each * cores


class Draft(Schedule):
    """A schedule with the questions that recipes ask of it, and the steps that several take."""

    __slots__ = ()

    def block(self, name: str) -> Block:
        """The block of that name."""
        return find_block(self.func, name).stmt

    def added(self, before: Schedule) -> list[str]:
        """The blocks that `before` does not have, in program order."""
        old = set(before.blocks())
        return [name for name in self.blocks() if name not in old]

    def store(self, block: str) -> Store:
        """The store of a block (the first, if several)."""
        return nodes_of(self.block(block).body, Store)[0]

    def buffer(self, block: str) -> str:
        """The buffer that a block writes (the first, if several)."""
        return self.store(block).buffer.name

    def loops_of(self, block: str, kind: str) -> list[str]:
        """The loops around a block that feed its iters of a kind ("S" or "R"), outer to inner."""
        return _feeding(find_block(self.func, block), lambda it: it.kind == kind)

    def loops_along(self, block: str, axis: int) -> list[str]:
        """The loops that feed the iter by which a block indexes an axis of its output."""
        index = self.store(block).indices[axis]
        return _feeding(find_block(self.func, block), lambda it: it.var is index)

    def loops_below(self, block: str, loop: str) -> list[str]:
        """The loops around a block that are inside of `loop`, outer to inner."""
        loops = self.loops(block)
        return loops[loops.index(loop) + 1 :]

    def extent(self, block: str, loop: str) -> int:
        """How often a loop around a block runs."""
        (item,) = [lp for lp in find_block(self.func, block).loops if lp.var.name == loop]
        return constant_value(item.extent) or 0

    def iterations(self, block: str, loops: Iterable[str] | None = None) -> int:
        """How often loops around a block, by default all of them, run together."""
        return prod(
            self.extent(block, lp) for lp in (self.loops(block) if loops is None else loops)
        )

    def making(self, primitive: str, *args: Any, **options: Any) -> tuple["Draft", list[str]]:
        """A primitive applied, and the blocks that it makes."""
        after = self.apply(primitive, *args, **options)
        return after, after.added(self)

    def cut(self, block: str, loop: str, size: int) -> tuple["Draft", list[str]]:
        """A loop around a block split into runs of `size`; both loops' names, too."""
        after = self.split(loop, [None, size])
        old = self.loops(block)
        return after, [name for name in after.loops(block) if name not in old]

    def unrolled(self, loops: Iterable[str]) -> "Draft":
        """Loops as straight code."""
        sch = self
        for loop in loops:
            sch = sch.unroll(loop)
        return sch

    def in_registers(self, loops: list[str]) -> "Draft":
        """The innermost loop becomes vector lanes, the others are written out."""
        vectors = self.vectorize(loops[-1]) if loops else self
        return vectors.unrolled(loops[:-1])


def choose(sch: Draft, name: str, choices: Iterable[Any]) -> tuple[Draft, Any]:
    """One of the choices, the first unless the schedule decides by chance; and the schedule then.

    So a recipe is a space, and what it takes from the shapes and the target a point of that.
    """
    if sch.chance is None:
        return sch, next(iter(choices))
    return sch.sample_categorical(tuple(dict.fromkeys(choices)), name=name)


def is_long(sch: Draft, block: str) -> bool:
    """Whether a block has functions that are much code, such as gelu."""
    return any(part.name in PROGRAMS for part in nodes_of(sch.block(block), Intrin))


def fused(sch: Draft, loops: Sequence[str]) -> Draft:
    """Loops directly in each other as one; one alone stays as it is."""
    return sch.fuse(*loops) if len(loops) > 1 else sch


def _feeding(place: Place[Block], chosen: Callable[[BlockIter], bool]) -> list[str]:
    """The loops around a block that feed the chosen ones of its iters."""
    iters = [it for it in place.stmt.iters if chosen(it)]
    return [loop.var.name for loop in loops_feeding(iters, place.loops)]


def through_registers(sch: Draft, block: str, buffer: str, around: str, loops: list[str]) -> Draft:
    """The elements of a buffer that `loops` of a block read, copied into registers in `around`."""
    sch, (copy,) = sch.making("cache_read", block, buffer)
    sch = sch.compute_at(copy, around).in_registers(loops)
    return sch.in_registers(sch.loops_below(copy, around))


def proving(sch: S, proves: bool) -> S:
    """The same schedule, whose steps prove what they claim, or leave that to the end."""
    return sch if sch.proves == proves else _copied(type(sch), sch, proves=proves)


def carefully(sch: S, steps: Callable[[S], S]) -> S:
    """The result of `steps` on a schedule, each of them proven."""
    start = proving(sch, True)
    result = steps(start)
    return sch if result is start else proving(result, sch.proves)


def recipe(plan: Callable[[Draft, str | None, Target], Draft]) -> Callable[..., Any]:
    """A recipe as users call it: of a schedule, maybe with a block's name and a target. A function
    with an empty buffer stays as it is.
    """

    def apply(
        sch: Schedule, block: str | None = None, *, target: str | Target | None = None
    ) -> Schedule:
        check_schedule(sch)
        draft = _as_kind(Draft, sch)
        empty = any(0 in buffer.shape for buffer in (*sch.func.params, *sch.func.allocs))
        result = draft if empty else _planned(plan, draft, block, Target.of(target))
        return sch if result is draft else _as_kind(type(sch), result)

    apply.__signature__ = signature(apply)  # type: ignore[attr-defined]
    return wraps(plan)(apply)


def _planned(plan: Callable[..., Draft], draft: Draft, *args: Any) -> Draft:
    """The result of a plan, proven as a whole. If it is not, or a step goes wrong, once more with a
    proof after each step: then the first that is not proven is refused, or another way is taken.
    """
    start = proving(draft, False)
    try:
        result = plan(start, *args)
        if result is start:
            return draft
        proven(result.func)
        return proving(result, draft.proves)
    except Exception as error:  # a step that should have been refused may break any other
        if isinstance(error, ScheduleError) and error.code == NO_FIT:
            raise
    return carefully(draft, lambda start: plan(start, *args))


def _as_kind(kind: type[S], sch: Schedule) -> S:
    """The same schedule as one of that class."""
    return sch if type(sch) is kind else _copied(kind, sch)


def _copied(kind: type[S], sch: Schedule, **changes: Any) -> S:
    """A schedule with the fields of another, but for some."""
    fields = {name: getattr(sch, name) for name in FIELDS} | changes
    return object.__new__(kind)._fill(*fields.values())


def check_schedule(sch: Schedule) -> None:
    """Refuse anything but a schedule."""
    if not isinstance(sch, Schedule):
        why = f"a recipe takes a Schedule, got {type(sch).__name__}"
        raise ScheduleError(why, code="E132", hint="mlc.Schedule(mod, check=False)")


def refusal(why: str, hint: str = HINT) -> ScheduleError:
    """The error for a function or block that a recipe is not for."""
    return ScheduleError(why, code=NO_FIT, hint=hint)


def none_is(block: str | None, no: str, yes: str) -> str:
    """The words that the named block is not of a kind, or that none is: "is not", "is"."""
    return f"no block {yes}" if block is None else f'block "{block}" {no}'


def first(
    sch: Schedule,
    block: str | None,
    question: Callable[[Block], V | None],
    why: str,
    verbs: tuple[str, str],
    hint: str = HINT,
) -> tuple[str, V]:
    """The block named, or the first one, for which `question` has an answer, and that answer.

    Refuses where there is none: `why` has `{}` for which one is not, by `none_is`.
    """
    for name in [block] if block is not None else sch.blocks():
        answer = question(find_block(sch.func, name).stmt)
        if answer is not None:
            return name, answer
    raise refusal(why.format(none_is(block, *verbs)), hint)


def tiled(ndim: int, size: Sequence[int]) -> str:
    """A layout of tiles of such a size along the last axes, each neighbours in memory."""
    dims = [f"i{dim}" for dim in range(ndim)]
    outer, inner = dims[: -len(size)], [*zip(dims[-len(size) :], size, strict=True)]
    tile = [f"{dim} {by} {side}" for by in ("//", "%") for dim, side in inner]
    return f"{', '.join(dims)} -> {', '.join([*outer, *tile])}"


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
