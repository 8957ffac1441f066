"""The benchmark of kernels, on tiny sizes: results are checked, claims are made."""

import pytest

from benchmarks import gpu
from benchmarks.contest import Contest
from benchmarks.harness import threads
from benchmarks.report import Report
from tests.benchmarks.test_contests import RATES
from tests.benchmarks.test_harness import MACHINE


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


@pytest.mark.requires("cuda")
def test_on_a_gpu(found):
    gpu.on_gpu(found, gpu.find_gpu(), elements=1 << 12, side=64)
    assert [claim.peer for claim in found.report.claims[2:4]] == ["cuBLAS", "cuBLAS"]
