"""From data to points.

Programs are run and traces replayed in a worker that never runs a submission's Python; values are
compared here, in the caller's process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from minimlc.errors import ScheduleError
from minimlc.homework.allowed import Step, in_trace
from minimlc.homework.assignment import Assignment, Item
from minimlc.homework.collect import Answer
from minimlc.homework.compare import Outcome, alike, changed, wrong
from minimlc.homework.limits import Limits
from minimlc.homework.message import Malformed
from minimlc.homework.nest import Nest, Unrecognized
from minimlc.homework.questions import Question, filled, questions
from minimlc.homework.report import Report, Result, all_failed
from minimlc.homework.worker import Failed, evaluate
from minimlc.module import IRModule
from minimlc.schedule import Trace
from minimlc.script import parse
from minimlc.tir.nodes import PrimFunc

ROUNDS = 9
"""How often the original and a submission are timed in turns."""


AMPLE = Limits(cpu_seconds=120, wall_seconds=240)
"""For what is no submission's: the recipes' schedules of the original."""


def judge(assignment: Assignment, answer: Answer, seed: int = 0) -> Report:
    """The points that an answer earns. `seed` chooses the inputs."""
    why, printed = answer.failed, answer.printed.strip()
    if not why:
        try:
            findings = _FINDINGS[assignment.wanted](assignment, answer, seed)
        except (Failed, Malformed, ScheduleError) as error:
            why = str(error)
    if why:
        return all_failed(assignment.name, assignment.described(), why, printed)
    results = [_result(item, findings) for item in assignment.items]
    return Report(assignment.name, tuple(results), printed)


@dataclass(frozen=True)
class Findings:
    """What is wrong with the values (by tolerance), with purity; a view of the schedule."""

    values: Callable[[float], str]
    impure: str = ""
    nest: Callable[[], Nest] | None = None
    ratio: Callable[[], float] | None = None


def _result(item: Item, findings: Findings) -> Result:
    why = findings.values(item.tolerance)
    if item.kind != "values":
        why = "not judged: the values are wrong" if why else _why_not(item, findings)
    return Result(item.text, 0.0 if why else float(item.points), float(item.points), why)


def _why_not(item: Item, findings: Findings) -> str:
    if item.kind == "pure":
        return findings.impure
    if item.kind == "speed":
        assert findings.ratio is not None
        try:
            ratio = findings.ratio()
        except Failed as error:
            return str(error)
        return "" if ratio >= item.ratio else f"it is {ratio:.2g} times as fast"
    assert item.requirement is not None and findings.nest is not None
    try:
        return item.requirement.explain(findings.nest())
    except Unrecognized as error:
        return str(error)
    except Exception as error:  # whatever an analysis makes of an odd program, it earns nothing
        return f"its structure can't be told ({type(error).__name__}: {error})"


def _program(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    texts = answer.part("programs", list)
    if len(texts) != len(assignment.cases):
        raise Malformed(f"{len(texts)} programs for {len(assignment.cases)} cases")
    outcomes = []
    for number, question in enumerate(questions(assignment, seed)):
        text = texts[number % len(texts)]
        outcome = _run(assignment, text, question)
        outcomes.append(outcome)
        if isinstance(outcome, str):
            break
    impure = "" if answer.part("same", bool) else "two calls give two different programs"
    return _compared(outcomes, impure)


def _run(assignment: Assignment, text: Any, question: Question) -> Outcome | str:
    """A program's outcome, or why there is none."""
    if not isinstance(text, str):
        return f"for {question.text}: a program is a text, not {type(text).__name__}"
    inputs, expected = question.inputs, assignment.expected(question.inputs)
    out = _poisoned(expected, question.turn)
    given = {str(number): array for number, array in enumerate([*inputs, out])}
    try:
        _, after = evaluate({"op": "run", "text": text}, given, assignment.limits)
    except Failed as error:
        return f"for {question.text}: {error}"
    arrays = [after[str(number)] for number in range(len(given))]
    touched = partial(_touched, assignment, text)
    return Outcome(question.text, inputs, arrays[:-1], expected, arrays[-1], touched)


def _touched(assignment: Assignment, text: str) -> tuple[str, np.ndarray | None]:
    """What a program reads before it writes it; which elements of its result it writes."""
    try:
        answer, found = evaluate({"op": "touched", "text": text}, {}, assignment.limits)
    except Failed:
        return "", None
    return str(answer["early"]), found.get("written")


