"""Workers: separate processes that answer requests with data, within limits, and may crash."""

import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import psutil

from minimlc.apart.limits import Limits
from minimlc.apart.message import FOREIGN, Arrays, Failed, Malformed, Message, receive, send
from minimlc.apart.processes import STARTED, how_it_ended, kill_below

POLL_SECONDS = 0.1
"""The time between checks of a worker; a check takes milliseconds."""
START_SECONDS = 60.0
END_SECONDS = 2.0
"""How long to keep killing new processes of a worker that is being ended."""

OWN = 3 if sys.platform == "linux" else 1
"""The number of processes that a worker needs itself. On Linux: the guard, the one that answers,
and its copy, which runs a request.
"""

_MARK = "MINIMLC_WORKER"
_ROOT = Path(__file__).resolve().parents[2]
_KEPT = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL", "VIRTUAL_ENV", "OMP_NUM_THREADS")


class Worker:
    """One process, which runs a module (`python -m minimlc.homework.serve`, say). `ask` sends a
    request; after a failure the worker is dead.
    """

    def __init__(self, module: str) -> None:
        self.token = secrets.token_hex(16)  # sent with a request, and expected in the answer
        self.mark = secrets.token_hex(8)  # in the environment of every process it starts
        self.folder = Path(tempfile.mkdtemp(prefix="minimlc-worker-"))
        with open(self.folder / "printed", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,
            )
        self._stdin = cast(BinaryIO, self._process.stdin)
        self._stdout = cast(BinaryIO, self._process.stdout)
        self._answers: queue.Queue[Any] = queue.Queue()
        self._ready = threading.Event()
        self.alive = True
        threading.Thread(target=self._read, daemon=True).start()

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in _KEPT if name in os.environ} | {
            _MARK: self.mark,
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "PYTHONPATH": str(_ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONSAFEPATH": "1",  # nothing is imported from where it may write
            "MINIMLC_CACHE_DIR": os.devnull,  # nor is code run that another may have left
        }

    def _read(self) -> None:
        try:
            receive(self._stdout)  # the sign that it is ready
            self._ready.set()
            while (message := receive(self._stdout)) is not None:
                self._answers.put(message)
        except Malformed as error:
            self._answers.put(error)
        except (OSError, ValueError):  # closed while it was read
            pass
        self._answers.put(None)
        self._ready.set()

    def is_ready(self) -> bool:
        """Whether it has reported that it is ready, or has ended; does not wait."""
        return self._ready.is_set()

    def has_ended(self) -> bool:
        """Whether the process has ended, for any reason."""
        return self._process.poll() is not None

    def ask(
        self, body: dict[str, Any], arrays: Arrays, limits: Limits, watched: bool = True
    ) -> Message:
        """The answer to a request. `Failed` where there is none within the limits, and where the
        worker reports a failure; in the latter case the worker lives on. A worker that
        is not `watched` is only held to the wall time.
        """
        request = {**body, "token": self.token, "limits": limits.to_json()}
        try:
            if not self._ready.wait(START_SECONDS):
                raise Failed(f"the worker did not start within {START_SECONDS:g} s")
            with suppress(BrokenPipeError):
                send(self._stdin, request, arrays)
            answer, results = self._wait(limits, watched)
            if answer.pop("token", None) != self.token:
                raise Failed(FOREIGN)
        except BaseException:
            self.close()
            raise
        if "error" in answer:
            raise Failed(str(answer["error"]))
        return answer, results

    def _wait(self, limits: Limits, watched: bool) -> Message:
        end = time.monotonic() + limits.wall_seconds
        while True:
            with suppress(queue.Empty):
                message = self._answers.get(timeout=POLL_SECONDS)
                if message is None:
                    self._answers.put(None)  # for whoever asks again
                    raise Failed(self._how_it_ended())
                if isinstance(message, Malformed):
                    raise message
                return message
            if time.monotonic() > end:
                seconds = f"{limits.wall_seconds:g} s"
                raise Failed(f"no answer after {seconds}: is there an endless loop?")
            if watched:
                self._watch(limits)

    def _watch(self, limits: Limits) -> None:
        processes, used, seconds = [], 0, 0.0
        with suppress(psutil.Error):  # it has ended: the next poll shows how
            first = psutil.Process(self._process.pid)
            processes = [first, *first.children(recursive=True)]
        for process in processes:
            with suppress(psutil.Error):
                used = max(used, process.memory_info().rss)
                seconds += sum(process.cpu_times()[:2])
        if used > 2 * limits.memory_bytes:
            raise Failed(f"it used more than {limits.memory_bytes // 2**20} MiB of memory")
        if seconds > 10 * limits.cpu_seconds + 60:
            time_used = f"more than {limits.cpu_seconds:g} s of CPU time"
            raise Failed(f"it used {time_used}: is there an endless loop?")
        if len(processes) > limits.processes + OWN:
            raise Failed(STARTED)
        if _folder_size(self.folder) > limits.folder_bytes:
            raise Failed(f"it wrote more than {limits.folder_bytes:,} bytes of files")

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        code = self._process.returncode
        return "it closed its connection without an answer" if code is None else how_it_ended(code)

    def printed(self) -> str:
        """The beginning of its output."""
        with suppress(OSError), open(self.folder / "printed", "rb") as file:
            return file.read(2000).decode("utf-8", "replace")
        return ""

    def close(self) -> None:
        """End the process and everything it started, and remove its folder."""
        if not self.alive:
            return
        self.alive = False
        _end(self._process, self.mark)
        for stream in (self._stdin, self._stdout):
            with suppress(OSError):
                stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder_size(folder: Path) -> int:
    total = 0
    for path, _, files in os.walk(folder):
        for name in files[:10_000]:
            with suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def _end(process: subprocess.Popen, mark: str) -> None:
    """Kill a worker and all below it, then what has left its session but carries its mark."""
    end = time.monotonic() + END_SECONDS
    below = ended = process.poll() is not None  # by itself, or by what it ran
    while time.monotonic() < end and not ended:
        killed = kill_below(process.pid)
        below = below or killed
        # Without its child, a guard ends by itself, and after what a list of processes can miss:
        # one whose parent ends just then.
        guarded = below and sys.platform == "linux"
        ended = process.poll() is not None or not (killed or guarded)
        time.sleep(0.001)
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    if below or sys.platform != "linux":
        _end_marked(mark)


def _end_marked(mark: str) -> None:
    for other in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if other.environ().get(_MARK) == mark:
                other.kill()
