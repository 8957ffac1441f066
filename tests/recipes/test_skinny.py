"""Few rows of C: sums of any number of products are as exact as others."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.recipes.skinny import MOST_SUMMED
from minimlc.schedule import Schedule
from tests.recipes.programs import interpreted, matmul, run


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
