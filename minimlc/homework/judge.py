"""From a submission to data (`collect`), and from data to points (`judge`).

`collect` may run a submission's Python, in a worker of its own. `judge` works on data alone, in a
worker that has never run any; values are compared here, in the caller's process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minimlc.errors import CompileError
from minimlc.homework.assignment import Assignment, Item
from minimlc.homework.message import Arrays, Malformed
from minimlc.homework.nest import Nest, Unrecognized
from minimlc.homework.report import Report, Result, all_failed
from minimlc.homework.source import NoSource, source_text
from minimlc.homework.worker import Failed, evaluate, fresh_worker
from minimlc.module import IRModule
from minimlc.schedule import Schedule
from minimlc.script import parse
from minimlc.tir.nodes import PrimFunc

ROUNDS = 5
"""How often the original and a submission are timed in turns."""

SHOWN = 24
"""Arrays of at most so many elements are shown in a counter-example."""


@dataclass(frozen=True)
class Answer:
    """A submission as data: programs as text, or a trace, or arrays; or why there is none."""

    body: dict[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    failed: str = ""
    printed: str = ""


# From a submission to data


def collect(assignment: Assignment, submission: Any) -> Answer:
    """A submission as data; a function is run in a worker, a value is taken as it is."""
    try:
        if isinstance(submission, IRModule | PrimFunc | Schedule):
            return _value(assignment, submission)
        if isinstance(submission, np.ndarray) or not callable(submission):
            kind = "None" if submission is None else type(submission).__name__
            return Answer(failed=f"a {_WANTED[assignment.wanted]} is wanted, not {kind}")
        return _called(assignment, submission)
    except (NoSource, Failed, CompileError) as error:
        return Answer(failed=str(error))


_WANTED = {
    "program": "function that returns a module",
    "schedule": "schedule, or a function that returns one,",
    "function": "function of arrays",
}


def _value(assignment: Assignment, submission: IRModule | PrimFunc | Schedule) -> Answer:
    if assignment.wanted == "schedule":
        if not isinstance(submission, Schedule):
            return Answer(failed="a schedule is wanted: its steps count, not only its program")
        return Answer(
            {"trace": submission.trace.to_json(), "text": submission.mod.script(), "same": True}
        )
    if assignment.wanted != "program" or len(assignment.cases) > 1:
        return Answer(failed=f"a {_WANTED[assignment.wanted]} is wanted, not one program")
    mod = submission.mod if isinstance(submission, Schedule) else submission
    if isinstance(mod, PrimFunc):
        mod = IRModule.of({"main": mod})
    return Answer({"programs": [mod.script()], "same": True})


def _called(assignment: Assignment, submission: Callable[..., Any]) -> Answer:
    source, entry = source_text(submission)
    body: dict[str, Any] = {"op": "collect", "source": source, "entry": entry}
    body |= {"kind": assignment.wanted, "cases": list(assignment.cases)}
    arrays: Arrays = {}
    if isinstance(assignment.reference, IRModule):
        body["reference"] = assignment.reference.script()
    if assignment.wanted == "function":
        body["cases"], arrays = _questions(assignment)
    with fresh_worker() as worker:
        try:
            answer, found = worker.ask(body, arrays, assignment.limits)
        except Failed as error:
            return Answer(failed=str(error), printed=worker.printed())
        return Answer(answer, found, printed=worker.printed())


def _questions(assignment: Assignment) -> tuple[list[int], Arrays]:
    """How many inputs each question has, and the inputs, as "question.place"."""
    counts, arrays = [], {}
    for number, (_, inputs) in enumerate(_all_inputs(assignment, seed=0)):
        counts.append(len(inputs))
        arrays.update({f"{number}.{place}": array for place, array in enumerate(inputs)})
    return counts, arrays


def _all_inputs(
    assignment: Assignment, seed: int
) -> list[tuple[tuple[int, ...], list[np.ndarray]]]:
    """Each case with small whole numbers, easy to read, then each with any numbers."""
    random = np.random.default_rng(seed)
    return [
        (case, [filled(array, random, plain) for array in assignment.arrays(case)])
        for plain in (True, False)
        for case in assignment.cases
    ]


def filled(like: np.ndarray, random: np.random.Generator, plain: bool) -> np.ndarray:
    """Random numbers of an array's shape and dtype; `plain` ones are whole and small."""
    if like.dtype.kind == "b":
        return random.integers(0, 2, like.shape).astype(bool)
    if like.dtype.kind == "f" and not plain:
        return random.standard_normal(like.shape).astype(like.dtype)
    low = 0 if like.dtype.kind == "u" else -4
    return random.integers(low, 6, like.shape).astype(like.dtype)


