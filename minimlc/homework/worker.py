"""The workers that run submissions: started in advance, so that one is ready.

They answer with data, which the caller judges in its own process.
"""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from minimlc.apart.limits import Limits
from minimlc.apart.message import Arrays, Message
from minimlc.apart.worker import Worker

SPARES = 2
"""Workers that are kept ready."""

SERVER = "minimlc.homework.serve"


class _Pool:
    """Spare workers for submissions, and an evaluator of data: a process that never runs
    one, as what a submission leaves behind would judge it.
    """

    def __init__(self) -> None:
        self.spares: list[Worker] = []
        self.evaluator: Worker | None = None
        self.owner = os.getpid()

    def warm(self) -> None:
        """Start missing workers; does not wait. `check` calls it."""
        if self.owner != os.getpid():  # a fork has its own
            self.__init__()  # type: ignore[misc]
        while len(self.spares) < SPARES:
            self.spares.append(Worker(SERVER))
        if self.evaluator is None or not self.evaluator.alive or self.evaluator.has_ended():
            self.evaluator = Worker(SERVER)

    def take(self) -> Worker:
        """An unused worker, ready if there is one that is."""
        for worker in [worker for worker in self.spares if worker.has_ended()]:
            worker.close()
            self.spares.remove(worker)
        self.warm()
        chosen = next((worker for worker in self.spares if worker.is_ready()), self.spares[0])
        self.spares.remove(chosen)
        self.warm()
        return chosen

    @contextmanager
    def fresh_worker(self) -> Iterator[Worker]:
        """A worker for one submission, with which it ends. On Linux only a copy of it ends, and the
        worker itself stays as fresh as before.
        """
        worker = self.take()
        try:
            yield worker
        finally:
            if sys.platform == "linux" and worker.alive and len(self.spares) <= SPARES:
                self.spares.insert(0, worker)
            else:
                worker.close()

    def evaluate(self, operation: str, arrays: Arrays, limits: Limits, **body: Any) -> Message:
        """Ask the evaluator for an operation of `homework.evaluate`; it is replaced when it dies.
        It may start a C compiler.
        """
        self.warm()
        assert self.evaluator is not None
        return self.evaluator.ask({"op": operation, **body}, arrays, replace(limits, processes=8))

    def close(self) -> None:
        """End all waiting workers; the next check starts new ones."""
        for worker in [*self.spares, self.evaluator]:
            if worker is not None:
                worker.close()
        self.spares, self.evaluator = [], None


_pool = _Pool()
warm, fresh_worker, evaluate, close = _pool.warm, _pool.fresh_worker, _pool.evaluate, _pool.close
atexit.register(close)
