"""Effects of the library on the process around it: `docs/process.md` is the page on them.

With `MINIMLC_PROCESS_EFFECTS=0` in the environment, what only makes things faster is left out.
"""

import ctypes
import gc
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from threading import RLock, Thread
from typing import Any

import numpy as np

SPEEDS_UP = os.environ.get("MINIMLC_PROCESS_EFFECTS", "1") != "0"
"""Whether effects that only make things faster are on."""

_FRAMES = 12
"""Python's frames that a walk over a tree takes for a level, at the most."""
PLAIN_LEVELS = 40
"""Levels that Python's own limit has room for."""


def raise_recursion_limit(levels: int) -> None:
    """Let functions recurse over this many levels: Python's limit of 1000 frames is raised, for
    good, where someone has such a tree.
    """
    if levels > PLAIN_LEVELS:
        frames = 1000 + _FRAMES * levels
        if sys.getrecursionlimit() < frames:
            sys.setrecursionlimit(frames)


def at_fork(after_in_child: Callable[[], object], before: Callable[[], object] = bool) -> None:
    """Have functions called where this process forks: a child has none of its threads."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_child=after_in_child)


class _Nested:
    """An effect that lasts while any thread is inside."""

    def __init__(self, begin: Callable[[], Any], end: Callable[[Any], None]):
        self.begin, self.end = begin, end
        self._inside, self._before = 0, None
        self.start_anew()
        at_fork(after_in_child=self.start_anew)

    def start_anew(self) -> None:
        """Reset to nobody inside, as in a process that was forked just now. A finalizer that is run
        inside, or a signal's handler, may come here, too.
        """
        if self._inside:
            self.end(self._before)
        self._lock, self._inside = RLock(), 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The first one in begins it; the last one out ends it, given the state from before."""
        if not SPEEDS_UP:
            yield
            return
        entered = False  # an interrupt may come before that
        try:
            with self._lock:
                self._inside, entered = self._inside + 1, True
                if self._inside == 1:
                    self._before = self.begin()
            yield
        finally:
            with self._lock:
                if entered and self._inside:  # a child of this process is out already
                    self._inside -= 1
                    if self._inside == 0:
                        self.end(self._before)


YOUNG, OLD, FROZEN = 50_000, 2**21, 1000
"""Numbers of objects: young ones that take the collector noticeable time; those after which it has
to look through all, as the little garbage there is must not stay; and more than Python 3.12
freezes at its start."""
_grown: list[int] = []


def _stop_collector() -> bool:
    running = gc.isenabled()
    gc.disable()
    return running


def _start_collector(running: bool) -> None:
    if running:
        _grow_old()
        gc.enable()


def _grow_old() -> None:
    """Make young objects old ones to the collector, by freezing and unfreezing them. Where somebody
    else has frozen objects, those stay.
    """
    young = gc.get_count()[0]
    if young < YOUNG or gc.get_freeze_count() > FROZEN:
        return
    _grown.append(young)
    if sum(_grown) > OLD:
        _grown.clear()
        gc.collect()
    else:
        gc.freeze()
        gc.unfreeze()


collector_paused = _Nested(_stop_collector, _start_collector)
"""Python's collector of cycles does not run: trees have none, and looking through them again and
again is an eighth of a build. Nor does it look through all of them right afterwards."""

TURN = 0.0005
"""Seconds after which Python's threads take turns while one of them compiles."""


def _take_short_turns() -> float:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(TURN, usual))
    return usual


short_turns = _Nested(_take_short_turns, sys.setswitchinterval)
"""Python's threads take turns more often than every 5 ms."""

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1
"""Options of glibc's mallopt: bytes from which a block is mapped alone; bytes kept at the end."""


@lru_cache(maxsize=1)
def keep_blocks() -> None:
    """Have the heap keep memory that is given back. Code takes its buffers at each call, and glibc
    hands large ones to the system each time, to be mapped anew, unless it is set not to, or has
    seen a block come and go that is as large as any that it keeps: 32 MiB.
    """
    chosen = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"} & {*os.environ}
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not chosen and SPEEDS_UP:
        for option, size in ((MMAP_THRESHOLD, 1 << 25), (TRIM_THRESHOLD, 1 << 26)):
            mallopt(option, size)


PAGE = 2**21
"""Bytes of a huge page."""
LARGE = 2**19
"""Bytes of an array that is moved to huge pages."""
DELAY = 1.0
"""Seconds for what comes right after a build, maybe another one, which would wait for the system's
lock on the process's memory.
"""
COLLAPSE = 25
"""Linux's MADV_COLLAPSE: copy what small pages hold into huge ones, now."""


def make_pages_huge(arrays: Iterable[np.ndarray]) -> None:
    """Have the system move large arrays to huge pages, beside this thread and not at once: a
    processor finds their bytes in less time, but to make room for such pages can take 0.1 s.
    """
    large = [weakref.ref(array) for array in arrays if array.nbytes >= LARGE]
    if large and sys.platform == "linux" and SPEEDS_UP:
        with suppress(RuntimeError):  # no thread can be started
            Thread(target=_collapse, args=(large,), daemon=True).start()


def _collapse(large: Iterable["weakref.ref[np.ndarray]"]) -> None:
    """Move the arrays that still exist after a while: a library may be gone by then."""
    time.sleep(DELAY)
    advise = ctypes.CDLL(None).madvise
    arrays = [array for item in large if (array := item()) is not None]
    ends = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in arrays]
    pages = {page for start, end in ends for page in range(start // PAGE, -(-end // PAGE))}
    for page in sorted(pages):
        advise(ctypes.c_void_p(page * PAGE), ctypes.c_size_t(PAGE), COLLAPSE)
