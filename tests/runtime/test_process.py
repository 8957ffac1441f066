"""What could end the process, tried in a process of its own: it must end well."""

import subprocess
import sys

import pytest

from minimlc.tir.nodes import Alloc, Buffer, For, PrimFunc, Var, index, seq, store

PRELUDE = """
import numpy as np
from minimlc.runtime import native, parallel
from minimlc.runtime.build import build
from tests.runtime.test_process import many_buffers, squares
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, timeout=120
    )


def many_buffers() -> PrimFunc:
    """Each of 400 copies of an unrolled body has a buffer of 32,000 bytes."""
    i, v, w = Var("i"), Var("v"), Var("w")
    x, y = Buffer("x", (400, 8000), "float32"), Buffer("y", (400, 8000), "float32")
    own = Buffer("own", (8000,), "float32", "local")
    fill = For(v, index(8000), "serial", store(own, (v,), x[i, v]))
    use = For(w, index(8000), "serial", store(y, (i, w), own[index(7999) - w]))
    body = For(i, index(400), "unrolled", Alloc(own, seq((fill, use))))
    return PrimFunc((x, y), (), body)


@pytest.mark.slow
def test_the_stack_does_not_overflow():
    script = """
x = np.random.default_rng(0).random((400, 8000), np.float32)
y = np.zeros_like(x)
build(many_buffers(), cache=False)["main"](x, y)
assert (y == x[:, ::-1]).all()
print("good")
"""
    done = run(script)
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
    parallel.openmp = native.openmp = lambda: None
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
    parallel.openmp = native.openmp = lambda: None
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
