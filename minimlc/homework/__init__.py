"""Assignments: instant checks for students, and grading from data.

`check(name, submission)` judges in a notebook; `export(path, {name: submission})` writes what is
handed in; `grade(path, name)` judges it without running it. See `docs/homework.md`.
"""

from minimlc.homework import counters, shipped, space, structure
from minimlc.homework.assignment import (
    Assignment,
    HomeworkError,
    Item,
    assignments,
    counted,
    find,
    pure,
    register,
    spaced,
    speed,
    structured,
    values,
)
from minimlc.homework.limits import Limits
from minimlc.homework.nest import Nest
from minimlc.homework.report import Report, Result
from minimlc.homework.structure import Requirement
from minimlc.homework.submission import check, export, grade

__all__ = [
    "Assignment",
    "HomeworkError",
    "Item",
    "Limits",
    "Nest",
    "Report",
    "Requirement",
    "Result",
    "assignments",
    "check",
    "counted",
    "counters",
    "export",
    "find",
    "grade",
    "pure",
    "register",
    "shipped",
    "space",
    "spaced",
    "speed",
    "structure",
    "structured",
    "values",
]
