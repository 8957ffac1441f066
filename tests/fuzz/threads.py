"""Random programs on the threads of a GPU: `python -m tests.fuzz.threads --count N --seed S`.

Each is a random program under a random schedule that binds loops to blocks and threads, shares
memory and combines values. A step, or the whole, may be refused: by a `ScheduleError`, or by a
`BuildError` E510 or E511. What is accepted must compute what the program computes without the
schedule: by the interpreter, by the simulator, who must not find a race, and by OpenCL where it is
installed. A failure is made small and printed as a test. One that does not end is ended after
`--seconds`, and counted and printed as what it is. Counts end the run: of what was accepted, how
many programs have barriers, shared memory, and so on. The exit status is 1 on any failure.
"""

import argparse
import random
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import prod
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.loops.ir.nodes import For, IfThenElse, Seq, Stmt
from minimlc.loops.ir.walks import loops_in, statements_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import nodes_of
from minimlc.services.checks.threads import THREAD
from minimlc.targets.gpu.kernels import Barrier, Kernel, Launches, kernels
from minimlc.targets.gpu.pipelines import STAGES
from minimlc.targets.gpu.trees import with_trees
from tests.fuzz.one import Failure
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.schedules import subject_of
from tests.fuzz.shrink import as_test, shrunk
from tests.fuzz.subject import DIFFERENT, Subject, main_of, subject, wrong_results
from tests.fuzz.thread_programs import KINDS, thread_program
from tests.fuzz.thread_steps import Growing, grown
from tests.helpers import copies

LARGE = 200_000
"""The interpreter is left out where a block runs more often: each thread fetches all it needs."""
BATCH = 25
"""After so many schedules a line shows the progress of the run."""
SECONDS = 120.0
"""A target that takes longer for a program does not end; one on a busy machine is slow, too."""
ENDLESS = "does not end"
NO_TRACE = "[]"
SHOWN = 10
"""So many failures are made small and printed."""
REFUSALS = ("E510", "E511")
"""Refusals of a build: it cannot be launched, or the language lacks something."""


class Outcome(NamedTuple):
    """One schedule: what it has (`traits`), how many steps were accepted and refused, why it was
    refused as a whole, or what is wrong.
    """

    number: int
    program: str
    accepted: int = 0
    declined: int = 0
    traits: tuple[str, ...] = ()
    refused: str = ""
    failure: Failure | None = None

    @property
    def right(self) -> bool:
        return not self.refused and self.failure is None

    @property
    def kind(self) -> str:
        """The outcome in a word or two, which the summary counts."""
        if self.failure is None:
            return "refused" if self.refused else "right"
        if self.failure.wrong:
            return "wrong"
        return ENDLESS if ENDLESS in self.failure.why else "failed"


Say = Callable[[str], object]
"""Told each target before it runs a program."""
Check = Callable[[int, Sequence[str], Say], Outcome]


