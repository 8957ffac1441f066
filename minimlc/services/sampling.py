"""Chance in a schedule: each of these draws one of its choices, which the trace holds as data.

    sch, factors = sch.sample_perfect_tile("j", 2)      # sch = mlc.Schedule(mod, key=7)
    sch = sch.split("j", factors)                       # sch.trace.decisions == {"j": (64, 2)}

A schedule never changes, so a call gives two values: the schedule that has decided, and the
decision. The same schedule decides the same. A **space** is a function from schedule to schedule
that draws: its programs are what it makes of all keys; `Schedule(mod, decisions=...)` gives it
some of its decisions, and the first choices for the others. (NB: in TVM, sampling changes the
schedule, and a trace's later steps refer to what was drawn. Here they hold the numbers, and who
changes a decision gives it to the space again, which may then go another way.)
"""

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from itertools import accumulate
from math import isfinite, prod
from typing import Any

import numpy as np

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.schedule.calls import bound_call, frozen, literal
from minimlc.loops.schedule.primitive import (
    PRIMITIVES,
    SAMPLES,
    Chance,
    Decided,
    Refusal,
    refuse,
)
from minimlc.loops.schedule.schedule import Schedule
from minimlc.loops.schedule.trace import decision_name
from minimlc.loops.schedule.tree import find_block, find_loop
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.module import IRModule

Choices = tuple[Sequence[Any], Sequence[float] | None]
"""The values to draw from, the usual first, and their weights; None weighs all alike."""

MOST_PARTS = 8
"""The most loops of a tile."""


