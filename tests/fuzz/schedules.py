"""Random schedules: `python -m tests.fuzz.schedules --count N --seed S`.

Each takes a program through random primitives with random arguments, the safety net off. Every
refusal must be a `ScheduleError` raised by the call; what is accepted must be well-formed, compute
what the original computes (by interpreter, in another order of its concurrent loops, by LLVM and
by generated C), come back from its JSON trace, and leave every input as it was. A failure is made
small and printed as a test. One line of counts ends the run; the exit status is 1 on any failure.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import get_context
from typing import NamedTuple

from minimlc.loops.schedule import PRIMITIVES
from tests.fuzz.batch import native_failures
from tests.fuzz.draw import RULES
from tests.fuzz.generate import Drawn, drawn_program
from tests.fuzz.one import STEPS, Attempt, Failure, run
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.shrink import as_test, shrunk
from tests.fuzz.subject import Subject, known_subject, native_targets

BATCH = 40
"""So many schedules are compiled at once."""
RANDOM = 2
"""Every so many schedules one is of a random program."""
SHOWN = 10
"""So many failures are made small and printed."""


class Counts(NamedTuple):
    """Counts of a run's events; two runs add up."""

    schedules: int = 0
    programs: frozenset[str] = frozenset()
    attempts: tuple[Attempt, ...] = ()
    failures: tuple[Failure, ...] = ()
    mutated: int = 0
    round_trips: int = 0
    targets: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()

    def plus(self, other: "Counts") -> "Counts":
        return Counts(
            self.schedules + other.schedules,
            self.programs | other.programs,
            self.attempts + other.attempts,
            self.failures + other.failures,
            self.mutated + other.mutated,
            self.round_trips + other.round_trips,
            other.targets or self.targets,
            self.discarded + other.discarded,
        )

    def line(self) -> str:
        """All of it in one line."""
        right = sum(item.accepted for item in self.attempts)
        wrong = sum(failure.wrong for failure in self.failures)
        refused = len(self.attempts) - right
        return (
            f"{self.schedules} schedules of {len(self.programs)} programs by interpreter, "
            f"{', '.join(self.targets) or 'nothing else'}: {right} steps right, {refused} refused, "
            f"{wrong} wrong, {len(self.failures) - wrong} failed later; "
            f"accepted {_rate(self.attempts)} "
            f"({_rate(a for a in self.attempts if not a.wild)} of the sensible, "
            f"{_rate(a for a in self.attempts if a.wild)} of the wild); "
            f"p95 of a legality check {self.p95() * 1e3:.1f} ms; "
            f"{self.round_trips} JSON round trips; {self.mutated} inputs mutated; "
            f"{len(self.discarded)} random programs discarded{self._causes()}"
        )

    def _causes(self) -> str:
        causes = Counter(self.discarded).most_common()
        return f" ({', '.join(f'{cause} {count}' for cause, count in causes)})" if causes else ""

    def p95(self) -> float:
        """Seconds of processor time that 95 % of the attempted steps stay within."""
        times = sorted(item.seconds for item in self.attempts)
        return times[int(0.95 * (len(times) - 1))] if times else 0.0

    def table(self) -> str:
        """Per primitive: how often it was tried and accepted, and how long its check takes."""
        lines = []
        for name in PRIMITIVES:
            mine = Counts(attempts=tuple(a for a in self.attempts if a.name == name))
            tried = len(mine.attempts)
            lines.append(f"  {name:24}{tried:7}{_rate(mine.attempts):>7}{mine.p95() * 1e3:8.1f} ms")
        return "\n".join(lines)


def _rate(attempts: Iterable[Attempt]) -> str:
    accepted = Counter(item.accepted for item in attempts)
    return f"{accepted[True] / max(1, accepted.total()):.0%}"


