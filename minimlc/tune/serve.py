"""What a measuring worker runs: `python -m minimlc.tune.serve`.

It has imported the compiler and waits. On Linux each candidate gets a copy of it (a fork takes
milliseconds), which is watched, and which ends with whatever the candidate does; elsewhere a
candidate that ends the process costs the next one a start.
"""

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from time import monotonic, sleep
from typing import Any, BinaryIO, NoReturn

from minimlc.apart.limits import Limits, apply
from minimlc.apart.message import receive, send
from minimlc.apart.processes import (
    die_with_parent,
    end_children,
    go_on_guarded,
    how_it_ended,
    own_streams,
)
from minimlc.tune.attempt import attempt, host, reference
from minimlc.tune.records import Candidate, Result

POLL_SECONDS = 0.02
"""How often a running candidate is looked at; a look takes 50 microseconds."""
MOST_OUTPUT = 1 << 20
"""Bytes that a candidate may write."""
EXPECTED_TIMES = 20
"""How many times as long as a candidate may run, the unscheduled program may."""
PAGE = 4096
Body = dict[str, Any]
Tell = Callable[[str], None]


def main() -> None:
    """Answer requests until there are none."""
    linux = sys.platform == "linux"
    if linux:
        go_on_guarded()
    requests, answers = own_streams()
    reference()
    send(answers, {"ready": os.getpid()}, {})
    while (request := receive(requests)) is not None:
        body, _ = request
        result = _apart(body, (requests, answers)) if linux else _result(body, lambda part: None)
        send(answers, {"token": body["token"], "result": result.to_json()}, {})
    os._exit(0)


def _result(body: Body, tell: Tell) -> Result:
    """What comes of a candidate, whatever it raises."""
    best = body["best"].get(host(), inf)
    try:
        candidate, folder = Candidate.of(body["candidate"]), Path(body["folder"])
        return attempt(candidate, folder, body["seconds"], best, tell)
    except MemoryError:
        return Result("memory", message="it asked for more memory than it may", host=host())
    except BaseException as error:
        return Result("crash", message=f"{type(error).__name__}: {error}"[:2000], host=host())


def _apart(body: Body, private: tuple[BinaryIO, ...]) -> Result:
    """What comes of a candidate that runs in a copy of this process."""
    os.lseek(2, 0, os.SEEK_SET)
    os.ftruncate(2, 0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _copy(body, writing, (*private, os.fdopen(reading)))
    os.close(writing)
    result = _followed(child, reading, body)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reading)
    if end_children() and (result is None or result.kind in ("ok", "crash")):
        return Result("processes", message="it started processes", host=host())
    return result or Result(_kind(status), message=how_it_ended(status), host=host())


def _copy(body: Body, writing: int, private: tuple[Any, ...]) -> NoReturn:
    """Be the copy: answer, and end."""
    die_with_parent()
    for stream in private:
        os.close(stream.fileno())
    os.setpgid(0, 0)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    def say(**message: str) -> None:
        os.write(writing, json.dumps(message).encode() + b"\n")

    def tell(part: str) -> None:
        if part == "run":
            apply(_limits(body), final=True)
        say(part=part)

    try:
        say(result=_result(body, tell).to_json())
    finally:  # whatever happens, this copy goes no further
        os._exit(0)


def _limits(body: Body) -> Limits:
    """What the system holds a run to; looking at it does the rest."""
    cpu = (os.cpu_count() or 1) * (body["seconds"] + 1)
    memory = body["memory_bytes"]
    return Limits(cpu_seconds=cpu, memory_bytes=memory, file_bytes=MOST_OUTPUT, processes=1)


def _kind(status: int) -> str:
    kinds = {-signal.SIGXFSZ: "output", -signal.SIGXCPU: "timeout"}
    return kinds.get(status, "crash")


def _followed(child: int, reading: int, body: Body) -> Result | None:
    """What the copy says, or why it was stopped; None where it ended without a word."""
    part, text, seconds = "build", b"", body["seconds"]
    end = monotonic() + seconds
    while True:
        ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        data = _read(reading)
        if data:
            *lines, text = (text + data).split(b"\n")
            for message in map(json.loads, lines):
                if "result" in message:
                    return Result.from_json(message["result"])
                part = message["part"]
                factor = {"wait": inf, "expected": EXPECTED_TIMES}.get(part, 1)
                end = monotonic() + seconds * factor
        elif ended:
            return None
        why = "timeout" if monotonic() > end else _trespass(child, part, body["memory_bytes"])
        if why:
            words = f'it was stopped: {why}, in the part "{part}"'
            return Result(why, message=words, host=host())


def _read(stream: int) -> bytes:
    """What there is to read, after a while nothing; nothing at the stream's end."""
    if not select.select([stream], [], [], POLL_SECONDS)[0]:
        return b""
    data = os.read(stream, 1 << 16)
    if not data:
        sleep(POLL_SECONDS)
    return data


def _trespass(child: int, part: str, memory_bytes: int) -> str:
    """Which limit a copy has crossed, as a kind of result; '' for none."""
    with contextlib.suppress(OSError):
        if int(Path(f"/proc/{child}/statm").read_text().split()[1]) * PAGE > memory_bytes:
            return "memory"
        if part == "run" and (_children(child) or len(_children(os.getpid())) > 1):
            return "processes"
    return ""


def _children(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [each for task in tasks for each in (task / "children").read_text().split()]


if __name__ == "__main__":
    main()
