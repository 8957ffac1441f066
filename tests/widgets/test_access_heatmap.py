"""The figures of AccessHeatmap, its grids, its text, and what it refuses."""

import numpy as np
import pytest
from minimlc_widgets import AccessHeatmap, Cache
from minimlc_widgets.grids import Grid, grid_of, runs

import minimlc as mlc
from minimlc.loops.ir.nodes import Buffer
from minimlc.loops.values.errors import CompileError
from tests.widgets.values import module, product

SUM = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((64, 64), "float32"), S: T.Buffer((1,), "float32")):
        for {loops} in T.grid(64, 64):
            S[0] = S[0] + A[i, j]
"""
BY_ROWS = mlc.parse(SUM.format(loops="i, j"))
BY_COLUMNS = mlc.parse(SUM.format(loops="j, i"))


def test_the_order_of_a_sum_decides_its_misses():
    view = AccessHeatmap(BY_COLUMNS, BY_ROWS, Cache(1024, 64, 2))
    # the sum's own line is evicted once in a while by the columns, never by the rows
    columns, rows = (run.parts[0] for run in view.runs)
    assert int(columns.missed[0].sum()) == 64 * 64
    assert int(rows.missed[0].sum()) == 64 * 64 // 16
    assert view.accesses == (3 * 64 * 64, 3 * 64 * 64)
    assert view.misses[1] == 64 * 64 // 16 + 1
    assert np.flatnonzero(rows.missed[0]).tolist() == list(range(0, 64 * 64, 16))


def test_the_text_has_the_figures():
    view = AccessHeatmap(BY_ROWS, cache=Cache(1024, 64, 2))
    assert (
        view.text()
        == """\
main               accesses  misses
A float32 64 × 64     4,096     256  6.2 %
S float32 1           8,192       1  0.0 %
total                12,288     257  2.1 %

cache: 1 KiB, lines of 64 bytes, 2-way, LRU"""
    )
    assert "257" in view.static_html() and "<script" not in view.static_html()


def test_a_schedule_is_compared_with_its_start():
    before, after = product(32), product(32).reorder("i", "k", "j")
    view = AccessHeatmap(after, cache=Cache(2048, 64, 4))
    assert view.misses == AccessHeatmap(before.mod, after.mod, Cache(2048, 64, 4)).misses
    assert view.misses[0] > 10 * view.misses[1]
    assert [version["title"] for version in view.versions] == ["before", "after"]


def test_two_levels_have_figures_each():
    view = AccessHeatmap(BY_COLUMNS, cache=[Cache(1024, 64, 2), Cache(32 * 1024)])
    (run,) = view.runs
    assert (run.misses(0), run.misses(1)) == (64 * 64 + run.parts[1].missed[0].sum(), 257)
    assert (
        "L1 misses  L2 misses" in view.text() and len(view.versions[0]["buffers"][0]["missed"]) == 2
    )


def test_the_caches_of_a_target():
    view = AccessHeatmap(BY_COLUMNS, cache=mlc.Target(l1=1024, l2=64 * 1024))
    assert [cache.size for cache in view.caches] == [1024, 64 * 1024]
    assert view.misses == (257,)


def test_what_fits_in_registers_is_not_counted():
    sch = product(8).cache_write("C", "C").reverse_compute_at("C_local", "j")
    (local,) = sch.mod["mm"].allocs
    view = AccessHeatmap(sch.mod)
    assert [b.name for b in view.runs[0].registers] == [local.name]
    assert [part.buffer.name for part in view.runs[0].parts] == ["A", "B", "C"]
    assert view.accesses == (2 * 8**3 + 8**2,)
    assert f"in registers: {local.name}" in view.text()


def test_what_is_indexed_at_run_time_is_in_memory():
    sch = product(8).cache_write("C", "C")
    assert AccessHeatmap(sch.mod).runs[0].registers == ()
    unrolled = sch.unroll("i").unroll("j").unroll("ax0").unroll("ax1")
    assert [b.name for b in AccessHeatmap(unrolled.mod).runs[0].registers] == ["C_local"]


def test_large_grids_have_larger_cells_and_keep_their_sums():
    grid = grid_of(Buffer("A", (200, 65), "float32"))
    assert (grid, grid.cells) == (Grid(200, 65, 4, 2), (50, 33))
    values = np.arange(200 * 65)
    assert grid.sums(values).sum() == values.sum()
    assert grid.sums(values)[0, 0] == sum(r * 65 + c for r in range(4) for c in range(2))
    assert grid_of(Buffer("A", (100,), "float32")) == Grid(2, 64)
    assert grid_of(Buffer("A", (2, 3, 4), "float32")) == Grid(6, 4)
    assert grid_of(Buffer("A", (4, 3, 3, 3), "float32")) == Grid(12, 9)
    assert grid_of(Buffer("A", (2, 100), "float32")) == Grid(2, 100, 1, 2)
    assert grid_of(Buffer("A", (), "float32")) == Grid(1, 1)
    assert runs([5, 5, 0, 5]) == [2, 5, 1, 0, 1, 5]


def test_wrong_input_is_refused():
    two = mlc.IRModule.of({"a": module()["main"], "b": module()["main"]})
    for call, words in (
        (lambda: AccessHeatmap(3), "got int"),
        (lambda: AccessHeatmap(two), "which function"),
        (lambda: AccessHeatmap(two, name="c"), 'no function is called "c"'),
        (lambda: AccessHeatmap(module(), cache=4096), "takes a Cache"),
        (lambda: AccessHeatmap(module(), cache=[]), "takes a Cache"),
        (lambda: AccessHeatmap(product(128)), "more than 2,097,152 accesses"),
    ):
        with pytest.raises(CompileError, match=words):
            call()
    assert AccessHeatmap(two, name="b", cache=Cache()).accesses[0] > 0
