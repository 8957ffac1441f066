"""Workers: separate processes in which submissions run within limits, and may crash.

Workers are started in advance, so that one is ready. They answer with data, which the caller judges
in its own process.
"""

import atexit
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import psutil

from minimlc.homework.limits import Limits
from minimlc.homework.message import FOREIGN, Arrays, Failed, Malformed, Message, receive, send
from minimlc.homework.processes import STARTED, how_it_ended, kill_below

POLL_SECONDS = 0.1
"""How often a running submission's processes are checked; a check takes milliseconds."""
START_SECONDS = 60.0
END_SECONDS = 2.0
"""How long to keep killing new processes of a worker that is being ended."""

OWN = 3 if sys.platform == "linux" else 1
"""How many of a worker's processes are its own. On Linux: the guard, the one that answers, and its
copy, which runs the submission.
"""

SPARES = 2
"""Workers that are kept ready."""

_MARK = "MINIMLC_WORKER"
_ROOT = Path(__file__).resolve().parents[2]
_KEPT = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL", "VIRTUAL_ENV", "OMP_NUM_THREADS")


class Worker:
    """One process. `ask` sends a request; after a failure the worker is dead."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)  # sent with a request, and expected in the answer
        self.mark = secrets.token_hex(8)  # in the environment of every process it starts
        self.folder = Path(tempfile.mkdtemp(prefix="minimlc-homework-"))
        with open(self.folder / "printed", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "minimlc.homework.serve"],
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
            "MINIMLC_CACHE_DIR": str(self.folder / "cache"),
        }

    def _read(self) -> None:
        try:
            receive(self._stdout)  # says that it is ready
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

    def ask(self, body: dict[str, Any], arrays: Arrays, limits: Limits) -> Message:
        """The answer to a request. `Failed` where there is none within the limits, and where the
        worker says why there is no result; in the latter case the worker lives on.
        """
        request = {**body, "token": self.token, "limits": limits.to_json()}
        try:
            if not self._ready.wait(START_SECONDS):
                raise Failed(f"the worker did not start within {START_SECONDS:g} s")
            with suppress(BrokenPipeError):
                send(self._stdin, request, arrays)
            answer, results = self._wait(limits)
            if answer.pop("token", None) != self.token:
                raise Failed(FOREIGN)
        except BaseException:
            self.close()
            raise
        if "error" in answer:
            raise Failed(str(answer["error"]))
        return answer, results

    def _wait(self, limits: Limits) -> Message:
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
            self._watch(limits)

    def _watch(self, limits: Limits) -> None:
        processes, used, seconds = [], 0, 0.0
        with suppress(psutil.Error):  # it has ended: the next poll says how
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
        """The beginning of the submission's output."""
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
    below = process.poll() is not None  # by itself, or by its submission
    while kill_below(process.pid) and time.monotonic() < end:
        below = True
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


class _Pool:
    """Spare workers for submissions, and one that evaluates data and runs no submission."""

    def __init__(self) -> None:
        self.spares: list[Worker] = []
        self.evaluator: Worker | None = None
        self.owner = os.getpid()

    def warm(self) -> None:
        """Start missing spare workers; does not wait. `check` calls it."""
        if self.owner != os.getpid():  # a fork has its own
            self.__init__()  # type: ignore[misc]
        while len(self.spares) < SPARES:
            self.spares.append(Worker())

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
        """Ask the worker that never runs a submission's Python for an operation of
        `homework.evaluate`; it is replaced when it dies. It may start a C compiler.
        """
        self.warm()
        if self.evaluator is None or not self.evaluator.alive:
            self.evaluator = self.take()
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
