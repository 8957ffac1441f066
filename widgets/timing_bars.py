"""Measured times, every sample of them."""

from collections.abc import Sequence
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.sources import Samples, timings_of
from minimlc_widgets.static import timings_html, timings_text
from traitlets import Bool, Dict, Float, List, Unicode

from minimlc.loops.values.errors import CompileError, did_you_mean

BEYOND = 1.5  # times the upper quartile: samples that took longer would flatten the others
FAR_APART = 30.0  # medians this many times apart are drawn on a logarithmic axis


class TimingBars(View):
    """A timing, several, a mapping from names to timings, or (name, samples in seconds) pairs.

    A dot for each sample, a bar for the median. The axis ends half beyond the upper quartile of
    the slowest timing; samples beyond are marked there. Speed-ups are ratios of medians, over the
    timing called `baseline`; None takes the first of several.
    """

    _esm = source("prelude.js", "timing_bars.js")
    _css = source("base.css", "timing_bars.css")
    timings = List(Dict()).tag(sync=True)
    baseline = Unicode().tag(sync=True)
    end = Float().tag(sync=True)
    logarithmic = Bool().tag(sync=True)

    def __init__(self, timings: Any, baseline: str | None = None) -> None:
        self.samples = timings_of(timings)
        names = [timing.name for timing in self.samples]
        if not names:
            raise CompileError("there is no timing to show")
        if baseline is not None and baseline not in names:
            hint = did_you_mean(baseline, names)
            raise CompileError(f'no timing is called "{baseline}"', hint=hint)
        if baseline is None:
            baseline = names[0] if len(names) > 1 else ""
        medians = [timing.median for timing in self.samples]
        super().__init__(
            timings=[
                {
                    "name": timing.name,
                    "samples": list(timing.samples),
                    "median": timing.median,
                    "spread": timing.spread,
                    "machine": timing.machine,
                }
                for timing in self.samples
            ],
            baseline=baseline,
            end=max(map(_reach, self.samples)),
            logarithmic=min(medians) > 0 and max(medians) / min(medians) > FAR_APART,
        )

    def speedups(self) -> dict[str, float]:
        """How many times faster than the baseline each timing is, by median."""
        return _speedups(self.samples, self.baseline)

    def static_html(self) -> str:
        return timings_html(self.samples, self.speedups())

    def text(self) -> str:
        return timings_text(self.samples)


def _speedups(samples: Sequence[Samples], baseline: str) -> dict[str, float]:
    medians = {timing.name: timing.median for timing in samples}
    base = medians.get(baseline)
    if base is None:
        return {}
    return {name: base / value if value else float("inf") for name, value in medians.items()}


def _reach(timing: Samples) -> float:
    """The end of the axis for a timing: its samples above are outliers."""
    times = sorted(timing.samples)
    quartile = times[(3 * len(times) - 1) // 4]  # by nearest rank
    return min(times[-1], BEYOND * max(quartile, timing.median))
