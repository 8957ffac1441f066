"""Timing that can be believed: warmed up, repeated, every sample kept."""

import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minimlc.loops.values.display import display, mimebundle
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.process import collector_paused
from minimlc.loops.values.target import Target

BATCH_SECONDS = 1e-3
"""A sample times as many calls as take about this long together."""

Sample = Callable[[Callable[..., Any], tuple[Any, ...], int], float]
"""The seconds that so many calls of a function take together."""


@dataclass(frozen=True)
class Timing:
    """`samples` are seconds per call, in the order measured; `batch` the calls in each sample."""

    name: str
    samples: tuple[float, ...]
    batch: int
    machine: str

    @property
    def median(self) -> float:
        """Seconds per call."""
        return float(np.median(self.samples))

    @property
    def min(self) -> float:
        """Seconds per call of the fastest sample."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """The middle half's width over the median: 0.02 means that samples agree to 2 %."""
        low, high = np.quantile(self.samples, (0.25, 0.75))
        return float(high - low) / self.median if self.median else 0.0

    def __repr__(self) -> str:
        return (
            f"{self.name}: median {seconds_text(self.median)}, min {seconds_text(self.min)}, "
            f"spread {self.spread:.1%}, {len(self.samples)} samples of {self.batch} call(s), "
            f"{self.machine}"
        )

    show = display
    _repr_mimebundle_ = mimebundle


def seconds_text(seconds: float) -> str:
    """A duration with three digits and a unit that fits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def machine_text() -> str:
    """The machine at hand in a few words."""
    host = Target.host()
    return f"{host.cpu}, {host.cores} core(s), {host.vector_bits}-bit vectors"


def time(
    function: Callable[..., Any],
    *arguments: Any,
    warmup: int = 3,
    repeat: int = 20,
    name: str | None = None,
    sample: Sample | None = None,
    machine: str = "",
) -> Timing:
    """Time `function(*arguments)`: `warmup` calls, then `repeat` samples of a batch of calls.

    The garbage collector is off while a sample is taken. Works for any callable, so that a
    baseline is measured the same way. Another clock has a `sample` of its own, and a `machine`.
    """
    for label, count in (("warmup", warmup), ("repeat", repeat)):
        if not hasattr(count, "__index__") or isinstance(count, bool):
            why = f"{label} is a whole number, got {count!r:.60}"
            raise CompileError(why, hint="mlc.time(function, *arguments, warmup=3, repeat=20)")
    if warmup < 0 or repeat < 1:
        raise CompileError(f"warmup must be >= 0 and repeat >= 1, got {warmup} and {repeat}")
    for _ in range(warmup):
        function(*arguments)
    sample = sample or _sample
    batch, first = _batch_size(function, arguments, sample)
    rest = (sample(function, arguments, batch) for _ in range(repeat - 1))
    samples = tuple(took / batch for took in (first, *rest))
    label = name or str(getattr(function, "__name__", type(function).__name__))
    return Timing(label, samples, batch, machine or machine_text())


def _batch_size(
    function: Callable[..., Any], arguments: tuple[Any, ...], sample: Sample
) -> tuple[int, float]:
    """How many calls make a sample long enough to measure, and the first such sample."""
    batch = 1
    while True:
        took = sample(function, arguments, batch)
        if took >= BATCH_SECONDS or batch >= 1 << 20:
            return batch, took
        batch = max(2 * batch, min(100 * batch, int(batch * BATCH_SECONDS / max(took, 1e-9))))


def _sample(function: Callable[..., Any], arguments: tuple[Any, ...], batch: int) -> float:
    """Seconds that `batch` calls take together."""
    with collector_paused():
        start = clock.perf_counter()
        for _ in range(batch):
            function(*arguments)
        return clock.perf_counter() - start
