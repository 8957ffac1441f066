"""Many finished schedules at once through a native back-end: compiling is what costs."""

from collections.abc import Sequence

import minimlc as mlc
from minimlc.module import IRModule
from tests.fuzz.one import Failure, Run
from tests.fuzz.subject import DIFFERENT, Subject, main_of, native_differences

Job = tuple[Run, Subject]


def native_failures(jobs: Sequence[Job], target: str) -> list[Failure]:
    """Where code built for `target` fails, leaves its arrays, or computes something else."""
    if not jobs:
        return []
    functions = {f"s{n}": main_of(run.after) for n, (run, _) in enumerate(jobs)}
    try:
        lib = mlc.build(IRModule.of(functions), target=target, cache=False)
    except Exception as error:
        if len(jobs) == 1:
            return [_failure(jobs[0][0], target, f"{type(error).__name__}: {error}")]
        half = len(jobs) // 2
        return native_failures(jobs[:half], target) + native_failures(jobs[half:], target)
    whys = native_differences([(lib[f"s{n}"], known) for n, (_, known) in enumerate(jobs)])
    return [_failure(run, target, why) for (run, _), why in zip(jobs, whys, strict=True) if why]


def _failure(run: Run, target: str, why: str) -> Failure:
    wrong = DIFFERENT in why or "native code ended" in why
    return Failure(run.program, run.seed, target, wrong, f"{target}: {why}", run.trace.to_json())
