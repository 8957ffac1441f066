"""The net under the primitives: each step's result is verified, run, and compared with the start.

Where the program is quick to run it is compared as it is, on several kinds of inputs; else a
smaller one (`shrink`) takes the same steps and is compared. A fault that the net catches
is minimlc's own, and is reported with all that reproduces it.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.schedule.nets import VERIFIED, Verdict
from minimlc.loops.schedule.primitive import KEEPS_ORDER
from minimlc.loops.schedule.trace import Trace, run
from minimlc.loops.values.errors import CompileError, ScheduleError
from minimlc.loops.values.module import IRModule
from minimlc.services.equivalence.compare import BUDGET, brief, cost, difference, reduces_floats
from minimlc.services.net.shrink import STRENGTHS, smaller, smaller_arguments


class Reproducer(NamedTuple):
    """A reproducible fault: a program, and the trace of steps on it."""

    program: str
    func: str
    trace: str
    what: str

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self._asdict())

    def __str__(self) -> str:
        """A Python script that shows the fault."""
        return (
            f"# {self.what.splitlines()[0]}\nimport minimlc as mlc\n\n"
            f"mod = mlc.parse(r'''\n{self.program.strip()}\n''')\n"
            f"trace = r'''{self.trace}'''\n"
            f"mlc.Schedule.replay(mod, trace, func={self.func!r})\n"
        )


class Fault(ScheduleError):
    """A step that broke the program or failed by itself: minimlc's fault, not the caller's.

    `reproducer` is the program and the trace; `print(error.reproducer)` is a script.
    """

    reproducer: Reproducer


def fault(start: IRModule, name: str, trace: Trace, label: str, why: str) -> Fault:
    """The report of a faulty step, the last one of `trace` on `start`."""
    text = trace.to_json()
    shown = text if len(text) < 400 else f"{text[:200]} ... {text[-180:]}"
    program = start[name].script()
    error = Fault(
        f"{label} {why.splitlines()[0]}",
        code="E199",
        excerpt="\n".join(program.splitlines()[:5]),
        example="\n".join([*why.splitlines()[1:3], f"trace: {shown}"]),
        hint="print(error.reproducer): this is a bug in minimlc, please report what it prints",
    )
    whole = start.script(constants="inline")
    error.reproducer = Reproducer(whole, name, text, f"E199: {label} {why}")
    return error


class Twin(NamedTuple):
    """A smaller program beside the one under transformation, and the same after the steps."""

    strength: int
    start: PrimFunc
    now: PrimFunc


def check_step(
    start: IRModule, after: PrimFunc, name: str, label: str, trace: Trace, last: Verdict
) -> Verdict:
    """Check the last step of `trace`; raise a `Fault` if it broke the program.

    `label` is the step's text, `last` the verdict on the step before: it keeps the twin, or False
    where a smaller program cannot take the steps. A program that fails by
    itself (it divides by zero, say) is not compared.
    """
    old = start[name]
    assert isinstance(old, PrimFunc)
    report = partial(fault, start, name, trace, label)
    try:
        check_prim_func(name, after)
    except CompileError as error:
        raise report(f"broke the program: {brief(error)}") from error
    if max(cost(old), cost(after)) <= BUDGET:
        return last._replace(checked=_compared(old, after, trace, report))
    try:
        twin = _next_twin(old, trace, last.kept)
    except Exception as error:
        why = f"failed on a smaller program: {type(error).__name__}: {error}"
        raise report(why) from error
    if not isinstance(twin, Twin) or cost(twin.now) > BUDGET:
        return Verdict("verified only", twin)
    steps = _smaller_steps(trace, twin.strength)
    report = partial(fault, start.with_function(name, twin.start), name, steps, label)
    checked = _compared(twin.start, twin.now, steps, report)
    if checked == "compared":
        sizes = ", ".join(f"{b.name} {b.shape}" for b in twin.start.params)
        checked = f"compared at {sizes}"
    return Verdict(checked, twin)


def _compared(old: PrimFunc, new: PrimFunc, trace: Trace, report: Callable[[str], Fault]) -> str:
    exact = all(step in KEEPS_ORDER for step, _ in trace) or not reduces_floats(old)
    mismatch = difference(old, new, exact)
    if mismatch:
        raise report(f"broke the program: {mismatch}")
    return VERIFIED.checked if mismatch is None else "compared"


def _next_twin(old: PrimFunc, trace: Trace, twin: Twin | bool | None) -> Twin | bool:
    """The twin after the trace's last step; another, smaller or larger one, where it refuses."""
    if twin is False:
        return False
    if isinstance(twin, Twin):
        now = _take(twin.now, trace[-1:], twin.strength)
        if now is not None:
            return twin._replace(now=now)
    for strength in STRENGTHS:
        small = smaller(old, strength)
        now = small and _take(small, trace, strength)
        if small is not None and now is not None:
            return Twin(strength, small, now)
    return False


def _take(func: PrimFunc, steps: Sequence[tuple[str, Any]], strength: int) -> PrimFunc | None:
    """`func` after some steps; None where one refuses."""
    for name, arguments in _smaller_steps(steps, strength):
        try:
            func, _ = run(func, name, arguments)
        except CompileError:
            return None
        check_prim_func("the smaller program", func)
    return func


def _smaller_steps(steps: Sequence[tuple[str, Any]], strength: int) -> Trace:
    return Trace((name, smaller_arguments(arguments, strength)) for name, arguments in steps)
