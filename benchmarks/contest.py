"""One piece of work, minimlc and its peers side by side, and what may be claimed of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter

import numpy as np

from benchmarks.harness import ROUNDS, Contender, compare, threads
from benchmarks.installed import absent, module
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table

OURS = "minimlc"
SLOW, SLOW_ROUNDS = 1.0, 5
"""Seconds from which on a call is timed so many times only."""


@dataclass(frozen=True)
class Result:
    """The medians of one contest."""

    table: Table
    seconds: dict[str, float]

    def best(self, names: Sequence[str]) -> str | None:
        """The fastest of the named peers that took part."""
        return min((n for n in names if n in self.seconds), key=self.seconds.get, default=None)  # type: ignore[arg-type]

    def ratio(self, *names: str) -> float:
        """minimlc's speed times that of the best of the named peers; all peers by default."""
        best = self.best(names or [name for name in self.seconds if name != OURS])
        return self.seconds[best] / self.seconds[OURS] if best else float("nan")

    def claim(self, limit: float, *names: str) -> list[Claim]:
        """The claim that minimlc is at least `limit` times as fast; none without those peers."""
        best = self.best(names)
        if best is None:
            return []
        text = f"{self.table.title}: times {best}'s speed"
        rate, share = self.table.rate(self.seconds[OURS])
        return [Claim(text, self.ratio(*names), ">=", limit, "", best, rate, share)]


@dataclass
class Contest:
    """A benchmark in progress: contests are added to its report one after the other."""

    report: Report
    rounds: int

    @property
    def threads(self) -> int:
        """Threads of every contender."""
        return self.report.threads

    def run(
        self,
        title: str,
        contenders: Sequence[Contender],
        expected: np.ndarray,
        *,
        tolerance: float = 1e-5,
        operations: float = 0.0,
        moved: float = 0.0,
    ) -> Result:
        """Check and time; `operations` are one call's, `moved` the bytes it has to read and write.

        The first contender is the one that the others are compared with.
        """
        contenders = [sparing(contender) for contender in contenders]
        rows = compare(contenders, expected, tolerance=tolerance, rounds=self.rounds)
        peak = self.report.machine["peak_rates"]["operations" if operations else "bytes"]
        cores = min(self.threads, self.report.machine["cores"]) if operations else 1
        table = Table(title, rows, rows[0].name, operations, moved, peak * cores)
        self.report.tables.append(table)
        return Result(table, {row.name: row.median for row in rows})


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
        if thread_count > 1 and module("jax"):
            report.notes.append("jax's threads follow its own pool's size when it is imported.")


def geometric_mean(ratios: Sequence[float]) -> float:
    """Their product's root."""
    return prod(ratios) ** (1 / len(ratios))
