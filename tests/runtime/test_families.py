"""Instances of symbolic functions: what they share, what they do not, and how many there are."""

import warnings
from importlib import import_module

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import R
from minimlc.services.sizes.sizes import size_of

RNG = np.random.default_rng(7)
WEIGHTS = [RNG.standard_normal(shape, "float32") for shape in ((40, 24), (40, 40), (24, 40))]


def decoder(n: int | None = None) -> mlc.IRModule:
    """Three layers on one row; the second one looks at n rows that came before."""
    bb = mlc.BlockBuilder()
    x = mlc.Var("x", R.Tensor((1, 24), "float32"))
    past = mlc.Var("past", R.Tensor((size_of("n") if n is None else n, 40), "float32"))
    with bb.function("main", [x, past]):
        first, second, third = (mlc.constant(each) for each in WEIGHTS)
        y = bb.emit(mlc.op.gelu(mlc.op.linear(x, first)))
        y = bb.emit(mlc.op.tanh(mlc.op.linear(y, second)))
        rows = bb.emit(mlc.op.concat((past, y), axis=0))
        y = bb.emit(mlc.op.max(rows, axis=0, keepdims=True))
        bb.emit_func_output(bb.emit(mlc.op.linear(y, third)))
    return bb.get()


def arguments(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal(shape, "float32") for shape in ((1, 24), (n, 40))]


def kernels(texts: list[str]) -> int:
    return sum(text.count("define i32 @mlc.k") for text in texts)


@pytest.fixture
def scheduled(monkeypatch) -> list[str]:
    """The functions that recipes saw."""
    names: list[str] = []
    recipes = import_module("minimlc.recipes")
    real = recipes._schedule
    monkeypatch.setattr(
        recipes, "_schedule", lambda name, *rest: names.append(name) or real(name, *rest)
    )
    return names


@pytest.mark.parametrize("cache", [False, True])
def test_a_further_instance_compiles_what_depends_on_its_size(
    cache, folder, compilations, scheduled
):
    main = mlc.build(decoder(), cache=cache)["main"]
    main(*arguments(5))
    first, plans = kernels(compilations), len(scheduled)
    assert first == 5 and plans == 5
    if cache:
        for path in folder.glob("*.bin"):
            path.unlink()
    compilations.clear()
    for n in (6, 9):
        expected = mlc.build(decoder(n), cache=False)["main"](*arguments(n))
        compilations.clear()
        scheduled.clear()
        np.testing.assert_array_equal(main(*arguments(n)), expected)
        assert kernels(compilations) == len(scheduled) == 2  # concat and max


def test_object_code_is_shared_where_a_pipeline_is_given(compilations):
    steps = [*mlc.passes.default_pipeline]
    main = mlc.build(decoder(), cache=False, pipeline=steps)["main"]
    main(*arguments(5))
    compilations.clear()
    expected = mlc.build(decoder(6), cache=False)["main"](*arguments(6))
    compilations.clear()
    np.testing.assert_array_equal(main(*arguments(6)), expected)
    assert len(compilations) == 3  # concat, max, and the calls


@pytest.mark.parametrize(
    "options",
    [
        {"target": "python"},
        pytest.param({"target": "c"}, marks=pytest.mark.requires("cc")),
        {"bounds": "check"},
        {"pipeline": mlc.passes.default_pipeline},
    ],
    ids=["python", "c", "checked", "pipeline"],
)
def test_schedules_are_shared_where_code_is_not(options, scheduled):
    main = mlc.build(decoder(), cache=False, **options)["main"]
    main(*arguments(5))
    assert len(scheduled) == 5
    expected = mlc.build(decoder(6), cache=False, **options)["main"](*arguments(6))
    scheduled.clear()
    np.testing.assert_array_equal(main(*arguments(6)), expected)
    assert len(scheduled) == 2  # concat and max


@pytest.mark.parametrize("cache", [False, True])
def test_packed_weights_are_one_array(cache, folder):
    library = mlc.build(decoder(), cache=cache)
    for n in (5, 6):
        library["main"](*arguments(n))
    plans = [each["main"].plan for each in library["main"].libraries.values()]
    weights = [[array for array in plan.constants if array.size > 500] for plan in plans]
    assert weights[0] and all(a is b for a, b in zip(*weights, strict=True))


def test_an_entry_that_is_forgotten_costs_time_alone(monkeypatch, scheduled):
    monkeypatch.setattr("minimlc.services.runtime.cache.MOST_KEPT", 1)
    main = mlc.build(decoder(), cache=False)["main"]
    for n in (5, 6):
        expected = mlc.build(decoder(n), cache=False)["main"](*arguments(n))
        scheduled.clear()
        np.testing.assert_array_equal(main(*arguments(n)), expected)
        assert len(scheduled) >= 4


ROWS = """
@R.function
def main(x: R.Tensor((n, 4), "float32"), y: R.Tensor((m, 4), "float32")):
    return R.concat((R.exp(x), y), axis=0)
"""


def called(main, sizes) -> list[warnings.WarningMessage]:
    """The warnings of calls with these sizes."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for n, m in sizes:
            main(np.zeros((n, 4), "float32"), np.zeros((m, 4), "float32"))
    return [each for each in found if each.category is mlc.ManySizes]


def test_the_ninth_size_is_warned_of_once():
    main = mlc.build(mlc.parse(ROWS), "python")["main"]
    assert not called(main, [(n, 1) for n in range(8)] * 2)
    (found,) = called(main, [(8, 1), (9, 1), (10, 2), (8, 1)])
    text = str(found.message)
    assert "main was called with 9 values of n, and compiled" in text
    assert found.filename == __file__
    assert 'library.plan("main", n=..., m=...)' in text


def test_sizes_asked_for_ahead_are_not_counted():
    library = mlc.build(mlc.parse(ROWS), recipes=False)
    for n in range(9):
        library.plan("main", n=n, m=1)
    assert not called(library["main"], [(n, 1) for n in range(17)])
    assert called(library["main"], [(17, 1)])
