"""Features, and the analytical model on programs whose order no machine can turn."""

import importlib

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.loops.ir.nodes import Seq
from minimlc.loops.values.node import replace
from minimlc.tune.features import NAMES, features, measures
from tests.fuzz.spaces import drawn
from tests.recipes.programs import matmul, target
from tests.recipes.test_fuzz import KINDS

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
    other = plain.reorder(j, k, i)
    times = [measures(sch.func, MACHINE)["cycles"] for sch in (plain, rows, tiled, other)]
    assert times[0] > 2 * times[1] > 4 * times[2]
    assert times[0] < times[3]


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


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_remembered_of_a_store_is_what_it_would_be(kind):
    module = importlib.import_module("minimlc.tune.features")
    for seed in range(6):
        _, point, machine = drawn(kind, seed)
        if point is not None:
            module.measures.cache_clear()
            module._of_store.cache_clear()
            assert np.array_equal(features(point.schedule.func, machine), point.features)


def test_loops_around_all_uses_of_a_buffer_are_not_forgotten():
    """Both functions have the very same stores in loops of the same variables; only in the first is
    one iteration of i all that uses a row of Y.
    """
    script = """@T.prim_func
def main(A: T.Buffer((4096,), "float32"), C: T.Buffer((64, 4096), "float32")):
    Y = T.alloc_buffer((64, 4096), "float32")
    for i in range(64):
        for j in range(4096):
            Y[i, j] = A[j]
        for j in range(4096):
            C[i, j] = Y[i, j]
"""
    func = mlc.parse(script)["main"]
    loop = func.body
    apart = replace(func, body=Seq(tuple(replace(loop, body=part) for part in loop.body.stmts)))
    machine = target(256, cores=1, l1=64 * 1024, l2=1 << 18, l3=1 << 19)
    together, later = (measures(each, machine)["memory_bytes"] for each in (func, apart))
    assert later > together + 64 * 4096 * 4
