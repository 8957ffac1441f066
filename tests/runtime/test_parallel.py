"""Threads: the number asked for, nested loops, both runtimes, forks."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from minimlc.loops.ir.nodes import (
    Alloc,
    Binary,
    Buffer,
    For,
    IfThenElse,
    PrimFunc,
    Var,
    index,
    seq,
    store,
)
from minimlc.loops.llvm.kernel import backend, entry_point, link, machine_of
from minimlc.loops.llvm.value import symbol
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.target import Target
from minimlc.services.build import build
from minimlc.services.native.native import Unit
from minimlc.services.threads import parallel
from minimlc.services.threads.team import Team


@pytest.fixture(autouse=True)
def threads():
    before = parallel.num_threads()
    yield
    parallel.set_num_threads(before)


def use_threads(count: int) -> None:
    """Also more threads than there are cores: the sharing out must be right for any number."""
    parallel._threads.value = count
    if parallel.team() is not None:
        parallel.team().grow(count)


@pytest.fixture(params=["team", "pool"])
def runtime(request, monkeypatch):
    """Both ways to run a parallel loop."""
    if request.param == "team" and parallel.team() is None:
        pytest.skip("no team on this system")
    if request.param == "pool":
        monkeypatch.setattr(parallel, "team", lambda cache=True: None)
        monkeypatch.setattr(parallel, "WORTH", 0)  # small loops start threads, too
    return request.param


def nested() -> PrimFunc:
    i, j = Var("i"), Var("j")
    x, y = Buffer("x", (33, 40), "float32"), Buffer("y", (33, 40), "float32")
    body = For(j, index(40), "parallel", store(y, (i, j), x[i, j] * 2.0 + 1.0))
    return PrimFunc((x, y), (), For(i, index(33), "parallel", body))


def check(lib, rng=np.random.default_rng(0)) -> None:
    x, y = rng.standard_normal((33, 40)).astype(np.float32), np.zeros((33, 40), np.float32)
    lib["main"](x, y)
    np.testing.assert_array_equal(y, x * np.float32(2) + np.float32(1))


def test_nested_loops_on_any_number_of_threads(runtime):
    lib = build(nested(), cache=False)
    for count in (1, 2, 3, 8, 50):
        use_threads(count)
        assert parallel.num_threads() == count
        check(lib)


def test_calls_from_several_threads(runtime):
    lib = build(nested(), cache=False)
    failures = []

    def work(seed: int) -> None:
        try:
            for _ in range(20):
                check(lib, np.random.default_rng(seed))
        except AssertionError as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", True])
def test_a_wrong_number_is_refused(count):
    with pytest.raises(CompileError, match="at least 1"):
        parallel.set_num_threads(count)


def test_more_threads_than_cores_are_as_many_as_cores():
    cores = Target.host().cores
    parallel.set_num_threads(cores)
    assert parallel.num_threads() == cores
    for count in (cores + 1, 1000, 2**31, 2**63):
        parallel.set_num_threads(1)
        with pytest.warns(UserWarning, match=f"{count} threads .* may use {cores} core"):
            parallel.set_num_threads(count)
        assert parallel.num_threads() == cores
    check(build(nested(), cache=False))


@pytest.mark.parametrize(
    "said, meant",
    [("1", 1), (" 1 ", 1), ("1,4", 1), ("", 0), ("0", 0), ("-1", 0), ("many", 0), ("²", 0)],
)
def test_the_environment_says_how_many_at_first(said, meant, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    monkeypatch.setattr(parallel, "_threads", ctypes.c_int32(0))
    assert parallel.num_threads() == (meant or Target.host().cores)


def test_the_environment_may_not_exceed_the_machine_either(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "100000")
    monkeypatch.setattr(parallel, "_threads", ctypes.c_int32(0))
    with pytest.warns(UserWarning, match="100000 threads"):
        assert parallel.num_threads() == Target.host().cores


def test_a_failure_on_any_thread_is_told(runtime):
    """A buffer of 2**47 bytes cannot be had; the loop's other iterations need none."""
    for failing in range(8):
        i, x, at = Var("i"), Buffer("x", (8,), "float32"), Buffer("at", (8,), "int64")
        own = Buffer("own", (2**45,), "float32", "local")
        need = Alloc(own, seq((store(own, (at[i],), 1.0), store(x, (i,), own[at[index(7) - i]]))))
        body = IfThenElse(Binary("==", i, index(failing)), need, store(x, (i,), 2.0))
        lib = build(PrimFunc((x, at), (), For(i, index(8), "parallel", body)), cache=False)
        use_threads(4)
        with pytest.raises(MemoryError, match="main could not get memory"):
            lib["main"](np.zeros(8, np.float32), np.arange(8))


