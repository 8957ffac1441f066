"""Threads for parallel loops: a native team where the system has what it needs, else a Python pool.

Compiled code reads the number of threads from memory at each loop, so `set_num_threads` takes
effect at once. After a fork the child runs its loops on one thread until it sets a number itself:
thread pools do not survive a fork, so what belongs to the forking thread is given up before it.
"""

import contextlib
import ctypes
import functools
import itertools
import operator
import os
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import Any

from minimlc.loops.llvm.kernel import NativeCode, backend, link, machine_of
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.process import at_fork
from minimlc.loops.values.target import Target
from minimlc.services.threads.team import MEMBERS, Team

Task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PoolRun = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)

_threads = ctypes.c_int32(0)
_inside = threading.local()


def num_threads() -> int:
    """How many threads a parallel loop uses; at first, $OMP_NUM_THREADS where that is a number,
    else the cores this process may use.
    """
    if _threads.value == 0:
        set_num_threads(_wished() or Target.host().cores)
    return _threads.value


def _wished() -> int:
    """The outermost level's number in $OMP_NUM_THREADS ("4" or "4,2"); 0 where there is none."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() else 0


def set_num_threads(count: int) -> None:
    """Let parallel loops use `count` threads, at least 1.

    More than the cores this process may use would only take turns: the number becomes that of the
    cores, with a `UserWarning`.
    """
    try:
        number = 0 if isinstance(count, bool) else operator.index(count)
    except TypeError:
        number = 0
    if number < 1:
        why = f"the number of threads must be an integer of at least 1, got {count!r}"
        raise CompileError(why, code="E610", hint=f"mlc.set_num_threads({Target.host().cores})")
    most, why = _most_threads()
    if number > most:
        warnings.warn(
            f"{number} threads were asked for, {why}: parallel loops use {most}",
            UserWarning,
            stacklevel=2,
        )
    _threads.value = min(number, most)
    if _teams and _teams[0]:
        _teams[0].grow(_threads.value)


_RUNTIMES: dict[int, Callable[[int], int] | None] = {}
"""The call that ends the threads of each of GNU's OpenMP runtimes in use; None if it has none."""

OMP_PAUSE_SOFT = 1
"""OpenMP 5.0, 3.2.44: what a runtime keeps for later is given up, settings are not."""


def minds_forks(library: ctypes.CDLL) -> None:
    """Have an OpenMP runtime give up a thread's team before that thread forks.

    GNU's would wait in the child for threads that are not there. LLVM's handles forks itself.
    """
    if hasattr(library, "__kmpc_fork_call"):
        return
    pause = getattr(library, "omp_pause_resource_all", None)
    _RUNTIMES[_address(pause) if pause else 0] = pause


def _before_fork() -> None:
    for pause in _RUNTIMES.values():
        if pause:
            pause(OMP_PAUSE_SOFT)


def _after_fork() -> None:
    global _starting
    _threads.value, _starting = 1, threading.Lock()
    _forked.append(True)
    _pool.cache_clear()
    if _teams and _teams[0]:
        _teams[0].reset()


_forked: list[bool] = []

at_fork(before=_before_fork, after_in_child=_after_fork)


def _most_threads() -> tuple[int, str]:
    """The most threads that a loop can run on here, and the reason why there are no more."""
    if _forked and None in _RUNTIMES.values():
        return 1, "the OpenMP runtime of this forked process starts none"
    cores = min(Target.host().cores, MEMBERS)
    return cores, f"this process may use {cores} core(s)"


_teams: list[Team | None] = []
_starting = threading.Lock()


def team(cache: bool = True) -> Team | None:
    """The team of this process, which is there from the first use on; None where it can't be."""
    with _starting:
        if not _teams:
            there = sys.platform in ("linux", "darwin")
            try:
                _teams.append(Team(_threads, cache) if there else None)
            except (OSError, AttributeError):
                _teams.append(None)
    return _teams[0]


def symbols(cache: bool = True) -> dict[str, int]:
    """The addresses that compiled parallel loops link to; `cache` may have the team's code."""
    threads, shared = num_threads(), team(cache)
    if shared is None:
        return {"minimlc_parallel": _pool_code().addresses["minimlc_parallel"]}
    shared.grow(threads)
    return {"minimlc_parallel": shared.address}


