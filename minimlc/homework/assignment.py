"""Assignments: what is asked, the reference it is compared with, and the points.

double = Assignment(
    "double",
    reference=lambda x: 2 * x,
    inputs=lambda n: [(n,)],
    cases=[(1,), (2,), (5,)],
    items=[values(4), pure(1)],
)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from minimlc.errors import CompileError, did_you_mean
from minimlc.homework import allowed, questions
from minimlc.homework.allowed import HomeworkError
from minimlc.homework.limits import Limits
from minimlc.homework.nest import Nest, Unrecognized
from minimlc.homework.structure import Requirement
from minimlc.module import IRModule
from minimlc.tir.nodes import PrimFunc
from minimlc.verify import verify

Kind = Literal["values", "pure", "speed", "structure"]
Wanted = Literal["program", "schedule", "function"]
Shape = tuple[int, ...] | np.ndarray


def _refuse(why: str) -> HomeworkError:
    return HomeworkError(why, code="E802")


@dataclass(frozen=True)
class Item:
    """One thing that is asked, and its points."""

    kind: Kind
    text: str
    points: float
    tolerance: float = 1e-4
    ratio: float = 1.0
    requirement: Requirement | None = None

    def __post_init__(self) -> None:
        for name in ("points", "tolerance", "ratio"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                raise _refuse(f"{self.kind}: {name} is a number above 0, got {value!r:.60}")
        if self.kind == "structure" and not isinstance(self.requirement, Requirement):
            got = f"{self.requirement!r:.60}"
            raise _refuse(f"structured: a requirement is wanted, such as no_guard(), got {got}")


def values(points: float, tolerance: float = 1e-4) -> Item:
    """The results equal the reference's, floats up to a (relative and absolute) tolerance."""
    return Item("values", "the values are right", points, tolerance=tolerance)


def pure(points: float) -> Item:
    """Inputs are left as they are, and the same question gets the same answer twice."""
    return Item("pure", "nothing it is given changes, and it answers twice alike", points)


def speed(points: float, ratio: float) -> Item:
    """At least `ratio` times as fast as the original, measured in turns in the same run."""
    return Item("speed", f"at least {ratio} times as fast as the original", points, ratio=ratio)


def structured(requirement: Requirement, points: float) -> Item:
    """The schedule has a structure; see `minimlc.homework.structure`."""
    text = str(getattr(requirement, "text", ""))
    return Item("structure", text, points, requirement=requirement)


@dataclass(frozen=True)
class Assignment:
    """What a submission is compared with, and what it earns.

    - `reference` an `IRModule` with one primitive function: a submission schedules it.
    - `reference` a numpy function: a submission gives, per case, a program that computes the same.
      `cases` are the arguments of the submission, `inputs(*case)` the shapes of the program's
      inputs (an array stands for its shape and dtype; a bare shape is float32); the program's last
      parameter is the result. With `wanted="function"` a submission is itself a function of numpy
      arrays, and the cases choose its inputs only.

    Cases are tried from the smallest on, so the first that fails is a smallest counter-example;
    each on several kinds of `numbers`: "whole", "normal", "large", "tiny", "equal", "negative",
    "lowest", "least".
    `block` names the computation that structure is about, where the original has several.

    What solves a task in one line is taken away from submissions: "recipes" and "legalize" (graph
    operators and the passes that lower them), unless `allow` names them; and what `forbid` names:
    primitives ("tensorize"), functions and modules ("numpy.matmul", "torch.*").
    """

    name: str
    reference: Callable[..., Any] | IRModule
    items: Sequence[Item]
    cases: Sequence[tuple[int, ...]] = ()
    inputs: Callable[..., Sequence[Shape]] | None = None
    wanted: Wanted = "program"
    block: str = ""
    limits: Limits = field(default_factory=Limits)
    numbers: Sequence[str] = questions.USUAL
    allow: Sequence[str] = ()
    forbid: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.reference, IRModule) and self.wanted == "program":
            object.__setattr__(self, "wanted", "schedule")
        for name in ("items", "cases", "numbers", "allow", "forbid"):
            value = getattr(self, name)
            if isinstance(value, str) or not isinstance(value, Sequence):
                raise self._wrong(f"{name}=[...] is a list, got {value!r:.60}")
            object.__setattr__(self, name, tuple(value))
        for check in (_wrong_kinds, _wrong_items, _wrong_inputs, _misfit):
            if why := check(self):
                raise self._wrong(why)
        if self.wanted != "schedule":
            object.__setattr__(self, "cases", tuple(sorted(self.cases, key=self._size)))

    def _wrong(self, why: str) -> HomeworkError:
        name = self.name if isinstance(self.name, str) else repr(self.name)
        return _refuse(f'assignment "{name:.60}": {why}')

    def _size(self, case: tuple[int, ...]) -> int:
        return sum(array.size for array in self.arrays(case))

    def arrays(self, case: tuple[int, ...]) -> list[np.ndarray]:
        """Empty arrays as the inputs of a case are."""
        assert self.inputs is not None
        shapes = self.inputs(*case)
        return [s if isinstance(s, np.ndarray) else np.empty(s, "float32") for s in shapes]

    def expected(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """What the reference gives for inputs; `HomeworkError` where it gives no numbers."""
        assert callable(self.reference)
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(self.reference(*(array.copy() for array in inputs)))
        except Exception as error:
            raise self._wrong(f"its reference raised {type(error).__name__}: {error}") from error
        if result.dtype.kind not in "biuf":
            raise self._wrong(f"its reference gives {result.dtype}, not an array of numbers")
        return result

    @property
    def original(self) -> PrimFunc:
        """The function that is to be scheduled."""
        assert isinstance(self.reference, IRModule)
        return next(f for f in self.reference.functions.values() if isinstance(f, PrimFunc))

    @property
    def forbidden(self) -> tuple[str, ...]:
        """What a submission may not use, by name."""
        return (*(name for name in allowed.USUAL if name not in self.allow), *self.forbid)

    @property
    def taken(self) -> dict[str, str]:
        """What is taken away from a submission while it runs, by Python's name, and what is said
        of it; so is the reference, where it is a function of a module. One that a function defined
        is reached by no name, and importing its module would cost seconds.
        """
        found = allowed.sentences(self.name, self.forbidden)
        module = getattr(self.reference, "__module__", "__main__")
        name = getattr(self.reference, "__qualname__", "")
        named = not isinstance(self.reference, IRModule) and "<locals>" not in name
        if named and module != "__main__":
            found[f"{module}.{name}"] = f"{self.name} does not allow its own reference"
        return found

    @property
    def total(self) -> float:
        return float(sum(item.points for item in self.items))

    def described(self) -> list[tuple[str, float]]:
        """Each item's text and points."""
        return [(item.text, item.points) for item in self.items]

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.total:g} points for"]
        return "\n".join([*lines, *(f"  {points:g}  {text}" for text, points in self.described())])


