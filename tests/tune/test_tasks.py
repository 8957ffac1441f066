"""Whole models: which functions are tuned, in which order, and that the model stays the same."""

from collections import Counter
from functools import partial
from importlib import import_module
from itertools import count

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import R
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


def test_libraries_compete_with_what_a_search_makes_of_a_product(monkeypatch):
    asked, seen = Counter(), []

    def clock(function, arrays):
        """Ours is asked first. The narrow product is faster by numpy, the wide one by ours."""
        width = function(*arrays).shape[-1]
        asked[width] += 1
        return asked[width] * (1.0 if width == 64 else -1.0)

    passes = import_module("minimlc.passes.dispatch")
    pieces = [passes.PIECES[0]._replace(functions=("numpy.matmul",))]
    monkeypatch.setattr(passes, "dispatch", partial(passes.dispatch, pieces=pieces, clock=clock))
    runner = InProcess(2)
    tuned = search_model(
        MODEL, runner=runner, trials=4, libraries=True, observe=lambda task, _: seen.append(task)
    )
    assert asked == {48: 2, 64: 2}
    assert len({task.names for task in seen}) == 3  # a product alone, a relu, a product with one
    assert tuned.mod.script().count('R.call_dps_packed("numpy.matmul"') == 2
    assert "(48, 48) float32 constant: by numpy.matmul" in repr(tuned)
    assert ": by minimlc" not in repr(tuned)
    x = RNG.standard_normal((32, 48)).astype("float32")
    expected = mlc.build(MODEL)["main"](x)
    assert np.allclose(mlc.build(tuned.mod)["main"](x), expected, rtol=1e-4, atol=1e-4)
