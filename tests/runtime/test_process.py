"""Calls that could end the process, tried in a separate process: it must end well."""

import subprocess
import sys

import pytest

from minimlc.loops.ir.nodes import Alloc, Buffer, For, PrimFunc, Var, index, seq, store

PRELUDE = """
import numpy as np
from minimlc.services.threads import parallel
from minimlc.services.build import build
from tests.runtime.test_process import many_buffers, squares
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=120
    )


def many_buffers() -> PrimFunc:
    """Each of 100 copies of an unrolled body has a buffer of 128,000 bytes."""
    i, v, w = Var("i"), Var("v"), Var("w")
    x, y = Buffer("x", (100, 32000), "float32"), Buffer("y", (100, 32000), "float32")
    own = Buffer("own", (32000,), "float32", "local")
    fill = For(v, index(32000), "serial", store(own, (v,), x[i, v]))
    use = For(w, index(32000), "serial", store(y, (i, w), own[index(31999) - w]))
    body = For(i, index(100), "unrolled", Alloc(own, seq((fill, use))))
    return PrimFunc((x, y), (), body)


@pytest.mark.slow
def test_the_stack_does_not_overflow():
    script = """
x = np.random.default_rng(0).random((100, 32000), np.float32)
y = np.zeros_like(x)
build(many_buffers(), cache=False)["main"](x, y)
assert (y == x[:, ::-1]).all()
print("good")
"""
    done = run(script)
    assert done.stdout == "good\n", (done.returncode, done.stderr[-500:])


HOLES = """
import ctypes, mmap
import minimlc as mlc
from minimlc import IRModule, te

system = ctypes.CDLL(None)
system.mmap.restype = ctypes.c_void_p
system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
MAP_NORESERVE = 0x4000

def reserve(size):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return system.mmap(None, size, 0, flags, -1, 0)

def exponentials(number):
    x = te.placeholder((1000,), "float32", name="x")
    y = te.compute((1000,), lambda i: te.exp(x[i]) * (number + 0.5), name="y")
    return te.create_prim_func([x, y])

def functions(count):
    return IRModule.of({f"f{n}": exponentials(n) for n in range(count)})

build(functions(1), cache=False)  # loads what maps memory of its own
x, y = np.linspace(-1, 1, 1000, dtype=np.float32), np.zeros(1000, np.float32)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="lays out Linux's address space")
def test_code_is_linked_where_free_memory_lies_far_apart():
    """Holes of 16 KiB, and 6 GiB that are taken before there is room for more than that."""
    script = """
parts = [reserve(16384) for _ in range(400)]
reserve(6 << 30)
for size in range(22, 11, -1):  # what other holes there are, large ones first
    for _ in range(20):
        reserve(1 << size)
for part in parts[::2]:
    system.munmap(part, 16384)
library = build(functions(60), cache=False)
library["f59"](x, y)
np.testing.assert_allclose(y, np.exp(x) * 59.5, rtol=1e-6)
print("good")
"""
    done = run(HOLES + script)
    assert done.stdout == "good\n", (done.returncode, done.stderr[-500:])


def squares(count: int = 1 << 20, kind: str = "parallel") -> PrimFunc:
    """The squares' squares, many times over: a call that takes a while."""
    i, k = Var("i"), Var("k")
    x, y = Buffer("x", (count,), "float32"), Buffer("y", (count,), "float32")
    body = For(k, index(64), "serial", store(y, (i,), y[i] * 0.5 + x[i]))
    return PrimFunc((x, y), (), For(i, index(count), kind, body))


ENDING = """
import threading, time
if {pool}:
    parallel.team = lambda *cache: None
call = build(squares(), cache=False)["main"]
x, y = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
def work():
    while True:
        call(x, y)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("good", flush=True)
"""


@pytest.mark.parametrize("pool", [False, True])
def test_the_interpreter_ends_during_a_call(pool):
    done = run(ENDING.format(pool=pool))
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr[-500:]


INTERRUPTED = """
import signal, threading, time, os
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
if {pool}:
    parallel.team = lambda *cache: None
parallel._threads.value = 2
call = build(squares(), cache=False)["main"]
x, want = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
call(x, want)
hits = 0
for n in range(6):
    y = np.zeros_like(want)
    timer = threading.Timer(0.02 + 0.002 * n, lambda: os.kill(os.getpid(), signal.SIGINT))
    try:
        timer.start()
        call(x, y)
        timer.join()
    except KeyboardInterrupt:
        hits += 1
        timer.join()
        before = y.copy()
        time.sleep(0.05)
        assert (y == before).all(), "left while threads were writing"
print("good", hits > 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("pool", [False, True])
def test_an_interrupt_waits_for_all_threads(pool):
    done = run(INTERRUPTED.format(pool=pool))
    assert done.stdout == "good True\n", done.stdout + done.stderr[-800:]
    assert "Exception ignored" not in done.stderr


ANYWHERE = """
import sys, threading
parallel.team = lambda *cache: None
parallel._threads.value = 2
NAMES = ("parallel.py", "threading.py", "queue.py")

def outside(frame):
    # The files of the functions around: what a pool of the library does is its own.
    return frame.f_code.co_filename + outside(frame.f_back) if frame else ""

call = build(squares(), cache=False)["main"]
x, want, y = [np.full(1 << 20, value, np.float32) for value in (1, 0, 0)]
call(x, want)
call(x, want)

def interrupted(at):
    # A call that is interrupted at its event number `at` in Python; whether it has so many.
    left = [at]
    def trace(frame, event, arg):
        if frame.f_code.co_filename.endswith(NAMES) and "futures" not in outside(frame):
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace
    sys.settrace(trace)
    try:
        call(x, y)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left[0] <= 0

reached = sum(interrupted(at) for at in range(1, 120))
call(x, y)
assert (y == want).all()
print("good", reached > 20)
"""


def test_an_interrupt_may_come_anywhere():
    """No lock of a loop stays taken: what waits for it would never end, nor would the process."""
    done = run(ANYWHERE)
    assert done.stdout == "good True\n", done.stdout + done.stderr[-800:]
