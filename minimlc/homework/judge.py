"""From data to points.

Programs are run and traces replayed in a worker that never runs a submission's Python; values are
compared here, in the caller's process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from minimlc.apart.message import Failed, Malformed, in_order, numbered
from minimlc.homework.allowed import Recorded, in_trace
from minimlc.homework.answer import Answer, only_function
from minimlc.homework.assignment import Assignment, Item
from minimlc.homework.compare import Outcome, alike, changed, wrong
from minimlc.homework.counters import Counts
from minimlc.homework.limits import Limits
from minimlc.homework.nest import Nest
from minimlc.homework.questions import Question, filled, questions
from minimlc.homework.report import Report, Result
from minimlc.homework.space import KEYS
from minimlc.homework.worker import evaluate
from minimlc.loops.schedule import Trace
from minimlc.loops.values.errors import ScheduleError, shown
from minimlc.loops.values.module import IRModule
from minimlc.script import parse

ROUNDS = 9
"""How often the original and a submission are timed in turns."""

AMPLE = Limits(cpu_seconds=120, wall_seconds=240)
"""For scheduling the original by the recipes, which is not a submission's work."""


def judge(assignment: Assignment, answer: Answer, seed: int = 0) -> Report:
    """The points that an answer earns. `seed` chooses the inputs."""
    printed = answer.printed.strip()
    try:
        if answer.failed:
            raise Failed(answer.failed)
        findings = _FINDINGS[assignment.wanted](assignment, answer, seed)
    except (Failed, ScheduleError) as error:
        return assignment.failed(str(error), printed)
    results = [_result(item, findings) for item in assignment.items]
    return Report(assignment.name, tuple(results), printed)


@dataclass(frozen=True)
class Rescheduled:
    """The text of a scheduled program, and of the original, `base`."""

    assignment: Assignment
    base: str
    text: str
    inputs: list[np.ndarray]
    trace: Trace

    @cached_property
    def nest(self) -> Nest:
        func = only_function(parse(self.text))
        return Nest(self.assignment.original, func, self.assignment.block)

    @cached_property
    def ratio(self) -> float:
        """How many times as fast as the original it is, measured once."""
        arrays, limits = numbered(self.inputs), self.assignment.limits
        texts = {"text": self.text, "base": self.base}
        return float(evaluate("ratio", arrays, limits, rounds=ROUNDS, **texts)[0]["ratio"])

    @cached_property
    def counts(self) -> Counts | str:
        """The counts of its kernels on the simulated GPU, or why they cannot run: tried once."""
        arrays, limits = numbered(self.inputs), self.assignment.limits
        try:
            return Counts.of(evaluate("simulate", arrays, limits, text=self.text)[0])
        except Failed as error:
            return str(error)

    def outcome(self) -> Outcome:
        """The results of both programs from the same inputs; the last parameter is compared."""
        first, second = (
            _run(self.assignment, text, self.inputs, compiled=True)
            for text in (self.base, self.text)
        )
        return Outcome("random inputs", self.inputs[:-1], second[:-1], first[-1], second[-1])


@dataclass(frozen=True)
class Findings:
    """The outcome of each question, or why there is none; how two calls differ; the schedule, or
    the points of a space.
    """

    outcomes: Sequence[Outcome | str]
    differs: str
    points: Sequence[Rescheduled] = ()


def _first(sentences: Iterable[str]) -> str:
    """The first sentence that is not empty; "" if all are."""
    return next(filter(None, sentences), "")


def _result(item: Item, findings: Findings) -> Result:
    why = _first(o if isinstance(o, str) else wrong(o, item.tolerance) for o in findings.outcomes)
    if item.kind != "values":
        why = "not judged: the values are wrong" if why else _why_not(item, findings)
    return Result(item.text, 0.0 if why else float(item.points), float(item.points), why)


def _why_not(item: Item, findings: Findings) -> str:
    if item.kind == "pure":
        ran = (outcome for outcome in findings.outcomes if isinstance(outcome, Outcome))
        return findings.differs or _first(map(changed, ran))
    if item.kind == "space":
        assert item.requirement is not None
        return item.requirement.explain(findings.points)
    lacks = []
    for point in {point.text: point for point in findings.points}.values():
        lacks.append(_lack(item, point))
        if not lacks[-1]:
            return ""
    return lacks[0] if len(lacks) == 1 else f"none of {len(lacks)} programs; one: {lacks[0]}"


def _lack(item: Item, schedule: Rescheduled) -> str:
    """Why a schedule does not meet an item, "" if it does."""
    try:
        if item.kind == "speed":
            ratio = schedule.ratio
            return "" if ratio >= item.ratio else f"it is {ratio:.2g} times as fast"
        assert item.requirement is not None
        if item.kind != "counters":
            return item.requirement.explain(schedule.nest)
        counts = schedule.counts
        return counts if isinstance(counts, str) else item.requirement.explain(counts)
    except Failed as error:
        return str(error)
    except Exception as error:  # an analysis may fail on an odd program, which earns nothing
        return f"its {item.kind} can't be determined ({type(error).__name__}: {error})"