def program_of(number: int) -> str:
    """The program of the schedule with this number: each in turn, now and then a random one."""
    if number % RANDOM == RANDOM - 1:
        return f"random-{number // RANDOM}"
    names = list(PROGRAMS)
    return names[(number - number // RANDOM) % len(names)]


def subject_of(program: str) -> Subject:
    """A fixed program by its name, or the random one of a number."""
    return drawn(program).known


@lru_cache(maxsize=512)
def drawn(program: str) -> Drawn:
    """The same, and the codes of earlier draws that were no program."""
    if program.startswith("random-"):
        return drawn_program(int(program.removeprefix("random-")))
    return Drawn(known_subject(PROGRAMS[program]), ())


def fuzz(numbers: Sequence[int], targets: Sequence[str], steps: int = STEPS) -> Counts:
    """The schedules with these numbers."""
    runs = [
        (run(name, subject_of(name), n, steps), subject_of(name)) for n, name in _named(numbers)
    ]
    failures = [done.failure for done, _ in runs if done.failure]
    sound = [pair for pair in runs if not pair[0].failure]
    for target in targets:
        failures += native_failures(sound, target)
    return Counts(
        len(runs),
        frozenset(re.sub("-.*", "", done.program) for done, _ in runs),
        tuple(attempt for done, _ in runs for attempt in done.attempts),
        tuple(failures),
        sum(done.mutated for done, _ in runs),
        len(sound),
        tuple(targets),
        tuple(code for done, _ in runs for code in drawn(done.program).discarded),
    )


def _named(numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    return ((number, program_of(number)) for number in numbers)


def _in_batches(numbers: range) -> list[range]:
    return [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]


def fuzz_in_processes(
    numbers: range, targets: Sequence[str], steps: int, jobs: int, note: Callable[[Counts], None]
) -> Counts:
    """As `fuzz`, spread over processes: native code that crashes takes only its own with it."""
    total = Counts()
    lost: list[range] = []
    with _pool(jobs) as pool:
        batches = {pool.submit(fuzz, b, targets, steps): b for b in _in_batches(numbers)}
        for done in as_completed(batches):
            counts = _result(done)
            if counts is None:
                lost.append(batches[done])
                continue
            total = total.plus(counts)
            note(total)
    for batch in lost:
        for number in batch:
            total = total.plus(_alone(number, targets, steps))
    return total


def _pool(jobs: int) -> Executor:
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


def _result(done: "Future[Counts]") -> Counts | None:
    try:
        return done.result()
    except BrokenProcessPool:
        return None


def _alone(number: int, targets: Sequence[str], steps: int) -> Counts:
    """One schedule in a process of its own, after something in its batch ended the process."""
    with _pool(1) as pool:
        counts = _result(pool.submit(fuzz, [number], targets, steps))
    if counts is not None:
        return counts
    name = program_of(number)
    done = run(name, subject_of(name), number, steps)
    why = "the process ended: native code crashed"
    crash = Failure(name, number, "crash", False, why, done.trace.to_json())
    return Counts(1, frozenset({name}), done.attempts, (crash,))


def explain(failure: Failure) -> str:
    """A failure as a small test; the trace alone where it does not show again."""
    label = re.sub(r"\W", "_", f"{failure.program}_{failure.seed}")
    case = None if failure.target == "crash" else shrunk(failure, subject_of(failure.program).mod)
    if case is None:
        return f"{failure}\nnot to be repeated from its trace:\n{failure.trace}"
    return f"{failure}\n\n{as_test(case, label)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.schedules",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100, help="schedules in all (100)")
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's number (0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"tried in each ({STEPS})")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--no-native", action="store_true", help="interpreter only")
    parser.add_argument("--table", action="store_true", help="the primitives one by one, too")
    return parser.parse_args()


def main() -> int:
    options = _options()
    missing = set(PRIMITIVES) - set(RULES)
    if missing:
        print(f"no rule in tests/fuzz/draw.py says how to draw: {', '.join(sorted(missing))}")
        return 1
    targets = () if options.no_native else native_targets()
    numbers = range(options.seed, options.seed + options.count)
    shown = sys.stderr.isatty()

    def note(total: Counts) -> None:
        if shown:
            failed = len(total.failures)
            print(f"\r{total.schedules} done, {failed} failed", end="\r", file=sys.stderr)

    counts = fuzz_in_processes(numbers, targets, options.steps, options.jobs, note)
    for failure in counts.failures[:SHOWN]:
        print(explain(failure), "\n", flush=True)
    for failure in counts.failures[SHOWN:]:
        print(str(failure).splitlines()[0], flush=True)
    if options.table:
        print(counts.table())
    print(counts.line())
    return 1 if counts.failures or counts.mutated else 0


if __name__ == "__main__":
    raise SystemExit(main())