def test_where_no_thread_can_be_had(monkeypatch):
    """As when the interpreter ends, or the system's limit is reached."""

    class Full:
        def submit(self, *work):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(parallel, "team", lambda cache=True: None)
    monkeypatch.setattr(parallel, "WORTH", 0)
    monkeypatch.setattr(parallel, "_pool", lambda threads: Full())
    use_threads(4)
    check(build(nested(), cache=False))


def test_small_loops_start_no_threads(monkeypatch):
    monkeypatch.setattr(parallel, "team", lambda cache=True: None)
    monkeypatch.setattr(parallel, "_pool", lambda threads: pytest.fail("threads for a small loop"))
    monkeypatch.setattr(parallel, "WORTH", 60)
    monkeypatch.setattr(parallel, "_worth", set())
    use_threads(4)
    check(build(nested(), cache=False))


needs_team = pytest.mark.skipif(parallel.team() is None, reason="no team on this system")


@needs_team
def test_threads_that_sleep_are_woken():
    lib = build(nested(), cache=False)
    use_threads(3)
    for pause in (0, 0.001, 0.02):  # busy, on the way to sleep, asleep
        for _ in range(20):
            time.sleep(pause)
            check(lib)


@needs_team
def test_the_calling_thread_runs_what_no_other_claims():
    """Members that have no thread, as if none of theirs got a core."""
    team = Team(parallel._threads)
    team.shared.members = 5
    i, x = Var("i"), Buffer("x", (7,), "float32")
    func = PrimFunc((x,), (), For(i, index(7), "parallel", store(x, (i,), x[i] + 1.0)))
    unit = Unit({"f": func})
    code = unit.emitted(Target.host()).text
    native = link(
        [backend().compile_object(code, machine_of(Target.host()))],
        [symbol("f")],
        {"minimlc_parallel": team.address},
    )
    use_threads(5)
    array = np.zeros(7, np.float32)
    for _ in range(100):
        assert entry_point(native.addresses[symbol("f")], 1)(array.ctypes.data) == 0
    assert (array == 100).all()


@needs_team
def test_a_team_is_as_large_as_the_system_lets_it_be(monkeypatch):
    team = Team(parallel._threads)
    started = []
    monkeypatch.setattr(team, "_started", lambda share: started.append(share) or share < 3)
    team.grow(8)
    assert (team.shared.members, started) == (3, [1, 2, 3])
    team.reset()
    assert team.shared.members == 1


@needs_team
def test_many_threads_share_loops_out_at_once():
    """Each of their loops is run once, by whoever has the team or alone."""
    lib = build(nested(), cache=False)
    use_threads(4)
    wrong = []

    def work() -> None:
        x, y = np.ones((33, 40), np.float32), np.zeros((33, 40), np.float32)
        for n in range(300):
            x[...] = n
            lib["main"](x, y)
            if not (y == 2 * n + 1).all():
                wrong.append(n)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def _in_child(lib) -> None:
    check(lib)
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_can_compute(runtime):
    lib = build(nested(), cache=False)
    check(lib)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(lib,))
    child.start()
    child.join(30)
    assert child.exitcode == 0


