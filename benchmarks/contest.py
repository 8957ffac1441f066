"""One piece of work, minimlc and its peers side by side, and what may be claimed of it."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter

import numpy as np

from benchmarks.harness import (
    AWAKE,
    QUIET,
    ROUNDS,
    SETTLED,
    Contender,
    compare,
    cores_used,
    threads,
)
from benchmarks.installed import absent, pin_again
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table

OURS = "minimlc"
COPY = "a copy"
SLOW, SLOW_ROUNDS = 1.0, 5
"""A call that takes so many seconds is timed so many times only."""
CLOSE = 10
"""So many times the rounds where a target is within a few per cent of the measurement: medians of
few samples differ by as much from one run to the next, on a machine that others use, too.
"""
PEAKS = (
    "Of peak: of the float32 fused multiply-adds, or of a copy's bytes, measured on one core when "
    "the run began; what stays in a cache can be faster than a copy, other dtypes than float32."
)
DISTURBED = (
    f"A sample during which this process had less than {QUIET:.0%} of a core was taken again, "
    "twice at most."
)
BETWEEN = (
    f"Before each sample of a contest, {SETTLED * 1000:g} ms in which the threads of all "
    f"contenders fall asleep, and {AWAKE * 1000:g} ms of calls that wake the contender's own."
)


@dataclass(frozen=True)
class Result:
    """The medians of one contest."""

    table: Table
    seconds: dict[str, float]

    @property
    def others(self) -> list[str]:
        """All peers that took part; a copy is a limit, not a peer."""
        return [name for name in self.seconds if name != COPY and not name.startswith(OURS)]

    def best(self, names: Sequence[str]) -> str | None:
        """The fastest of the named peers that took part."""
        return min((n for n in names if n in self.seconds), key=self.seconds.get, default=None)  # type: ignore[arg-type]

    def ratio(self, *names: str) -> float:
        """minimlc's speed times that of the best of the named peers; all peers by default."""
        best = self.best(names or self.others)
        return self.seconds[best] / self.seconds[OURS] if best else float("nan")

    def claim(self, limit: float, *names: str) -> list[Claim]:
        """The claim that minimlc is at least `limit` times as fast as the best of the named peers.

        All peers by default; no claim where none of them took part.
        """
        best = self.best(names or self.others)
        if best is None:
            return []
        text = self.table.title
        rate, share = self.table.rate(self.seconds[OURS])
        return [Claim(text, self.ratio(*names), ">=", limit, "×", best, rate, share)]


@dataclass
class Contest:
    """A benchmark in progress: contests are added to its report one after the other."""

    report: Report
    rounds: int

    @property
    def threads(self) -> int:
        """Threads of every contender."""
        return self.report.threads

    @property
    def quiet(self) -> bool:
        """Whether samples that others disturbed are taken again: it shows on one thread only."""
        return self.threads == 1

    def run(
        self,
        title: str,
        contenders: Sequence[Contender],
        expected: np.ndarray,
        *,
        tolerance: float = 1e-5,
        operations: float = 0.0,
        moved: float = 0.0,
        close: bool = False,
    ) -> Result:
        """Check and time; `operations` are one call's, `moved` the bytes it has to read and write.
        Rates are of whichever of the two takes longer at one core's peak.

        The first contender is the one that the others are compared with. A contest that is `close`
        takes more rounds.
        """
        print(f"{title} ...", file=sys.stderr)
        pin_again()
        contenders = [sparing(contender) for contender in contenders]
        rounds = self.rounds * (CLOSE if close else 1)
        rows = compare(
            contenders,
            expected,
            tolerance=tolerance,
            rounds=rounds,
            quiet=self.quiet,
            settled=self.threads > 1,
        )
        for contender in contenders:
            if not contender.name.startswith(OURS):
                self._watch(title, contender)
        rates, cores = self.report.machine["peak_rates"], self.report.machine["cores"]
        if operations / rates["operations"] > moved / rates["bytes"]:
            peak, moved = rates["operations"] * min(self.threads, cores), 0.0
        else:
            peak, operations = rates["bytes"] if moved else 0.0, 0.0
        table = Table(title, rows, rows[0].name, operations, moved, peak)
        self.report.tables.append(table)
        return Result(table, {row.name: row.median for row in rows})

    def _watch(self, title: str, contender: Contender) -> None:
        """A note on a peer that does not keep to the number of threads."""
        used = cores_used(contender)
        if used > self.threads + 0.5:
            self.report.notes.append(f"{title}: {contender.name} kept {used:.2g} cores busy.")


def sparing(contender: Contender) -> Contender:
    """The contender; timed a few times only where one call takes as long as all others' rounds."""
    if contender.rounds is not None:
        return contender
    start = perf_counter()
    contender.call()
    slow = perf_counter() - start > SLOW
    return replace(contender, rounds=SLOW_ROUNDS) if slow else contender


@contextmanager
def contest(name: str, thread_count: int, repeat: int | None) -> Iterator[Contest]:
    """Threads pinned, the machine's peaks measured, the absent peers named."""
    with threads(thread_count):
        report = Report(name, thread_count, describe(peaks=True))
        yield Contest(report, repeat or ROUNDS)
        if missing := absent():
            report.notes.append(f"Not installed, so left out: {', '.join(missing)}.")
        report.notes += [PEAKS, DISTURBED if thread_count == 1 else BETWEEN]


def geometric_mean(ratios: Sequence[float]) -> float:
    """The root of the ratios' product."""
    return prod(ratios) ** (1 / len(ratios))
