"""A runner that builds and times in this process, and one that only pretends to."""

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.loops.values.dtypes import to_numpy
from minimlc.tune.records import Candidate, Result


def scheduled(candidate: Candidate) -> mlc.Schedule:
    """A candidate's schedule, from its text."""
    mod = mlc.parse(candidate.mod)
    return mlc.Schedule.replay(mod, candidate.trace, candidate.func, check=False)


class InProcess:
    """Times each candidate, alternately with a product by numpy; nothing else is checked."""

    def __init__(self, repeat: int = 5):
        self.repeat = repeat
        self.square = np.ones((256, 256), np.float32)

    def submit(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            yield self.result(candidate)

    def result(self, candidate: Candidate) -> Result:
        try:
            sch = scheduled(candidate)
            run = mlc.build(sch.mod, recipes=False)[candidate.func]
        except mlc.CompileError as error:
            return Result("illegal", message=str(error))
        numbers = np.random.default_rng(0)
        arrays = [numbers.random(b.shape).astype(to_numpy(b.dtype)) for b in sch.func.params]
        run(*arrays)
        pairs = [(seconds(run, *arrays), seconds(self.product)) for _ in range(self.repeat)]
        times, reference = zip(*pairs, strict=True)
        return Result("ok", times, reference, host="here")

    def product(self) -> np.ndarray:
        return self.square @ self.square


def seconds(function, *arguments) -> float:
    """How long one call takes."""
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


class Pretended:
    """Scores by a formula on the schedule, and counts how often it is asked."""

    def __init__(self, score, kind=lambda candidate: "ok", stop_after: int = 10**6):
        self.score, self.kind, self.left, self.asked = score, kind, stop_after, 0

    def submit(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        for candidate in candidates:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left, self.asked = self.left - 1, self.asked + 1
            kind = self.kind(candidate)
            times = (self.score(candidate),) * 3 if kind == "ok" else ()
            yield Result(kind, times, (1.0,) * len(times), host="pretended")


class Record(NamedTuple):
    """A candidate and its result."""

    candidate: Candidate
    result: Result


class Remembered:
    """A database as a list."""

    def __init__(self):
        self.kept: list[Record] = []

    def add(self, mod, func: str, candidate: Candidate, result: Result) -> None:
        self.kept.append(Record(candidate, result))

    def records(self, mod, func: str, target=None, host=None) -> list[Record]:
        script = mod.script(constants="inline")
        return [
            record
            for record in self.kept
            if record.candidate.mod == script and host in (None, record.result.host)
        ]
