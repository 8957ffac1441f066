"""The built-in spaces: recipes whose decisions are drawn."""

import random

import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.recipes.views import Draft
from minimlc.schedule.primitive import Chance
from minimlc.tune.spaces import candidate, program, usual
from tests.fuzz.spaces import fault
from tests.recipes.programs import matmul, target
from tests.recipes.test_fuzz import KINDS, TARGETS
from tests.tune.stand_in import scheduled

pytestmark = pytest.mark.many

MACHINE = target(256, cores=2)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_key_a_space_is_the_recipe(kind):
    rng = random.Random(f"{kind} default")
    for machine in TARGETS[:2]:
        mod = KINDS[kind](rng)
        point = program(usual(machine), mod, "main", machine, Chance())
        recipe = recipes.fitting(Draft.trusting(mod, "main"), target=machine)
        assert mlc.structural_equal(point.schedule.func, recipe.func)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_space_draws_means_the_same(kind):
    assert fault(kind, 1) in ("", None)


@pytest.mark.parametrize("seed", [900187, 900631])
def test_a_block_of_a_factor_may_be_one_element(seed):
    assert fault("product", seed) == ""


def test_the_product_space_has_many_programs():
    mod = matmul(96, 96, 96)
    points = [program(usual(MACHINE), mod, "mm", MACHINE, Chance(key)) for key in range(6)]
    assert len({point.steps for point in points if point}) == 6
    assert {"rows", "columns", "sums", "sum_block", "steps"} <= set(points[0].decisions)


def test_a_candidate_is_text_that_makes_the_same_program():
    mod = matmul(48, 48, 48)
    point = program(usual(MACHINE), mod, "mm", MACHINE, Chance(4))
    again = scheduled(candidate(mod, "mm", MACHINE, point))
    assert mlc.structural_equal(again.func, point.schedule.func)


def test_a_space_that_is_not_legal_has_no_program():
    def space(sch):
        return sch.vectorize(sch.loops("C")[-1])

    assert program(space, matmul(8, 8, 8), "mm", MACHINE, Chance()) is None
