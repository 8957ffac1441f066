"""What became of a name that an earlier step replaced, and the call that was meant."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from minimlc.errors import CompileError, ScheduleError, near_misses
from minimlc.module import Step
from minimlc.schedule.trace import PRIMITIVES, call_text, literal, run
from minimlc.schedule.tree import NoSuchName, names_of
from minimlc.tir.nodes import PrimFunc


def explained(
    error: NoSuchName, steps: Sequence[Step], func: str, name: str, arguments: dict[str, Any]
) -> ScheduleError:
    """The error for a step (or a question) `name(given)` that names what is not there.

    `steps` is the schedule's history. The hint is the same step with a name that there is, tried
    out; so all this is worked out only when there is an error to explain.
    """
    versions = [step.mod[func] for step in steps]
    fates = _fates(error.kind, error.name, versions, steps)
    now = versions[-1]
    assert isinstance(now, PrimFunc)
    heirs = [heir for fate in fates for heir in fate.heirs if heir in names_of(now, error.kind)]
    close = heirs or near_misses(str(error.name), error.known)
    why = error.why
    if not heirs and close and not fates:
        why += f'; did you mean "{close[0]}"?'
    example = "\n".join(fate.text for fate in fates[:4])
    hint = _meant(now, name, arguments, error.name, close) or _overview(error, now)
    return ScheduleError(why, code=error.code, example=example, hint=hint)


class Fate(NamedTuple):
    """What one step made of a name."""

    text: str
    heirs: list[str]


def _fates(kind: str, name: str, versions: Sequence[Any], steps: Sequence[Step]) -> list[Fate]:
    """The steps that replaced a name, and those that replaced what it became."""
    known = [names_of(version, kind) for version in versions]
    fates = []
    sought = [name]
    for number, (before, after) in enumerate(pairwise(known), 1):
        step = f"in step {number} ({steps[number].name.split('(')[0]})"
        for gone in [n for n in sought if n in before and n not in after]:
            heirs = [n for n in after if n not in before]
            became = f"became {', '.join(heirs)}" if heirs else "went away"
            fates.append(Fate(f"{kind} {gone} {became} {step}", heirs))
            sought += heirs
    return fates


def _meant(
    func: PrimFunc, name: str, arguments: dict[str, Any], wrong: str, candidates: Sequence[str]
) -> str:
    """The first call with one of `candidates` instead of a wrong name that works.

    A question, such as `loops(block)`, works with each of them.
    """
    if name not in PRIMITIVES:
        return f"sch.{name}({literal(candidates[0])})" if candidates else ""
    for candidate in candidates:
        fixed = {k: _exchanged(v, wrong, candidate) for k, v in arguments.items()}
        try:
            run(func, name, fixed)
        except CompileError:
            continue
        return f"sch.{call_text(name, fixed)}"
    return ""


def _exchanged(value: Any, wrong: str, right: str) -> Any:
    if isinstance(value, tuple):
        return tuple(_exchanged(part, wrong, right) for part in value)
    return right if isinstance(value, str) and value == wrong else value


def _overview(error: NoSuchName, func: PrimFunc) -> str:
    """The call that lists what there is."""
    if error.kind == "loop":
        blocks = names_of(func, "block")
        around = error.name if error.name in blocks else (blocks or [""])[0]
        return f'sch.loops("{around}")'
    return "sch.blocks()" if error.kind == "block" else "sch.func.params, sch.func.allocs"
