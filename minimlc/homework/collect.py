"""From a submission to data: a function runs in a worker of its own, a value is taken as it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minimlc.errors import CompileError
from minimlc.homework.allowed import above
from minimlc.homework.assignment import Assignment
from minimlc.homework.message import Arrays, Malformed
from minimlc.homework.questions import questions
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
    except Exception as error:  # attributes of somebody's object may raise anything
        return Answer(failed=f"what was given can't be read ({type(error).__name__})")


_WANTED = {
    "program": "function that returns a module",
    "schedule": "schedule, or a function that returns one,",
    "function": "function of arrays",
}


def _value(assignment: Assignment, submission: IRModule | PrimFunc | Schedule) -> Answer:
    if assignment.wanted == "schedule" and not isinstance(submission, Schedule):
        return Answer(failed="a schedule is wanted: its steps count, not only its program")
    if assignment.wanted == "function" or len(assignment.cases) > 1:
        return Answer(failed=f"a {_WANTED[assignment.wanted]} is wanted, not one program")
    if assignment.forbidden:
        why = f"{assignment.name} says what may be used to make it"
        kind = type(submission).__name__
        return Answer(failed=f"a function that makes it is wanted, not a {kind}: {why}")
    if assignment.wanted == "schedule":
        assert isinstance(submission, Schedule)
        return Answer(
            {"trace": submission.trace.to_json(), "text": submission.mod.script(), "same": True}
        )
    mod = submission.mod if isinstance(submission, Schedule) else submission
    if isinstance(mod, PrimFunc):
        mod = IRModule.of({"main": mod})
    return Answer({"programs": [mod.script()], "same": True})


def _called(assignment: Assignment, submission: Callable[..., Any]) -> Answer:
    taken, name = assignment.taken, getattr(submission, "__qualname__", "")
    place = f"{getattr(submission, '__module__', '')}.{name}"
    if submission is assignment.reference or above(place, taken):
        said = taken.get(above(place, taken), "that is the reference itself")
        return Answer(failed=said)
    programs = assignment.wanted == "schedule" or "legalize" in assignment.allow
    source, entry = source_text(submission, programs)
    body: dict[str, Any] = {"op": "collect", "source": source, "entry": entry}
    body |= {"kind": assignment.wanted, "cases": list(assignment.cases)}
    body["taken"] = taken
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
    for number, (_, _, inputs) in enumerate(questions(assignment, seed=0)):
        counts.append(len(inputs))
        arrays.update({f"{number}.{place}": array for place, array in enumerate(inputs)})
    return counts, arrays
