"""Programs of a grid: tile programs scheduled for a CPU, and for GPUs."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.values.errors import ScheduleError
from minimlc.script import T, tile
from tests.helpers import random_args
from tests.recipes.programs import matmul
from tests.tile.kernels import CASES

pytestmark = pytest.mark.many


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


@tile.kernel(grid=9)
def masked(A: T.Buffer((9, 250)), C: T.Buffer((9, 250))):
    row, columns = tile.program_id(0), tile.arange(0, 256)
    inside = columns < 250
    x = tile.load(A[row, columns], inside)
    tile.store(C[row, columns], x - tile.sum(x, axis=0), inside)


def test_masked_rows_are_summed_up_where_they_lie():
    """No copy of a row is made; a loop over whole vectors ends before what the mask leaves out."""
    mod = mlc.recipes.apply(masked, "llvm")
    a = np.random.default_rng(0).standard_normal((9, 250), np.float32)
    c = np.empty_like(a)
    mlc.build(mod)["main"](a, c)
    np.testing.assert_allclose(c, a - a.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-4)
    assert "x" not in {buffer.name for buffer in mod["main"].allocs}
    assert any(loop.var.name.endswith("_tail") for loop in loops_in(mod["main"].body))


def test_other_functions_are_refused():
    with pytest.raises(ScheduleError, match="no loop around all blocks"):
        mlc.recipes.programs(mlc.Schedule(matmul(4, 4, 4)))
