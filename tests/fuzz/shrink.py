"""From a failing schedule to a small one that fails alike, as a test to paste."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import minimlc as mlc
from minimlc.loops.ir.nodes import BlockIter, Const, For, Seq, substitute
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.schedule import Trace
from minimlc.loops.schedule.tree import replaced, without_unused_allocs
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import Mutator, Node, replace, walk
from tests.fuzz.one import Failure, is_refusal, round_trip
from tests.fuzz.subject import Subject, difference, main_of, subject
from tests.fuzz.undefined import reads_undefined

Call = tuple[str, dict[str, Any]]
ROUNDS = 20


class Case(NamedTuple):
    """A program and steps that fail on it, and where and how it shows."""

    mod: IRModule
    steps: tuple[Call, ...]
    target: str
    why: str


def shrunk(failure: Failure, mod: IRModule) -> Case | None:
    """A locally minimal case: no step can go and no argument or program be simpler. None where
    the failure does not show again.
    """
    steps = tuple(Trace.from_json(failure.trace))
    case = attempt(mod, steps, failure.target)
    for _ in range(ROUNDS if case else 0):
        smaller = next(_smaller(case), None)  # type: ignore[arg-type]
        if smaller is None:
            break
        case = smaller
    return case


def attempt(mod: IRModule, steps: Sequence[Call], target: str) -> Case | None:
    """The case that these steps make, less those that refuse; None where they do not fail."""
    sch = mlc.Schedule(mod, check=False)
    for name, arguments in steps:
        try:
            new = mlc.Schedule.replay(sch.mod, [(name, arguments)], check=False)
        except Exception as error:
            if is_refusal(error):
                continue
            kept = (*sch.trace, (name, arguments))
            return Case(mod, kept, target, f"{name}: {type(error).__name__}: {error}")
        kept = (*sch.trace, (name, arguments))
        try:
            mlc.verify(new.mod)
        except Exception as error:
            return Case(mod, kept, target, f"{name} was accepted: {error}")
        sch = _with_trace(mod, kept)
    why = _why(mod, sch, target)
    return Case(mod, tuple(sch.trace), target, why) if why else None


def _with_trace(mod: IRModule, steps: Sequence[Call]) -> mlc.Schedule:
    return mlc.Schedule.replay(mod, steps, check=False)


def _why(mod: IRModule, sch: mlc.Schedule, target: str) -> str:
    match target:
        case "steps":
            return ""
        case "round trip":
            return round_trip(mod, sch)
        case _:
            return difference(_known(mod), sch.mod, target)


_SUBJECTS: dict[IRModule, Subject] = {}


def _known(mod: IRModule) -> Subject:
    """The last module's subject: most attempts are of one module."""
    if mod not in _SUBJECTS:
        _SUBJECTS.clear()
        _SUBJECTS[mod] = subject(mod)
    return _SUBJECTS[mod]


def _smaller(case: Case) -> Iterator[Case]:
    """Cases that are simpler in one respect and still fail, lazily."""
    candidates = [*_with_fewer_steps(case), *_with_simpler_steps(case)]
    for steps in candidates:
        found = attempt(case.mod, steps, case.target)
        if found is not None and _size(found.steps) < _size(case.steps):
            yield found
    for mod in _simpler_programs(case.mod):
        found = _attempt_on(mod, case)
        if found is not None:
            yield found


def _attempt_on(mod: IRModule, case: Case) -> Case | None:
    try:
        mlc.verify(mod)
        if reads_undefined(_known(mod)):
            return None
    except mlc.CompileError:
        return None
    return attempt(mod, case.steps, case.target)


def _size(steps: Sequence[Call]) -> int:
    return len(mlc.schedule.Trace(steps).to_json()) + 1000 * len(steps)


def _with_fewer_steps(case: Case) -> Iterator[Sequence[Call]]:
    """Halves first, then all but one."""
    steps = case.steps
    yield steps[len(steps) // 2 :]
    for number in reversed(range(len(steps))):
        yield (*steps[:number], *steps[number + 1 :])


def _with_simpler_steps(case: Case) -> Iterator[Sequence[Call]]:
    for number, (name, arguments) in enumerate(case.steps):
        for simpler in _simpler_arguments(arguments):
            yield (*case.steps[:number], (name, simpler), *case.steps[number + 1 :])


def _simpler_arguments(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Without an option, with a smaller number, with a shorter list."""
    for key, value in arguments.items():
        yield {k: v for k, v in arguments.items() if k != key}
        for simpler in _simpler_values(value):
            yield {**arguments, key: simpler}


def _simpler_values(value: Any) -> Iterator[Any]:
    if type(value) is int and value > 1:
        yield from dict.fromkeys((1, 2, value // 2))
    if isinstance(value, tuple):
        if len(value) > 1:
            yield from ((*value[:n], *value[n + 1 :]) for n in range(len(value)))
        for n, part in enumerate(value):
            for simpler in _simpler_values(part):
                yield (*value[:n], simpler, *value[n + 1 :])


# Programs


def _simpler_programs(mod: IRModule) -> Iterator[IRModule]:
    """Without one of the statements, and with one of the sizes smaller."""
    func = main_of(mod)
    for part in walk(func.body):
        for stmt in part.stmts if isinstance(part, Seq) else ():
            less = without_unused_allocs(replaced(func, {stmt: None}))
            yield mod.with_function("main", less)
    for size in sorted(_sizes(mod), reverse=True):
        for less in dict.fromkeys((2, 3, size // 2)):
            if less < size:
                yield resized(mod, size, less)


def _sizes(mod: IRModule) -> set[int]:
    func = main_of(mod)
    found = {size for buffer in (*func.params, *func.allocs) for size in buffer.shape}
    for part in walk(func.body):
        if isinstance(part, BlockIter):
            found.add(part.extent)
        if isinstance(part, For) and (extent := constant_value(part.extent)) is not None:
            found.add(extent)
    return {size for size in found if size > 2}


def resized(mod: IRModule, old: int, new: int) -> IRModule:
    """The module with every size `old` made `new`, whatever it then computes."""
    func = main_of(mod)
    body = _Resize(old, new).visit(func.body)
    buffers: dict[Node, Node] = {
        b: replace(b, shape=tuple(new if size == old else size for size in b.shape))
        for b in (*func.params, *func.allocs)
    }
    return mod.with_function("main", substitute(replace(func, body=body), buffers))


class _Resize(Mutator):
    def __init__(self, old: int, new: int):
        self.old, self.new = old, new

    def visit_BlockIter(self, item: BlockIter) -> BlockIter:
        extent = self.new if item.extent == self.old else item.extent
        return replace(item, extent=extent, value=self.visit(item.value))

    def visit_Const(self, item: Const) -> Const:
        """A size, or the last index of one."""
        if item.dtype == INDEX and self.old - 1 <= item.value <= self.old:
            return replace(item, value=item.value - self.old + self.new)
        return item


# The test


def as_test(case: Case, name: str) -> str:
    """A test that fails as the case does, ready to paste."""
    script = case.mod.script().rstrip()
    steps = repr(Trace(case.steps))
    last = f'assert difference(before, after, "{case.target}") == ""'
    if case.target == "round trip":
        last = 'assert round_trip(before, scheduled) == ""'
    if case.target == "steps":
        last = "mlc.verify(after)"
    lines = [
        f"def test_{name}():  # {case.why.splitlines()[0]}",
        f'    before = mlc.parse("""\n{script}\n""")',
        "    sch = mlc.Schedule(before, check=False)",
        f"    scheduled = {steps}",
        "    after = scheduled.mod",
        f"    {last}",
    ]
    return "\n".join(lines)
