"""One random schedule: its steps tried in turn, and what must hold of each and of the whole."""

import inspect
import random
import time
from typing import NamedTuple

import minimlc as mlc
from minimlc.loops.schedule import PRIMITIVES, Trace
from minimlc.loops.schedule.calls import frozen
from minimlc.loops.values.module import IRModule
from tests.fuzz.draw import Step, random_step
from tests.fuzz.subject import DIFFERENT, Subject, difference

STEPS = 8


class Attempt(NamedTuple):
    """A step that was tried: whether its arguments were drawn wildly, and seconds of processor."""

    name: str
    wild: bool
    accepted: bool
    seconds: float


class Failure(NamedTuple):
    """Something that must not happen. `target` is where it shows: "" for the steps themselves.

    `wrong` results are the worst kind; the others are faults after a step was accepted.
    """

    program: str
    seed: int
    target: str
    wrong: bool
    why: str
    trace: str

    def __str__(self) -> str:
        return f"{self.program}, seed {self.seed}: {self.why}"


class Run(NamedTuple):
    """A schedule and how its steps went; `after` is the module that came out."""

    program: str
    seed: int
    attempts: tuple[Attempt, ...]
    failure: Failure | None
    mutated: bool
    after: IRModule
    trace: Trace


def run(program: str, known: Subject, seed: int, steps: int = STEPS) -> Run:
    """A random schedule of a program, looked at by everything but the native back-ends."""
    rng = random.Random(f"{program} {seed}")
    sch = mlc.Schedule(known.mod, check=False)
    attempts: list[Attempt] = []
    fault: tuple[str, str, Trace] | None = None
    versions = [(sch.mod, sch.mod.script())]
    for _ in range(steps):
        try:
            step = random_step(sch, rng)
        except mlc.CompileError as error:
            fault = "steps", f"what there is can't be asked for: {error}", sch.trace
            break
        start = time.process_time()
        try:
            new = step.apply(sch)
        except Exception as error:
            attempts.append(_attempt(step, False, start))
            if is_refusal(error):
                continue
            fault = "steps", _raised(step, error), _extended(sch, step)
            break
        attempts.append(_attempt(step, True, start))
        why = _ill_formed(new.mod)
        sch = new
        if why:
            fault = "steps", f"{step.name} was accepted: {why}", sch.trace
            break
        versions.append((sch.mod, sch.mod.script()))
    fault = fault or _fault_at_the_end(known, sch)
    mutated = not known.intact() or any(mod.script() != text for mod, text in versions)
    failure = None
    if fault:
        target, why, trace = fault
        wrong = DIFFERENT in why
        failure = Failure(program, seed, target, wrong, why, trace.to_json())
    return Run(program, seed, tuple(attempts), failure, mutated, sch.mod, sch.trace)


def is_refusal(error: Exception) -> bool:
    """Whether a primitive refused, and not that minimlc has a fault."""
    return isinstance(error, mlc.ScheduleError) and error.code != "E199"


def _attempt(step: Step, accepted: bool, start: float) -> Attempt:
    return Attempt(step.name, step.wild, accepted, time.process_time() - start)


def _raised(step: Step, error: Exception) -> str:
    return f"{step.name} did not refuse but raised {type(error).__name__}: {error}"


def _extended(sch: mlc.Schedule, step: Step) -> Trace:
    """The trace with a step that did not get into it."""
    bound = inspect.signature(PRIMITIVES[step.name]).bind(None, *step.positional, **step.named)
    _, *arguments = bound.arguments.items()
    return Trace((*sch.trace, (step.name, {name: frozen(value) for name, value in arguments})))


def _ill_formed(mod: IRModule) -> str:
    try:
        mlc.verify(mod)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _fault_at_the_end(known: Subject, sch: mlc.Schedule) -> tuple[str, str, Trace] | None:
    for target in ("interpreter", "backwards"):
        why = difference(known, sch.mod, target)
        if why:
            return target, why, sch.trace
    why = round_trip(known.mod, sch)
    return ("round trip", why, sch.trace) if why else None


def round_trip(mod: IRModule, sch: mlc.Schedule) -> str:
    """The loss when the trace goes through JSON; '' if there is none."""
    try:
        again = mlc.Schedule.replay(mod, sch.trace.to_json(), check=False)
    except Exception as error:
        return f"round trip: {type(error).__name__}: {error}"
    same = mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)
    return "" if same and again.trace == sch.trace else "round trip: another program came out"
