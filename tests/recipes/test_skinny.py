"""Few rows of C: sums of any number of products are as exact as others."""

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import recipes
from minimlc.recipes.skinny import MOST_SUMMED
from minimlc.schedule import Schedule
from tests.recipes.programs import interpreted, matmul, run, target

pytestmark = pytest.mark.many


@pytest.mark.parametrize("sums", [509, 2018, 4093])
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_an_awkward_number_of_products_is_summed_up_in_parts(rows, sums):
    """All of one sign, where errors of one long sum pile up."""
    mod = matmul(rows, 40, sums)
    rng = np.random.default_rng(rows)
    arrays = [rng.random(p.shape, np.float32) for p in mod["mm"].params]
    made = recipes.matmul(Schedule(mod, check=False)).mod
    found = run(made, arrays)
    exact = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)
    # A sum of positive numbers in one go is off by up to `sums` units; by 40 is usual for 4093.
    assert np.max(np.abs(found - exact) / exact) <= 12 * np.finfo(np.float32).eps / 2


def test_the_last_part_is_cut_off_where_the_products_end():
    mod = matmul(2, 16, MOST_SUMMED + 1)
    sch = recipes.matmul(Schedule(mod, check=False))
    assert f"< {MOST_SUMMED + 1}:" in sch.mod.script()
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 9, p.shape).astype(np.float32) for p in mod["mm"].params]
    np.testing.assert_array_equal(interpreted(sch.mod, arrays), arrays[0] @ arrays[1])
    np.testing.assert_array_equal(run(sch.mod, arrays), arrays[0] @ arrays[1])
    again = Schedule.replay(mod, mlc.Trace.from_json(sch.trace.to_json()))
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_one_row_with_columns_that_lie_along_k(batch):
    """Each lane of a vector has sums of its own."""
    mod = matmul(1, 24, 40, turned=(False, True), batch=batch)
    sch = recipes.matmul(Schedule(mod, check=False), target=target(256))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape, np.float32) for p in mod["mm"].params]
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(sch.mod, arrays), means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(sch.mod, arrays), means, rtol=1e-4, atol=1e-5)
    assert "24, 8)" in sch.mod.script()


@pytest.mark.parametrize(("rows", "turned"), [(1, True), (1, False), (5, True), (17, False)])
def test_constants_are_packed_ahead_of_time_for_any_number_of_rows(rows, turned):
    """Also where k does not go into parts: 333."""
    x, w = (
        np.random.default_rng(0).standard_normal(s, np.float32) for s in ((rows, 333), (50, 333))
    )

    def product(a):
        weights = mlc.constant(w if turned else np.ascontiguousarray(w.T))
        return mlc.op.dense(a, weights) if turned else mlc.op.matmul(a, weights)

    lib = mlc.build(graph(product, x), cache=False)
    (call,) = [binding.value for binding in lib.mod["main"].bindings()]
    assert call.args[1].data.ndim == 3  # panels
    np.testing.assert_allclose(lib["main"](x), x.astype(float) @ w.T, rtol=1e-4, atol=1e-4)
