"""Many finished schedules at once through a native back-end: compiling is what costs."""

from collections.abc import Sequence

import minimlc as mlc
from minimlc.loops.values.module import IRModule
from tests.fuzz.one import Failure, Run
from tests.fuzz.subject import DIFFERENT, Subject, main_of, native_differences

Job = tuple[Run, Subject]


def native_failures(jobs: Sequence[Job], target: str) -> list[Failure]:
    """Where code built for `target` fails, leaves its arrays, or computes something else."""
    whys = differences([(run.after, known) for run, known in jobs], target)
    return [_failure(run, target, why) for (run, _), why in zip(jobs, whys, strict=True) if why]


def differences(programs: Sequence[tuple[IRModule, Subject]], target: str) -> list[str]:
    """Why each program as built for `target` is wrong, all at once; '' if it is right."""
    functions = {f"s{n}": main_of(mod) for n, (mod, _) in enumerate(programs)}
    try:
        lib = mlc.build(IRModule.of(functions), target=target, cache=False)
    except Exception as error:
        if len(programs) < 2:
            return [f"{type(error).__name__}: {error}"] * len(programs)
        half = len(programs) // 2
        return differences(programs[:half], target) + differences(programs[half:], target)
    return native_differences([(lib[f"s{n}"], known) for n, (_, known) in enumerate(programs)])


def _failure(run: Run, target: str, why: str) -> Failure:
    wrong = DIFFERENT in why or "native code ended" in why
    return Failure(run.program, run.seed, target, wrong, f"{target}: {why}", run.trace.to_json())
