"""A runner that builds and times in this process, and one that only pretends to."""

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np

import minimlc as mlc
from minimlc.dtypes import to_numpy
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
