"""From a submission to data: a function runs in its own worker, a value is taken as it is."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.apart.message import Arrays, Failed, numbered
from minimlc.homework.allowed import above
from minimlc.homework.answer import Answer, program_text, scheduled
from minimlc.homework.assignment import Assignment
from minimlc.homework.questions import questions
from minimlc.homework.source import source_text
from minimlc.homework.worker import fresh_worker
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.schedule import Schedule
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import IRModule

_WANTED = {
    "program": "function that returns a module",
    "schedule": "schedule, or a function that returns one,",
    "space": "function from a schedule to one, which draws,",
    "function": "function of arrays",
}


def collect(assignment: Assignment, submission: Any, seed: int = 0) -> Answer:
    """A submission as data; a function is run in a worker, a value is taken as it is. `seed`
    chooses the inputs of functions of arrays.
    """
    try:
        if isinstance(submission, IRModule | PrimFunc | Schedule):
            return Answer({**_value(assignment, submission), "same": True})
        if isinstance(submission, np.ndarray) or not callable(submission):
            kind = "None" if submission is None else type(submission).__name__
            raise Failed(f"a {_WANTED[assignment.wanted]} is wanted, not {kind}")
        return _called(assignment, submission, seed)
    except (Failed, CompileError) as error:
        return Answer(failed=str(error))
    except Exception as error:  # attributes of a submitted object may raise anything
        return Answer(failed=f"what was given can't be read ({type(error).__name__})")


def _value(assignment: Assignment, submission: IRModule | PrimFunc | Schedule) -> dict[str, Any]:
    if assignment.wanted == "schedule" and not isinstance(submission, Schedule):
        raise Failed("a schedule is wanted: its steps count, not only its program")
    if assignment.wanted in ("function", "space") or len(assignment.cases) > 1:
        raise Failed(f"a {_WANTED[assignment.wanted]} is wanted, not one program")
    if assignment.forbidden:
        why = f"{assignment.name} restricts what may be used to make it"
        kind = type(submission).__name__
        raise Failed(f"a function that makes it is wanted, not a {kind}: {why}")
    if assignment.wanted == "schedule":
        return scheduled(submission)
    return {"programs": [program_text(submission)]}


def _called(assignment: Assignment, submission: Callable[..., Any], seed: int) -> Answer:
    taken, name = assignment.taken, getattr(submission, "__qualname__", "")
    place = f"{getattr(submission, '__module__', '')}.{name}"
    if submission is assignment.reference or above(place, taken):
        raise Failed(taken.get(above(place, taken), "that is the reference itself"))
    programs = isinstance(assignment.reference, IRModule) or "legalize" in assignment.allow
    source, entry = source_text(submission, programs)
    body: dict[str, Any] = {"op": "collect", "source": source, "entry": entry, "taken": taken}
    body |= {"kind": assignment.wanted, "cases": list(assignment.cases)}
    arrays: Arrays = {}
    if isinstance(assignment.reference, IRModule):
        body["reference"] = assignment.reference.script(constants="inline")
    if assignment.wanted == "function":
        body["cases"], arrays = _questions(assignment, seed)
    with fresh_worker() as worker:
        try:
            answer, results = worker.ask(body, arrays, assignment.limits)
        except Failed as error:
            return Answer(failed=str(error), printed=worker.printed())
        return Answer({**answer, "seed": seed}, results, printed=worker.printed())


def _questions(assignment: Assignment, seed: int) -> tuple[list[int], Arrays]:
    """How many inputs each question has, and the inputs, named "question.position"."""
    counts, arrays = [], {}
    for number, (_, _, inputs) in enumerate(questions(assignment, seed)):
        counts.append(len(inputs))
        arrays.update(numbered(inputs, f"{number}."))
    return counts, arrays
