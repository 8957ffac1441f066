"""The benchmark of the mathematical functions, on little data and without peers."""

import numpy as np
import pytest

from benchmarks import installed
from benchmarks import math as math_benchmark
from benchmarks.contest import Contest
from benchmarks.harness import WrongResult, threads
from benchmarks.report import Report
from tests.benchmarks.test_harness import MACHINE


@pytest.mark.parametrize("name", math_benchmark.FUNCTIONS)
def test_minimlc_is_right_and_needs_no_peer(monkeypatch, name):
    monkeypatch.setattr(installed, "_loaded", dict.fromkeys(installed.PEERS))
    rates = {"operations": 1e9, "bytes": 2e9}
    with threads(1):
        found = Contest(Report("some", 1, {**MACHINE, "peak_rates": rates}), 1)
        result = math_benchmark.function(found, name, 64)
    assert set(result.seconds) <= {"minimlc", "numpy"}


@pytest.mark.parametrize("name", math_benchmark.FUNCTIONS)
def test_errors_are_within_their_bounds(name):
    claim = math_benchmark.accuracy(name, 2**14)
    assert 0 < claim.value <= claim.limit


def test_errors_are_counted_in_last_places():
    x = np.float32([1.0, 4.0, 9.0])
    got = np.nextafter(np.sqrt(x), np.float32(10))
    assert math_benchmark._error("sqrt", [x], got) == 1.0


def test_a_wrong_infinity_is_refused():
    x = np.float32([0.0, 1.0])
    with pytest.raises(WrongResult, match="log"):
        math_benchmark._error("log", [x], np.float32([0.0, 0.0]))
