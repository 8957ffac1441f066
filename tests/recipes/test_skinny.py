"""Few rows of C: sums of any number of products are as exact as others."""

import numpy as np
import pytest

import minimlc as mlc
from benchmarks.programs import graph
from minimlc import recipes
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.schedule import Schedule
from minimlc.recipes.skinny import MOST_SUMMED
from tests.recipes.programs import interpreted, matmul, run, target

pytestmark = pytest.mark.many


LONG = [(rows, sums, False) for rows in (1, 5, 8) for sums in (509, 2018, 4093)]
LONG += [(rows, sums, True) for rows in (5, 8) for sums in (509, 4096)]


@pytest.mark.parametrize(("rows", "sums", "turned"), LONG)
@pytest.mark.parametrize("bits", [128, 512])
def test_a_large_number_of_products_is_summed_up_in_parts(rows, sums, turned, bits):
    """All of one sign, where errors of one long sum pile up."""
    mod = matmul(rows, 40, sums, turned=(False, turned))
    rng = np.random.default_rng(rows)
    arrays = [rng.random(p.shape, np.float32) for p in mod["mm"].params]
    made = recipes.matmul(Schedule(mod, check=False), target=target(bits)).mod
    found = run(made, arrays)
    wide = [array.astype(np.float64) for array in arrays]
    exact = wide[0] @ (wide[1].T if turned else wide[1])
    # A sum of positive numbers in one go is off by up to `sums` units; by 40 is usual for 4093.
    assert np.max(np.abs(found - exact) / exact) <= 12 * np.finfo(np.float32).eps / 2


def test_the_last_part_is_cut_off_where_the_products_end():
    mod = matmul(2, 16, MOST_SUMMED + 1)
    sch = recipes.matmul(Schedule(mod, check=False))
    assert f"< {MOST_SUMMED + 1}:" in sch.mod.script()
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 9, p.shape).astype(np.float32) for p in mod["mm"].params]
    np.testing.assert_array_equal(interpreted(sch.mod, arrays), arrays[0] @ arrays[1])
    np.testing.assert_array_equal(run(sch.mod, arrays), arrays[0] @ arrays[1])
    again = Schedule.replay(mod, mlc.Trace.from_json(sch.trace.to_json()))
    assert mlc.structural_hash(again.mod) == mlc.structural_hash(sch.mod)


@pytest.mark.parametrize("l3", [1024, 1 << 25])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(
    ("rows", "pieces"),
    [(1, None), (2, 2), (3, 3), (4, 4), (5, 5), (6, 3), (7, 7), (9, 3), (10, 5), (11, 11), (12, 4)],
)
def test_pieces_of_few_rows_and_what_no_cache_keeps(rows, pieces, batch, l3):
    """Rows go into pieces for the registers; the next rows of B are asked for if it is too large,
    in runs of two vectors.
    """
    for columns in (64, 72):
        mod = matmul(rows, columns, 512, batch=batch)
        sch = recipes.matmul(Schedule(mod, check=False), target=target(256, l3=l3, cores=1))
        rng = np.random.default_rng(0)
        arrays = [rng.integers(-8, 9, p.shape).astype(np.float32) for p in mod["mm"].params]
        np.testing.assert_array_equal(run(sch.mod, arrays), arrays[0] @ arrays[1])
        loops = loops_in(sch.func.body)
        unrolled = [loop.extent.value for loop in loops if loop.kind == "unrolled"]
        assert unrolled == [8, *([pieces] if pieces else [])]
        asked = [loop for loop in loops if loop.annotations]
        assert bool(asked) == (l3 == 1024 and columns == 64)
        for loop in asked:
            ((key, (buffer, ahead)),) = loop.annotations
            assert (key, buffer, loop.extent.value) == ("prefetch", "B", 4)
            assert ahead in [outer.var.name for outer in loops if loop in loops_in(outer.body)]


@pytest.mark.parametrize(
    ("columns", "cores", "batch", "shared"),
    [
        (512, 1, (), []),
        (512, 2, (), [2]),
        (512, 3, (), [4]),
        (1000, 2, (), [2]),
        (1000, 3, (), [4]),
        (96, 4, (), [6]),
        (31, 4, (), []),
        (509, 2, (), []),
        (512, 4, (3,), [4]),
        (512, 4, (6,), [6]),
    ],
)
def test_threads_share_columns_in_even_strips(columns, cores, batch, shared):
    """Of whole vectors if they can be; batches, where each thread has one."""
    mod = matmul(4, columns, 512, batch=batch)
    sch = recipes.matmul(Schedule(mod, check=False), target=target(256, cores=cores))
    loops = [loop for loop in loops_in(sch.func.body) if loop.kind == "parallel"]
    assert [loop.extent.value for loop in loops] == shared
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 9, p.shape).astype(np.float32) for p in mod["mm"].params]
    np.testing.assert_array_equal(run(sch.mod, arrays), arrays[0] @ arrays[1])
    mlc.verify(sch.mod)


