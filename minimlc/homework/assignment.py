"""Assignments: requirements, the reference that answers are compared with, and the points.

double = Assignment(
    "double",
    reference=lambda x: 2 * x,
    inputs=lambda n: [(n,)],
    cases=[(1,), (2,), (5,)],
    items=[values(4), pure(1)],
)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from minimlc.apart.message import NUMBERS, Failed
from minimlc.homework import allowed, questions
from minimlc.homework.allowed import HomeworkError, invalid, is_number
from minimlc.homework.answer import only_function
from minimlc.homework.limits import Limits
from minimlc.homework.nest import Nest, Unrecognized
from minimlc.homework.report import Report, Result
from minimlc.homework.structure import Requirement
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.module import IRModule

Kind = Literal["values", "pure", "speed", "structure", "counters", "space"]
Wanted = Literal["program", "schedule", "space", "function"]
SCHEDULED = ("schedule", "space")
Shape = tuple[int, ...] | np.ndarray


@dataclass(frozen=True)
class Item:
    """One requirement of an assignment, and its points."""

    kind: Kind
    text: str
    points: float
    tolerance: float = 1e-4
    ratio: float = 1.0
    requirement: Requirement | None = None

    def __post_init__(self) -> None:
        for name in ("points", "tolerance", "ratio"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise invalid(f"{self.kind}: {name} is a number above 0, got {value!r:.60}")
        required = self.kind in ("structure", "counters", "space")
        if required and not isinstance(self.requirement, Requirement):
            got = f"{self.requirement!r:.60}"
            raise invalid(f"{self.kind}: a requirement is wanted, such as no_guard(), got {got}")


def values(points: float, tolerance: float = 1e-4) -> Item:
    """The results equal the reference's, floats up to a (relative and absolute) tolerance."""
    return Item("values", "the values are right", points, tolerance=tolerance)


def pure(points: float) -> Item:
    """Inputs are not modified, and two calls give the same result."""
    return Item("pure", "nothing it is given changes, and it answers twice alike", points)


def speed(points: float, ratio: float) -> Item:
    """At least `ratio` times as fast as the original; both are timed in turns in one process."""
    return Item("speed", f"at least {ratio} times as fast as the original", points, ratio=ratio)


def structured(requirement: Requirement, points: float) -> Item:
    """The schedule has a structure; see `minimlc.homework.structure`."""
    text = str(getattr(requirement, "text", ""))
    return Item("structure", text, points, requirement=requirement)


def counted(requirement: Requirement, points: float) -> Item:
    """The schedule's kernels keep to counters; see `minimlc.homework.counters`."""
    return replace(structured(requirement, points), kind="counters")


def spaced(requirement: Requirement, points: float) -> Item:
    """The points of a space are as required together; see `minimlc.homework.space`."""
    return replace(structured(requirement, points), kind="space")


@dataclass(frozen=True)
class Assignment:
    """The reference that a submission is compared with, and the points it can earn.

    - `reference` an `IRModule` with one primitive function: a submission schedules it. With
      `wanted="space"` it draws, and is judged by what it makes of the keys `space.KEYS`: all
      values must be right; structure, counters and speed are looked for in any one.
    - `reference` a numpy function: a submission returns, per case, a program that computes it.
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
        schedule = self.wanted in SCHEDULED
        for check in (_wrong_kinds, _wrong_items, _wrong_module if schedule else _wrong_inputs):
            for why in check(self):
                raise self._wrong(why)
        if not schedule:
            object.__setattr__(self, "cases", tuple(sorted(self.cases, key=self._size)))

    def _wrong(self, why: str) -> HomeworkError:
        name = self.name if isinstance(self.name, str) else repr(self.name)
        return invalid(f'assignment "{name:.60}": {why}')

    def _size(self, case: tuple[int, ...]) -> int:
        return sum(array.size for array in self.arrays(case))

    def arrays(self, case: tuple[int, ...]) -> list[np.ndarray]:
        """Uninitialized arrays with the shapes and dtypes of a case's inputs."""
        assert self.inputs is not None
        shapes = self.inputs(*case)
        return [s if isinstance(s, np.ndarray) else np.empty(s, "float32") for s in shapes]

    def expected(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """The reference's result for inputs; `HomeworkError` if it is not an array of numbers."""
        assert callable(self.reference)
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(self.reference(*(array.copy() for array in inputs)))
        except Exception as error:
            raise self._wrong(f"its reference raised {type(error).__name__}: {error}") from error
        if result.dtype.kind not in NUMBERS:
            raise self._wrong(f"its reference gives {result.dtype}, not an array of numbers")
        return result

    @property
    def original(self) -> PrimFunc:
        """The function to be scheduled."""
        assert isinstance(self.reference, IRModule)
        return only_function(self.reference)

    @property
    def forbidden(self) -> tuple[str, ...]:
        """The names that a submission may not use."""
        return (*(name for name in allowed.USUAL if name not in self.allow), *self.forbid)

    @property
    def taken(self) -> dict[str, str]:
        """The message for the callers of each function and module that is taken away while a
        submission runs, by its Python name. This includes the reference if it is a function
        of a module; a local one cannot be reached by name, and importing its module would cost
        seconds.
        """
        taken = allowed.sentences(self.name, self.forbidden)
        module = getattr(self.reference, "__module__", "__main__")
        name = getattr(self.reference, "__qualname__", "")
        named = not isinstance(self.reference, IRModule) and "<locals>" not in name
        if named and module != "__main__":
            taken[f"{module}.{name}"] = f"{self.name} does not allow its own reference"
        return taken

    @property
    def total(self) -> float:
        return float(sum(item.points for item in self.items))

    def failed(self, why: str, printed: str = "") -> Report:
        """The report of a submission with nothing to judge: its first item has the reason."""
        results = [
            Result(item.text, 0.0, item.points, "not judged: see above" if number else why)
            for number, item in enumerate(self.items)
        ]
        return Report(self.name, tuple(results), printed)

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.total:g} points for"]
        return "\n".join([*lines, *(f"  {item.points:g}  {item.text}" for item in self.items)])


