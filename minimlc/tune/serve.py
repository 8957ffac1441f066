"""The program of a measuring worker: `python -m minimlc.tune.serve`.

It has imported the compiler and waits. On Linux each candidate gets a copy of it, which ends with
whatever the candidate does; elsewhere a candidate that ends the process costs the next one a start.
"""

import gc
import os
import sys
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

from minimlc.apart.copies import Stopped, Tell, in_a_copy
from minimlc.apart.limits import Limits
from minimlc.apart.message import receive, send
from minimlc.apart.processes import go_on_guarded, own_streams
from minimlc.tune.attempt import attempt, host, reference
from minimlc.tune.records import Candidate, Result

MOST_OUTPUT = 1 << 20
"""Bytes that a candidate may write."""


def main() -> None:
    """Answer requests until there are none."""
    if sys.platform == "linux":
        go_on_guarded()
    requests, answers = own_streams()
    send(answers, {"ready": os.getpid()}, {})
    reference()  # while the first request is made
    gc.freeze()  # what copies share stays shared
    while (request := receive(requests)) is not None:
        body, _ = request
        text = _measured(body, (requests, answers))
        send(answers, {"token": body["token"], "result": text}, {})
    os._exit(0)


def _measured(body: dict[str, Any], private: tuple[BinaryIO, ...]) -> str:
    """The result of a candidate as JSON, however it ends."""
    if sys.platform != "linux":
        return _result(body, lambda part, seconds: None)
    seconds = body["seconds"]
    limits = Limits(
        cpu_seconds=(os.cpu_count() or 1) * (seconds + 1),
        wall_seconds=seconds,
        memory_bytes=body["memory_bytes"],
        file_bytes=MOST_OUTPUT,
        processes=1,  # none would be no threads either; watching does it
    )
    try:
        return in_a_copy(lambda tell: _result(body, tell), limits, private)
    except Stopped as error:
        return Result(error.kind, message=str(error), host=host()).to_json()


def _result(body: dict[str, Any], tell: Tell) -> str:
    """The result of a candidate as JSON, whatever it raises."""
    best, folder = body["best"].get(host(), inf), Path(body["folder"])
    try:
        candidate = Candidate.of(body["candidate"])
        result = attempt(candidate, folder, body["seconds"], best, tell)
    except MemoryError:
        result = Result("memory", message="it asked for more memory than it may", host=host())
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"[:2000]
        result = Result("crash", message=text, host=host())
    return result.to_json()


if __name__ == "__main__":
    main()