def sample(choices: Callable[..., Choices]) -> Callable[..., Choices]:
    """Enter a function of choices as a step of traces and a method of `Schedule`."""
    name = choices.__name__

    def possible(func: PrimFunc, *args: Any, **options: Any) -> Choices:
        try:
            return choices(func, *args, **options)
        except Refusal as refusal:
            raise refusal.by(name) from None

    @wraps(choices)
    def decided(func: PrimFunc, *args: Any, decision: Any = None, **options: Any) -> Decided:
        """Its first choice, or the decision that a trace holds. It changes no program."""
        among, _ = possible(func, *args, **options)
        chosen = among[0] if decision is None else frozen(decision)
        if literal(chosen) not in map(literal, among):  # 1 is not True
            shown = ", ".join(map(literal, among[:8])) + (", ..." if len(among) > 8 else "")
            why = f"{name}: {literal(chosen)} is none of the choices: {shown}"
            raise ScheduleError(why, code="E162", hint="without a decision, it takes the first")
        return Decided(func, chosen)

    form = inspect.signature(choices)
    last = inspect.Parameter("decision", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = [*form.parameters.values(), last.replace(annotation=object)]
    decided.__signature__ = form.replace(parameters=parameters)  # type: ignore[attr-defined]
    SAMPLES[name] = decided

    @wraps(choices)
    def method(self: Schedule, *args: Any, **options: Any) -> tuple[Schedule, Any]:
        arguments, *_ = bound_call(name, args, options)
        if "decision" not in arguments:
            label = decision_name(self.trace.decisions, name, arguments)
            arguments["decision"] = _drawn(self, label, possible(self.func, **arguments))
        after = self._stepped(name, (), arguments)
        return after, after.trace[-1][1]["decision"]

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = form.replace(  # type: ignore[attr-defined]
        parameters=[first, *parameters[1:]], return_annotation=tuple[Schedule, Any]
    )
    setattr(Schedule, name, method)
    return choices


def _drawn(sch: Schedule, label: str, choices: Choices) -> Any:
    """A schedule's decision: as it was given, else by its key, else the first choice."""
    among, weights = choices
    chance = sch.chance or Chance()
    if label in chance.decisions:
        given = frozen(chance.decisions[label])
        if chance.strict or given in among:
            return given
    if chance.key is None:
        return among[0]
    sums = [*accumulate(weights or [1.0] * len(among))]
    place = uniform(chance.key, len(sch.trace.decisions)) * sums[-1]
    return next(value for value, most in zip(among, sums, strict=True) if place < most)


def uniform(key: int, number: int) -> float:
    """The number-th of a key's numbers in [0, 1), by Philox: J. Salmon et al., Parallel random
    numbers: as easy as 1, 2, 3 (2011).
    """
    counter = np.array([key, number], np.uint64)
    return np.random.Generator(np.random.Philox(key=counter)).random()


@sample
def sample_categorical(
    func: PrimFunc, candidates: Sequence, probs: Sequence[float] | None = None, name: str = ""
) -> Choices:
    """One of the candidates, with these probabilities (or weights), by default all alike.

    Legal when there is a candidate, and a weight above 0 for one.
    """
    if not candidates:
        refuse("E163", "there are no candidates to choose from")
    if probs is None:
        return candidates, None
    right = len(probs) == len(candidates) and all(isfinite(p) and p >= 0 for p in probs)
    if not right or not sum(probs):
        why = f"{len(candidates)} candidates have as many weights >= 0, one above it"
        refuse("E163", f"{why}; got {literal(probs)}")
    return candidates, probs


@sample
def sample_perfect_tile(
    func: PrimFunc, loop: str, n: int, max_innermost_factor: int = 16
) -> Choices:
    """`n` factors for `split` whose product is the loop's extent, the last of them at most
    `max_innermost_factor`.

    Legal when the extent is a number, and 1 <= n <= 8.
    """
    tiles = [tile for tile in _tiles(_extent(func, loop), n) if tile[-1] <= max_innermost_factor]
    if not tiles:
        refuse("E163", f'no tile of "{loop}" has an innermost factor <= {max_innermost_factor}')
    return tiles, None


@sample
def sample_partitioned_tile(
    func: PrimFunc, loop: str, n: int, partition_pos: int, innerpart_factor: int
) -> Choices:
    """`n` factors for `split` whose product is the loop's extent, and that of those from place
    `partition_pos` on a multiple of `innerpart_factor`.

    Legal when the extent is a number, and 1 <= n <= 8; and some tile fits.
    """
    if innerpart_factor < 1:
        refuse("E163", f"innerpart_factor must be at least 1, got {innerpart_factor}")
    tiles = [
        tile
        for tile in _tiles(_extent(func, loop), n)
        if prod(tile[partition_pos:]) % innerpart_factor == 0
    ]
    if not tiles:
        refuse("E163", f'no tile of "{loop}" has inner factors of a multiple of {innerpart_factor}')
    return tiles, None


@sample
def sample_compute_location(func: PrimFunc, block: str) -> Choices:
    """A loop to which `compute_at` may move a block, or "": it stays where it is."""
    find_block(func, block)
    return _locations(func, block), None


@lru_cache(maxsize=64)
def _locations(func: PrimFunc, block: str) -> tuple[str, ...]:
    sch = Schedule.trusting(IRModule.of({"main": func}), "main")
    loops = dict.fromkeys(loop for user in sch.consumers(block) for loop in sch.loops(user))
    return ("", *(loop for loop in loops if _is_legal(func, block, loop)))


def _is_legal(func: PrimFunc, block: str, loop: str) -> bool:
    try:
        PRIMITIVES["compute_at"](func, block, loop)
    except ScheduleError:
        return False
    return True


def _extent(func: PrimFunc, loop: str) -> int:
    extent = constant_value(find_loop(func, loop).stmt.extent)
    if extent is None:
        refuse("E163", f'the extent of "{loop}" is not a number')
    return extent


@lru_cache(maxsize=256)
def _tiles(extent: int, n: int) -> tuple[tuple[int, ...], ...]:
    """All ways to write a number as an ordered product of n, small inner factors first."""
    if not 1 <= n <= MOST_PARTS:
        refuse("E163", f"a tile has 1 to {MOST_PARTS} factors, got n={n}")
    if n == 1:
        return ((extent,),)
    divisors = [size for size in range(1, extent + 1) if extent % size == 0]
    return tuple((*outer, size) for size in divisors for outer in _tiles(extent // size, n - 1))