def _program(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    texts = answer.part("programs", list)
    if len(texts) != len(assignment.cases):
        raise Malformed(f"{len(texts)} programs for {len(assignment.cases)} cases")
    outcomes: list[Outcome | str] = []
    for number, question in enumerate(questions(assignment, seed)):
        try:
            outcomes.append(_outcome(assignment, texts[number % len(texts)], question))
        except Failed as error:
            outcomes.append(f"for {question.text}: {error}")
            break
    same = answer.part("same", bool)
    return Findings(outcomes, "" if same else "two calls give two different programs")


def _outcome(assignment: Assignment, text: Any, question: Question) -> Outcome:
    if not isinstance(text, str):
        raise Failed(f"a program is a text, not {type(text).__name__}")
    inputs, expected = question.inputs, assignment.expected(question.inputs)
    *after, result = _run(assignment, text, [*inputs, poisoned(expected, question.turn)])
    touched = partial(_touched, assignment, text)
    return Outcome(question.text, inputs, after, expected, result, touched)


def _run(
    assignment: Assignment, text: str, arrays: Sequence[np.ndarray], compiled: bool = False
) -> list[np.ndarray]:
    """The arrays after a program has run on them."""
    limits = assignment.limits
    return in_order(evaluate("run", numbered(arrays), limits, text=text, compiled=compiled)[1])


def _touched(assignment: Assignment, text: str) -> tuple[str, np.ndarray | None]:
    """The element that a program reads before writing it, and a mask of the ones that it writes."""
    try:
        answer, arrays = evaluate("touched", {}, assignment.limits, text=text)
    except Failed:
        return "", None
    return str(answer["early"]), arrays.get("written")


def poisoned(like: np.ndarray, number: int) -> np.ndarray:
    """An initial result in which it shows if an element is never written, or read before: all NaN,
    or the least and the greatest value in turns.
    """
    if like.dtype.kind == "f":
        return np.full_like(like, np.nan)
    if like.dtype.kind == "b":
        return np.full_like(like, number % 2)
    ends = np.iinfo(like.dtype)
    return np.full_like(like, ends.max if number % 2 else ends.min)


def _function(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    outcomes: list[Outcome | str] = []
    differs = ""
    if (asked := answer.body.get("seed", 0)) != seed:
        asked = shown(asked)
        raise Failed(f"it has results for the inputs of seed {asked}: export it with seed={seed}")
    for number, question in enumerate(questions(assignment, seed)):
        inputs = question.inputs
        after = [answer.array(f"{number}.{place}") for place in range(len(inputs))]
        first, second = (answer.array(f"{number}.{call}") for call in ("first", "second"))
        outcomes.append(Outcome(question.text, inputs, after, assignment.expected(inputs), first))
        if not alike(first, second, 0.0):
            differs = differs or f"two calls give two results, for {question.text}"
    return Findings(outcomes, differs)


def _schedule(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    differs = "" if answer.part("same", bool) else "two calls give two different schedules"
    point, other = _replayed(assignment, answer, seed)
    return Findings([_tried(point)], differs or other, [point])


def _space(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    bodies = answer.part("points", list)
    if len(bodies) != len(KEYS) or not all(isinstance(body, dict) for body in bodies):
        raise Malformed(f"{len(KEYS)} points of the space are wanted, one for each key")
    differs = "" if answer.part("same", bool) else "for the same key, it gives two schedules"
    replayed = [_replayed(assignment, Answer(body), seed) for body in bodies]
    points = [point for point, _ in replayed]
    once = {point.text: point for point in points}.values()
    return Findings([*map(_tried, once)], differs or _first(other for _, other in replayed), points)


def _replayed(assignment: Assignment, answer: Answer, seed: int) -> tuple[Rescheduled, str]:
    """The program that a trace makes of the original, and how it differs from the one shown."""
    assert isinstance(assignment.reference, IRModule)
    base = assignment.reference.script(constants="inline")
    trace, claimed = answer.part("trace", str), answer.part("text", str)
    steps = Trace.from_json(trace)
    if why := in_trace(assignment.name, assignment.forbidden, steps, partial(_recipes, base)):
        raise Malformed(why)
    texts = {"text": base, "trace": trace, "claimed": claimed}
    replayed, _ = evaluate("replay", {}, assignment.limits, **texts)
    differs = "its trace replays to another program than the one it shows"
    random, params = np.random.default_rng(seed), assignment.original.params
    inputs = [filled(np.empty(p.shape, p.dtype), random, "normal") for p in params]
    point = Rescheduled(assignment, base, replayed["text"], inputs, steps)
    return point, "" if replayed["same"] else differs


def _tried(point: Rescheduled) -> Outcome | str:
    """The outcome of a schedule, or why there is none."""
    try:
        return point.outcome()
    except Failed as error:
        return str(error)


@cache
def _recipes(text: str) -> dict[str, list[Recorded]]:
    """The steps that each recipe takes on a program, by the recipe's name."""
    return evaluate("written", {}, AMPLE, text=text)[0]["recipes"]


_FINDINGS = {"program": _program, "function": _function, "schedule": _schedule, "space": _space}
