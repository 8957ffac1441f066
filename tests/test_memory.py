"""Where constants are: on a cache line, and large ones in huge pages after a build."""

import ctypes
import os
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.values import process
from minimlc.loops.values.process import COLLAPSE, LARGE, PAGE, make_pages_huge
from minimlc.script import R
from minimlc.services.runtime.memory import LINE, on_a_line

linux = pytest.mark.skipif(sys.platform != "linux", reason="advice to Linux")


def shifted(size: int, seed: int) -> np.ndarray:
    """Random bytes that do not begin on a cache line."""
    room = np.random.default_rng(seed).integers(0, 255, size + 2 * LINE, np.uint8)
    return room[-room.ctypes.data % LINE + 1 :][:size]


@pytest.fixture
def threads(monkeypatch):
    """The threads that moved pages; they are at their end."""
    started = []

    class Watched(threading.Thread):
        def start(self):
            started.append(self)
            super().start()
            self.join()

    monkeypatch.setattr(process, "Thread", Watched)
    monkeypatch.setattr(process, "DELAY", 0)
    return started


@pytest.mark.parametrize("size", [1, LARGE - 1, LARGE, PAGE, 3 * PAGE + 1])
def test_a_copy_has_the_same_bytes_and_begins_on_a_line(size):
    array = shifted(size, size)
    copy = on_a_line(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.ctypes.data % LINE == 0


def test_what_begins_on_a_line_is_not_copied():
    array = on_a_line(shifted(1000, 0))
    assert on_a_line(array) is array


@linux
def test_the_pages_of_large_arrays_are_moved_each_once(monkeypatch, threads):
    asked = []

    def madvise(start, size, advice):
        asked.append((start.value, size.value, advice))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(madvise=madvise))
    room = np.empty(4 * PAGE, np.uint8)
    first = -room.ctypes.data % PAGE
    page = room.ctypes.data + first
    beside = [room[first : first + LARGE], room[first + LARGE : first + PAGE + 1]]
    make_pages_huge([*beside, room[first + 2 * PAGE :][: LARGE - 1]])
    assert asked == [(page, PAGE, COLLAPSE), (page + PAGE, PAGE, COLLAPSE)]
    make_pages_huge([room[: LARGE - 1]])
    assert len(threads) == 1


@linux
def test_bytes_stay_what_they_are_while_pages_are_moved(monkeypatch):
    monkeypatch.setattr(process, "DELAY", 0)
    array = shifted(3 * PAGE, 1)
    copies = [on_a_line(array) for _ in range(4)]
    make_pages_huge(copies)
    for number in range(20):
        copies[0][number] = number
        np.testing.assert_array_equal(copies[0][: number + 1], range(number + 1))
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, array)


@linux
def test_arrays_that_nobody_has_any_more_are_not_kept_to_be_moved(monkeypatch):
    asked, asleep, awake = [], threading.Event(), threading.Event()

    def sleep(seconds):
        asleep.set()
        awake.wait(10)

    def madvise(start, size, advice):
        asked.append(start.value)

    monkeypatch.setattr(process.time, "sleep", sleep)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(madvise=madvise))
    threads = []

    class Noted(threading.Thread):
        def start(self):
            threads.append(self)
            super().start()

    monkeypatch.setattr(process, "Thread", Noted)
    array = on_a_line(np.ones(PAGE, np.uint8))
    gone = weakref.ref(array)
    make_pages_huge([array])
    assert asleep.wait(10)
    del array
    assert gone() is None
    awake.set()
    threads[0].join(10)
    assert not asked


@linux
def test_a_build_moves_its_large_constants(threads):
    weight = np.random.default_rng(0).standard_normal((512, 512)).astype("float32")
    x = mlc.Var("x", R.Tensor((3, 512), "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(mlc.op.matmul(x, mlc.constant(weight))))
    lib = mlc.build(bb.get(), cache=False)
    assert len(threads) == 1
    data = np.ones((3, 512), "float32")
    np.testing.assert_allclose(lib["main"](data), data @ weight, rtol=1e-4, atol=1e-3)


@linux
def test_without_another_thread_nothing_is_moved_and_nothing_fails(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    make_pages_huge([np.empty(LARGE, np.uint8)])


def test_without_the_switch_a_process_stays_as_it_was():
    """`MINIMLC_PROCESS_EFFECTS=0`: the collector goes on, threads take their usual turns."""
    code = "import gc, sys, minimlc\nfrom minimlc.loops.values import process\n"
    code += "with process.collector_paused(), process.short_turns():\n"
    code += "    print(gc.isenabled(), sys.getswitchinterval())"
    for switch, shown in (("0", "True 0.005\n"), ("1", "False 0.0005\n")):
        environment = {**os.environ, "MINIMLC_PROCESS_EFFECTS": switch}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.stdout == shown, done.stderr
