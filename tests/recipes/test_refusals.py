"""Refusals of recipes, for work that is not of their kind; the recipes that `apply` picks."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes, te
from tests.helpers import refuses
from tests.recipes.programs import arguments, conv2d, matmul, run, target

ROWS = (64, 96)
ADDED = """
@T.prim_func
def mm(
    A: T.Buffer((16, 24), "float32"),
    B: T.Buffer((24, 32), "float32"),
    C: T.Buffer((16, 32), "float32"),
):
    for i, j, k in T.grid(16, 32, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def program(*shape, **axes) -> mlc.Schedule:
    """B = A + 1, or with `over`, sums of A over an axis."""
    a = te.placeholder(shape, "float32", name="A")
    b = te.compute(shape, lambda *at: a[at] + 1.0, name="B")
    if "over" in axes:
        k = te.reduce_axis((0, shape[axes["over"]]), name="k")

        def element(i):
            return te.sum(a[(i, k) if axes["over"] else (k, i)], axis=k)

        b = te.compute((shape[1 - axes["over"]],), element, name="B")
    return mlc.Schedule(mlc.IRModule.of({"main": te.create_prim_func([a, b])}), check=False)


@pytest.mark.parametrize(
    ("recipe", "sch", "words"),
    [
        (recipes.elementwise, program(*ROWS, over=1), 'block "B" is not an element-wise one'),
        (recipes.rowwise, program(*ROWS), "no block is a reduction along the last axis"),
        (recipes.rowwise, program(*ROWS, over=0), "no block is a reduction along the last axis"),
        (recipes.transpose, program(*ROWS), "no block reads across the rows it writes"),
        (recipes.windows, program(*ROWS, over=1), "no block reduces small windows"),
        (recipes.attention, program(*ROWS), "there are no two products"),
    ],
)
def test_other_kinds_of_work_are_refused(recipe, sch, words):
    refuses("E170", lambda: recipe(sch, target=target()), words)


def test_a_named_block_must_be_of_the_kind():
    refuses("E170", lambda: recipes.elementwise(program(*ROWS), "no"), 'block "no"')
    refuses("E170", lambda: recipes.rowwise(program(*ROWS, over=1), "no"), 'block "no"')
    sch = mlc.Schedule(matmul(32, 32, 32), check=False)
    refuses("E170", lambda: recipes.attention(sch, "C"), "reductions along rows between them")
    refuses("E170", lambda: recipes.windows(sch, "C"), 'block "C" does not reduce')


def test_apply_picks_by_kind():
    sums = recipes.apply(program(*ROWS, over=1).mod, target()).script()
    assert "B_rf" in sums and "T.unroll" in sums
    across = recipes.apply(program(*ROWS, over=0).mod, target()).script()
    assert "B_rf" not in across and "T.vectorized(96)" in across
    assert "T.parallel" not in recipes.apply(program(*ROWS).mod).script()
    assert "T.parallel" in recipes.apply(program(1024, 1024).mod).script()


def test_short_rows_become_one_long_row():
    assert "T.vectorized(300)" in recipes.elementwise(program(100, 3)).mod.script()


def test_apply_is_done_once():
    made = recipes.apply(program(*ROWS).mod)
    assert recipes.apply(made) is made


@pytest.mark.parametrize(
    "mod",
    [matmul(0, 64, 8), matmul(8, 0, 64), conv2d(0, 3, 8, 8, 16), conv2d(1, 3, 2, 2, 16)],
    ids=["no rows", "no columns", "no images", "no pixels"],
)
def test_nothing_to_compute_is_no_fault(mod):
    mlc.verify(recipes.apply(mod))


@pytest.mark.parametrize(
    "recipe", [r for r in recipes.__all__ if r not in ("apply", "attempt", "rows")]
)
def test_what_is_no_schedule_is_refused(recipe):
    mod = matmul(8, 16, 8)
    refuses("E132", lambda: getattr(recipes, recipe)(mod), "takes a Schedule, got IRModule")
    sch = mlc.Schedule(mod, check=False)
    refuses("E501", lambda: getattr(recipes, recipe)(sch, target="avx2"), "avx2")


def test_apply_takes_a_module_or_a_function():
    mod = matmul(40, 48, 56)
    alone = recipes.apply(mod["mm"])
    assert mlc.structural_equal(alone["main"], recipes.apply(mod)["mm"])
    refuses("E132", lambda: recipes.apply(None), "recipes.apply", "NoneType")
    refuses("E501", lambda: recipes.apply(mod, "avx2"), "avx2")


def test_a_product_that_is_added_to_what_is_there():
    """It has no init, which padding wants: refused by name, and its rows become vectors."""
    mod = mlc.parse(ADDED)
    sch = mlc.Schedule(mod, check=False)
    refuses("E170", lambda: recipes.matmul(sch), '"C" adds to what is in C before')
    made = recipes.apply(mod)
    assert "T.vectorized(32)" in made.script()
    arrays = [*arguments(mod)[:2], np.ones((16, 32), np.float32)]
    expected = 1 + arrays[0].astype(float) @ arrays[1]
    np.testing.assert_allclose(run(made, arrays), expected, rtol=1e-4, atol=1e-5)


def test_sums_along_a_row_of_which_each_element_takes_its_part():
    """The output's loop is one of the sum's, too: it cannot go inside of that."""
    mod = mlc.parse("""@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((16,), "float32")):
    for j, k in T.grid(16, 4):
        with T.block("C"):
            vj = T.axis.spatial(16, j)
            vk = T.axis.reduce(64, j * 4 + k)
            with T.init():
                C[vj] = T.float32(0)
            C[vj] = C[vj] + A[vk]
""")
    mlc.verify(recipes.apply(mod))
    sch = mlc.Schedule(mod, check=False)
    assert recipes.attempt(sch, "split", "j", [None, 5], tail="error") is sch


@pytest.mark.parametrize("step", ["partition", "fuse"])
def test_products_whose_loops_were_scheduled_serially(step):
    sch = mlc.Schedule(matmul(4, 32, 16), check=False)
    i, j, k = sch.loops("C")
    sch = sch.loop_partition(i, points=[2]) if step == "partition" else sch.fuse(i, j, k)
    mlc.verify(recipes.apply(sch.mod))


@pytest.mark.parametrize("target", ["llvm", "python", "gpusim"])
def test_loops_around_plain_stores_stay_as_they_are(target):
    mod = mlc.parse("""
@I.ir_module
class Module:
    @T.prim_func
    def add_one(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            C[i] = A[i] + T.float32(1)

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        y = R.nn.relu(R.call_tir("add_one", (x,), out=R.Tensor((8,), "float32")))
        return y
""")
    x = np.arange(-4, 4, dtype=np.float32)
    np.testing.assert_array_equal(mlc.build(mod, target)["main"](x), np.maximum(x + 1, 0))
