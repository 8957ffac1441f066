"""A process's workers for one module: the idle ones have imported what they need."""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from minimlc.apart.worker import Worker


class Pool:
    """Workers that run `module`, for any thread of this process; they end with it."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._forget()
        atexit.register(self.close)

    def _forget(self) -> None:
        self.owner, self.lock = os.getpid(), threading.Lock()
        self.all: set[Worker] = set()
        self.idle: list[Worker] = []

    def _start(self) -> Worker:
        worker = Worker(self.module)
        self.all.add(worker)
        return worker

    def warm(self, count: int) -> None:
        """Start workers until so many wait; does not wait for them."""
        if self.owner != os.getpid():  # a fork has its own
            self._forget()
        with self.lock:
            self.idle = [worker for worker in self.idle if worker.alive and not worker.has_ended()]
            while len(self.idle) < count:
                self.idle.append(self._start())

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """A worker, ready if one is; it waits again afterwards, unless it has died."""
        self.warm(1)
        with self.lock:
            ready = [worker for worker in self.idle if worker.is_ready()]
            worker = (ready or self.idle or [self._start()])[0]
            self.idle = [other for other in self.idle if other is not worker]
        try:
            yield worker
        finally:
            with self.lock:
                if worker.alive:
                    self.idle.append(worker)
                else:
                    self.all.discard(worker)

    def close(self) -> None:
        """End all workers."""
        if self.owner != os.getpid():
            return
        with self.lock:
            for worker in self.all:
                worker.close()
            self.all, self.idle = set(), []
        atexit.unregister(self.close)
