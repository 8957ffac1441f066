"""Assignments: what is asked, the reference it is compared with, and the points.

double = Assignment(
    "double",
    reference=lambda x: 2 * x,
    inputs=lambda n: [(n,)],
    cases=[(1,), (2,), (5,)],
    items=[values(4), pure(1)],
)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from minimlc.errors import CompileError, did_you_mean
from minimlc.homework.limits import Limits
from minimlc.homework.structure import Requirement
from minimlc.module import IRModule
from minimlc.tir.nodes import PrimFunc

Kind = Literal["values", "pure", "speed", "structure"]
Wanted = Literal["program", "schedule", "function"]
Shape = tuple[int, ...] | np.ndarray


class HomeworkError(CompileError):
    """An assignment that is not known, or defined wrongly."""


@dataclass(frozen=True)
class Item:
    """One thing that is asked, and its points."""

    kind: Kind
    text: str
    points: float
    tolerance: float = 1e-4
    ratio: float = 0.0
    requirement: Requirement | None = None


def values(points: float, tolerance: float = 1e-4) -> Item:
    """The results equal the reference's, floats up to a (relative and absolute) tolerance."""
    return Item("values", "the values are right", points, tolerance=tolerance)


def pure(points: float) -> Item:
    """Inputs are left as they are, and the same question gets the same answer twice."""
    return Item("pure", "nothing it is given changes, and it answers twice alike", points)


def speed(points: float, ratio: float) -> Item:
    """At least `ratio` times as fast as the original, measured in turns in the same run."""
    return Item("speed", f"at least {ratio:g} times as fast as the original", points, ratio=ratio)


def structured(requirement: Requirement, points: float) -> Item:
    """The schedule has a structure; see `minimlc.homework.structure`."""
    return Item("structure", requirement.text, points, requirement=requirement)


@dataclass(frozen=True)
class Assignment:
    """What a submission is compared with, and what it earns.

    - `reference` an `IRModule` with one primitive function: a submission schedules it.
    - `reference` a numpy function: a submission gives, per case, a program that computes the same.
      `cases` are the arguments of the submission, `inputs(*case)` the shapes of the program's
      inputs (an array stands for its shape and dtype; a bare shape is float32); the program's last
      parameter is the result. With `wanted="function"` a submission is itself a function of numpy
      arrays, and the cases choose its inputs only.

    Cases are tried from the smallest on, so the first that fails is a smallest counter-example.
    `block` names the computation that structure is about, where the original has several.
    """

    name: str
    reference: Callable[..., Any] | IRModule
    items: Sequence[Item]
    cases: Sequence[tuple[int, ...]] = ()
    inputs: Callable[..., Sequence[Shape]] | None = None
    wanted: Wanted = "program"
    block: str = ""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name in ("items", "cases"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if isinstance(self.reference, IRModule):
            object.__setattr__(self, "wanted", "schedule")
        _check(self)
        if self.inputs is not None:
            object.__setattr__(self, "cases", tuple(sorted(self.cases, key=self._size)))

    def _size(self, case: tuple[int, ...]) -> int:
        return sum(int(np.prod(array.shape)) for array in self.arrays(case))

    def arrays(self, case: tuple[int, ...]) -> list[np.ndarray]:
        """Empty arrays as the inputs of a case are."""
        assert self.inputs is not None
        shapes = self.inputs(*case)
        return [s if isinstance(s, np.ndarray) else np.empty(s, "float32") for s in shapes]

    @property
    def original(self) -> PrimFunc:
        """The function that is to be scheduled."""
        assert isinstance(self.reference, IRModule)
        return next(f for f in self.reference.functions.values() if isinstance(f, PrimFunc))

    @property
    def total(self) -> float:
        return float(sum(item.points for item in self.items))

    def described(self) -> list[tuple[str, float]]:
        """Each item's text and points."""
        return [(item.text, item.points) for item in self.items]

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.total:g} points for"]
        return "\n".join([*lines, *(f"  {points:g}  {text}" for text, points in self.described())])


def _check(made: Assignment) -> None:
    kinds = {item.kind for item in made.items}
    why = ""
    if made.wanted == "schedule":
        functions = list(made.reference.functions.values())  # type: ignore[union-attr]
        if len(functions) != 1 or not isinstance(functions[0], PrimFunc):
            why = "a module to schedule holds one primitive function"
    elif made.inputs is None or not made.cases:
        why = "cases=[...] and inputs=... say what the reference is called with"
    elif kinds & {"speed", "structure"}:
        why = "speed and structure are asked of schedules only: reference=MyModule"
    if "values" not in kinds:
        why = why or "every assignment asks for values(points) first: the rest rests on them"
    if why:
        raise HomeworkError(f'assignment "{made.name}": {why}', code="E802")


_known: dict[str, Assignment] = {}


def register(assignment: Assignment) -> Assignment:
    """Make an assignment known by its name, to `check`, `export` and `grade`."""
    _known[assignment.name] = assignment
    return assignment


def assignments() -> tuple[str, ...]:
    """The names of all known assignments."""
    return tuple(_known)


def find(assignment: str | Assignment) -> Assignment:
    """The assignment of a name; `HomeworkError` with near misses for an unknown one."""
    if isinstance(assignment, Assignment):
        return assignment
    if assignment not in _known:
        hint = did_you_mean(str(assignment), _known)
        raise HomeworkError(f'there is no assignment "{assignment}"', code="E801", hint=hint)
    return _known[assignment]