def program_of(number: int) -> str:
    """The program of a number: each kind in turn, now and then one of the other fuzz's."""
    kinds = [*KINDS, *KINDS, "random", ""]
    kind = kinds[number % len(kinds)]
    return f"{kind}-{number}" if kind else list(PROGRAMS)[number // len(kinds) % len(PROGRAMS)]


def known_of(program: str) -> Subject:
    """A program with its inputs and results."""
    kind, _, number = program.partition("-")
    if kind not in KINDS or not number:
        return subject_of(program)
    return subject(mlc.parse(thread_program(kind, int(number))), int(number))


def scheduled(number: int) -> tuple[Subject, Growing]:
    """A program under its schedule."""
    known = known_of(program_of(number))
    sch = mlc.Schedule(known.mod, check=False)
    return known, grown(sch, random.Random(f"threads {number}"))


def run(number: int, targets: Sequence[str], say: Say = str) -> Outcome:
    """The schedule of a number, looked at by all targets."""
    known, new = scheduled(number)
    steps = new.accepted.total(), new.refused.total()
    outcome = Outcome(number, program_of(number), *steps)
    try:
        launched = kernels("main", main_of(new.sch.mod))
        large = _instances(new.sch.mod) > LARGE
        whys = {}
        for target in targets:
            if target != "interpreter" or not large:
                say(target)
                whys[target] = wrong(known, new.sch.mod, target)
    except mlc.BuildError as error:
        return outcome._replace(refused=_refusal(error))
    outcome = outcome._replace(traits=tuple(traits(new.sch.mod, launched)))
    for target, why in whys.items():
        if why:
            fault = (outcome.program, number, target, DIFFERENT in why, why)
            return outcome._replace(failure=Failure(*fault, new.sch.trace.to_json()))
    return outcome


def _instances(mod: IRModule) -> int:
    """How often the block runs that runs most, by the constant sizes of loops."""
    func = main_of(mod)
    items = accesses(func)
    return max(prod(constant_value(loop.extent) or 1 for loop in item.loops) for item in items)


def wrong(known: Subject, after: IRModule, target: str) -> str:
    """Why a scheduled program as a target runs it is wrong; "" if it is right."""
    results = tuple(copies(arrays) for arrays in known.inputs)
    try:
        mlc.verify(after)
        if target == "interpreter":
            for arrays in results:
                mlc.interpret(after, "main", *arrays)
        else:
            main = mlc.build(after, target=target, cache=False)["main"]
            for arrays in results:
                main(*arrays)
    except mlc.BuildError as error:
        if error.code in REFUSALS:
            raise
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return wrong_results(known, results, exact=False)


def _refusal(error: mlc.BuildError) -> str:
    """A refusal without names and numbers, to be counted."""
    why = re.sub(r"this cannot be launched: |\S*\d\S*|\b[A-Z]\w*(\[.*?\])?", "", error.why)
    return f"{error.code} {' '.join(why.split())[:60]}"


def traits(mod: IRModule, launched: Launches) -> Iterator[str]:
    """The traits of a program that could go wrong."""
    func = main_of(mod)
    loops = loops_in(func.body)
    has = {
        "several kernels": len(launched.kernels) > 1,
        "virtual threads": any(loop.thread.startswith("vthread") for loop in loops),
        "lanes": any(loop.kind == "vectorized" for loop in loops),
        "reductions over threads": with_trees(func) is not func,
        "cooperative fetches": any(map(_is_together, loops)),
        "pipelines": any(STAGES in dict(loop.annotations) for loop in loops),
        "barriers under conditions": any(map(_has_several, nodes_of(func.body, IfThenElse))),
    }
    yield from (name for name, holds in has.items() if holds)
    yield from sorted({trait for kernel in launched.kernels for trait in _of_kernel(kernel)})


def _has_several(item: IfThenElse) -> bool:
    """Whether threads run several nests under a condition."""
    inside = (isinstance(item.then_case, Seq) and item.then_case.stmts) or ()
    return sum(any(x.thread.startswith(THREAD) for x in loops_in(stmt)) for stmt in inside) > 1


def _is_together(loop: For) -> bool:
    inside = (part.thread for part in loops_in(loop.body))
    return loop.thread.startswith(THREAD) and loop.thread in inside


def _of_kernel(kernel: Kernel) -> Iterator[str]:
    has = {
        "several blocks": prod(kernel.grid) > 1,
        "several threads": prod(kernel.block) > 1,
        "several warps": prod(kernel.block) > 32,
        "shared memory": bool(kernel.shared),
        "barriers": _has_barriers(kernel.body),
        "barriers in loops": any(_has_barriers(loop.body) for loop in loops_in(kernel.body)),
    }
    yield from (name for name, holds in has.items() if holds)


def _has_barriers(stmt: Stmt) -> bool:
    return any(isinstance(part, Barrier) for part in statements_in(stmt))


@cache
def targets_here() -> tuple[str, ...]:
    """The targets that programs are run by: OpenCL too, where a device is here."""
    module = mlc.parse('@T.prim_func\ndef main(A: T.Buffer((1,), "int32")):\n    A[0] = 1\n')
    try:
        mlc.build(module, "opencl")["main"](np.zeros(1, "int32"))
    except mlc.BuildError:
        return "interpreter", "gpusim"
    return "interpreter", "gpusim", "opencl"


def batch(numbers: Sequence[int], targets: Sequence[str]) -> list[Outcome]:
    """The schedules of these numbers, in this process."""
    return [caught(number, targets or targets_here()) for number in numbers]


def caught(number: int, targets: Sequence[str], say: Say = str) -> Outcome:
    """One schedule. An error that none may raise is a failure, too."""
    try:
        return run(number, targets, say)
    except Exception:
        return _failed(number, "steps", traceback.format_exc(limit=-3))


def _failed(number: int, target: str, why: str) -> Outcome:
    program = program_of(number)
    return Outcome(number, program, failure=Failure(program, number, target, False, why, NO_TRACE))


def watched(
    numbers: Sequence[int],
    targets: Sequence[str],
    seconds: float,
    check: Check = caught,
    start: str = "spawn",
) -> Iterator[Outcome]:
    """The schedules of these numbers in a process of their own. It is ended where a target takes
    longer than so many seconds for one of them, and another goes on with the next.
    """
    context, at = get_context(start), 0
    while at < len(numbers):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_check_all, args=(there, numbers[at:], targets, check))
        process.start()
        there.close()
        try:
            here.recv()  # when all is imported
            for outcome in _received(here, numbers[at:], seconds):
                at += 1
                yield outcome
        finally:
            process.kill()
            process.join()


