"""Candidates in workers: the results of good, of wrong, and of misbehaving ones."""

import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace

import pytest

import minimlc as mlc
from minimlc.loops.schedule import Trace
from minimlc.script import R
from minimlc.tune import attempt, measure
from minimlc.tune.attempt import MOST_SAMPLES, samples
from minimlc.tune.measure import Runner
from minimlc.tune.records import Candidate, Result, target_of, target_text
from tests.helpers import refuses
from tests.recipes.programs import matmul, target

SCALE = """
@T.prim_func
def main(A: T.Buffer((64, 48), "float32"), {out}: T.Buffer((64,), "float32")):
    for i, k in T.grid(64, 48):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                {out}[vi] = T.float32(0)
            {out}[vi] = {out}[vi] + A[vi, vk] * T.float32(3)
"""
MOD = mlc.parse(SCALE.format(out="S"))
HOSTILE = {
    "segfault": "crash",
    "endless_loop": "timeout",
    "memory_bomb": "memory",
    "fork_bomb": "processes",
    "output_flood": "output",
    "orphans": "processes",
}


def candidate(sch=None, **changes):
    trace = Trace(() if sch is None else sch.trace)
    return replace(Candidate(MOD.script(), "main", trace.to_json(), "llvm"), **changes)


@pytest.fixture(scope="module")
def runner():
    with Runner(seconds=5) as runner:
        yield runner


@pytest.fixture
def hostile(monkeypatch):
    monkeypatch.setattr(measure, "SERVER", "tests.tune.hostile")
    with Runner(seconds=2, memory_bytes=1 << 30) as runner:
        yield runner


def test_good_candidates_have_times_and_bad_ones_a_kind(runner):
    sch = mlc.Schedule(MOD)
    good = sch.split("k", [None, 8]).reorder("k_0", "i")
    illegal = Trace((("vectorize", {"loop": "k"}),)).to_json()
    tries = [candidate(good), candidate(trace=illegal), candidate(mod="no script"), candidate()]
    results = list(runner.submit(tries))
    assert [each.kind for each in results] == ["ok", "illegal", "illegal", "ok"]
    assert len(results[0].seconds) == len(results[0].reference) > 1
    assert 0 < results[0].score < float("inf") == results[1].score
    assert "E1" in results[1].message and results[0].host == results[3].host != ""


PRODUCT = matmul(24, 32, 40)


def by(name, mod=PRODUCT):
    return Candidate(mod.script(), "mm", f'"{name}"', "llvm")


def test_a_library_s_routine_is_a_candidate(runner):
    good, other, unknown = runner.submit([by("numpy.matmul"), by("numpy.linear"), by("numpy.mul")])
    assert good.kind == "ok" and good.score > 0
    assert other.kind == "crash" and "size" in other.message
    assert unknown.kind == "build" and 'no function is registered as "numpy.mul"' in unknown.message
    (wrong,) = runner.submit([by("numpy.linear", matmul(24, 24, 24))])
    assert wrong.kind == "wrong"


@pytest.mark.parametrize("after", [mlc.op.floor, lambda x: mlc.op.clip(x, -1000.0, 1000.0)])
def test_a_library_is_checked_on_more_than_small_whole_numbers(after, runner):
    """A schedule is proven; of a library, these would not show what is done afterwards."""
    bb = mlc.BlockBuilder()
    x, w = (mlc.Var(name, R.Tensor((8, 8), "float32")) for name in "xw")
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y = bb.emit_output(after(mlc.op.matmul(x, w)))
        bb.emit_func_output(y)
    (task,) = mlc.tune.tasks(bb.get())
    script = mlc.IRModule.of({"mm": task.func}).script()
    (result,) = runner.submit([Candidate(script, "mm", '"numpy.matmul"', "llvm")])
    assert result.kind == "wrong", result.message


def test_scores_of_libraries_end_no_program_early(runner):
    """Successive halving is among programs."""
    before = {key: dict(value) for key, value in runner._best.items()}
    list(runner.submit([by("numpy.matmul")]))
    assert runner._best == before


@pytest.mark.requires("torch")
def test_torch_is_a_candidate():
    with Runner(seconds=60) as runner:  # torch takes long to import, beside other processes
        (result,) = runner.submit([by("torch.matmul")])
    assert result.kind == "ok", result.message


def test_values_are_checked_before_times(hostile):
    """It leaves its result as it was, filled with what the check put there."""
    wrong = candidate(mod=SCALE.format(out="noise"), target="hostile")
    (result,) = hostile.submit([wrong])
    assert result.kind == "wrong" and "noise[0] comes out as" in result.message
    assert result.seconds == ()


@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="copies of workers are Linux's")
def test_who_misbehaves_costs_one_trial(hostile, record_property):
    """The next trial is back at most half a second later than usual."""
    quick, waits = candidate(trace="{}"), {}
    list(hostile.submit([quick]))
    start = time.perf_counter()
    list(hostile.submit([quick] * 3))
    usual = time.perf_counter() - start
    for kind, expected in HOSTILE.items():
        bad = candidate(mod=SCALE.format(out=kind), target="hostile")
        (result,) = hostile.submit([bad])
        assert result.kind == expected, (kind, result)
        start = time.perf_counter()
        assert next(hostile.submit([quick])).kind == "illegal"
        waits[kind] = round(time.perf_counter() - start, 3)
    record_property("next_trial_seconds", json.dumps(waits))
    assert max(waits.values()) < 0.5 + usual, (usual, waits)


def test_samples_end_early_far_from_the_best():
    slow = lambda: time.sleep(0.003)  # noqa: E731
    counts = [len(samples(slow, best, time.perf_counter() + 60)[0]) for best in (1e-3, 1e9)]
    assert counts == [2, MOST_SAMPLES]
    assert len(samples(slow, 1e9, 0.0)[0]) == 1


