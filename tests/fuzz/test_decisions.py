"""Programs that decide by memory: all that is accepted is right, and no race is overlooked."""

import random

import pytest

import minimlc as mlc
from minimlc.targets.gpu.kernels import kernels
from tests.fuzz.decisions import DEEPEST, Text, caught, drawn, without_each_barrier
from tests.fuzz.subject import main_of
from tests.fuzz.threads import summary
from tests.gpusim.oracle import check
from tests.helpers import some_and_more

THREADS = [number for number in range(200) if number % 6 not in (2, 5)]
"""Those of programs on bound threads, which are quickly drawn."""


def right(numbers, *targets) -> None:
    outcomes = [caught(number, targets) for number in numbers]
    assert not [item.failure for item in outcomes if item.failure], summary(outcomes)
    assert sum(item.right for item in outcomes) >= len(outcomes) // 2, summary(outcomes)


@pytest.mark.parametrize("numbers", some_and_more(range(8), range(80)), ids=len)
def test_the_simulator_computes_what_the_interpreter_does_and_finds_no_race(numbers):
    right([THREADS[number] for number in numbers], "gpusim")


@pytest.mark.parametrize("numbers", some_and_more(range(1), range(6)), ids=len)
def test_tile_programs_decide_by_what_tiles_combine_to(numbers):
    right([6 * number + 2 for number in numbers], "gpusim")


@pytest.mark.requires("opencl")
def test_opencl_computes_the_same():
    right(THREADS[:8], "opencl")


def test_a_barrier_that_is_left_out_is_noticed_where_it_matters(monkeypatch):
    """By the simulator as by comparing each access with each other."""
    reports = []
    for number in THREADS[:4]:
        known, mod = drawn(number)
        try:
            whole = kernels("main", main_of(mod))
        except mlc.BuildError:
            continue
        for less in list(without_each_barrier(whole))[:4]:
            reports.append(check(less, known.inputs[0], monkeypatch))
    assert sum(report is not None for report in reports) >= 4


def test_programs_are_what_their_numbers_say():
    texts = {Text(random.Random(number)).text() for number in range(4)}
    assert len(texts) == 4 and DEEPEST == 2
