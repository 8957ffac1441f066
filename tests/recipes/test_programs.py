"""Programs of a grid: tile programs scheduled for a CPU, and for GPUs."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.errors import ScheduleError
from minimlc.tir.walks import loops_in
from tests.helpers import random_args
from tests.recipes.programs import matmul
from tests.tile.kernels import CASES


def loops_after(name: str, target: str) -> dict[str, str]:
    """The kinds of loops, or threads, of a tile program after the recipe, which is run."""
    case = CASES[name]
    args = random_args(case.func, np.random.default_rng(2))
    args = [np.abs(a) % 60 if a.dtype == np.int32 else a for a in args]
    mod = mlc.recipes.apply(case.func, target)
    mlc.build(mod, target)["main"](*args)
    bound = max(case.tolerance, 1e-6)
    np.testing.assert_allclose(args[-1], case.expected(*args[:-1]), rtol=bound, atol=bound)
    return {loop.var.name: loop.thread or loop.kind for loop in loops_in(mod["main"].body)}


@pytest.mark.parametrize("name", CASES)
def test_on_a_cpu(name):
    assert "vectorized" in loops_after(name, "llvm").values()


@pytest.mark.parametrize(
    "target", ["gpusim", pytest.param("opencl", marks=pytest.mark.requires("opencl"))]
)
@pytest.mark.parametrize("name", CASES)
def test_programs_are_blocks_and_elements_are_threads(name, target):
    assert {"blockIdx.x", "threadIdx.x"} <= set(loops_after(name, target).values())


def test_a_product_is_in_registers():
    text = mlc.recipes.apply(CASES["product"].func, "llvm").script()
    assert "dot_update" in text and "T.unroll" in text


def test_other_functions_are_refused():
    with pytest.raises(ScheduleError, match="no loop around all blocks"):
        mlc.recipes.programs(mlc.Schedule(matmul(4, 4, 4)))