FORKING = """
import os, sys
import numpy as np
from minimlc.services.threads import parallel
from minimlc.services.build import build
from tests.runtime.test_parallel import check, nested, use_threads
kind = sys.argv[1]
if kind == "pool":
    parallel.team = lambda cache=True: None
    parallel.WORTH = 0
target = "c" if kind == "c" else "llvm"
use_threads(2)
lib = build(nested(), target, cache=False)
check(lib)
generation = 0
while generation < 2:
    child = os.fork()
    if child:
        break
    generation += 1
    assert parallel.num_threads() == 1
    check(lib)
    use_threads(2)
    for each in (lib, build(nested(), target, cache=False)):
        for _ in range(3):
            check(each)
check(lib)
status = os.waitpid(child, 0)[1] if child else 0
print("good", generation, flush=True)
os._exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "kind", ["team", "pool", pytest.param("c", marks=pytest.mark.requires("cc"))]
)
def test_a_forked_child_can_have_threads_again(kind):
    """A child, and a child of it, and what the parent does then; a hang is killed with them."""
    if kind == "team" and parallel.team() is None:
        pytest.skip("no team on this system")
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKING, kind],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert (process.returncode, sorted(said.split("\n"))) == (0, ["", "good 0", "good 1", "good 2"])


BOTH = """
import os, signal, threading, time
import numpy as np
from minimlc.services.threads import parallel
from minimlc.services.build import build
from tests.runtime.test_parallel import use_threads
from tests.runtime.test_process import squares
call = build(squares(1 << 12), cache=False)["main"]
use_threads(3)
x = np.full(1 << 12, 3, np.float32)

def wrong(seconds, y):
    end, bad = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        y[:] = 0
        call(x, y)
        bad += not (y == 6).all()
    return bad

def work():
    while True:
        call(x, other)

other = np.zeros_like(x)
threading.Thread(target=work, daemon=True).start()
children = []
for n in range(20):
    child = os.fork()  # wherever the other thread's loop is
    if not child:
        assert parallel.team().shared.members == 1
        use_threads(2)
        os._exit(wrong(0.3, np.zeros_like(x)))
    assert parallel.team().shared.members == 3
    children.append(child)
bad = wrong(0.3, np.zeros_like(x))
print([os.waitpid(child, 0)[1] for child in children] == [0] * 20, bad, flush=True)
os._exit(0)
"""


@needs_team
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_and_its_parent_compute_at_once():
    """Neither sees the other's loops, nor a child one that another thread was in."""
    command = [sys.executable, "-W", "ignore", "-c", BOTH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr[-500:]


SIGNALS = """
import os, signal
from minimlc.services.build import build
from tests.runtime.test_parallel import check, nested, use_threads
lib = build(nested(), cache=False)
use_threads(3)
check(lib)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1)
"""


@needs_team
def test_signals_are_left_to_other_threads():
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # its threads take them
    command = [sys.executable, "-c", SIGNALS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-500:]


def test_a_runtime_that_cannot_fork_has_one_thread_afterwards(monkeypatch):
    monkeypatch.setattr(parallel, "_RUNTIMES", {0: None})
    parallel.set_num_threads(1)
    monkeypatch.setattr(parallel, "_forked", [True])
    with pytest.warns(UserWarning, match="2 threads .* forked process starts none"):
        parallel.set_num_threads(2)
    assert parallel.num_threads() == 1
    check(build(nested(), cache=False))


def test_what_is_asked_of_a_runtime_before_a_fork(monkeypatch):
    class Gnu:
        omp_pause_resource_all = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda kind: 0)

    monkeypatch.setattr(parallel, "_RUNTIMES", {})
    llvm = type("Llvm", (), {"__kmpc_fork_call": None})()
    parallel.minds_forks(llvm)
    assert parallel._RUNTIMES == {}
    parallel.minds_forks(object())
    assert parallel._RUNTIMES == {0: None}
    for _ in range(2):
        parallel.minds_forks(Gnu())
    assert len(parallel._RUNTIMES) == 2
    parallel._before_fork()


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupted_loop_inside_is_no_success(threads, monkeypatch):
    """Its status is -1, which a pool must not take for less than 0."""
    monkeypatch.setattr(parallel._threads, "value", threads)
    task = parallel.Task(lambda context, begin, end: -1)
    for _ in range(2):
        status = ctypes.c_int32(7)
        parallel.pool_run(parallel._address(task), 0, 8, ctypes.addressof(status))
        assert status.value == 0
