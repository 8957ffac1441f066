"""Small windows: the recipe against the loops' meaning."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes, recipes
from minimlc.tir.walks import loops_in
from tests.passes.rewriting import module, tensor
from tests.recipes.programs import arguments, interpreted, run, target


def pooled(stride):
    """A pool as loops, with its border."""
    body = lambda x: op.max_pool2d(x, 3, strides=stride, padding=1)  # noqa: E731
    before = passes.default_pipeline[: passes.default_pipeline.index(recipes.apply)]
    mod = mlc.run_passes(module([tensor("x", (1, 2, 16, 20))], body), before)
    return mlc.IRModule.of({"pool": next(f for n, f in mod.functions.items() if n != "main")})


@pytest.mark.parametrize(
    ("stride", "l1", "rows"),
    [(1, 1 << 15, 0), (1, 2048, 4), (1, 1, 1), (2, 1 << 15, 0), (2, 2048, 2), (2, 1, 1)],
)
def test_rows_are_taken_in_strips_that_the_first_level_holds(stride, l1, rows):
    mod = pooled(stride)
    made = recipes.windows(mlc.Schedule(mod, check=False), target=target(l1=l1))
    extents = {loop.var.name: loop.extent.value for loop in loops_in(made.func.body)}
    strips = [name for name in made.loops("max_pool2d_pad") if name.endswith("_0")]
    within = [name for name in made.loops("max_pool2d_update") if name.endswith("_1")]
    assert not strips if not rows else extents[strips[0]] == 16 // stride // rows
    assert not rows or extents[within[0]] == rows
    arrays = arguments(mod)
    np.testing.assert_array_equal(run(made.mod, arrays), interpreted(mod, arrays))
