"""Submissions that misbehave are failed checks, and the next worker is there at once."""

import os
import sys
import time

import psutil
import pytest

from minimlc import homework
from minimlc.apart.limits import MIB, apply
from minimlc.apart.message import Failed
from minimlc.apart.processes import how_it_ended
from minimlc.homework import worker
from minimlc.homework.limits import Limits, enforced
from minimlc.homework.worker import fresh_worker

pytestmark = pytest.mark.many

SOON = Limits(cpu_seconds=1, wall_seconds=60)
SMALL = Limits(cpu_seconds=20, wall_seconds=60, memory_bytes=512 * MIB)

HARMLESS = "def f(n): return n"
MISBEHAVING = {
    "segfault": ("import ctypes\ndef f(n): ctypes.string_at(0)", "segfault"),
    "endless loop": ("def f(n):\n    while True: pass", "CPU time"),
    "memory bomb": ("def f(n):\n    x = []\n    while True: x.append(bytearray(2**28))", "memory"),
    "sys.exit": ("import sys\ndef f(n): sys.exit(0)", "sys.exit(0)"),
    "os._exit": ("import os\ndef f(n): os._exit(0)", "exit code 0"),
    "one large file": (
        "def f(n):\n    open('x', 'wb').write(b'0' * 10**8)",
        "File too large",
    ),
    "many files": (
        "import time\n"
        "def f(n):\n    for i in range(8): open(f'x{i}', 'wb').write(b'0' * 10**7)\n"
        "    time.sleep(3)",
        "of files",
    ),
    "deep recursion": ("def f(n): return f(n)", "RecursionError"),
    "an exception": ("def f(n):\n    raise ValueError('no idea')", "ValueError: no idea"),
}
if sys.platform != "win32":
    MISBEHAVING["other processes"] = (
        "import os, time\n"
        "def f(n):\n"
        "    for _ in range(4):\n"
        "        if os.fork() == 0: os.setsid(); time.sleep(60); os._exit(0)\n"
        "    time.sleep(60)",
        "processes" if os.getuid() == 0 else "Resource temporarily unavailable",
    )
    MISBEHAVING["a flood on every pipe"] = (
        "import os\n"
        "def f(n):\n"
        "    print('f: 5 of 5 points', flush=True)\n"
        "    for pipe in range(1, 30):\n"
        "        try: os.write(pipe, b'{\"passed\": true}' * 9)\n"
        "        except OSError: pass",
        "cannot be read",
    )


def ask(source: str, limits: Limits = SMALL) -> dict:
    body = {"op": "collect", "source": source, "entry": "f", "kind": "program", "cases": [[2]]}
    with fresh_worker() as one:
        return one.ask(body, {}, limits)[0]


@pytest.mark.parametrize("kind", MISBEHAVING)
def test_it_is_contained_and_a_worker_is_back(kind, record_property):
    source, words = MISBEHAVING[kind]
    with pytest.raises(Failed) as caught:
        ask(source, SOON if words == "CPU time" else SMALL)
    assert words in str(caught.value)
    start = time.perf_counter()
    with pytest.raises(Failed, match="a module is wanted, not int"):
        ask(HARMLESS)
    record_property("worker_back_seconds", round(time.perf_counter() - start, 3))


def test_an_endless_wait_ends():
    with pytest.raises(Failed, match="no answer after"):
        ask("import time\ndef f(n): time.sleep(60)", Limits(wall_seconds=0.5))


def test_an_answer_of_somebody_else_does_not_count():
    """A well-formed message, written where answers go, lacks the request's token."""
    source = (
        "import io, os\n"
        "from minimlc.apart.message import send\n"
        "def f(n):\n"
        "    text = io.BytesIO(); send(text, {'programs': [''], 'same': True}, {})\n"
        "    for pipe in range(1, 30):\n"
        "        try: os.write(pipe, text.getvalue())\n"
        "        except OSError: pass\n"
        "    os._exit(0)"
    )
    with pytest.raises(Failed, match="not the worker's answer"):
        ask(source)


def test_what_is_printed_is_shown_and_not_believed():
    def chatty(n, m):
        print("hw1.broadcast_add: 5 of 5 points")

    report = homework.check("hw1.broadcast_add", chatty)
    assert report.points == 0
    assert report.note == "hw1.broadcast_add: 5 of 5 points"
    assert "not None (is there a return?)" in repr(report)


def test_children_that_leave_the_session_are_ended_too(tmp_path):
    if sys.platform == "win32" or os.getuid() != 0:
        pytest.skip("only root may start processes in a worker")
    mark = tmp_path / "alive"
    source = (
        "import os, time\n"
        "def f(n):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); time.sleep(1.5)\n"
        f"        open({str(mark)!r}, 'w').close(); os._exit(0)\n"
        "    time.sleep(60)"
    )
    with pytest.raises(Failed, match="processes"):
        ask(source)
    time.sleep(2)
    assert not mark.exists()


@pytest.mark.parametrize("detached", [False, True])
def test_processes_that_outlive_their_submission_are_ended(detached):
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("only root may start processes in a worker; only Linux gives them back")

    mark = f"left-{os.getpid()}-{detached}"
    source = (
        "import subprocess, sys\n"
        "def f(n):\n"
        f"    code = 'import time; time.sleep(60)  # {mark}'\n"
        "    for _ in range(4):\n"
        f"        subprocess.Popen([sys.executable, '-c', code], env={{}},"
        f" start_new_session={detached})"
    )
    for _ in range(5):
        with pytest.raises(Failed, match="it started other processes"):
            ask(source)

    def left() -> list[str]:
        lines = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
        return [line for line in lines if mark in line]

    deadline = time.monotonic() + 10  # on a busy machine, one that was killed goes a little later
    while left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left()


