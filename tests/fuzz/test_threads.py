"""Random programs on threads: all that is accepted is right, and much of it could go wrong."""

import os
import time
from collections import Counter

import pytest

from tests.fuzz.threads import Outcome, batch, summary, watched
from tests.helpers import some_and_more

OFTEN = (
    *("several blocks", "several threads", "several kernels", "shared memory", "barriers"),
    *("reductions over threads", "cooperative fetches", "barriers in loops", "lanes"),
)


def checked(numbers, *targets) -> Counter[str]:
    """The traits of the schedules of these numbers, which are right or refused."""
    outcomes = batch(numbers, targets)
    assert not [item.failure for item in outcomes if item.failure], summary(outcomes)
    assert sum(item.right for item in outcomes) > len(outcomes) // 3, summary(outcomes)
    return Counter(trait for item in outcomes if item.right for trait in item.traits)


@pytest.mark.parametrize("numbers", some_and_more(range(24), range(96)), ids=len)
def test_the_simulator_computes_what_the_interpreter_does_and_finds_no_race(numbers):
    counts = checked(numbers, "interpreter", "gpusim")
    assert len(numbers) < 72 or all(counts[trait] >= 3 for trait in OFTEN), counts


@pytest.mark.requires("opencl")
def test_opencl_computes_the_same():
    checked(range(100, 120), "gpusim", "opencl")


def some_do_not_end(number, targets, say):
    """The second program, which does not end, and the third, which ends the process."""
    say(targets[number])
    if number == 1:
        time.sleep(60)
    if number == 2:
        os._exit(1)
    return Outcome(number, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_program_that_does_not_end_is_counted_and_the_others_go_on():
    targets = "abcd"
    outcomes = list(watched(range(4), targets, 0.5, some_do_not_end, "fork"))
    assert [item.kind for item in outcomes] == ["right", "does not end", "failed", "right"]
    assert [item.failure.why for item in outcomes[1:3]] == [
        "b does not end in 0.5 s",
        "c: the process ended",
    ]
    assert "2 right, 0 wrong, 1 failed, 1 that do not end" in summary(outcomes)
