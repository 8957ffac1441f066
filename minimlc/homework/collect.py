"""From a submission to data: a function runs in a worker of its own, a value is taken as it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minimlc.errors import CompileError
from minimlc.homework.assignment import Assignment
from minimlc.homework.message import Arrays, Malformed
from minimlc.homework.source import NoSource, source_text
from minimlc.homework.worker import Failed, fresh_worker
from minimlc.module import IRModule
from minimlc.schedule import Schedule
from minimlc.tir.nodes import PrimFunc


@dataclass(frozen=True)
class Answer:
    """A submission as data: programs as text, or a trace, or arrays; or why there is none."""

    body: dict[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    failed: str = ""
    printed: str = ""

    def part(self, name: str, kind: type) -> Any:
        """A part of the data; `Malformed` where it is missing or of another kind."""
        value = self.body.get(name)
        if not isinstance(value, kind):
            raise Malformed(f"the answer has no {name}")
        return value

    def array(self, name: str) -> np.ndarray:
        """One of its arrays; `Malformed` where it is missing."""
        if name not in self.arrays:
            raise Malformed(f"the answer has no array {name}")
        return self.arrays[name]


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
    for number, (_, inputs) in enumerate(all_inputs(assignment, seed=0)):
        counts.append(len(inputs))
        arrays.update({f"{number}.{place}": array for place, array in enumerate(inputs)})
    return counts, arrays


def all_inputs(assignment: Assignment, seed: int) -> list[tuple[tuple[int, ...], list[np.ndarray]]]:
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