def test_a_process_that_is_left_at_once_is_seen_and_not_the_next_ones():
    if sys.platform != "linux" or os.getuid() != 0:
        pytest.skip("only root may start processes in a worker; only Linux gives them back")
    leaving = (
        "import os, time\n"
        "def f(n):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid(); time.sleep(60); os._exit(0)"
    )
    for _ in range(5):
        for source, words in ((leaving, "it started other processes"), (HARMLESS, "not int")):
            with pytest.raises(Failed, match=words):
                ask(source)


def test_workers_leave_no_folders_behind():
    source = "def f(n):\n    open('left', 'w').close()\n    return n"
    with fresh_worker() as one:
        with pytest.raises(Failed, match="not int"):
            one.ask(
                {
                    "op": "collect",
                    "source": source,
                    "entry": "f",
                    "kind": "program",
                    "cases": [[2]],
                },
                {},
                SMALL,
            )
        assert not list(one.folder.rglob("left")) or sys.platform != "linux"
    worker.close()
    assert not one.folder.exists() and one.has_ended()


def test_a_submission_leaves_nothing_for_the_next():
    with pytest.raises(Failed, match="not str"):
        ask("import numpy as np\ndef f(n):\n    np.mark = 'here'\n    return np.mark")
    with pytest.raises(Failed, match="AttributeError"):
        ask("import numpy as np\ndef f(n): return np.mark")


def test_a_worker_sees_little_of_the_environment(monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_COURSE", "42")
    worker.close()  # workers that waited were started before
    with pytest.raises(Failed, match="KeyError"):
        ask("import os\ndef f(n): return os.environ['SECRET_OF_THE_COURSE']")


def test_closing_the_pool_ends_all_workers_and_the_next_check_works():
    with pytest.raises(Failed):
        ask(HARMLESS)
    worker.close()
    with pytest.raises(Failed, match="a module is wanted"):
        ask(HARMLESS)


def test_every_limit_says_how_it_is_kept():
    assert set(enforced()) == set(Limits().to_json())
    apply(Limits(cpu_seconds=1e6, memory_bytes=2**42, file_bytes=2**42), final=False)


DAEMON = """
import os, subprocess, sys, time
def daemon():
    code = "import time; time.sleep(120)  # MARK"
    first = os.fork()
    if first == 0:
        os.setsid()
        os.chdir("/")
        os.execve(sys.executable, [sys.executable, "-c", code], {})
"""
WAYS_OUT = {
    "kills its parent": "os.kill(os.getppid(), 9)",
    "kills its parent softly": "os.kill(os.getppid(), 15)",
    "kills its parent's group": "os.killpg(os.getpgid(os.getppid()), 9)",
    "kills the session": "os.kill(os.getsid(os.getppid()), 9)",
    "stops its parent": "os.kill(os.getppid(), 19)",
    "ends": "os._exit(3)",
    "kills itself": "os.kill(os.getpid(), 9)",
    "aborts": "os.abort()",
    "a real-time signal": "os.kill(os.getpid(), 40)",
    "a real-time signal for its parent": "os.kill(os.getppid(), 64)",
    "goes on alone": "os.kill(os.getppid(), 9); time.sleep(120)",
    "returns": "return 3",
}


def running(mark: str) -> list[int]:
    """The processes that carry a mark, in their command line or their environment."""
    processes = psutil.process_iter(["cmdline", "environ", "pid"])
    return [
        p.info["pid"]
        for p in processes
        if mark in " ".join(p.info["cmdline"] or ())
        or (p.info["environ"] or {}).get("VIRTUAL_ENV") == mark
    ]


def below() -> set[int]:
    """The processes below this one, apart from waiting workers."""
    worker.close()
    return {p.pid for p in psutil.Process().children(recursive=True)}


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("with_daemon", [False, True])
def test_nothing_is_left_however_a_submission_ends(way, with_daemon, monkeypatch):
    if sys.platform != "linux":
        pytest.skip("only Linux gives back what has left its session")
    if with_daemon and os.getuid() != 0:
        pytest.skip("only root may start processes in a worker")
    mark = f"left-{os.getpid()}-{way.replace(' ', '-')}"
    call = "daemon()\n    " if with_daemon else ""
    source = f"{DAEMON}\ndef f(n):\n    {call}{WAYS_OUT[way]}".replace("MARK", mark)
    before = below()
    monkeypatch.setenv("VIRTUAL_ENV", mark)  # which workers inherit
    with pytest.raises(Failed) as caught:
        ask(source, Limits(cpu_seconds=20, wall_seconds=4 if "stops" in way else 60))
    assert str(caught.value)
    deadline = time.monotonic() + 10  # what was killed goes a little later on a busy machine
    while (below() - before or running(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(mark)
    assert below() <= before


def test_real_time_signals_have_a_number():
    if sys.platform == "win32":
        pytest.skip("there are no signals")
    assert "signal 40" in how_it_ended(-40)
    assert "(SIGSEGV)" in how_it_ended(-11)
