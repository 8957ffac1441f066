"""Measurement: candidates run in workers, one timing at a time, and never end more than a trial;
and checks of the arguments of searches and runners.
"""

import atexit
import json
import os
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Protocol

import psutil

from minimlc.apart.limits import Limits
from minimlc.apart.message import Failed
from minimlc.apart.pool import Pool
from minimlc.graphs.ir.registry import get_function
from minimlc.loops.values.errors import shown
from minimlc.services.runtime.cache import own_folder
from minimlc.services.runtime.foreign import missing_features
from minimlc.tune.attempt import host as this_host
from minimlc.tune.records import Candidate, Result, TuneError, target_of

SERVER, HINT = "minimlc.tune.serve", "mlc.tune.Runner(workers=2, seconds=10.0)"
LONGEST_WAIT = 3600.0
"""Seconds until a worker that does not answer is given up; it watches what it runs itself."""


@cache
def _pool() -> Pool:
    """The workers of a process that an executor started."""
    return Pool(SERVER)


FOLDERS = re.compile("tune-([0-9]{1,9})-[a-z0-9_]{8}")
"""The names of folders, by process."""


@cache
def _folder(process: int) -> Path:
    """This process's folder, in a folder of this user that all processes share."""
    shared = own_folder(make=True) or Path(tempfile.mkdtemp(prefix="minimlc-"))
    for left in shared.iterdir():  # by processes that were killed
        name = FOLDERS.fullmatch(left.name)
        if name and not psutil.pid_exists(int(name[1])):
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"tune-{process}-", dir=shared))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_unit(text: str, pool: Pool | None = None) -> str:
    """A unit of work, JSON in and out: measure a candidate in a worker of this process's."""
    body = {**json.loads(text), "folder": str(_folder(os.getpid()))}
    try:
        with (pool or _pool()).worker() as worker:
            answer, _ = worker.ask(body, {}, Limits(wall_seconds=LONGEST_WAIT), watched=False)
    except Failed as error:
        return Result("crash", message=str(error)).to_json()
    return str(answer["result"])


Running = deque[tuple[Candidate, Future[str]]]


class Measures(Protocol):
    """A timer of candidates: `tune.Runner`, or anything with this method."""

    def submit(self, candidates: Sequence[Candidate]) -> Iterator[Result]:
        """The candidates' results, in their order."""


