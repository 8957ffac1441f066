"""The measuring itself: contenders take turns in one process, after each was found right.

A round times every contender once, each as a batch of calls of about a millisecond, so that what
disturbs the machine disturbs all alike. The garbage collector is off meanwhile.
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import minimlc as mlc
from benchmarks import installed

ROUNDS = 30
BATCH_SECONDS = 1e-3
WARMUP = 5
BUSY_SECONDS = 0.02
QUIET = 0.95
SETTLED = 0.08
"""Seconds after which the threads of everybody's pools sleep: onnxruntime's wait for 0.04 s."""
AWAKE = 0.02
"""Seconds of calls after which a contender's threads are awake, each on a core of its own: the
system may wake two on one, and part them milliseconds later.
"""


class WrongResult(Exception):
    """A contender computed something else than the reference: its time means nothing."""


@dataclass(frozen=True)
class Contender:
    """`call()` does the work once. `answer()`, else the call's value, is its result.

    `rounds` limits how often one that takes seconds is timed; `tolerance` is for one whose result
    is less exact than the others' by its nature.
    """

    name: str
    call: Callable[[], Any]
    answer: Callable[[], Any] | None = None
    rounds: int | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class Measured:
    """`samples` are seconds per call; each is the mean over a batch of `batch` calls."""

    name: str
    samples: tuple[float, ...]
    batch: int = 1

    @property
    def median(self) -> float:
        """Seconds per call."""
        return statistics.median(self.samples)

    @property
    def min(self) -> float:
        """Seconds per call of the fastest sample."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """The middle half's width over the median."""
        if len(self.samples) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return (high - low) / self.median


def check(contender: Contender, expected: np.ndarray, tolerance: float) -> None:
    """Call once and compare with the float64 reference; the error is relative to its largest."""
    value = contender.call()
    found = np.asarray(contender.answer() if contender.answer else value)
    if found.shape != expected.shape:
        raise WrongResult(
            f"{contender.name}: shape {found.shape}, the reference has {expected.shape}"
        )
    error = np.abs(found.astype(np.float64) - expected)
    largest = float(np.max(error, initial=0.0))
    tolerance = tolerance if contender.tolerance is None else contender.tolerance
    limit = tolerance * float(np.max(np.abs(expected), initial=0.0))
    if not largest <= limit:
        where = tuple(map(int, np.unravel_index(int(np.argmax(error)), error.shape)))
        raise WrongResult(
            f"{contender.name}: off by {largest:.3g} at {where}, where {limit:.3g} is allowed"
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Pin numpy's BLAS, every OpenMP runtime, the peers and minimlc to `count` threads."""
    before = mlc.num_threads()
    mlc.set_num_threads(count)
    installed.pin(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        installed.unpin()
        mlc.set_num_threads(before)


@contextmanager
def collector_off() -> Iterator[None]:
    """The garbage collector, collected and then off."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def measure(
    contenders: Sequence[Contender],
    rounds: int = ROUNDS,
    quiet: bool = False,
    settled: bool = False,
) -> list[Measured]:
    """Time the contenders in turns, in another order each round: nobody always comes after the
    same other one, and finds in the caches what that one leaves.

    With `quiet`, for one thread, a sample during which other programs had the core is taken again,
    in rounds to come; when there are too many, those least disturbed are kept. With `settled`, for
    several threads, a sample begins when no thread of the one before waits busily for work any
    more, and the contender's own are awake.
    """
    with collector_off():
        batches = [_batch(contender) for contender in contenders]
        samples: list[list[Sample]] = [[] for _ in contenders]
        orders = random.Random(0)
        for number in range(3 * rounds if quiet else rounds):
            for at in orders.sample(range(len(contenders)), len(contenders)):
                if number < rounds:
                    due = _takes_part(contenders[at].rounds, number, rounds)
                else:  # one that takes seconds is never undisturbed for long
                    quiet_ones = sum(map(_undisturbed, samples[at]))
                    due = contenders[at].rounds is None and quiet_ones < rounds
                if due:
                    if settled:
                        time.sleep(SETTLED)
                        _keep_busy(contenders[at].call, AWAKE)
                    samples[at].append(_sample(contenders[at].call, batches[at]))
    return [
        Measured(contender.name, _kept(taken, rounds), batch)
        for contender, taken, batch in zip(contenders, samples, batches, strict=True)
    ]


class Sample(NamedTuple):
    """Seconds per call, and the share of them in which a core worked for this process."""

    seconds: float
    busy: float


def _undisturbed(sample: Sample) -> bool:
    return sample.busy >= QUIET


def _kept(samples: Sequence[Sample], count: int) -> tuple[float, ...]:
    """The seconds of the first undisturbed ones, filled up with those least disturbed."""
    ranked = sorted(samples, key=lambda sample: -min(sample.busy, QUIET))
    return tuple(sample.seconds for sample in ranked[:count])


def cores_used(contender: Contender) -> float:
    """How many cores its calls keep busy."""
    spent = process_time()
    seconds = _keep_busy(contender.call, BUSY_SECONDS)
    return (process_time() - spent) / seconds


def _keep_busy(call: Callable[[], Any], least: float) -> float:
    """Call for at least so many seconds; the seconds that it took."""
    start = perf_counter()
    while perf_counter() - start < least:
        call()
    return perf_counter() - start


def _takes_part(limit: int | None, number: int, rounds: int) -> bool:
    """Whether one limited to so many rounds has its turn: evenly spread, the first included."""
    if limit is None or limit >= rounds:
        return True
    return number * limit // rounds != (number - 1) * limit // rounds


def _sample(call: Callable[[], Any], batch: int) -> Sample:
    start, spent = perf_counter(), process_time()
    for _ in range(batch):
        call()
    seconds = perf_counter() - start
    return Sample(seconds / batch, (process_time() - spent) / seconds)


def _batch(contender: Contender) -> int:
    """Warm up, and find how many calls take about a millisecond."""
    if contender.rounds is not None:
        return 1
    batch = 1
    while True:
        took = batch * min(_sample(contender.call, batch).seconds for _ in range(WARMUP))
        if took >= BATCH_SECONDS:
            return batch
        batch = max(2 * batch, int(1.1 * batch * BATCH_SECONDS / max(took, 1e-9)))


def compare(
    contenders: Sequence[Contender],
    expected: np.ndarray,
    *,
    tolerance: float,
    rounds: int = ROUNDS,
    quiet: bool = False,
    settled: bool = False,
) -> list[Measured]:
    """Check every contender, then `measure` them. Raises `WrongResult`."""
    for contender in contenders:
        check(contender, expected, tolerance)
    return measure(contenders, rounds, quiet, settled)