# From data to points


def judge(assignment: Assignment, answer: Answer, seed: int = 0) -> Report:
    """The points that an answer earns. `seed` chooses the inputs."""
    if answer.failed:
        return all_failed(
            assignment.name, assignment.described(), answer.failed, answer.printed.strip()
        )
    try:
        findings = _FINDINGS[assignment.wanted](assignment, answer, seed)
    except (Failed, Malformed, KeyError, TypeError, ValueError, AttributeError) as error:
        known = isinstance(error, Failed | Malformed)
        why = str(error) if known else f"the data is not an answer ({type(error).__name__})"
        return all_failed(assignment.name, assignment.described(), why, answer.printed.strip())
    results = [_result(item, findings) for item in assignment.items]
    return Report(assignment.name, tuple(results), answer.printed.strip())


@dataclass(frozen=True)
class Findings:
    """What is wrong with the values (by tolerance), with purity; the schedule to look into."""

    values: Callable[[float], str]
    impure: str = ""
    nest: Nest | None = None
    unrecognized: str = ""
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
    assert item.requirement is not None
    if findings.nest is None:
        return findings.unrecognized
    return item.requirement.explain(findings.nest)


def _program(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    texts = answer.body["programs"]
    if len(texts) != len(assignment.cases):
        raise Malformed(f"{len(texts)} programs for {len(assignment.cases)} cases")
    outcomes = []
    for number, (case, inputs) in enumerate(_all_inputs(assignment, seed)):
        text = texts[number % len(texts)]
        outcome = _run(assignment, str(text), case, inputs)
        outcomes.append(outcome)
        if isinstance(outcome, str):
            break
    impure = "" if answer.body.get("same", True) else "two calls give two different programs"
    return _compared(assignment, outcomes, impure)


@dataclass(frozen=True)
class Outcome:
    """One question: the inputs before and after, the expected result and what came."""

    case: tuple[int, ...]
    inputs: Sequence[np.ndarray]
    after: Sequence[np.ndarray]
    expected: np.ndarray
    got: np.ndarray


def _run(
    assignment: Assignment, text: str, case: tuple[int, ...], inputs: list[np.ndarray]
) -> Outcome | str:
    """A program's outcome, or why there is none."""
    expected = np.asarray(_expected(assignment, inputs))
    out = _poisoned(expected)
    given = {str(number): array for number, array in enumerate([*inputs, out])}
    try:
        _, after = evaluate({"op": "run", "text": text}, given, assignment.limits)
    except Failed as error:
        return f"for {_call(assignment, case)}: {error}"
    arrays = [after[str(number)] for number in range(len(given))]
    return Outcome(case, inputs, arrays[:-1], expected, arrays[-1])


def _expected(assignment: Assignment, inputs: Sequence[np.ndarray]) -> Any:
    assert callable(assignment.reference)
    return assignment.reference(*(array.copy() for array in inputs))


def _poisoned(like: np.ndarray) -> np.ndarray:
    """An array in which an element that nobody writes shows."""
    if like.dtype.kind == "f":
        return np.full_like(like, np.nan)
    return np.full_like(like, 1 if like.dtype.kind == "b" else 111)


def _function(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    outcomes: list[Outcome | str] = []
    impure = ""
    for number, (case, inputs) in enumerate(_all_inputs(assignment, seed=0)):
        after = [answer.arrays[f"{number}.{place}"] for place in range(len(inputs))]
        got, again = (answer.arrays[f"{number}.{call}"] for call in ("first", "second"))
        expected = np.asarray(_expected(assignment, inputs))
        outcomes.append(Outcome(case, inputs, after, expected, got))
        if not _alike(got, again, 0.0):
            impure = impure or f"two calls give two results, for {_call(assignment, case)}"
    return _compared(assignment, outcomes, impure)


def _schedule(assignment: Assignment, answer: Answer, seed: int) -> Findings:
    assert isinstance(assignment.reference, IRModule)
    base = assignment.reference.script()
    body = {"op": "replay", "text": base, "trace": str(answer.body["trace"])}
    body["claimed"] = str(answer.body.get("text", ""))
    done, _ = evaluate(body, {}, assignment.limits)
    impure = "" if answer.body.get("same", True) else "two calls give two different schedules"
    if not done["same"]:
        impure = "its trace replays to another program than the one it shows"
    text, original = done["text"], assignment.original
    inputs = _random_params(original, seed)
    outcomes: list[Outcome | str] = [_runs_alike(assignment, base, text, inputs)]
    nest, unrecognized = None, ""
    try:
        scheduled = next(iter(parse(text).functions.values()))
        assert isinstance(scheduled, PrimFunc)
        nest = Nest(original, scheduled, assignment.block)
    except Unrecognized as error:
        unrecognized = str(error)
    found = _compared(assignment, outcomes, impure)
    return Findings(
        found.values, found.impure, nest, unrecognized, _Ratio(assignment, base, text, inputs)
    )


def _random_params(func: PrimFunc, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [filled(np.empty(p.shape, p.dtype), random, plain=False) for p in func.params]


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
    return Outcome((), inputs[:-1], results[1][:-1], results[0][-1], results[1][-1])


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


# Comparing


def _compared(assignment: Assignment, outcomes: Sequence[Outcome | str], impure: str) -> Findings:
    changed = impure
    for outcome in outcomes:
        if isinstance(outcome, Outcome) and not changed:
            changed = _changed(assignment, outcome)

    def wrong(tolerance: float) -> str:
        for outcome in outcomes:
            why = outcome if isinstance(outcome, str) else _wrong(assignment, outcome, tolerance)
            if why:
                return why
        return ""

    return Findings(wrong, changed)


def _changed(assignment: Assignment, outcome: Outcome) -> str:
    for number, (before, after) in enumerate(zip(outcome.inputs, outcome.after, strict=True)):
        if not _alike(after, before, 0.0):
            return f"input {number} was changed, for {_call(assignment, outcome.case)}"
    return ""


def _wrong(assignment: Assignment, outcome: Outcome, tolerance: float) -> str:
    """The first element that differs, with the inputs where they are small."""
    expected, got = outcome.expected, outcome.got
    what = f"for {_call(assignment, outcome.case)}"
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        wanted = f"{expected.dtype} {expected.shape}"
        return f"{what}: the result is {got.dtype} {got.shape}, not {wanted}"
    if _alike(got, expected, tolerance):
        return ""
    same = np.isclose(got, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    place = tuple(int(n) for n in np.argwhere(~np.atleast_1d(same))[0])
    at = ", ".join(map(str, place[: expected.ndim]))
    first, second = np.atleast_1d(expected)[place], np.atleast_1d(got)[place]
    lines = [f"{what}: element [{at}] is {second}; expected {first}"]
    if _is_poison(second) and not _is_poison(first):
        lines[0] += " (nothing was written there)"
    for number, array in enumerate(outcome.inputs):
        if array.size <= SHOWN:
            lines.append(f"input {number} = {_shown(array)}")
    if expected.size <= SHOWN:
        lines += [f"expected {_shown(expected)}", f"got {_shown(got)}"]
    return "\n".join(lines)


def _is_poison(value: Any) -> bool:
    return bool(value != value)


def _shown(array: np.ndarray) -> str:
    return np.array2string(array, precision=4, separator=", ").replace("\n", "")


def _call(assignment: Assignment, case: tuple[int, ...]) -> str:
    if not case:
        return "random inputs"
    return f"({', '.join(map(str, case))})"


def _alike(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if a.dtype.kind != "f" or tolerance == 0.0:
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
