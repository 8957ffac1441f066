"""A copy of this process that runs one piece of work, is watched, and may end in any way (Linux).

A fork takes milliseconds: the next copy is as fresh as the first one, and has everything imported.
"""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from minimlc.apart.limits import Limits, apply
from minimlc.apart.message import Failed
from minimlc.apart.processes import die_with_parent, end_children, how_it_ended

POLL_SECONDS = 0.02
"""How often a copy is looked at; a look takes 50 microseconds."""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
ENDINGS = {"SIGXFSZ": "output", "SIGXCPU": "timeout"}
"""Kinds of `Stopped`, by the signal from the system."""

Tell = Callable[[str, float], None]
"""Announces the next part of a copy's work, and how many seconds it may take (`inf`: any). In the
part "run" the copy is limited by the system too, and may start no processes.
"""


class Stopped(Failed):
    """Why a copy gave no answer: `kind` is crash, timeout, memory, output or processes."""

    def __init__(self, kind: str, why: str):
        super().__init__(why)
        self.kind = kind


class _Watched(NamedTuple):
    pid: int
    stream: int
    memory_bytes: int


def in_a_copy(work: Callable[[Tell], str], limits: Limits, private: tuple[BinaryIO, ...]) -> str:
    """The result of `work`, run in a copy of this process without its `private` streams; `Stopped`
    where there is none. At first it has `limits.wall_seconds`.
    """
    os.lseek(2, 0, os.SEEK_SET)
    os.ftruncate(2, 0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_the_copy(work, limits, writing, private)
    os.close(writing)
    answer, stopped = None, None
    try:
        answer = _followed(_Watched(child, reading, limits.memory_bytes), limits.wall_seconds)
    except Stopped as error:
        stopped = error
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reading)
    if end_children() and stopped is None:
        raise Stopped("processes", "it started other processes")
    if stopped is not None:
        raise stopped
    if answer is None:
        known = {-signal.Signals[name]: kind for name, kind in ENDINGS.items()}
        raise Stopped(known.get(status, "crash"), how_it_ended(status))
    return answer


def _be_the_copy(
    work: Callable[[Tell], str], limits: Limits, writing: int, private: tuple[BinaryIO, ...]
) -> NoReturn:
    die_with_parent()
    for stream in private:
        os.close(stream.fileno())
    os.setpgid(0, 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    def say(**message: Any) -> None:
        os.write(writing, json.dumps(message).encode() + b"\n")

    def tell(part: str, seconds: float) -> None:
        if part == "run":
            apply(limits, final=True)
        say(part=part, seconds=seconds)

    try:
        say(answer=work(tell))
    finally:  # whatever happens, this copy goes no further
        os._exit(0)


def _followed(copy: _Watched, seconds: float) -> str | None:
    """The copy's answer; None where it ended without one."""
    part, text, end = "start", b"", time.monotonic() + seconds
    while True:
        ended = os.waitid(os.P_PID, copy.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if data := _read(copy.stream):
            *lines, text = (text + data).split(b"\n")
            for message in map(json.loads, lines):
                if "answer" in message:
                    return str(message["answer"])
                part, end = message["part"], time.monotonic() + message["seconds"]
        elif ended:
            return None
        why = "timeout" if time.monotonic() > end else _trespass(copy, part == "run")
        if why:
            raise Stopped(why, f'it was stopped in the part "{part}": {why}')


def _read(stream: int) -> bytes:
    """Bytes that can be read; none after `POLL_SECONDS`, and at the stream's end."""
    if not select.select([stream], [], [], POLL_SECONDS)[0]:
        return b""
    data = os.read(stream, 1 << 16)
    if not data:
        time.sleep(POLL_SECONDS)
    return data


def _trespass(copy: _Watched, alone: bool) -> str:
    """The limit that a copy has crossed; '' for none."""
    with contextlib.suppress(OSError):
        if int(Path(f"/proc/{copy.pid}/statm").read_text().split()[1]) * PAGE > copy.memory_bytes:
            return "memory"
        if alone and (_children(copy.pid) or len(_children(os.getpid())) > 1):
            return "processes"
    return ""


def _children(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]
