"""Whole models: which functions are tuned, in which order, and that the model stays the same."""

from importlib import import_module
from itertools import count

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import R
from minimlc.services.dispatch import chosen
from minimlc.tune import search_model, tasks
from tests.helpers import refuses
from tests.tune.stand_in import InProcess, Pretended, Remembered


@pytest.fixture(autouse=True)
def few_programs_to_choose_from(monkeypatch):
    """A pool of products takes a second to make."""
    monkeypatch.setattr(import_module("minimlc.tune.search"), "POOL", 10)


RNG = np.random.default_rng(0)


def model() -> mlc.IRModule:
    """Two equal layers, and a wider one at the end."""
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((32, 48), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for width in (48, 48, 64):
                weight = mlc.constant(RNG.standard_normal((48, width)).astype("float32"))
                y = bb.emit(mlc.op.nn.relu(mlc.op.matmul(y, weight)))
            y = bb.emit_output(y)
        bb.emit_func_output(y)
    return bb.get()


MODEL = model()


def test_equal_functions_are_one_task():
    first, second = tasks(MODEL)
    assert (first.calls, second.calls) == (2, 1)
    assert "constants" in dict(first.func.attrs)


def test_a_tuned_model_computes_the_same():
    tuned = search_model(MODEL, runner=InProcess(2), trials=6)
    assert [len(result.records) > 0 for _, result in tuned.tasks] == [True, True]
    x = RNG.standard_normal((32, 48)).astype("float32")
    expected = mlc.build(MODEL)["main"](x)
    assert np.allclose(mlc.build(tuned.mod)["main"](x), expected, rtol=1e-4, atol=1e-4)
    assert tuned.speedup >= 1
    head, *rows = repr(tuned).splitlines()
    assert head.startswith("2 tasks, ") and len(rows) == 2 and "called 2 times: main: " in rows[0]


@pytest.mark.requires("thorough")
def test_trials_go_where_most_time_is_spent():
    def seconds(candidate):
        return 1.0 if "64" in candidate.mod else 1e-3

    tuned = search_model(MODEL, runner=Pretended(seconds), trials=26)
    narrow, wide = (len(result.records) for _, result in tuned.tasks)
    assert narrow < wide and 26 <= narrow + wide < 26 + 8


def test_a_model_that_has_a_time_ends_and_has_its_best_measured_again():
    later = count(1)
    runner = Pretended(lambda candidate: 1.0 / next(later))
    part = search_model(MODEL, runner=runner, trials=4096, seconds=1e-6)
    assert part.tasks == ()
    part = search_model(MODEL, runner=runner, trials=26, seconds=1e6)
    assert {result.stopped for _, result in part.tasks} == {"trials"}
    assert all(result.again for _, result in part.tasks)
    mlc.build(part.mod)


def test_an_interrupted_model_keeps_what_it_has_and_goes_on():
    database = Remembered()
    runner = Pretended(lambda candidate: 1.0, stop_after=5)
    part = search_model(MODEL, runner=runner, trials=12, database=database)
    assert {result.stopped for _, result in part.tasks} == {"interrupt"}
    mlc.build(part.mod)
    runner = Pretended(lambda candidate: 1.0)
    search_model(MODEL, runner=runner, trials=12, database=database)
    assert runner.asked >= 7


def test_ctrl_c_at_the_end_ends_all_of_a_model():
    def searched(most):
        later = count(1)
        runner = Pretended(lambda candidate: 1.0 / next(later), stop_after=most)
        return search_model(MODEL, runner=runner, trials=26).tasks, runner.asked

    whole, asked = searched(10**6)
    part, _ = searched(asked - 1)
    assert {result.stopped for _, result in part} == {"interrupt"}
    assert [bool(result.again) for _, result in whole] == [True, True]
    assert [bool(result.again) for _, result in part] == [True, False]
    _, at_once = searched(asked - sum(3 * len(result.again) for _, result in whole))
    assert at_once < asked and at_once == sum(len(result.records) for _, result in whole)


def test_a_module_without_a_graph_has_no_tasks():
    mod = mlc.IRModule.of({"main": tasks(MODEL)[0].func})
    refuses("E902", lambda: search_model(mod, runner=InProcess()), "tune.search(mod)")
    assert tasks(mod) == ()


def by_width(candidate):
    """The narrow product is faster by numpy than any program, the wide one by ours."""
    if not candidate.library:
        return 1.0
    return 2.0 if "(48, 64)" in candidate.mod else 0.5


def test_libraries_compete_with_what_a_search_makes_of_a_product():
    seen, asked = [], []

    def score(candidate):
        asked.append(candidate.library)
        return by_width(candidate)

    options = {"runner": Pretended(score), "trials": 4, "libraries": True}
    tuned = search_model(MODEL, observe=lambda task, _: seen.append(task), **options)
    assert asked.count("numpy.matmul") == 3 + 1  # the narrow one is measured in turns
    assert len({task.names for task in seen}) == 3  # a product alone, a relu, a product with one
    assert tuned.mod.script().count('R.call_dps_packed("numpy.matmul"') == 2
    assert "(48, 48) float32 constant: by numpy.matmul" in repr(tuned)
    assert ": by minimlc" not in repr(tuned)
    x = RNG.standard_normal((32, 48)).astype("float32")
    expected = mlc.build(MODEL)["main"](x)
    assert np.allclose(mlc.build(tuned.mod)["main"](x), expected, rtol=1e-4, atol=1e-4)


def test_who_computes_a_product_is_in_the_database():
    kept = Remembered()
    options = {"database": kept, "trials": 4, "libraries": True}
    first = search_model(MODEL, runner=Pretended(by_width), **options)
    again = Pretended(by_width)
    second = search_model(MODEL, runner=again, **options)
    assert again.asked == 0 and mlc.structural_equal(second.mod, first.mod)
    assert "numpy.matmul" in first.mod.script()


@pytest.mark.parametrize(("after", "calls"), [(0, 0), (2, 0), (22, 2)])
def test_an_interrupt_while_libraries_are_compared_leaves_what_is_decided(after, calls):
    runner = Pretended(by_width, stop_after=after)
    tuned = search_model(MODEL, runner=runner, trials=4, libraries=True)
    assert tuned.mod.script().count("call_dps_packed") == calls
    assert set(chosen(tuned.mod).values()) == ({"numpy.matmul"} if calls else set())
    x = RNG.standard_normal((32, 48)).astype("float32")
    assert np.allclose(
        mlc.build(tuned.mod)["main"](x), mlc.build(MODEL)["main"](x), rtol=1e-4, atol=1e-4
    )


def test_no_library_is_asked_when_its_time_is_over(monkeypatch):
    monkeypatch.setattr(import_module("minimlc.tune.tasks"), "LIBRARIES", 0.0)
    runner = Pretended(lambda candidate: 1.0 if not candidate.library else 1 / 0)
    tuned = search_model(MODEL, runner=runner, trials=4, libraries=True, seconds=60)
    assert len(tuned.tasks) == 2 and "call_dps_packed" not in tuned.mod.script()
    assert "dispatch" not in dict(tuned.mod.attrs)  # nothing is decided


def test_a_product_that_does_not_run_alone_leaves_others_alone():
    def kind(one):
        return "timeout" if "(48, 64)" in one.mod and "relu" not in one.mod else "ok"

    tuned = search_model(MODEL, runner=Pretended(by_width, kind), trials=4, libraries=True)
    assert tuned.mod.script().count("call_dps_packed") == 2
    assert [*chosen(tuned.mod).values()] == ["numpy.matmul"]
