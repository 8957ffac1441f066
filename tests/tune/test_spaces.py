"""The built-in spaces: recipes whose decisions are drawn."""

import random

import pytest

import minimlc as mlc
from minimlc import recipes
from minimlc.loops.schedule.primitive import Chance
from minimlc.recipes.views import Draft
from minimlc.tune.spaces import candidate, program, siblings, usual
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


def test_siblings_differ_in_what_is_decided_late():
    mod, space = matmul(96, 96, 96), usual(MACHINE)
    point = program(space, mod, "mm", MACHINE, Chance(4))
    others = [*siblings(space, mod, "mm", MACHINE, point)]
    steps = [step[1] for step in point.schedule.trace if step[1].get("name") == "steps"]
    assert len(others) == 4 * len(steps[0]["candidates"]) - 1  # by_columns, prefetch
    assert len({each.steps for each in others} | {point.steps}) == len(others) + 1
    for each in others:
        differ = {k for k, v in each.decisions.items() if v != point.decisions[k]}
        assert differ and differ <= {"steps", "by_columns", "prefetch"}
        again = program(space, mod, "mm", MACHINE, Chance(None, each.decisions))
        assert again.steps == each.steps


def test_there_are_few_siblings_and_none_of_what_decides_first():
    def late(sch):
        for name in "abcdefgh":
            sch, _ = sch.sample_categorical((1, 2, 3), name=name)
        return sch.vectorize(sch.loops("C")[1])

    def early(sch):
        loop = sch.loops("C")[0]
        sch, factors = sch.sample_perfect_tile(loop, 2)
        return sch.split(loop, factors)

    mod = matmul(8, 8, 8)
    for space, count in ((late, 8), (early, 0)):
        point = program(space, mod, "mm", MACHINE, Chance(1))
        others = [*siblings(space, mod, "mm", MACHINE, point)]
        assert len(others) == count
        assert {each.steps for each in others} <= {point.steps}


def test_a_candidate_is_text_that_makes_the_same_program():
    mod = matmul(48, 48, 48)
    point = program(usual(MACHINE), mod, "mm", MACHINE, Chance(4))
    again = scheduled(candidate(mod, "mm", MACHINE, point))
    assert mlc.structural_equal(again.func, point.schedule.func)


def test_a_space_that_is_not_legal_has_no_program():
    def space(sch):
        return sch.vectorize(sch.loops("C")[-1])

    assert program(space, matmul(8, 8, 8), "mm", MACHINE, Chance()) is None