@pytest.mark.parametrize("cores", [2, 64])
@pytest.mark.parametrize("sums", [8, 128, 4096])
@pytest.mark.parametrize("columns", [9, 17, 64, 512])
def test_few_rows_of_any_sizes_for_any_number_of_cores(columns, sums, cores):
    """No step is refused, and no strip is narrower than two vectors."""
    for rows, batch in (1, ()), (8, ()), (8, (16,)):
        mod = matmul(rows, columns, sums, batch=batch)
        func = recipes.matmul(Schedule(mod, check=False), target=target(256, cores=cores)).func
        loops = [loop for loop in loops_in(func.body) if loop.kind == "parallel"]
        assert all(columns >= 16 * loop.extent.value or batch for loop in loops[:1])
        assert len(loops) <= 1


@pytest.mark.parametrize("sums", [8, 128])
@pytest.mark.parametrize("batch", [(), (4,)])
def test_sums_in_one_part_are_shared_out_too(sums, batch):
    mod = matmul(8, 1024 if sums == 8 else 128, sums, batch=batch)
    sch = recipes.matmul(Schedule(mod, check=False), target=target(256, cores=2))
    loops = [loop for loop in loops_in(sch.func.body) if loop.kind == "parallel"]
    assert [loop.extent.value for loop in loops] == ([4] if batch else [2])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 9, p.shape).astype(np.float32) for p in mod["mm"].params]
    np.testing.assert_array_equal(run(sch.mod, arrays), arrays[0] @ arrays[1])


def test_columns_that_a_user_fused_with_rows_are_left_alone():
    mod = matmul(4, 512, 512)
    sch = Schedule(mod, check=False)
    sch = sch.fuse(*sch.loops("C")[:2])
    sch = recipes.matmul(sch, target=target(256, cores=2))
    assert not [loop for loop in loops_in(sch.func.body) if loop.kind == "parallel"]
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-8, 9, p.shape).astype(np.float32) for p in mod["mm"].params]
    np.testing.assert_array_equal(run(sch.mod, arrays), arrays[0] @ arrays[1])


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("rows", range(1, 9))
def test_few_rows_with_columns_that_lie_along_k(rows, batch, bits):
    """Each lane of a vector has sums of its own, of some rows and columns at a time."""
    mod = matmul(rows, 24, bits // 4, turned=(False, True), batch=batch)
    sch = recipes.matmul(Schedule(mod, check=False), target=target(bits))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape, np.float32) for p in mod["mm"].params]
    means = interpreted(mod, arrays)
    np.testing.assert_allclose(interpreted(sch.mod, arrays), means, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(sch.mod, arrays), means, rtol=1e-4, atol=1e-5)
    assert f"24, {bits // 32})" in sch.mod.script()


def test_few_rows_along_k_are_shared_out_by_columns_if_they_are_much_work():
    kinds = []
    for columns in (16, 2048):
        mod = matmul(4, columns, 512, turned=(False, True))
        func = recipes.matmul(Schedule(mod, check=False), target=target(256)).func
        loops = [loop for loop in loops_in(func.body) if loop.kind == "parallel"]
        kinds.append([loop.extent.value for loop in loops])
    assert kinds == [[], [1024]]


def test_batches_of_few_rows_along_k_are_shared_out_as_one_loop():
    mod = matmul(4, 64, 512, turned=(False, True), batch=(64,))
    func = recipes.matmul(Schedule(mod, check=False), target=target(256)).func
    outer = next(iter(loops_in(func.body)))
    assert (outer.kind, outer.extent.value) == ("parallel", 64)
    assert [loop.kind for loop in loops_in(func.body)].count("parallel") == 1


@pytest.mark.parametrize(("sums", "along"), [(32, False), (64, True), (1024, True), (1032, False)])
def test_lanes_have_neither_few_products_nor_many(sums, along):
    """Eight of 8 lanes are worth it, more than 128 less exact."""
    mod = matmul(4, 16, sums, turned=(False, True))
    sch = recipes.matmul(Schedule(mod, check=False), target=target(256))
    assert ("16, 8)" in sch.mod.script()) == along


def test_lanes_are_added_up_in_parts():
    """Of 16 lanes, four times four, and only the last four are one after the other."""
    mod = matmul(2, 16, 128, turned=(False, True))
    sch = recipes.matmul(Schedule(mod, check=False), target=target(512))
    lanes = [loop.extent.value for loop in loops_in(sch.func.body) if loop.kind == "vectorized"]
    assert sorted(lanes) == [4, 4, 16, 16]


@pytest.mark.parametrize(("rows", "turned"), [(1, True), (1, False), (5, True), (17, False)])
def test_constants_are_packed_ahead_of_time_for_any_number_of_rows(rows, turned):
    """Also where k does not go into parts: 333."""
    x, w = (
        np.random.default_rng(0).standard_normal(s, np.float32) for s in ((rows, 333), (50, 333))
    )

    def product(a):
        weights = mlc.constant(w if turned else np.ascontiguousarray(w.T))
        return mlc.op.dense(a, weights) if turned else mlc.op.matmul(a, weights)

    lib = mlc.build(graph(product, x), cache=False)
    (call,) = [binding.value for binding in lib.mod["main"].bindings()]
    assert call.args[1].data.ndim == 3  # panels
    np.testing.assert_allclose(lib["main"](x), x.astype(float) @ w.T, rtol=1e-4, atol=1e-4)