def _address(function: ctypes._CFuncPtr) -> int:  # type: ignore[name-defined]
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> Any:
    """Threads for where there is no team; imported then, as it brings the logging module."""
    futures = import_module("concurrent.futures")
    return futures.ThreadPoolExecutor(threads, thread_name_prefix="minimlc")


def _share(task: int, context: int, begin: int, end: int) -> int:
    _inside.value = True
    try:
        return Task(task)(context, begin, end)
    finally:
        _inside.value = False


WORTH = 0.0002
"""Seconds that a loop takes for which threads of the pool start."""
AGAIN = 0.05
"""Seconds after which a thread that waits for others asks again."""
_worth: set[int] = set()


class _Job:
    """Shares of a parallel loop, which threads take one after the other.

    An interrupt can leave what the calling thread does at any point. So it takes plain locks only:
    a `with` of one always releases it, where a condition's may have taken it and not know.
    """

    def __init__(self, task: int, context: int, cuts: list[int]):
        self.task, self.context = task, context
        self.left = deque(itertools.pairwise(cuts))
        self.lock = threading.Lock()
        self.running = 0
        self.status = 0
        self.ended: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        """Run shares until none is left, in a thread of the pool."""
        while True:
            with self.lock:
                if not self.left:
                    return
                self.running += 1
            self.take()
            with self.lock:
                self.running -= 1
            self.ended.put(None)

    def take(self) -> bool:
        """Run a share, if there is one left."""
        try:
            share = self.left.popleft()
        except IndexError:
            return False
        status = _share(self.task, self.context, *share)
        if status:  # -1: a loop inside was interrupted
            self.status = status
        return True

    def wait(self) -> None:
        """Wait until no other thread is at work."""
        while self.is_running():
            with contextlib.suppress(Empty):  # after an interrupt, a notice may be lost
                self.ended.get(timeout=AGAIN)

    def is_running(self) -> bool:
        """Whether another thread is at work."""
        with self.lock:
            return self.running > 0


def pool_run(task: int, context: int, count: int, status: int) -> None:
    """Run a compiled task, and write its status plus 1 to an address. Where an interrupt comes
    before that, what stood there stays: what ctypes returns then is not defined.
    """
    ctypes.c_int32.from_address(status).value = _pool_status(task, context, count) + 1


def _pool_status(task: int, context: int, count: int) -> int:
    """Run a compiled task over 0 ... count-1, in as many equal runs as there are threads; at first
    in one, to measure whether it takes long enough to start threads for.

    ctypes releases the interpreter's lock in each run; nested loops stay on their thread. An
    interrupt (Ctrl-C) is kept until no thread writes any more; then the call that it hit raises it.
    """
    threads = min(num_threads(), count)
    if threads <= 1 or getattr(_inside, "value", False):
        return Task(task)(context, 0, count)
    cuts = [count * n // threads for n in range(threads + 1)]
    start = time.perf_counter()
    if task not in _worth:
        cuts = [0, count]
    job = _Job(task, context, cuts)
    caught = None
    try:
        with contextlib.suppress(RuntimeError):  # no more threads can be had: those here do it
            for _ in range(len(cuts) - 2):
                _pool(num_threads()).submit(job.work)
        while job.take():
            pass
        if task not in _worth and time.perf_counter() - start > WORTH:
            _worth.add(task)
    except BaseException as error:
        caught = error
    while True:
        try:
            if caught is not None:
                job.left.clear()
            job.wait()
            break
        except BaseException as error:
            caught = error
    if caught is None:
        return job.status
    _inside.interrupt = caught
    return INTERRUPTED


INTERRUPTED = 3
"""The status of a loop that was left early."""


def interruption() -> BaseException:
    """The exception that interrupted this thread's loop."""
    return _inside.__dict__.pop("interrupt", None) or KeyboardInterrupt()


_pool_run = PoolRun(pool_run)
POOL = """
declare void @minimlc_pool(ptr, ptr, i64, ptr)
define i32 @minimlc_parallel(ptr %task, ptr %context, i64 %count) {
  %place = alloca i32
  store i32 0, ptr %place
  call void @minimlc_pool(ptr %task, ptr %context, i64 %count, ptr %place)
  %status = load i32, ptr %place
  ret i32 %status
}
"""
"""A parallel loop by the pool; its status plus 1, as 0 is an interrupt's."""


@functools.cache
def _pool_code() -> NativeCode:
    machine = machine_of(Target.host())
    code = backend().compile_object(POOL, machine)
    return link([code], ["minimlc_parallel"], {"minimlc_pool": _address(_pool_run)})
