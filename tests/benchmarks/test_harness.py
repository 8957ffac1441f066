"""The harness on small things: who is right, who is compared with whom, what is written."""

import json
from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest

import minimlc as mlc
from benchmarks import __main__ as command
from benchmarks import compile as compile_benchmark
from benchmarks import harness, samples, scale
from benchmarks.harness import (
    AWAKE,
    SETTLED,
    Contender,
    Measured,
    Sample,
    WrongResult,
    check,
    compare,
    measure,
    threads,
)
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table, write

EXPECTED = np.array([1.0, 2.0, 3.0])
MACHINE = {
    "cpu": "some CPU",
    "cores": 2,
    "vector_bits": 256,
    "features": ["fma"],
    "system": "Linux",
    "versions": {"numpy": "2"},
    "load": 0.5,
}


def some_report():
    rows = [Measured("slow", (4.0, 5.0, 6.0)), Measured("fast", (1.0, 0.5, 2.0), 10)]
    claims = [Claim("fast", 5.0, ">=", 3), Claim("time", 1.0, "<=", 0.5, "s")]
    return Report("some", 1, MACHINE, [Table("A table", rows, "slow", 2e9)], claims, ["A note."])


def test_a_right_contender_is_timed():
    out = np.zeros(3, np.float32)
    into = Contender("into", lambda: np.copyto(out, EXPECTED), lambda: out, rounds=2)
    fresh = Contender("fresh", lambda: EXPECTED.astype(np.float32))
    first, second = compare([into, fresh], EXPECTED, tolerance=1e-6, rounds=4)
    assert (first.name, len(first.samples), first.batch) == ("into", 2, 1)
    assert (second.name, len(second.samples)) == ("fresh", 4)
    assert second.batch > 1 and second.min > 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (np.array([1.0, 2.5, 3.0]), r"wrong: off by 0.5 at \(1,\)"),
        (np.array([1.0, np.nan, 3.0]), r"wrong: off by nan at \(1,\)"),
        (np.ones(2), r"wrong: shape \(2,\), the reference has \(3,\)"),
    ],
)
def test_a_wrong_contender_is_refused(answer, why):
    called = []
    other = Contender("other", lambda: called.append(1) or EXPECTED)
    with pytest.raises(WrongResult, match=why):
        compare([Contender("wrong", lambda: answer), other], EXPECTED, tolerance=1e-3)
    assert not called, "nothing is timed before everything is checked"


def test_the_tolerance_is_relative_to_the_largest_element():
    check(Contender("near", lambda: EXPECTED + 0.02), EXPECTED, 0.01)
    with pytest.raises(WrongResult):
        check(Contender("far", lambda: EXPECTED + 0.04), EXPECTED, 0.01)


def test_contenders_take_turns():
    calls = []
    contenders = [
        Contender(name, lambda name=name: calls.append(name), rounds=limit)
        for name, limit in (("a", 9), ("b", 9), ("c", 3))
    ]
    measure(contenders, 9)
    assert [calls.count(name) for name in "abc"] == [9, 9, 3]
    with_c = {0, 3, 6}
    at = 0
    for number in range(9):
        due = "abc" if number in with_c else "ab"
        assert sorted(calls[at : at + len(due)]) == list(due)
        at += len(due)


def test_nobody_always_comes_after_the_same_other_one():
    calls = []
    contenders = [
        Contender(name, lambda name=name: calls.append(name), rounds=99) for name in "abcd"
    ]
    measure(contenders, 30)
    followed = Counter(pairwise(calls))
    for first, second in permutations("abcd", 2):
        assert followed[first, second] >= 3


def test_samples_of_several_threads_begin_when_the_others_sleep(monkeypatch):
    happened = []

    def sample(call, batch):
        happened.append(call())
        return Sample(1.0, 1.0)

    def keep_busy(call, least):
        happened.append(f"{call()} awake {least}")
        return least

    monkeypatch.setattr(harness, "_batch", lambda contender: 1)
    monkeypatch.setattr(harness, "_sample", sample)
    monkeypatch.setattr(harness, "_keep_busy", keep_busy)
    monkeypatch.setattr(harness.time, "sleep", lambda seconds: happened.append(f"sleep {seconds}"))
    contenders = [Contender(name, lambda name=name: name) for name in ("one", "two")]
    measure(contenders, 3, settled=True)
    steps = [happened[at : at + 3] for at in range(0, len(happened), 3)]
    assert Counter(name for *_, name in steps) == {"one": 3, "two": 3}
    assert all(each == [f"sleep {SETTLED}", f"{each[2]} awake {AWAKE}", each[2]] for each in steps)
    happened.clear()
    measure(contenders, 3)
    assert Counter(happened) == {"one": 3, "two": 3}


def test_a_disturbed_sample_is_taken_again(monkeypatch):
    taken = iter([Sample(9.0, 0.5), *(Sample(float(n), 1.0) for n in range(1, 4))])
    in_batches_of_one(monkeypatch, lambda call, batch: next(taken))
    (row,) = measure([Contender("one", lambda: None)], 3, quiet=True)
    assert row.samples == (1.0, 2.0, 3.0)
    assert next(taken, None) is None


def in_batches_of_one(monkeypatch, sample):
    monkeypatch.setattr("benchmarks.harness._batch", lambda contender: 1)
    monkeypatch.setattr("benchmarks.harness._sample", sample)


def test_a_slow_one_is_not_taken_again(monkeypatch):
    in_batches_of_one(monkeypatch, lambda call, batch: Sample(1.0, 0.5))
    (row,) = measure([Contender("one", lambda: None, rounds=2)], 3, quiet=True)
    assert row.samples == (1.0, 1.0)