def _wrong_kinds(made: Assignment) -> str:
    """What is no value of the kind that a field has."""
    if not isinstance(made.name, str) or not made.name:
        return "its name is a text"
    if made.wanted not in get_args(Wanted):
        return f"wanted={made.wanted!r:.60}: {did_you_mean(str(made.wanted), get_args(Wanted))}"
    module = isinstance(made.reference, IRModule)
    if not module and (not callable(made.reference) or isinstance(made.reference, PrimFunc | type)):
        got = type(made.reference).__name__
        return f"reference= is a module to schedule or a function of arrays, got {got}"
    if module != (made.wanted == "schedule"):
        return f'wanted="{made.wanted}", but the reference is {"a" if module else "no"} module'
    if not isinstance(made.limits, Limits):
        return f"limits=Limits(...), got {made.limits!r:.60}"
    if not isinstance(made.block, str):
        return f"block= is the name of a block, got {made.block!r:.60}"
    for name in made.allow:
        if name not in allowed.USUAL:
            hint = did_you_mean(str(name), allowed.USUAL)
            return f"allow={name!r:.60} was not taken away: {hint}"
        if name in made.forbid:
            return f"{name!r} is both allowed and forbidden"
    return questions.check_numbers(made.numbers) or allowed.check_names(made.forbid)


def _wrong_items(made: Assignment) -> str:
    for item in made.items:
        if not isinstance(item, Item):
            return f"items are values(points), pure(points), ..., got {item!r:.60}"
    kinds = {item.kind for item in made.items}
    if made.wanted != "schedule" and kinds & {"speed", "structure"}:
        return "speed and structure are asked of schedules only: reference=MyModule"
    if "values" not in kinds:
        return "every assignment asks for values(points) first: the rest rests on them"
    texts = [item.text for item in made.items]
    twice = [text for text in texts if texts.count(text) > 1]
    return f'two items ask for the same: "{twice[0]}"' if twice else ""


def _wrong_inputs(made: Assignment) -> str:
    """What is wrong with the cases of a reference in numpy, and with their inputs."""
    if made.wanted == "schedule":
        return "a module to schedule has neither cases nor inputs" if made.cases else ""
    if not callable(made.inputs) or not made.cases or not made.numbers:
        return "cases=[...] and inputs=... say what the reference is called with"
    for case in made.cases:
        if not isinstance(case, tuple) or not all(isinstance(size, int) for size in case):
            return f"a case is a tuple of integers, such as (2, 3), got {case!r:.60}"
        try:
            arrays = made.arrays(case)
        except Exception as error:  # whatever an author's function raises
            return f"inputs{case} gives no shapes: {type(error).__name__}: {error}"
        if any(array.dtype.kind not in "biuf" for array in arrays):
            return f"inputs{case} gives arrays of other things than numbers"
    return ""


def _misfit(made: Assignment) -> str:
    """Where the reference can't be called, or a requirement can't be asked of it."""
    if made.wanted != "schedule":
        made.expected(next(questions.questions(made, seed=0)).inputs)
        return ""
    functions = list(made.reference.functions.values())  # type: ignore[union-attr]
    if len(functions) != 1 or not isinstance(functions[0], PrimFunc):
        return "a module to schedule holds one primitive function"
    try:
        verify(made.reference)
    except CompileError as error:
        return f"its reference is not well-formed: {error}"
    for requirement in filter(None, (item.requirement for item in made.items)):
        try:
            requirement.explain(Nest(made.original, made.original, made.block))
        except ValueError as error:
            return f'"{requirement.text}": {error}'
        except Unrecognized:
            continue
    return ""


_known: dict[str, Assignment] = {}


def register(assignment: Assignment) -> Assignment:
    """Make an assignment known by its name, to `check`, `export` and `grade`. One that is defined
    again, as when a cell runs twice, takes the place of the first.
    """
    if not isinstance(assignment, Assignment):
        raise _refuse(f"register takes an assignment, got {type(assignment).__name__}")
    _known[assignment.name] = assignment
    return assignment


def assignments() -> tuple[str, ...]:
    """The names of all known assignments."""
    return tuple(_known)


def find(assignment: str | Assignment) -> Assignment:
    """The assignment of a name; `HomeworkError` with near misses for an unknown one."""
    if isinstance(assignment, Assignment):
        return assignment
    if not isinstance(assignment, str) or assignment not in _known:
        hint = did_you_mean(str(assignment), _known)
        raise HomeworkError(f'there is no assignment "{assignment}"', code="E801", hint=hint)
    return _known[assignment]
