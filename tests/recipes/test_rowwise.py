"""Reductions along rows: the recipe against the loops' meaning."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.recipes.rowwise import MOST_ROWS
from minimlc.schedule import Schedule
from minimlc.script import R
from minimlc.tir.wellformed import loops_in
from tests.recipes.programs import arguments, interpreted, run, target


def softmax(*shape: int) -> mlc.IRModule:
    """The loops of a softmax along the last axis, unscheduled."""
    x = mlc.Var("x", R.Tensor(shape, "float32"))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            result = bb.emit_output(mlc.op.softmax(x))
        bb.emit_func_output(result)
    made = mlc.run_passes(bb.get(), [mlc.passes.legalize, mlc.passes.fuse_ops, mlc.passes.fuse_tir])
    (func,) = [func for _, func in made.entries if isinstance(func, mlc.PrimFunc)]
    return mlc.IRModule.of({"main": func})


def scheduled(mod: mlc.IRModule) -> mlc.IRModule:
    return recipes.rowwise(Schedule(mod, check=False), target=target()).mod


def rows_at_a_time(mod: mlc.IRModule) -> int:
    """How many rows one iteration of the outermost loops does."""
    (func,) = mod.functions.values()
    lanes = [loop for loop in loops_in(func.body) if loop.kind == "unrolled"]
    return next((lp.extent.value for lp in lanes if lp.var.name.startswith("i")), 1)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((8, 40), MOST_ROWS), ((2, 6, 20), 3), ((7, 40), 1), ((2, 40), 1), ((8, 200), 1), ((40,), 1)],
    ids=str,
)
def test_short_rows_are_done_together(shape, rows):
    mod = softmax(*shape)
    made = scheduled(mod)
    assert rows_at_a_time(made) == rows
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made, arrays), means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(made, arrays), means, rtol=1e-5, atol=1e-6)