def _check_all(
    there: Connection, numbers: Sequence[int], targets: Sequence[str], check: Check
) -> None:
    targets = targets or targets_here()
    there.send("started")
    for number in numbers:
        there.send(check(number, targets, there.send))


def _received(here: Connection, numbers: Sequence[int], seconds: float) -> Iterator[Outcome]:
    """The outcomes of these numbers from a process, up to one that does not end, or ends it."""
    for number in numbers:
        target = "steps"
        try:
            while here.poll(seconds):
                said = here.recv()
                if isinstance(said, Outcome):
                    break
                target = said
            else:
                yield _failed(number, target, f"{target} {ENDLESS} in {seconds:g} s")
                return
        except EOFError:
            yield _failed(number, target, f"{target}: the process ended")
            return
        yield said


def summary(outcomes: Sequence[Outcome]) -> str:
    """The outcomes, in a few lines."""
    right = [item for item in outcomes if item.right]
    whats = Counter(item.kind for item in outcomes)
    refused = Counter(item.refused for item in outcomes if item.refused)
    kinds = Counter(item.program.split("-")[0] for item in right)
    others = [kinds.pop(name) for name in list(kinds) if name not in KINDS]
    return "\n".join(
        [
            f"{len(outcomes)} schedules: {whats['right']} right, {whats['wrong']} wrong, "
            f"{whats['failed']} failed, {whats[ENDLESS]} that do not end, "
            f"{whats['refused']} refused; "
            f"{sum(item.accepted for item in outcomes)} steps accepted, "
            f"{sum(item.declined for item in outcomes)} refused",
            f"of the right: {_counts(Counter(t for item in right for t in item.traits))}",
            f"programs: {_counts(kinds)}, others {sum(others)}",
            *(f"{count:6} refused: {why}" for why, count in refused.most_common(12)),
        ]
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def explain(failure: Failure) -> str:
    """A failure as a small test; the program or the trace alone where it does not show again."""
    if failure.trace == NO_TRACE:
        text = scheduled(failure.seed)[1].sch.mod.script()
        return f"{failure}\n(python -m tests.fuzz.threads --count 1 --seed {failure.seed})\n{text}"
    case = shrunk(failure, known_of(failure.program).mod)
    if case is None:
        return f"{failure}\nnot to be repeated from its trace:\n{failure.trace}"
    return f"{failure}\n\n{as_test(case, re.sub(r'[^A-Za-z0-9]', '_', failure.program))}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.threads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100, help="schedules in all (100)")
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's number (0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"that a target may take ({SECONDS:g})"
    )
    parser.add_argument("--targets", nargs="*", default=[], help="what runs them (all there are)")
    return parser.parse_args()


def main() -> int:
    options = _options()
    numbers = range(options.seed, options.seed + options.count)
    parts = [numbers[first :: options.jobs] for first in range(options.jobs)]
    outcomes: list[Outcome] = []

    def follow(part: Sequence[int]) -> None:
        for outcome in watched(part, options.targets, options.seconds):
            outcomes.append(outcome)
            if outcome.failure:
                print(outcome.failure, file=sys.stderr, flush=True)
            if len(outcomes) % BATCH == 0:
                print(f"{len(outcomes)} of {len(numbers)}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(follow, parts))
    failures = [item.failure for item in outcomes if item.failure]
    for failure in failures[:SHOWN]:
        print(explain(failure), "\n", flush=True)
    print(summary(outcomes))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
