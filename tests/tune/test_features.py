"""Features, and the analytical model on programs whose order no machine can turn."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.tune.features import NAMES, estimate, features, measures
from tests.recipes.programs import matmul, target

MACHINE = target(256, cores=1)
MM = matmul(256, 256, 256)


def measured(sch):
    return measures(sch.func, MACHINE)


def test_each_feature_has_a_meaning_and_a_place():
    vector = features(MM["mm"], MACHINE)
    assert vector.shape == (len(NAMES),) and np.isfinite(vector).all()
    assert all(NAMES.values())
    assert vector[[*NAMES].index("operations")] == pytest.approx(24, abs=0.01)


def test_the_model_prefers_what_is_better_everywhere():
    plain = mlc.Schedule(MM, check=False)
    i, j, k = plain.loops("C")
    rows = recipes.rows(plain)
    tiled = recipes.matmul(plain, target=MACHINE)
    times = [estimate(sch.func, MACHINE) for sch in (plain, rows, tiled)]
    assert times[0] > 2 * times[1] > 4 * times[2]
    assert times[0] < estimate(plain.reorder(j, k, i).func, MACHINE)


def test_lanes_and_written_out_loops_are_seen():
    sch = mlc.Schedule(MM, check=False)
    i, j, k = sch.loops("C")
    lanes = sch.reorder(i, k, j).decompose_reduction("C", at=k).split(j, [None, 16])
    lanes = lanes.vectorize(lanes.loops("C_update")[-1])
    assert measured(lanes)["instructions"] * 8 == measured(sch)["instructions"]
    assert measured(lanes)["gathered"] == 0
    strided = sch.reorder(j, k, i).decompose_reduction("C", at=k)
    strided = strided.vectorize(strided.loops("C_update")[-1])
    assert measured(strided)["gathered"] > 0
    out = sch.split(k, [None, 4])
    out = out.unroll(out.loops("C")[-1])
    assert measured(out)["code"] == 4
    assert measured(out)["iterations"] * 4 == measured(sch)["iterations"]


def test_threads_and_caches_are_seen():
    sch = mlc.Schedule(MM, check=False)
    shared = sch.parallel(sch.loops("C")[0])
    assert (measured(shared)["parallel"], measured(shared)["starts"]) == (256, 1)
    small = target(256, cores=1, l1=4096, l2=16384)
    assert measures(sch.func, small)["l3_bytes"] > measured(sch)["l3_bytes"]
