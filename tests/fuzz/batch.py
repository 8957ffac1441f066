"""Many finished schedules at once through a native back-end: compiling is what costs."""

from collections.abc import Sequence

import minimlc as mlc
from minimlc.module import IRModule
from tests.fuzz.one import Failure, Run
from tests.fuzz.subject import Arrays, Subject, main_of, wrong_results
from tests.helpers import copies

Job = tuple[Run, Subject]


def native_failures(jobs: Sequence[Job], target: str) -> list[Failure]:
    """Where code built for `target` fails or computes something else."""
    if not jobs:
        return []
    functions = {f"s{n}": main_of(run.after) for n, (run, _) in enumerate(jobs)}
    try:
        lib = mlc.build(IRModule.of(functions), target=target, cache=False)
    except Exception as error:
        if len(jobs) == 1:
            return [_failure(jobs[0][0], target, f"{type(error).__name__}: {error}", False)]
        half = len(jobs) // 2
        return native_failures(jobs[:half], target) + native_failures(jobs[half:], target)
    found = (_called(job, lib[f"s{n}"], target) for n, job in enumerate(jobs))
    return [failure for failure in found if failure]


def _called(job: Job, function: object, target: str) -> Failure | None:
    run, known = job
    got: list[Arrays] = []
    for arrays in known.inputs:
        got.append(copies(arrays))
        try:
            function(*got[-1])  # type: ignore[operator]
        except Exception as error:
            return _failure(run, target, f"{type(error).__name__}: {error}", False)
    why = wrong_results(known, got, exact=False)
    return _failure(run, target, why, True) if why else None


def _failure(run: Run, target: str, why: str, wrong: bool) -> Failure:
    why = f"{target}: {why}"
    return Failure(run.program, run.seed, target, wrong, why, run.trace.to_json())
