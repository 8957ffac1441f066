"""Small windows: the recipe against the loops' meaning."""

from dataclasses import replace

import numpy as np
import pytest

import minimlc as mlc
from minimlc import op, passes, recipes
from minimlc.loops.ir.nodes import Store
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.values.node import nodes_of
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


def by_channel(rows, columns, stride=1, dtype="float32"):
    """One filter of 3x3 for each of three channels, as loops."""
    body = lambda x, w: op.conv2d(x, w, strides=stride, padding=1, groups=3)  # noqa: E731
    before = passes.default_pipeline[: passes.default_pipeline.index(recipes.apply)]
    image, weights = tensor("x", (1, 3, rows, columns), dtype), tensor("w", (3, 1, 3, 3), dtype)
    mod = mlc.run_passes(module([image, weights], body), before)
    return mlc.IRModule.of({"conv": next(f for n, f in mod.functions.items() if n != "main")})


@pytest.mark.parametrize(
    ("rows", "columns", "stride", "together"),
    [(14, 14, 1, 2), (7, 7, 1, 7), (28, 28, 2, 2), (12, 40, 1, 2), (13, 9, 1, 1), (4, 128, 1, 2)],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_sums_share_what_they_read(rows, columns, stride, together, dtype):
    mod = by_channel(rows, columns, stride, dtype)
    lanes = replace(target(), vector_bits=512 if dtype == "float64" else 256)
    made = recipes.windows(mlc.Schedule(mod, check=False), target=lanes)
    name = next(name for name in made.blocks() if name.endswith("_update"))
    loops = {loop.var.name: (loop.kind, loop.extent.value) for loop in loops_in(made.func.body)}
    row = loops[made.loops(name)[-2]]
    assert row == (("unrolled", together) if together > 1 else ("unrolled", 3))
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made.mod, arrays), means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(made.mod, arrays), means, rtol=1e-5, atol=1e-6)


def test_maxima_are_taken_row_by_row():
    made = recipes.windows(mlc.Schedule(pooled(1), check=False), target=target())
    assert not [name for name in made.loops("max_pool2d_update") if name.startswith("i_")]


@pytest.mark.parametrize(("columns", "apart"), [(28, True), (27, False)])
def test_windows_two_columns_apart_read_even_and_odd_ones_apart(columns, apart):
    mod = by_channel(8, columns, stride=2)
    made = recipes.windows(mlc.Schedule(mod, check=False), target=target())
    stores = nodes_of(made.func.body, Store)
    border = next(store.buffer for store in stores if store.buffer.name.endswith("_pad"))
    assert (border.shape[-2:] == (2, (columns + 2) // 2)) == apart
    arrays = arguments(mod)
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(made.mod, arrays), means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(made.mod, arrays), means, rtol=1e-5, atol=1e-6)