def _poisoned(like: np.ndarray, number: int) -> np.ndarray:
    """An array in which an element that nobody writes shows, and one that is read before: NaN, or
    the least and the greatest value in turns.
    """
    if like.dtype.kind == "f":
        return np.full_like(like, np.nan)
    if like.dtype.kind == "b":
        return np.full_like(like, number % 2)
    ends = np.iinfo(like.dtype)
    return np.full_like(like, ends.max if number % 2 else ends.min)


def _function(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    outcomes: list[Outcome | str] = []
    impure = ""
    for number, question in enumerate(questions(assignment, seed=0)):
        inputs = question.inputs
        after = [answer.array(f"{number}.{place}") for place in range(len(inputs))]
        got, again = (answer.array(f"{number}.{call}") for call in ("first", "second"))
        expected = assignment.expected(question.inputs)
        outcomes.append(Outcome(question.text, inputs, after, expected, got))
        if not alike(got, again, 0.0):
            impure = impure or f"two calls give two results, for {question.text}"
    return _compared(outcomes, impure)


def _schedule(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    assert isinstance(assignment.reference, IRModule)
    base = assignment.reference.script()
    body = {"op": "replay", "text": base, "trace": answer.part("trace", str)}
    body["claimed"] = answer.part("text", str)
    steps = Trace.from_json(body["trace"])
    if said := in_trace(assignment.name, assignment.forbidden, steps, partial(_recipes, base)):
        raise Malformed(said)
    done, _ = evaluate(body, {}, assignment.limits)
    impure = "" if answer.part("same", bool) else "two calls give two different schedules"
    if not done["same"]:
        impure = "its trace replays to another program than the one it shows"
    text, original = done["text"], assignment.original
    inputs = _random_params(original, seed)
    outcomes: list[Outcome | str] = [_runs_alike(assignment, base, text, inputs)]
    found = _compared(outcomes, impure)
    nest = partial(_nest, assignment, text)
    return Findings(found.values, found.impure, nest, _Ratio(assignment, base, text, inputs))


@cache
def _recipes(text: str) -> dict[str, list[Step]]:
    """The steps that each recipe takes on a program, by the recipe's name."""
    return evaluate({"op": "written", "text": text}, {}, AMPLE)[0]["recipes"]


def _nest(assignment: Assignment, text: str) -> Nest:
    scheduled = next(iter(parse(text).functions.values()))
    assert isinstance(scheduled, PrimFunc)
    return Nest(assignment.original, scheduled, assignment.block)


def _random_params(func: PrimFunc, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [filled(np.empty(p.shape, p.dtype), random, "normal") for p in func.params]


def _runs_alike(
    assignment: Assignment, base: str, text: str, inputs: list[np.ndarray]
) -> Outcome | str:
    """What original and schedule make of the same inputs; the last parameter is compared."""
    given = {str(number): array for number, array in enumerate(inputs)}
    results = []
    for part in (base, text):
        request = {"op": "run", "text": part, "compiled": True}
        try:
            _, after = evaluate(request, given, assignment.limits)
        except Failed as error:
            return str(error)
        results.append([after[str(number)] for number in range(len(inputs))])
    return Outcome("random inputs", inputs[:-1], results[1][:-1], results[0][-1], results[1][-1])


class _Ratio:
    """The speed of a schedule as a ratio, measured once."""

    def __init__(self, assignment: Assignment, base: str, text: str, inputs: list[np.ndarray]):
        self.assignment, self.base, self.text, self.inputs = assignment, base, text, inputs
        self.found: float | None = None

    def __call__(self) -> float:
        if self.found is None:
            given = {str(number): array for number, array in enumerate(self.inputs)}
            request = {"op": "ratio", "text": self.text, "base": self.base, "rounds": ROUNDS}
            answer, _ = evaluate(request, given, self.assignment.limits)
            self.found = float(answer["ratio"])
        return self.found


_FINDINGS: dict[str, Callable[[Assignment, Answer, int], Findings]] = {
    "program": _program,
    "function": _function,
    "schedule": _schedule,
}


def _compared(outcomes: Sequence[Outcome | str], impure: str) -> Findings:
    found = impure
    for outcome in outcomes:
        if isinstance(outcome, Outcome) and not found:
            found = changed(outcome)

    def differs(tolerance: float) -> str:
        for outcome in outcomes:
            why = outcome if isinstance(outcome, str) else wrong(outcome, tolerance)
            if why:
                return why
        return ""

    return Findings(differs, found)
