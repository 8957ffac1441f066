"""Transposes of any sizes: rectangles without conditions, and loops of their own at the edges."""

import numpy as np
import pytest

import minimlc as mlc
from minimlc import recipes, te
from minimlc.loops.ir.walks import blocks_in, loops_in
from tests.helpers import refuses
from tests.recipes.programs import target

pytestmark = pytest.mark.many

CASES = (
    ((100, 100), (1, 0)),
    ((33, 35), (1, 0)),
    ((8, 4), (1, 0)),
    ((2, 3), (1, 0)),
    ((64, 20, 20), (0, 2, 1)),
    ((50, 20, 51), (0, 2, 1)),
    ((30, 7, 31), (2, 0, 1)),
    ((17, 18, 19), (2, 1, 0)),
    ((1, 3, 22, 23), (0, 2, 3, 1)),
    ((2, 3, 50, 50), (0, 3, 1, 2)),
    ((7, 41000), (1, 0)),
    ((41000, 7), (1, 0)),
    ((700, 401), (1, 0)),
    ((3, 20, 70, 71), (0, 3, 2, 1)),
)


def turned(shape, order, dtype="float32") -> mlc.IRModule:
    """B[i0, i1, ...] = A with its axes in another order."""
    a = te.placeholder(shape, dtype, name="A")

    def element(*at):
        return a[tuple(at[order.index(axis)] for axis in range(len(shape)))]

    b = te.compute(tuple(shape[axis] for axis in order), element, name="B")
    return mlc.IRModule.of({"main": te.create_prim_func([a, b])})


def scheduled(shape, order, dtype="float32", **sizes) -> mlc.IRModule:
    """The program that the recipe makes of it."""
    sch = mlc.Schedule(turned(shape, order, dtype), check=False)
    return recipes.transpose(sch, target=target(256, **sizes)).mod


def kinds(mod: mlc.IRModule) -> set[str]:
    return {loop.kind for loop in loops_in(mod["main"].body)}


def moves(mod: mlc.IRModule, x: np.ndarray, order) -> None:
    """Assert that it moves each element to its place."""
    want = np.ascontiguousarray(x.transpose(order))
    out = np.zeros_like(want)
    mlc.build(mod, cache=False)["main"](x, out)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(("shape", "order"), CASES, ids=str)
def test_sizes_of_all_kinds_turn_without_conditions(shape, order):
    mod = scheduled(shape, order)
    assert all(block.predicate is None for block in blocks_in(mod["main"].body))
    assert {"vectorized", "unrolled"} <= kinds(mod)
    moves(mod, np.arange(np.prod(shape), dtype=np.float32).reshape(shape), order)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "int32"])
@pytest.mark.parametrize("order", [(0, 2, 1), (2, 0, 1)], ids=str)
def test_elements_of_all_widths(dtype, order):
    x = np.random.default_rng(0).integers(0, 100, (3, 37, 80)).astype(dtype)
    moves(scheduled(x.shape, order, dtype, l1=256), x, order)
    moves(recipes.apply(turned(x.shape, order, dtype)), x, order)


@pytest.mark.parametrize(
    ("shape", "order"), [((64, 32, 50), (2, 1, 0)), ((100, 30, 100), (2, 0, 1))]
)
def test_the_code_is_short_and_reads_vectors(shape, order):
    lib = mlc.build(scheduled(shape, order), cache=False)
    assert "load <4 x float>" in lib.source("llvm")
    assert "store <4 x float>" in lib.source("llvm")
    assert lib.source("asm").count("\n") < 600


def test_more_of_a_line_is_read_where_it_does_not_stay():
    near, far = scheduled((64, 50), (1, 0)), scheduled((64, 1024), (1, 0))
    assert "T.vectorized(4)" in near.script() and "T.vectorized(8)" not in near.script()
    assert "T.vectorized(8)" in far.script()


@pytest.mark.parametrize(("columns", "side"), [(1024, 4), (1600, 8)])
def test_long_rows_are_written_in_runs(columns, side):
    mod = scheduled((columns, 24), (1, 0), cores=1)
    sizes = [loop.extent.value for loop in loops_in(mod["main"].body)]
    assert sizes[:3] == [columns // (sizes[2] * side), 24 // side, sizes[2]]
    assert 128 <= sizes[2] * side <= 256
    moves(mod, np.random.default_rng(0).random((columns, 24), np.float32), (1, 0))


@pytest.mark.parametrize(
    ("shape", "bits", "l2", "cores", "sides"),
    [
        ((96, 80), 512, 1 << 20, 1, (16, 16)),
        ((96, 40), 512, 1 << 20, 1, (8, 8)),
        ((96, 40), 256, 1 << 20, 1, (8, 8)),
        ((100, 1024), 512, 1 << 20, 1, (16, 16)),
        ((96, 1024), 256, 1 << 20, 1, (4, 8)),
        ((100, 50), 512, 1 << 20, 1, (4, 8)),
        ((100, 50), 512, 1 << 14, 1, (8, 8)),
        ((100, 50), 256, 1 << 14, 1, (8, 8)),
        ((1000, 12), 512, 1 << 14, 1, (4, 4)),
        ((1024, 50), 512, 1 << 14, 1, (4, 4)),
        ((1024, 96), 256, 1 << 20, 1, (4, 4)),
        ((1024, 48), 512, 1 << 20, 2, (16, 16)),
        ((1024, 48), 256, 1 << 20, 2, (8, 8)),
        ((1024, 96), 512, 1 << 20, 2, (4, 4)),
    ],
    ids=str,
)
def test_squares_where_whole_lines_are_worth_it(shape, bits, l2, cores, sides):
    """Of matrices that the second level does not keep, a square of eight, where it leaves little
    over; no more than four rows that are written to the same sets, unless threads share columns.
    """
    sch = mlc.Schedule(turned(shape, (1, 0)), check=False, decisions={})
    made = recipes.transpose(sch, target=target(bits, l1=1024, l2=l2, cores=cores))
    assert tuple(made.trace.decisions.values()) == sides
    if bits == 256 or mlc.Target.host().vector_bits >= bits:
        moves(made.mod, np.arange(np.prod(shape), dtype=np.float32).reshape(shape), (1, 0))


def test_an_axis_in_between_stays_outside():
    made = mlc.Schedule(scheduled((40, 30, 48), (2, 1, 0)), check=False)
    names = [loop.var.name for loop in loops_in(made.func.body)]
    assert names[0] == made.loops("B")[0]
    assert len(made.loops("A_local")) == 5
    (small,) = made.func.allocs
    assert "A_local" in small.name


@pytest.mark.parametrize("shape", [(7, 41000), (41000, 7)], ids=str)
def test_threads_share_the_long_axis(shape):
    shared = [
        loop.extent.value
        for loop in loops_in(scheduled(shape, (1, 0))["main"].body)
        if loop.kind == "parallel"
    ]
    assert shared and shared[0] > 1000


def test_what_plain_loops_do_as_fast_is_left_to_them():
    narrow = mlc.Schedule(turned((50, 60), (1, 0), "float16"), check=False)
    refuses("E170", lambda: recipes.transpose(narrow, target=target()), "stay in the first cache")
    assert kinds(recipes.apply(narrow.mod, target())) == {"serial"}
    line = mlc.Schedule(turned((1, 60), (1, 0)), check=False)
    refuses("E170", lambda: recipes.transpose(line, target=target()), "nothing to turn")
