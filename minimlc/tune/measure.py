"""Measurement: candidates run in workers, one timing at a time, and never end more than a trial."""

import atexit
import json
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from minimlc.apart.limits import Limits
from minimlc.apart.message import Failed
from minimlc.apart.worker import Worker
from minimlc.errors import shown
from minimlc.runtime.cache import own_folder
from minimlc.runtime.foreign import missing_features
from minimlc.tune.records import Candidate, Result, TuneError, target_of

SERVER = "minimlc.tune.serve"
LONGEST_WAIT = 3600.0
"""Seconds until a worker that does not answer is given up; it watches what it runs itself."""


class _Workers:
    """This process's workers. Those that wait have imported what they need."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.all: set[Worker] = set()
        self.idle: list[Worker] = []
        self.lock = threading.Lock()
        self.folder: Path | None = None

    def _own(self) -> None:
        if self.owner != os.getpid():  # a fork has its own
            self.__init__()  # type: ignore[misc]

    def warm(self, count: int) -> None:
        """Start workers until so many wait; does not wait for them."""
        self._own()
        with self.lock:
            while len(self.idle) < count:
                self.idle.append(self._start())

    def _start(self) -> Worker:
        worker = Worker(SERVER)
        self.all.add(worker)
        return worker

    def take(self) -> Worker:
        """A worker that waits, or a new one."""
        self._own()
        with self.lock:
            self.idle = [worker for worker in self.idle if worker.alive and not worker.has_ended()]
            ready = [worker for worker in self.idle if worker.is_ready()]
            worker = (ready or self.idle or [self._start()])[0]
            self.idle = [other for other in self.idle if other is not worker]
            return worker

    def give_back(self, worker: Worker) -> None:
        """Have a worker wait again; one that has died is forgotten."""
        with self.lock:
            if worker.alive:
                self.idle.append(worker)
            else:
                self.all.discard(worker)

    def place(self) -> Path:
        """A folder of this process's, in one of this user's that all processes share."""
        with self.lock:
            if self.folder is None:
                shared = own_folder(make=True) or Path(tempfile.mkdtemp(prefix="minimlc-"))
                for left in shared.glob("tune-*"):  # by processes that were killed
                    if not psutil.pid_exists(int(left.name.partition("-")[2])):
                        shutil.rmtree(left, ignore_errors=True)
                self.folder = shared / f"tune-{os.getpid()}"
                self.folder.mkdir(exist_ok=True)
            return self.folder

    def close(self) -> None:
        """End all workers."""
        if self.owner != os.getpid():
            return
        with self.lock:
            for worker in self.all:
                worker.close()
            self.all, self.idle = set(), []
            if self.folder is not None:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder = None


_workers = _Workers()
atexit.register(_workers.close)


def run_unit(text: str) -> str:
    """A unit of work, JSON in and out: measure a candidate in a worker of this process's."""
    worker = _workers.take()
    try:
        body = {**json.loads(text), "folder": str(_workers.place())}
        answer, _ = worker.ask(body, {}, Limits(wall_seconds=LONGEST_WAIT), watched=False)
    except Failed as error:
        return Result("crash", message=str(error)).to_json()
    finally:
        _workers.give_back(worker)
    return str(answer["result"])


class Runner:
    """Measures candidates, each in a process of its own within limits.

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
        _check_above_zero(workers=workers, memory_bytes=memory_bytes)
        _check_above_zero(int | float, seconds=seconds)
        if executor is not None and not callable(getattr(executor, "submit", None)):
            why = f"executor is one of concurrent.futures, got {shown(executor)}"
            raise TuneError(why, code="E902", hint="mlc.tune.Runner(workers=2)")
        self._limits = {"seconds": seconds, "memory_bytes": memory_bytes}
        self._ahead = workers
        self._threads = ThreadPoolExecutor(workers) if executor is None else None
        self._executor: Executor = executor or self._threads  # type: ignore[assignment]
        self._best: dict[tuple[str, ...], dict[str, float]] = {}
        if executor is None:
            _workers.warm(workers)

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End what is running, and the workers."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            _workers.close()
            self._threads.shutdown()

    def submit(self, candidates: Iterable[Candidate]) -> Iterator[Result]:
        """The results, in the candidates' order, each as soon as it is there."""
        left = deque(candidates)
        for candidate in left:
            self._check_here(candidate)
        return self._results(left)

    def _results(self, left: deque[Candidate]) -> Iterator[Result]:
        running: deque[tuple[Candidate, Future[str]]] = deque()
        try:
            while left or running:
                while left and len(running) < self._ahead:
                    running.append((left[0], self._started(left.popleft())))
                yield self._noted(*running.popleft())
        finally:
            for _, future in running:
                future.cancel()

    def _started(self, candidate: Candidate) -> "Future[str]":
        best = self._best.get(_workload(candidate), {})
        unit = {"candidate": json.loads(candidate.to_json()), "best": best, **self._limits}
        try:
            return self._executor.submit(run_unit, json.dumps(unit))
        except Exception as error:
            why = f"the executor takes no more work: {type(error).__name__}: {error}"
            raise TuneError(why, code="E904", hint="mlc.tune.Runner(workers=2)") from error

    def _noted(self, candidate: Candidate, future: "Future[str]") -> Result:
        try:
            result = Result.from_json(future.result())
        except (Exception, CancelledError) as error:  # whatever an executor says of a lost worker
            return Result("crash", message=f"the worker was lost: {type(error).__name__}: {error}")
        if result.kind == "ok":
            best = self._best.setdefault(_workload(candidate), {})
            best[result.host] = min(best.get(result.host, result.score), result.score)
        return result

    def _check_here(self, candidate: Candidate) -> None:
        """Refuse code for another machine; an executor may reach that machine."""
        if self._threads is None or not candidate.target.startswith("{"):
            return
        missing = missing_features(target_of(candidate.target))
        if missing:
            why = f"the target is not this machine: this CPU lacks {', '.join(missing)}"
            raise TuneError(why, code="E903", hint="mlc.Target.host()")


def _workload(candidate: Candidate) -> tuple[str, ...]:
    return candidate.mod, candidate.func, candidate.target


def _check_above_zero(kind: Any = int, **values: Any) -> None:
    for name, value in values.items():
        with suppress(TypeError):
            if isinstance(value, kind) and not isinstance(value, bool) and 0 < value < float("inf"):
                continue
        why = f"{name} is a number above 0, got {shown(value)}"
        raise TuneError(why, code="E902", hint="mlc.tune.Runner(workers=2, seconds=10.0)")
