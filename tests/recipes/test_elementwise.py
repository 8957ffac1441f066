"""Element-wise blocks whose rows have an odd length, and those that repeat an operand."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes, te
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.services.arrays.scan import PARALLEL
from tests.recipes.programs import target

pytestmark = pytest.mark.many


def doubled(*shape) -> mlc.IRModule:
    """B = A + A."""
    a = te.placeholder(shape, "float32", name="A")
    b = te.compute(shape, lambda *at: a[at] + a[at], name="B")
    return mlc.IRModule.of({"main": te.create_prim_func([a, b])})


def added(shape, other) -> mlc.IRModule:
    """C = A + B, with B repeated as numpy does it."""
    a, b = te.placeholder(shape, name="A"), te.placeholder(other, name="B")

    def element(*at):
        last = at[len(shape) - len(other) :]
        return a[at] + b[tuple(i if n > 1 else 0 for i, n in zip(last, other, strict=True))]

    c = te.compute(shape, element, name="C")
    return mlc.IRModule.of({"main": te.create_prim_func([a, b, c])})


def made(mod: mlc.IRModule, **sizes: int) -> mlc.IRModule:
    return recipes.apply(mod, target(256, **sizes))


def computes(mod: mlc.IRModule, *arrays: np.ndarray) -> None:
    """Assert that it adds (one array to itself)."""
    want = arrays[0] + arrays[-1]
    out = np.empty_like(want)
    mlc.build(mod, cache=False)["main"](*arrays, out)
    np.testing.assert_array_equal(out, want)


def loops(mod: mlc.IRModule) -> list[tuple[str, int]]:
    return [(loop.kind, loop.extent.value) for loop in loops_in(mod["main"].body)]


def random(*shape) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


@pytest.mark.parametrize("shape", [(17, 19, 23), (256, 7, 7), (10, 1000, 5), (64, 197, 3)], ids=str)
def test_rows_of_odd_lengths_are_one_row_of_memory(shape):
    mod = made(doubled(*shape), cores=1)
    assert loops(mod) == [("vectorized", np.prod(shape))]
    lib = mlc.build(mod, cache=False)
    text = lib.source("llvm")
    lanes = 2 * mlc.Target.host().vector_bits // 32
    assert f"load <{lanes} x float>" in text and "extractelement" not in text
    assert lib.source("asm").count("\n") < 120
    computes(mod, random(*shape))


@pytest.mark.parametrize("shape", [(1, 400000), (1, 1, 1000003), (1, 300000, 1)], ids=str)
def test_one_long_row_is_shared_out_in_pieces(shape):
    mod = made(doubled(*shape))
    (pieces,) = [extent for kind, extent in loops(mod) if kind == "parallel"]
    assert pieces > 8
    computes(mod, random(*shape))


@pytest.mark.parametrize("shape", [(1000003,), (300001, 3), (7, 60000), (100, 1000, 7)], ids=str)
def test_long_ones_are_shared_out_in_pieces_without_conditions(shape):
    mod = made(doubled(*shape))
    assert all(block.predicate is None for block in blocks_in(mod["main"].body))
    assert "parallel" in dict(loops(mod))
    assert "extractelement" not in mlc.build(mod, cache=False).source("llvm")
    computes(mod, random(*shape))


@pytest.mark.parametrize(
    ("shape", "other", "wanted"),
    [
        ((10, 1000, 5), (1000, 5), [("parallel", 10), ("vectorized", 5000)]),
        ((10, 1000, 5), (10, 1, 1), [("parallel", 10), ("vectorized", 5000)]),
        ((256, 7, 7), (256, 1, 1), [("serial", 256), ("vectorized", 49)]),
        ((10, 20, 5), (5,), [("serial", 10), ("serial", 20), ("vectorized", 5)]),
        ((10, 20, 5), (20, 1), [("serial", 10), ("serial", 20), ("vectorized", 5)]),
    ],
    ids=str,
)
def test_axes_that_an_operand_goes_along_or_not_at_all_are_one(shape, other, wanted):
    mod = made(added(shape, other))
    assert loops(mod) == wanted
    computes(mod, random(*shape), random(*other))


def test_only_as_many_loops_are_fused_as_threads_need():
    assert loops(made(doubled(8, 64, 12, 64)))[:2] == [("parallel", 512), ("serial", 12)]


def test_what_no_cache_holds_goes_past_the_caches():
    """Wherever the array begins: such stores need no alignment. The rest has a loop of its own."""
    mod = doubled(600_011)
    near, far = (recipes.apply(mod, target(256, l3=l3)) for l3 in (1 << 24, 1 << 20))
    past = [mlc.build(m, cache=False).source("llvm").count("!nontemporal") for m in (near, far)]
    assert past[0] == 0 < past[1]
    for start in range(4):
        values = random(600_011 + 4)[start : start + 600_011]
        out = np.empty(600_011 + 4, np.float32)[start : start + 600_011]
        mlc.build(far, cache=False)["main"](values, out)
        np.testing.assert_array_equal(out, 2 * values)


@pytest.mark.parametrize(
    ("shape", "axis", "near"),
    [
        ((96, 40), 1, True),
        ((96, 40), 0, False),
        ((70, 3), -1, True),
        ((5, 300), 1, False),  # few rows: threads share the elements
        ((64,), 0, False),
        ((2, 80, 24), 2, True),
        ((2, 80, 24), 1, False),
    ],
    ids=str,
)
def test_steps_of_a_running_sum_are_done_row_by_row(shape, axis, near):
    """All of them for a row before the next, where no row needs another; whole arrays elsewhere."""
    x = np.random.default_rng(2).standard_normal(shape, "float32")
    a = te.placeholder(shape, name="A")
    sums = te.create_prim_func([a, PARALLEL["cumsum"].lower(a, axis=axis)])
    mod, out = made(mlc.IRModule.of({"main": sums})), np.empty_like(x)
    mlc.build(mod, cache=False)["main"](x, out)
    np.testing.assert_allclose(out, np.cumsum(x, axis), rtol=1e-4, atol=1e-4)
    sch = mlc.Schedule(mod, check=False)
    assert (len({sch.loops(name)[0] for name in sch.blocks()}) == 1) is near
