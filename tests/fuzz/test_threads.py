"""Random programs on threads: all that is accepted is right, and much of it could go wrong."""

from collections import Counter

import pytest

from tests.fuzz.threads import batch, summary

OFTEN = (
    *("several blocks", "several threads", "several kernels", "shared memory", "barriers"),
    *("reductions over threads", "cooperative fetches", "barriers in loops", "lanes"),
)


def checked(numbers, *targets) -> Counter[str]:
    """What is in the schedules of these numbers, which are right or refused."""
    outcomes = batch(numbers, targets)
    assert not [item.failure for item in outcomes if item.failure], summary(outcomes)
    assert sum(item.right for item in outcomes) > len(outcomes) // 3, summary(outcomes)
    return Counter(trait for item in outcomes if item.right for trait in item.traits)


def test_the_simulator_computes_what_the_interpreter_does_and_finds_no_race():
    counts = checked(range(96), "interpreter", "gpusim")
    assert all(counts[trait] >= 3 for trait in OFTEN), counts


@pytest.mark.requires("opencl")
def test_opencl_computes_the_same():
    checked(range(100, 120), "gpusim", "opencl")
