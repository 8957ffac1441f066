"""Threads for parallel loops: an OpenMP runtime where one can be found, else a Python pool.

Compiled code reads the number of threads from memory at each loop, so `set_num_threads` takes
effect at once. After a fork the child runs its loops on one thread until it sets a number itself:
thread pools do not survive a fork.
"""

import ctypes
import functools
import itertools
import os
import sys
import threading
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from minimlc.errors import CompileError
from minimlc.target import Target

OPENMP_NAMES = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_in_parallel")
Task = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
PoolRun = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

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

    More than the cores this process may use only take turns on them: the number becomes that of
    the cores, with a `UserWarning`.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise CompileError(
            f"the number of threads must be an integer of at least 1, got {count!r}",
            code="E610",
            hint=f"mlc.set_num_threads({Target.host().cores})",
        )
    cores = Target.host().cores
    if count > cores:
        warnings.warn(
            f"{count} threads were asked for, this process may use {cores} core(s): "
            f"parallel loops use {cores}",
            UserWarning,
            stacklevel=2,
        )
    _threads.value = min(count, cores)


def _after_fork() -> None:
    _threads.value = 1
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@functools.cache
def openmp() -> ctypes.CDLL | None:
    """An OpenMP runtime with GNU's entry points: one already loaded, else the system's."""
    for path in [*_loaded_runtimes(), *_installed_runtimes()]:
        try:
            library = ctypes.CDLL(path)
            if all(hasattr(library, name) for name in OPENMP_NAMES):
                return library
        except OSError:
            continue
    return None


def _loaded_runtimes() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines if "/" in line)
    return [p for p in paths if Path(p).name.startswith(("libgomp", "libomp.", "libiomp5"))]


def _installed_runtimes() -> list[str]:
    if sys.platform == "darwin":
        folders = ("", "/opt/homebrew/opt/libomp/lib/", "/usr/local/opt/libomp/lib/")
        return [f"{folder}libomp.dylib" for folder in folders]
    return ["libgomp.so.1", "libomp.so.5", "libomp.so"] if sys.platform == "linux" else []


def symbols() -> dict[str, int]:
    """The addresses that compiled parallel loops link to."""
    num_threads()
    library = openmp()
    if library is None:
        return {"minimlc_pool_run": _address(_pool_run)}
    found = {name: _address(getattr(library, name)) for name in OPENMP_NAMES}
    return {"minimlc_threads": ctypes.addressof(_threads), **found}


def _address(function: ctypes._CFuncPtr) -> int:  # type: ignore[name-defined]
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=1)
def _pool(threads: int) -> Any:
    """Threads for where there is no OpenMP; imported then, as it brings the logging module."""
    futures = import_module("concurrent.futures")
    return futures.ThreadPoolExecutor(threads, thread_name_prefix="minimlc")


def _share(task: int, context: int, begin: int, end: int) -> int:
    _inside.value = True
    try:
        return Task(task)(context, begin, end)
    finally:
        _inside.value = False


def pool_run(task: int, context: int, count: int) -> int:
    """Run a compiled task over 0 ... count-1, in as many equal runs as there are threads.

    ctypes releases the interpreter's lock in each of them; nested loops stay on their thread.
    """
    threads = min(num_threads(), count)
    if threads <= 1 or getattr(_inside, "value", False):
        return Task(task)(context, 0, count)
    cuts = [count * n // threads for n in range(threads + 1)]
    pool = _pool(num_threads())
    shares = list(itertools.pairwise(cuts))
    rest = [pool.submit(_share, task, context, begin, end) for begin, end in shares[1:]]
    return max([_share(task, context, *shares[0]), *(job.result() for job in rest)])


_pool_run = PoolRun(pool_run)