def _wrong_kinds(task: Assignment) -> Iterator[str]:
    """Errors in the kinds of the fields' values."""
    if not isinstance(task.name, str) or not task.name:
        yield "its name is a text"
    if task.wanted not in get_args(Wanted):
        yield f"wanted={task.wanted!r:.60}: {did_you_mean(str(task.wanted), get_args(Wanted))}"
    module = isinstance(task.reference, IRModule)
    if not module and (not callable(task.reference) or isinstance(task.reference, PrimFunc | type)):
        got = type(task.reference).__name__
        yield f"reference= is a module to schedule or a function of arrays, got {got}"
    if module != (task.wanted in SCHEDULED):
        yield f'wanted="{task.wanted}", but the reference is {"a" if module else "no"} module'
    if not isinstance(task.limits, Limits):
        yield f"limits=Limits(...), got {task.limits!r:.60}"
    if not isinstance(task.block, str):
        yield f"block= is the name of a block, got {task.block!r:.60}"
    for name in task.allow:
        if name not in allowed.USUAL:
            hint = did_you_mean(str(name), allowed.USUAL)
            yield f"allow={name!r:.60} was not taken away: {hint}"
        if name in task.forbid:
            yield f"{name!r} is both allowed and forbidden"
    yield from questions.wrong_numbers(task.numbers)
    yield from allowed.wrong_names(task.forbid)


def _wrong_items(task: Assignment) -> Iterator[str]:
    for item in task.items:
        if not isinstance(item, Item):
            yield f"items are values(points), pure(points), ..., got {item!r:.60}"
    kinds = {item.kind for item in task.items}
    if "space" in kinds and task.wanted != "space":
        yield 'a space is asked for by wanted="space"'
    if task.wanted not in SCHEDULED and kinds & {"speed", "structure", "counters"}:
        yield "speed, structure and counters are asked of schedules only: reference=MyModule"
    if "values" not in kinds:
        yield "every assignment asks for values(points) first: the rest rests on them"
    texts = [item.text for item in task.items]
    for text in texts:
        if texts.count(text) > 1:
            yield f'two items ask for the same: "{text}"'


def _wrong_inputs(task: Assignment) -> Iterator[str]:
    """Errors in the cases and the inputs of a reference in numpy."""
    if not callable(task.inputs) or not task.cases or not task.numbers:
        yield "cases=[...] and inputs=... say what the reference is called with"
    for case in task.cases:
        if not isinstance(case, tuple) or not all(isinstance(size, int) for size in case):
            yield f"a case is a tuple of integers, such as (2, 3), got {case!r:.60}"
        try:
            arrays = task.arrays(case)
        except Exception as error:  # whatever an author's function raises
            yield f"inputs{case} gives no shapes: {type(error).__name__}: {error}"
        if any(array.dtype.kind not in NUMBERS for array in arrays):
            yield f"inputs{case} gives arrays of other things than numbers"
    task.expected(next(questions.questions(task, seed=0)).inputs)


def _wrong_module(task: Assignment) -> Iterator[str]:
    """Why a module cannot be scheduled, or a requirement cannot be tested on it."""
    assert isinstance(task.reference, IRModule)
    if task.cases:
        yield "a module to schedule has neither cases nor inputs"
    try:
        only_function(task.reference)
        verify(task.reference)
    except Failed:
        yield "a module to schedule holds one primitive function"
    except CompileError as error:
        yield f"its reference is not well-formed: {error}"
    for item in task.items:
        if item.kind != "structure" or item.requirement is None:
            continue
        try:
            item.requirement.explain(Nest(task.original, task.original, task.block))
        except ValueError as error:
            yield f'"{item.text}": {error}'
        except Unrecognized:
            continue


_known: dict[str, Assignment] = {}


def register(assignment: Assignment) -> Assignment:
    """Make an assignment known by its name to `check`, `export` and `grade`. A second definition,
    as when a cell runs twice, replaces the first.
    """
    if not isinstance(assignment, Assignment):
        raise invalid(f"register takes an assignment, got {type(assignment).__name__}")
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
