"""Spaces: functions from schedule to schedule that draw, and the programs that they make.

The built-in space of a function is its recipe, which draws what it otherwise takes from the
target: without a key it is the recipe's own program. Any other function `Schedule -> Schedule`
will do as well.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minimlc import recipes
from minimlc.loops.schedule import Schedule
from minimlc.loops.schedule.primitive import SAMPLES, Chance
from minimlc.loops.values.errors import ScheduleError, shown
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.process import collector_paused
from minimlc.loops.values.target import Target
from minimlc.recipes.views import Draft
from minimlc.tune.features import features
from minimlc.tune.records import Candidate, TuneError, target_text

Space = Callable[[Schedule], Schedule]

LATE, SIBLINGS = 0.6, 16
"""The share of a program's steps from which on decisions are late; and how many programs at the
most differ in late decisions only.
"""


class Program(NamedTuple):
    """A point of a space: its schedule, whose trace holds what it decided, and its features. Two
    with the same `steps` are the same program, whatever they decided.
    """

    schedule: Schedule
    features: np.ndarray
    steps: str

    @property
    def decisions(self) -> dict[str, Any]:
        return self.schedule.trace.decisions


def usual(target: Target) -> Space:
    """The built-in space: each recipe that fits the function draws its own parameters."""
    return lambda sch: recipes.fitting(sch, target=target)


def program(
    space: Space, mod: IRModule, func: str, target: Target, chance: Chance
) -> Program | None:
    """The program that a space makes of a key and decisions; None where a step is not legal."""
    try:
        return legal(space, mod, func, target, chance)
    except ScheduleError:
        return None
    except Exception as error:
        error.add_note(f"in a space that got {chance}")
        raise


@collector_paused()
def legal(space: Space, mod: IRModule, func: str, target: Target, chance: Chance) -> Program:
    """The program that a space makes of a key and decisions; an error where a step is illegal."""
    alone = IRModule.of({func: mod[func]})
    schedule = space(Draft.trusting(alone, func, chance))
    if not isinstance(schedule, Schedule) or schedule.history.steps[0].mod is not alone:
        why = f"a space gives a schedule made of the one that it gets, not {shown(schedule)}"
        raise TuneError(why, code="E902", hint="def space(sch): ...; return sch")
    return _point(schedule, target)


def siblings(
    space: Space, mod: IRModule, func: str, target: Target, point: Program
) -> Iterator[Program]:
    """The programs that differ from one only in what it decides late: the steps before are
    remembered, so that each costs a fraction of it.
    """
    trace, decisions = point.schedule.trace, point.decisions
    late = dict[str, Sequence[Any]]()
    places = [place for place, (_, arguments) in enumerate(trace) if "decision" in arguments]
    for name, place in reversed([*zip(decisions, places, strict=True)]):
        choices = trace[place][1].get("candidates", ())
        count = prod(map(len, late.values())) * len(choices)
        if place < LATE * len(trace) or not 0 < count <= SIBLINGS:
            break
        late = {name: choices, **late}
    for chosen in reversed([*product(*late.values())]):
        other = {**decisions, **dict(zip(late, chosen, strict=True))}
        chance = Chance(None, other, strict=False)
        if other != decisions and (sibling := program(space, mod, func, target, chance)):
            yield sibling


def replayed(mod: IRModule, func: str, target: Target, trace: str) -> Program:
    """The program that a trace's JSON text makes."""
    return _point(Schedule.replay(mod, trace, func, check=False), target)


def _point(schedule: Schedule, target: Target) -> Program:
    steps = [step for step in schedule.trace if step[0] not in SAMPLES]
    return Program(schedule, features(schedule.func, target), repr(steps))


def candidate(mod: IRModule, func: str, target: Target, point: Program) -> Candidate:
    """A program as data."""
    script = mod.script(constants="inline")
    return Candidate(script, func, point.schedule.trace.to_json(), target_text(target))