def test_a_lost_worker_loses_only_its_unit(runner):
    """A worker that waits is killed; the next candidate gets another."""
    worker = runner._pool.idle[0]
    worker._process.kill()
    worker._process.wait()
    results = runner.submit([candidate(), candidate()])
    assert [each.kind for each in results] == ["ok", "ok"]


def test_what_else_is_in_the_cache_s_folder_stays_there(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIMLC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(measure.psutil, "pid_exists", lambda number: number == 2)
    left = [f"tune-{name}" for name in ("notes", "", "1", "x-y", "9" * 30, f"7-{'a' * 9}")]
    for name in left:
        (tmp_path / name).mkdir()
    (tmp_path / "tune-5").write_text("a file")
    for name in ("tune-3-abcdefgh", "tune-2-abcdefgh"):  # of a process that ended, and of one
        (tmp_path / name).mkdir()
    folder = measure._folder.__wrapped__(5)
    assert folder.parent == tmp_path and folder.is_dir()
    kept = {*left, "tune-5", "tune-2-abcdefgh", folder.name}
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_units_are_plain_data_for_any_executor():
    with ProcessPoolExecutor(1) as pool, Runner(executor=pool, seconds=5) as runner:
        first, second = runner.submit([candidate(), candidate(trace="{}")])
    assert (first.kind, second.kind) == ("ok", "illegal")


def test_times_of_different_hosts_are_never_mixed():
    """The best score that a worker stops samples by is that of its own host."""
    units = []

    class Executor:
        def submit(self, function, text):
            units.append(json.loads(text))
            host = "ab"[len(units) % 2]
            answer = Result("ok", (float(len(units)),), (1.0,), host=host)
            return type("Future", (), {"result": lambda self: answer.to_json()})()

    runner = Runner(executor=Executor())
    assert [each.score for each in runner.submit([candidate()] * 4)] == [1, 2, 3, 4]
    assert units[3]["best"] == {"a": 2.0, "b": 1.0}


def test_what_no_runner_takes():
    refuses("E902", lambda: Runner(workers=0), "workers is a whole number above 0")
    refuses("E902", lambda: Runner(seconds=float("inf")), "seconds")
    refuses("E902", lambda: Runner(executor=3), "executor")
    refuses("E901", lambda: Candidate.from_json("[]"))
    refuses("E901", lambda: Result.from_json('{"kind": "good"}'))


def test_a_target_that_is_not_this_machine(runner):
    here = target_of("llvm")
    assert target_text(here) == "llvm" and target_of(json.dumps(asdict(here))) == here
    other = replace(here, features=f"{here.features},+avx10.2-512,+sve2p1")
    assert target_of(target_text(other)) == other
    refuses("E903", lambda: runner.submit([candidate(target=target_text(other))]))


def test_constants_are_packed_before_they_are_timed(tmp_path, monkeypatch):
    """As `build` does it for a model; values are still checked."""
    built = []

    def build(mod, *args, **options):
        built.append(mod["main"])
        return mlc.build(mod, *args, **options)

    monkeypatch.setattr(attempt, "build", build)
    (folder := tmp_path / "own").mkdir()
    func = matmul(16, 32, 8)["mm"]
    for noted in (), ("B",):
        mod = mlc.IRModule.of({"main": func.with_attr("constants", noted)})
        sch = mlc.recipes.matmul(mlc.Schedule(mod, check=False), target=target())
        assert "B_local" in sch.blocks()
        one = Candidate(mod.script(), "main", sch.trace.to_json(), target_text(target()))
        built.clear()
        result = attempt.attempt(one, folder, 5.0, float("inf"), lambda *say: None)
        assert result.kind == "ok"
        assert ("B_local" in mlc.Schedule(built[0], check=False).blocks()) == (not noted)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("library", ["", "numpy.matmul"])
def test_threads_settle_before_they_are_timed(library, cores, tmp_path, monkeypatch):
    """Those that compute: a library's wait busily, beside a program that is timed."""
    threads, asked, calls = min(cores, mlc.Target.host().cores), [], []
    for name in "threadpool_limits", "set_num_threads":
        monkeypatch.setattr(attempt, name, lambda count, name=name: asked.append((name, count)))
    monkeypatch.setattr(attempt, "samples", lambda *_: (tuple(calls), tuple(calls)))
    monkeypatch.setattr(attempt, "FOREIGN", ())

    def counted(function):
        return lambda *arrays: (calls.append(1.0), function(*arrays))

    build, get = attempt.build, attempt.get_function
    monkeypatch.setattr(attempt, "build", lambda *a, **b: {"main": counted(build(*a, **b)["main"])})
    monkeypatch.setattr(attempt, "get_function", lambda name: counted(get(name)))
    (folder := tmp_path / "own").mkdir()
    mod, here = matmul(8, 8, 8), replace(target(), cores=cores)
    trace = json.dumps(library) if library else Trace().to_json()
    one = Candidate(mod.script(), "mm", trace, target_text(here))
    attempt.attempt(one, folder, 5.0, float("inf"), lambda *say: None)  # writes what is expected
    asked.clear()
    calls.clear()
    result = attempt.attempt(one, folder, 5.0, float("inf"), lambda *say: None)
    assert result.kind == "ok" and asked == [
        ("threadpool_limits" if library else "set_num_threads", threads)
    ]
    assert (len(result.seconds) > 1) == (threads > 1)


def test_arrays_of_the_reference_never_end_alike():
    """Half a page apart, wherever a process's memory begins."""
    attempt.reference.cache_clear()
    first, second = (array.ctypes.data for array in attempt.reference().args)
    assert first % attempt.PAGE == 0 and (second - first) % attempt.PAGE == attempt.PAGE // 2