class Runner:
    """Measures candidates, each in a separate process within limits.

        with Runner(workers=2) as runner:
            for result in runner.submit(candidates): ...

    `workers` candidates are compiled at a time, one at a time is timed on a host. One may take
    `seconds` to be compiled and as many to run, and `memory_bytes` of memory. An `executor` (any
    of `concurrent.futures`) brings other processes and hosts: it gets units of plain JSON.
    Raises `TuneError` E902 for anything else, E903 for a target that is not this machine.
    """

    def __init__(
        self,
        workers: int = 1,
        seconds: float = 10.0,
        memory_bytes: int = 4 << 30,
        executor: Executor | None = None,
    ):
        check_above_zero(HINT, workers=workers, memory_bytes=memory_bytes)
        check_above_zero(HINT, int | float, seconds=seconds)
        if executor is not None and not callable(getattr(executor, "submit", None)):
            why = f"executor is one of concurrent.futures, got {shown(executor)}"
            raise TuneError(why, code="E902", hint="mlc.tune.Runner(workers=2)")
        self._limits = {"seconds": seconds, "memory_bytes": memory_bytes}
        self._ahead = workers
        self._pool = Pool(SERVER) if executor is None else None
        self._executor = executor or ThreadPoolExecutor(workers)
        self._best: dict[tuple[str, ...], dict[str, float]] = {}
        if self._pool:
            self._pool.warm(workers)

    @property
    def host(self) -> str | None:
        """The machine that measures; None of an executor, which may use several."""
        return this_host() if self._pool else None

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is running, and the workers."""
        if self._pool:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._pool.close()

    def submit(self, candidates: Iterable[Candidate]) -> Iterator[Result]:
        """The results, in the candidates' order, each as soon as it is there. Work begins at once,
        before the first is asked for.
        """
        left = deque(candidates)
        for candidate in left:
            self._check_here(candidate)
        running: Running = deque()
        self._start_some(left, running)
        return self._results(left, running)

    def _start_some(self, left: deque[Candidate], running: Running) -> None:
        while left and len(running) <= self._ahead:  # one waits, for when a worker is free
            running.append((left[0], self._started(left.popleft())))

    def _results(self, left: deque[Candidate], running: Running) -> Iterator[Result]:
        try:
            while running:
                yield self._noted(*running.popleft())
                self._start_some(left, running)
        finally:
            for _, future in running:
                future.cancel()

    def _started(self, candidate: Candidate) -> "Future[str]":
        best = self._best.get(_workload(candidate), {})
        unit = {"candidate": json.loads(candidate.to_json()), "best": best, **self._limits}
        pools = [self._pool] if self._pool else []
        try:
            return self._executor.submit(run_unit, json.dumps(unit), *pools)
        except Exception as error:
            why = f"the executor takes no more work: {type(error).__name__}: {error}"
            raise TuneError(why, code="E904", hint="mlc.tune.Runner(workers=2)") from error

    def _noted(self, candidate: Candidate, future: "Future[str]") -> Result:
        try:
            result = Result.from_json(future.result())
        except Exception as error:  # whatever an executor raises for a lost worker
            return Result("crash", message=f"the worker was lost: {type(error).__name__}: {error}")
        if result.kind == "ok" and not candidate.library:
            best = self._best.setdefault(_workload(candidate), {})
            best[result.host] = min(best.get(result.host, result.score), result.score)
        return result

    def _check_here(self, candidate: Candidate) -> None:
        """Refuse code for another machine; an executor may reach that machine."""
        if self._pool is None or not candidate.target.startswith("{"):
            return
        missing = missing_features(target_of(candidate.target))
        if missing:
            why = f"the target is not this machine: this CPU lacks {', '.join(missing)}"
            raise TuneError(why, code="E903", hint="mlc.Target.host()")


def _workload(candidate: Candidate) -> tuple[str, ...]:
    return candidate.mod, candidate.func, candidate.target


def measuring(runner: Measures | None) -> AbstractContextManager[Measures]:
    """The runner, or one of this machine for a while."""
    return Runner() if runner is None else nullcontext(runner)


def check_arguments(
    trials: Any, runner: Any, database: Any, seconds: Any, **functions: Any
) -> None:
    """Raise `TuneError` for arguments of a search that are of the wrong kind."""
    hint = "mlc.tune.search(mod, trials=64)"
    check_above_zero(hint, trials=trials)
    if seconds not in (None, inf):
        check_above_zero(hint, int | float, seconds=seconds)
    wanted = {
        "runner": (runner, ("submit",), "an mlc.tune.Runner"),
        "database": (database, ("records", "add"), "an mlc.tune.Database"),
        **{name: (value, ("__call__",), "a function") for name, value in functions.items()},
    }
    for name, (value, methods, kind) in wanted.items():
        if value is not None and not all(callable(getattr(value, attr, None)) for attr in methods):
            raise TuneError(f"{name} is {kind}, got {shown(value)}", code="E902", hint=hint)


def check_libraries(names: Any) -> list[str]:
    """Names of libraries' functions; `TuneError` for what no worker could know, E614 for others."""
    asked = [names] if isinstance(names, str) or not isinstance(names, Iterable) else [*names]
    if strange := [n for n in asked if not str(n).startswith(("numpy.", "torch."))]:
        why = f"libraries are functions of numpy's or torch's, got {shown(strange[0])}"
        raise TuneError(why, code="E902", hint='libraries=["numpy.matmul"]')
    return [name for name in asked if get_function(name)]  # type: ignore[truthy-function]


def check_above_zero(hint: str, kind: Any = int, **values: Any) -> None:
    """`TuneError` E902 for values that are no numbers of a kind above 0."""
    for name, value in values.items():
        if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value < inf:
            whole = "whole " if kind is int else ""
            why = f"{name} is a {whole}number above 0, got {shown(value)}"
            raise TuneError(why, code="E902", hint=hint)
