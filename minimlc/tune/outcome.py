"""The outcome of a search: its trials, and which of them is the best."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from statistics import median

from minimlc.loops.schedule import Schedule, Trace
from minimlc.loops.values.display import display, mimebundle
from minimlc.tune.records import Candidate, Result, TuneError
from minimlc.tune.spaces import Program

WORTH = 1.02  # times as fast as the default: less is chance
UNCONFIRMED = 1.05  # the same of a program that was not measured again
NEEDS = "mlc.build(mod, target)  # reports what a target needs"
SAVED = 1e-6  # seconds that a call is shorter: where arrays lie decides about less


@dataclass(frozen=True)
class Trial:
    """A program that was measured, and the score that was expected: times of a reference."""

    number: int
    program: Program
    candidate: Candidate
    result: Result
    expected: float

    @property
    def score(self) -> float:
        """How long a call takes, in times of the reference kernel; infinite of a failure."""
        return self.result.score


@dataclass(frozen=True)
class Tuned:
    """The outcome of a search. `stopped`: by "trials", "time", "noise", "space", "interrupt", or
    "failure": the unscheduled program gave no results. The first program is
    the `default`: a recipe's, or that of a space of one's own. `again` has the results at the end:
    of some trials, by number, and of library routines, by name.
    """

    records: tuple[Trial, ...]
    stopped: str
    again: Mapping[int | str, tuple[Result, ...]] = field(default_factory=dict)
    default: str = "the default"

    @property
    def winner(self) -> Trial:
        """The fastest trial, the earliest of equals; the default if none ran, or none is worth it.
        Where some were measured `again`, by the trial's number, it is one of these, and faster each
        time than the default ever was, by a microsecond or more.
        """
        tried, default = comparable(self.records), self.records[0]
        finals = [trial for trial in tried if trial.number in self.again]
        best = min(finals or tried, key=self.score, default=default)
        worth = WORTH if finals else UNCONFIRMED
        return best if _ahead(self._results(best), self._results(default), worth) else default

    @property
    def library(self) -> str:
        """The library's routine that is the fastest of all, by the same measure; "" if none is."""
        names = [name for name in self.again if isinstance(name, str)]
        best = min(names, key=lambda name: _score(self.again[name]), default="")
        return best if best and _ahead(self.again[best], self._results(self.winner), WORTH) else ""

    def score(self, trial: Trial) -> float:
        """The median of a trial's scores, of those at the end if there are any: before, others were
        compiled meanwhile.
        """
        return _score(self._results(trial))

    def _results(self, trial: Trial) -> Sequence[Result]:
        return self.again.get(trial.number) or (trial.result,)

    @property
    def best(self) -> Schedule:
        """The fastest program."""
        return self.winner.program.schedule

    @property
    def trace(self) -> Trace:
        """The fastest program's steps, with its decisions."""
        return self.best.trace

    @property
    def speedup(self) -> float:
        """How much faster the best is than the default."""
        before, after = self.score(self.records[0]), self.score(self.winner)
        return before / after if isfinite(before) and isfinite(after) else 1.0

    def __repr__(self) -> str:
        name, best = self.winner.candidate.func, self.winner.number
        head = f"{name}: {len(self.records)} trials, stopped by {self.stopped}"
        trials = "; ".join(filter(None, (head, failures(self.records))))
        others = [
            (name, runs[-1].kind) for name, runs in self.again.items() if isinstance(name, str)
        ]
        rest = "".join(f"; {name}: {kind}" for name, kind in others if kind != "ok")
        rest += f"; {self.library} is faster" if self.library else ""
        if not best:
            return f"{trials}; {self.default} is the best{rest}"
        sure = "" if self.again else ", not measured again"
        times = f"{self.speedup:.3g} times as fast as {self.default}"
        return f"{trials}; trial {best} is {times}{sure}{rest}"

    show = display
    _repr_mimebundle_ = mimebundle


def _score(results: Sequence[Result]) -> float:
    return median(result.score for result in results)


def _ahead(one: Sequence[Result], other: Sequence[Result], worth: float) -> bool:
    """Whether a program is worth taking for another: faster each time, by a microsecond or more."""
    faster = isfinite(_score(one)) and _score(one) * worth <= _score(other)
    apart = max(result.score for result in one) <= min(result.score for result in other)
    return faster and apart and _fastest(other) - _fastest(one) >= SAVED


def _fastest(results: Sequence[Result]) -> float:
    """Seconds of the fastest call; infinite of a failure."""
    return min((s for result in results for s in result.seconds), default=inf)


def failures(trials: Sequence[Trial]) -> str:
    """How many trials failed, by kind."""
    counts = Counter(trial.result.kind for trial in trials if trial.result.kind != "ok")
    return ", ".join(f"{count} × {kind}" for kind, count in counts.items())


def check_ran(trials: Sequence[Trial]) -> None:
    """Raise `TuneError` E909 where no program ran."""
    if trials and not comparable(trials):
        first, why = trials[0].result, f"none of {len(trials)} programs ran ({failures(trials)})"
        larger = first.kind in ("timeout", "memory")
        hint = "mlc.tune.Runner(seconds=60, memory_bytes=8 << 30)" if larger else NEEDS
        raise TuneError(f"{why}; the first: {first.message}", code="E909", hint=hint)


def keep_trials(error: Exception, tuned: "Tuned") -> None:
    """Note in an error that ends a search the outcome until then."""
    if tuned.records:
        error.tuned = tuned  # type: ignore[attr-defined]
        error.add_note(f"what {len(tuned.records)} trials before came to: error.tuned")


def comparable(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that ran, on the host of the first of them: times of other hosts differ."""
    ran = [trial for trial in trials if isfinite(trial.score)]
    return [trial for trial in ran if trial.result.host == ran[0].result.host]
