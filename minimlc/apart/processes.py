"""Processes that may end in any way and leave nothing behind."""

import contextlib
import ctypes
import io
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import BinaryIO, NoReturn

import psutil

from minimlc.apart.message import FOREIGN, Malformed, Message, receive, send

STARTED = "it started other processes, which a submission may not"
"""The reason for refusing a submission that left processes behind, or has too many."""


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The streams of requests and of answers. Code that runs from now on reads nothing from stdin,
    and its output goes to stderr.
    """
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    assert isinstance(sys.stdout, io.TextIOWrapper)
    # So that a crash loses no line, and a lone surrogate can be printed.
    sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    return requests, answers


def go_on_guarded() -> None:
    """Go on in a child. The parent becomes a guard, which inherits and kills what is left behind,
    and ends as the child does (Linux).
    """
    _adopt_orphans()
    child = os.fork()
    if child:
        _guard(child)
    die_with_parent()
    os.setsid()  # killing the group or the session does not reach the guard
    _adopt_orphans()  # what a copy leaves behind is seen at once, not only when this one ends


def _adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Have this process killed when its parent ends (Linux)."""
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
"""See Linux's prctl(2)."""


def _guard(child: int) -> NoReturn:
    for stream in (0, 1):  # the child's ends of the pipes are enough
        os.close(stream)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end_children()
    if code < 0:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL can't be set
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def apart(answer: Callable[[], Message], token: str, private: tuple[BinaryIO, ...]) -> Message:
    """An answer that carries `token`, from a copy of this process without its `private` streams.
    The copy dies with what it runs; this process stays clean and ready. Only on Linux, where
    forking a process without threads is safe and cheap.
    """
    folder = tempfile.mkdtemp(dir=".")
    os.lseek(2, 0, os.SEEK_SET)
    os.ftruncate(2, 0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        die_with_parent()
        for stream in private:
            os.close(stream.fileno())
        os.close(reading)
        os.chdir(folder)
        os.setpgid(0, 0)
        try:
            send(os.fdopen(writing, "wb"), *answer())
        finally:  # whatever happens, this copy goes no further
            os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            message = receive(stream)
    except Malformed as error:
        message = {"error": str(error), "token": token}, {}
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = end_children()
    shutil.rmtree(folder, ignore_errors=True)
    if left:
        why = STARTED
    elif message is None:
        why = how_it_ended(status)
    elif message[0].get("token") != token:
        why = FOREIGN
    else:
        return message
    return {"error": why, "token": token}, {}


def how_it_ended(code: int) -> str:
    """The end of a process that gave no answer, in words, from its exit code."""
    if sys.platform != "win32" and code == -signal.SIGXCPU:
        return "it used more CPU time than it may: is there an endless loop?"
    if code < 0:
        known = -code in set(signal.Signals)  # the others are the real-time signals
        name = signal.Signals(-code).name if known else f"signal {-code}"
        words = {"SIGSEGV": "a segfault", "SIGABRT": "an abort", "SIGKILL": "killed"}
        return f"the process crashed: {words.get(name, name)} ({name})"
    return f"the process ended by itself (exit code {code}) without an answer"


def end_children() -> bool:
    """Kill all descendants and wait until none is left; whether there were any. None escapes from
    a process that adopts orphans, whatever session or group it enters.
    """
    any_left = False
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return any_left
        any_left = True
        if not ended:
            kill_below(os.getpid())
            time.sleep(0.001)


def kill_below(pid: int) -> bool:
    """Kill the processes below one; whether there were any."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return False
    for process in below:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return bool(below)
