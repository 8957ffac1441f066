"""Programs of a grid that race: blocks of a launch, a `RaceError`, and a warning elsewhere."""

import warnings

import numpy as np
import pytest

import minimlc as mlc
from minimlc.script import T, tile
from tests.helpers import refuses


@tile.kernel(grid=4)
def added(A: T.Buffer((64,)), C: T.Buffer((1,))):
    at = tile.program_id(0) * 16 + tile.arange(0, 16)
    z = tile.arange(0, 1)
    tile.store(C[z], tile.load(C[z]) + tile.sum(tile.load(A[at]), axis=0))


@tile.kernel(grid=4)
def last_wins(A: T.Buffer((64,)), C: T.Buffer((1,))):
    at = tile.program_id(0) * 16 + tile.arange(0, 16)
    tile.store(C[tile.arange(0, 1)], tile.sum(tile.load(A[at]), axis=0))


@tile.kernel(grid=4)
def neighbours(A: T.Buffer((64,)), C: T.Buffer((65,))):
    at = tile.program_id(0) * 16 + tile.arange(0, 16)
    tile.store(C[at + 1], tile.load(C[at]) + tile.load(A[at]))


@tile.kernel(grid=4)
def counted(A: T.Buffer((64,)), C: T.Buffer((1,))):
    at = tile.program_id(0) * 16 + tile.arange(0, 16)
    tile.atomic_add(C[tile.arange(0, 1)], tile.sum(tile.load(A[at]), axis=0))


@tile.kernel(grid=(2, 2))
def fine(A: T.Buffer((64,)), C: T.Buffer((64,))):
    at = (tile.program_id(0) * 2 + tile.program_id(1)) * 16 + tile.arange(0, 16)
    x = tile.load(A[at])
    if tile.sum(x, axis=0) > 0:
        x = x + 1.0
    tile.store(C[at], x)


RACES = {"added": added, "last_wins": last_wins, "neighbours": neighbours}


def zeros(func):
    return [np.zeros(param.shape, param.dtype) for param in func.params]


@pytest.mark.parametrize("schedule", ["none", "recipe"])
@pytest.mark.parametrize("name", RACES)
@pytest.mark.filterwarnings("ignore::minimlc.loops.values.errors.RaceWarning")
def test_the_simulator_finds_programs_that_race(name, schedule):
    mod = mlc.IRModule.of({"main": RACES[name]})
    mod = mlc.recipes.apply(mod, "cuda") if schedule == "recipe" else mod
    lib = mlc.build(mod, "gpusim")
    error = refuses("E618", lambda: lib["main"](*zeros(RACES[name])))
    assert isinstance(error, mlc.RaceError) and "of block 1" in error.why
    assert "main: 4 blocks of" in lib.source("cuda")


@pytest.mark.parametrize("target", ["interpreter", "llvm", "python"])
@pytest.mark.parametrize("name", RACES)
def test_elsewhere_there_is_a_warning(name, target):
    mod = mlc.IRModule.of({"main": RACES[name]})
    with pytest.warns(mlc.RaceWarning, match="program=0 .*program=1"):
        if target == "interpreter":
            mlc.interpret(mod, "main", *zeros(RACES[name]))
        else:
            mlc.build(mod, target)


@pytest.mark.parametrize("func", [counted, fine], ids=["counted", "fine"])
def test_others_run_as_they_did(func):
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for target in ("interpreter", "gpusim"):
            args = zeros(func)
            args[0] += 1
            mod = mlc.IRModule.of({"main": func})
            run = mlc.build(mod, target)["main"] if target == "gpusim" else None
            run(*args) if run else mlc.interpret(mod, "main", *args)
            results.append(args[1])
    np.testing.assert_array_equal(*results)
    assert results[0].sum() == (64 if func is counted else 128)


@tile.kernel(grid=2)
def narrow(
    A: T.Buffer((16,), "int8"),
    B: T.Buffer((16,), "uint8"),
    C: T.Buffer((4, 2), "int64"),
    D: T.Buffer((16,), "int32"),
):
    p = tile.program_id(0)
    at = p * 8 + tile.arange(0, 8)
    a, b = tile.load(A[at]), tile.load(B[at])
    tile.store(C[0, p], tile.sum(a, axis=0))
    tile.store(C[1, p], tile.sum(b, axis=0))
    tile.store(C[2, p], tile.sum(a > 0, axis=0))
    tile.store(C[3, p], tile.max(a, axis=0))
    tile.store(D[at], tile.cumsum(a))


def test_sums_of_narrow_integers_have_32_bits():
    a, b = np.full(16, 100, "int8"), np.full(16, 200, "uint8")
    c, d = np.zeros((4, 2), "int64"), np.zeros(16, "int32")
    mlc.build(narrow)["narrow"](a, b, c, d)
    np.testing.assert_array_equal(c[:, 0], [800, 1600, 8, 100])
    np.testing.assert_array_equal(d[:8], np.cumsum(a[:8], dtype="int32"))


@tile.kernel(grid=4)
def permuted(At: T.Buffer((64,), "int32"), A: T.Buffer((64,)), C: T.Buffer((64,))):
    lanes = tile.program_id(0) * 16 + tile.arange(0, 16)
    tile.store(C[tile.load(At[lanes])], tile.load(A[lanes]))


@pytest.mark.parametrize("target", ["gpusim", "llvm", "python"])
def test_a_store_goes_where_data_say(target):
    places, values = np.random.default_rng(0).permutation(64), np.arange(64, dtype="float32")
    result = np.zeros(64, "float32")
    mlc.build(mlc.IRModule.of({"main": permuted}), target)["main"](
        places.astype("int32"), values, result
    )
    np.testing.assert_array_equal(result[places], values)


def test_programs_that_data_send_to_one_element_race():
    lib = mlc.build(mlc.IRModule.of({"main": permuted}), "gpusim")
    refuses("E618", lambda: lib["main"](*zeros(permuted)), "C[0]")
