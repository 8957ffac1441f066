"""A search for a fast program, trial by trial, while it runs and afterwards."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from statistics import median
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.diff import unified
from minimlc_widgets.sources import Searched, Timed, Tried
from minimlc_widgets.static import search_html, search_text, table
from traitlets import Dict, Float, Int, List, Unicode

from minimlc.loops.values.errors import CompileError

FULL = 200  # characters of a failure's message that are kept
REASONS = {
    "trials": "all trials were made",
    "noise": "less was to be gained than measurements differ",
    "space": "the space had no other program",
    "interrupt": "it was interrupted",
}
"""Why a search stopped, in words."""


class SearchProgress(View):
    """The trials of a search: how fast the best was so far, what was expected of each and what
    came of it, what failed and how, and what the best program does differently from the default.

        progress = SearchProgress(trials=64, library={"numpy": timing})
        progress                                          # the last line of a cell; then
        tuned = mlc.tune.search(mod, observe=progress)    # draws each trial as it comes

    `SearchProgress(tuned)` shows a search that has ended; `tuned.show()` does the same. `trials`
    is how many there will be, where that is known. `library` has times of others by name: a
    `Timing`, samples or seconds; what `search(..., libraries=)` measured is there by itself when
    it has ended. To interrupt a search, interrupt the kernel: `search` returns the
    best so far. A trial's speed is how often it runs in the time of the default, which is trial 0.
    """

    _esm = source("prelude.js", "search_progress.js")
    _css = source("base.css", "search_progress.css")
    name = Unicode().tag(sync=True)
    trials = List(Dict()).tag(sync=True)
    most = Int().tag(sync=True)
    library = List(Dict()).tag(sync=True)
    decisions = List(List(Unicode())).tag(sync=True)
    steps = List(List(Unicode())).tag(sync=True)
    stopped = Unicode().tag(sync=True)
    chosen = Int(-1).tag(sync=True)
    speedup = Float().tag(sync=True)

    def __init__(
        self,
        tuned: Searched | None = None,
        *,
        trials: int = 0,
        library: Mapping[str, Any] | None = None,
    ) -> None:
        if tuned is not None and not isinstance(tuned, Searched):
            why = f"SearchProgress takes what a search gives, got {type(tuned).__name__}"
            raise CompileError(why, hint="SearchProgress(mlc.tune.search(mod))")
        self.records: list[Tried] = []
        self.tuned = tuned
        others = {**({} if tuned is None else _again(tuned)), **(library or {})}
        self.times = {str(name): _seconds(name, time) for name, time in others.items()}
        super().__init__(most=trials)
        if tuned is not None:
            self.records = list(tuned.records)
            self.most = max(trials, len(self.records))
            self.stopped = REASONS.get(tuned.stopped, tuned.stopped)
            self.trials = [_plain(trial) for trial in self.records]
            self._draw()

    def __call__(self, trial: Tried) -> None:
        """Draw one more trial: what `search(..., observe=)` calls."""
        best = self.best
        self.records.append(trial)
        self.trials = [*self.trials, _plain(trial)]
        if self.best is not best or not best:
            self._draw()
        else:
            self.page = self._page()

    @property
    def best(self) -> Tried | None:
        """The fastest trial so far; of a search that has ended, the one that it chose."""
        if self.tuned is not None and isfinite(self.tuned.winner.score):
            return self.tuned.winner
        ok = [trial for trial in self.records if isfinite(trial.score)]
        return min(ok, key=lambda trial: trial.score, default=None)

    def speed(self, trial: Tried) -> float:
        """How often a trial's program runs in the time of the default."""
        return self.records[0].score / trial.score if isfinite(trial.score) else 0.0

    def _draw(self) -> None:
        """Update the state that depends on the best trial."""
        default, best = self.records[0], self.best
        self.name = default.candidate.func
        seconds = median(default.result.seconds) if default.result.seconds else 0.0
        lines = self.times.items() if seconds else ()
        self.library = [{"name": name, "speed": seconds / time} for name, time in lines]
        if best is not None:
            self.chosen = best.number
            self.speedup = self.tuned.speedup if self.tuned is not None else self.speed(best)
            traces = [trial.program.schedule.trace for trial in (default, best)]
            self.decisions = _decisions(*(trace.decisions for trace in traces))
            self.steps = _steps(*map(repr, traces))
        self.page = self._page()

    def static_html(self) -> str:
        return search_html(self.name)

    def text(self) -> str:
        return search_text(self.name)

    def _page(self) -> str:
        best, failures = self.best, Counter(t["kind"] for t in self.trials if t["kind"] != "ok")
        rows = [["trials", str(len(self.records))]]
        if best is not None and isfinite(self.records[0].score):
            speed = f"{self.speedup:.3g} × the default's speed (trial {best.number})"
            rows.append(["the best", speed])
        rows += [
            [line["name"], f"{line['speed']:.3g} × the default's speed"] for line in self.library
        ]
        rows += [[f"failed: {kind}", str(count)] for kind, count in failures.items()]
        decided = table(["decision", "default", "best"], self.decisions) if self.decisions else ""
        steps = escape("\n".join(f"{sign} {line}" for sign, line in self.steps))
        changes = f'<div class="highlight"><pre>{steps}\n</pre></div>' if steps else ""
        ended = f"<p>It ended because {escape(self.stopped)}.</p>" if self.stopped else ""
        return search_html(self.name) + table(["", ""], rows) + decided + changes + ended


def _again(tuned: Searched) -> dict[str, float]:
    """Seconds of libraries by name, by the default's as it was tried: at the end, where they were
    measured, nothing is compiled beside, so they are compared with the default there.
    """
    default = tuned.records[0]
    scores = {
        name: median(result.score for result in results)
        for name, results in tuned.again.items()
        if isinstance(name, str) and all(result.seconds for result in results)
    }
    unit = median(default.result.seconds) / tuned.score(default) if default.result.seconds else 0.0
    return {name: unit * score for name, score in scores.items() if unit}


def _plain(trial: Tried) -> dict[str, Any]:
    """A trial as the page has it; infinite values are missing there."""
    return {
        "score": trial.score if isfinite(trial.score) else None,
        "expected": trial.expected if isfinite(trial.expected) else None,
        "kind": trial.result.kind,
        "message": trial.result.message[:FULL],
    }


def _decisions(default: Mapping[str, Any], best: Mapping[str, Any]) -> list[list[str]]:
    """Decisions that differ: names, and both decisions; "–" where there was none."""
    names = dict.fromkeys([*default, *best])
    rows = [[name, *(_word(choices, name) for choices in (default, best))] for name in names]
    return [row for row in rows if row[1] != row[2]]


def _word(decisions: Mapping[str, Any], name: str) -> str:
    return str(decisions[name]) if name in decisions else "–"


def _steps(default: str, best: str) -> list[list[str]]:
    """The lines of two traces that differ, with a sign; what was drawn is in the decisions."""
    both = (
        [line.strip() for line in text.splitlines() if ".apply(" not in line]
        for text in (default, best)
    )
    changes = [list(pair) for pair in unified(*both, context=1)]
    return changes if any(sign in "+-" for sign, _ in changes) else []


def _seconds(name: Any, time: Any) -> float:
    samples = time.samples if isinstance(time, Timed) else time
    try:
        value = median(samples) if isinstance(samples, Sequence) else float(samples)
    except (TypeError, ValueError):
        value = 0.0
    if not (isfinite(value) and value > 0):
        raise CompileError(f"{name}: a time is seconds > 0, samples or a timing, got {time!r}")
    return value