def test_those_least_disturbed_are_kept(monkeypatch):
    shares = iter([0.3, 0.9, 0.5, 0.2, 0.8, 0.1, 0.1, 0.1, 0.1])
    in_batches_of_one(monkeypatch, lambda call, batch: Sample(share := next(shares), share))
    (row,) = measure([Contender("one", lambda: None)], 3, quiet=True)
    assert row.samples == (0.9, 0.8, 0.5)


def test_threads_are_pinned_and_released():
    before = mlc.num_threads()
    with pytest.warns(UserWarning, match="may use"), threads(before + 100):
        assert mlc.num_threads() == mlc.Target.host().cores
    assert mlc.num_threads() == before
    with threads(1):
        assert mlc.num_threads() == 1
    assert mlc.num_threads() == before


def test_ratios_are_of_medians():
    table = some_report().tables[0]
    slow, fast = table.rows
    assert (table.speedup(slow), table.speedup(fast)) == (1.0, 5.0)
    assert fast.min == 0.5 and slow.spread == pytest.approx(0.2)
    assert table.cells(fast) == ["fast", "1 s", "500 ms", "75.0%", "3 of 10 calls", "2", "5"]


def test_claims_compare_with_their_limit():
    met, missed = some_report().claims
    assert (met.met, missed.met) == (True, False)
    assert missed.line() == "time: 1 s (target ≤ 0.5 s): MISSED"
    assert not some_report().met
    assert not Claim("nothing", float("nan"), "<=", 1).met


def test_the_files_hold_all_figures(tmp_path):
    path = tmp_path / "new" / "some.json"
    write(some_report(), path, table=True)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert set(data) == {
        "schema",
        "benchmark",
        "threads",
        "machine",
        "claims",
        "tables",
        "notes",
    }
    assert [row["samples"] for row in data["tables"][0]["rows"]] == [[4, 5, 6], [1, 0.5, 2]]
    assert [row["speedup"] for row in data["tables"][0]["rows"]] == [1, 5]
    assert [claim["met"] for claim in data["claims"]] == [True, False]
    text = path.with_suffix(".md").read_text(encoding="utf-8")
    assert "| fast |    1 s | 500 ms |" in text
    lengths = {len(line) for line in text.splitlines() if line.startswith("|")}
    assert len(lengths) == 1, "the table's columns line up"


def test_the_machine_is_described():
    machine = describe()
    assert machine["cores"] >= 1 and machine["versions"]["numpy"] == np.__version__
    assert json.dumps(machine)


def test_import_time_is_read():
    text = "import time: self [us] | cumulative | imported package\n"
    text += "import time:       100 |        200 |   numpy\nimport time: 5 | 1500000 | minimlc\n"
    assert compile_benchmark.parse_import_time(text, "numpy") == 200e-6
    assert compile_benchmark.parse_import_time(text, "minimlc") == 1.5
    with pytest.raises(ValueError, match="no import of torch"):
        compile_benchmark.parse_import_time(text, "torch")


def test_builds_are_timed_cold_and_from_the_cache(monkeypatch):
    asked = []

    def timed(program, folder, loaded=()):
        asked.append(tuple(loaded))
        return len(asked), 10 + len(asked)

    monkeypatch.setattr(compile_benchmark, "_build_in_process", timed)
    taken = compile_benchmark.build_seconds("mlp")
    assert taken == {"cold": 1, "new process": 2, "again": 12, "warm": 3}
    assert asked == [(), (), ("minimlc.services.build", "llvmlite.binding")]


@pytest.mark.parametrize("tile", [samples.CHAPTER_TILE, (6, 16), (8, 32)])
def test_the_measured_schedules_are_right(tile):
    a, b = (np.random.default_rng(0).standard_normal((64, 64), np.float32) for _ in range(2))
    c = np.empty((64, 64), np.float32)
    mlc.build(samples.schedule(samples.matmul(64), tile), cache=False)["mm"](a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-4, atol=1e-4)


def test_every_stage_takes_a_large_graph():
    names = [name for name, _ in scale.stages(40)]
    assert len(names) == len(set(names))
    for name in ("parse", "legalize", "fuse_tir", "recipes.apply", "verify, lowered"):
        assert name in names
    graph = scale.random_graph(40)
    assert len(list(graph["main"].bindings())) == 40
    assert mlc.structural_equal(graph, scale.random_graph(40))


@pytest.mark.requires("onnx")
def test_dispatch_writes_its_figures(tmp_path, capsys):
    path = tmp_path / "figures.json"
    assert command.main(["dispatch", "--repeat", "1", "--json", str(path)]) == 0
    assert "minimlc kernel" in capsys.readouterr().out
    assert json.loads(path.read_text())["benchmark"] == "dispatch"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.requires("onnx")
def test_the_same_model_on_both_sides():
    weights, x = samples.weights(), samples.digit()
    session = samples.onnx_session(samples.mlp_onnx(weights), 1)
    reference = samples.mlp_reference(weights, x)
    for found in (session.run(None, {"x": x})[0], mlc.build(samples.mlp(weights))["main"](x)):
        np.testing.assert_allclose(found, reference, rtol=1e-4, atol=1e-4)


def test_a_wrong_command_is_refused(capsys):
    for arguments in ([], ["slices"], ["slice", "--repeat", "0"]):
        with pytest.raises(SystemExit) as stop:
            command.main(arguments)
        assert stop.value.code == 2
    assert "at least 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--help"])
    assert "\n\nRun one benchmark" in capsys.readouterr().out
