"""Matrix products with few rows or few columns: one factor is read once, so nothing is copied."""

from minimlc.recipes.product import Product
from minimlc.recipes.views import added, loops_below, loops_feeding_axis, loops_of
from minimlc.schedule import Schedule

FEW_ROWS = 12
"""Rows of C up to which B is read in the order in which it lies."""

DEPTH = 8
"""Rows of B that are added to C at a time."""


def divisor(size: int, most: int) -> int:
    """The largest divisor of `size` that is at most `most`."""
    return max(d for d in range(1, min(size, most) + 1) if size % d == 0)


def few_rows(sch: Schedule, found: Product) -> Schedule:
    """Few rows of C: go down B once, adding some of its rows to all of C at a time.

    C stays in the first-level cache, and a piece of four rows of it in registers meanwhile. What
    256 rows of B give is summed up apart, which keeps rounding errors small.
    """
    name = found.block
    block = divisor(found.sums, 256)
    if block < found.sums:
        sch, name = sums_apart(sch, name, block)
    *_, k = loops_of(sch, name, "R")
    rows, columns = (loops_feeding_axis(sch, name, axis) for axis in (-2, -1))
    sch = sch.split(k, [None, divisor(block, DEPTH)])
    *_, down, deep = loops_of(sch, name, "R")
    group: list[str] = []
    if rows:
        sch = sch.split(rows[-1], [None, divisor(found.rows, 4)])
        group = loops_feeding_axis(sch, name, -2)[-2:]
    sch = sch.reorder(down, *group[:1], *columns, deep, *group[1:])
    sch = sch.decompose_reduction(name, at=down)
    sch = sch.vectorize(columns[-1]).vectorize(loops_feeding_axis(sch, f"{name}_init", -1)[-1])
    for loop in (deep, *group[1:]):
        sch = sch.unroll(loop)
    return sch


def sums_apart(sch: Schedule, name: str, block: int) -> tuple[Schedule, str]:
    """Partial sums of `block` products each, made where they are added to C."""
    (k,) = loops_of(sch, name, "R")
    cut = sch.split(k, [None, block])
    parts = cut.rfactor(loops_of(cut, name, "R")[0])
    (sums,) = added(cut, parts)
    (outer,) = loops_of(parts, name, "R")
    spatial = loops_of(parts, name, "S")
    batches = [loop for loop in spatial if loop not in spatial[-2:]]
    parts = parts.reorder(*batches, outer, *[loop for loop in spatial if loop not in batches])
    return parts.compute_at(sums, outer).vectorize(spatial[-1]), sums


def few_columns(sch: Schedule, found: Product, lanes: int) -> Schedule:
    """Few columns of C: a tile of some rows and all columns in registers, over all of k."""
    name = found.block
    rows = divisor(found.rows, 12 if found.columns <= lanes else 6)
    cached = sch.cache_write(name, found.output)
    (copy,) = added(sch, cached)
    i, j = (loops_feeding_axis(cached, name, axis)[-1] for axis in (-2, -1))
    (k,) = loops_of(cached, name, "R")
    sch = cached.split(i, [None, rows])
    outer, row = loops_feeding_axis(sch, name, -2)[-2:]
    sch = sch.reorder(outer, k, row, j).reverse_compute_at(copy, outer)
    sch = sch.decompose_reduction(name, at=k)
    for part in (f"{name}_init", f"{name}_update", copy):
        *unrolled, lane = [loop for loop in loops_below(sch, part, outer) if loop != k]
        sch = sch.vectorize(lane)
        for loop in unrolled:
            sch = sch.unroll(loop)
    return sch
