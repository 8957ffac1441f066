"""The benchmark of kernels, on tiny sizes: results are checked, claims are made."""

from functools import partial

import numpy as np
import pytest

import minimlc as mlc
from benchmarks import gpu
from benchmarks.contest import Contest
from benchmarks.harness import Contender, WrongResult, threads
from benchmarks.report import Report
from tests.benchmarks.test_contests import RATES
from tests.benchmarks.test_harness import MACHINE
from tests.gpu import programs, standin
from tests.gpu.conftest import cp
from tests.gpu.test_cuda import needs_device

__all__ = ["cp"]


@pytest.fixture
def found():
    with threads(1):
        yield Contest(Report("gpu", 1, {**MACHINE, "peak_rates": RATES}), 1)


@pytest.mark.requires("opencl")
def test_without_a_gpu(found):
    gpu.on_cpu(found, side=32, rows=(3, 40))
    assert [len(table.rows) for table in found.report.tables] == [4, 2, 2]
    assert [claim.unit for claim in found.report.claims] == ["GFLOP/s"]


def test_the_simulator_shows_what_it_counts(found):
    gpu.simulated(found.report, side=16)
    assert found.report.met and "load A_shared" in found.report.notes[-1]


@needs_device
def test_times_are_those_of_the_gpus_clock(cp):
    arrays = [cp.asarray(np.ones(1000, "float32")) for _ in range(3)]
    add = mlc.build(programs.add().mod, target="cuda")["main"]

    def twice(*arrays):
        add(*arrays)
        add(*arrays)

    def done():
        return arrays[2].get()

    contenders = [Contender("once", partial(add, *arrays), done)]
    contenders.append(Contender("twice", partial(twice, *arrays), done))
    two = np.full(1000, 2.0)
    once, again = gpu.by_its_clock(cp, contenders, two, tolerance=0, rounds=3, batch=2)
    assert once.samples == (standin.KERNEL_MS / 1000,) * 3
    assert again.samples == (2 * standin.KERNEL_MS / 1000,) * 3
    with pytest.raises(WrongResult, match="once"):
        gpu.by_its_clock(cp, contenders, two + 1, tolerance=0, rounds=1)


@pytest.mark.requires("cuda")
def test_on_a_gpu(found):
    gpu.on_gpu(found, gpu.find_gpu(), elements=1 << 12, side=64)
    assert [claim.peer for claim in found.report.claims[2:4]] == ["cuBLAS", "cuBLAS"]
