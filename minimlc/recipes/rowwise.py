"""Reductions along rows, and the work on their results: softmax, layer norm, sums.

A row, or a few short ones, is finished before the next begins, so that it stays in the first-level
cache. Each sum is kept in several vectors of partial sums, which do not wait for each other.
"""

from math import prod

from minimlc.node import nodes_of, walk
from minimlc.recipes.general import attempt
from minimlc.recipes.views import (
    WORTH_THREADS,
    Draft,
    bytes_of,
    choose,
    divisor,
    lanes_of,
    none_is,
    recipe,
    refusal,
)
from minimlc.target import Target
from minimlc.tir.analysis.arith import variables
from minimlc.tir.nodes import IfThenElse, Load, Select, Store

VECTORS = 8
"""Vectors of partial sums: adders and load ports are then about equally busy."""

LONG_ROW = 16
"""A sum over several axes fits this recipe if the last has at least so many elements."""

SHORT_ROW, MOST_ROWS = 512, 4
"""Bytes of a short row, and how many of them take each step together."""

HALF_A_PAGE = 2048
"""Bytes: of shorter rows, the hardware prefetches the next one in the same page by itself."""

MOST_WRITTEN_OUT, MOST_STRAIGHT = 8, 2048
"""Steps of a sum that become straight code, and bytes that they may go through together."""


@recipe
def rowwise(sch: Draft, block: str | None, target: Target) -> Draft:
    """Fast reductions along the last axis, with the element-wise work before and after them.

    Takes the whole function: all other blocks are computed for its last one, row by row.
    `block` names a reduction that must be among them. Raises `ScheduleError` where there is none.
    """
    names = sch.blocks()
    reductions = [name for name in names if is_along_rows(sch, name)]
    if not reductions or block not in (None, *reductions):
        what = none_is(block, "is not", "is")
        raise refusal(f"rowwise: {what} a reduction along the last axis")
    return row_by_row(sch, names, target)


def row_by_row(sch: Draft, names: list[str], target: Target) -> Draft:
    """Blocks in a row, each row or few of the last one finished before the next begin."""
    last = names[-1]
    reductions = [name for name in names if is_along_rows(sch, name)]
    others = [name for name in sch.blocks() if name not in names]
    elements = sch.iterations(last)
    partial: list[str] = []
    depth = max(rows_deep(sch, name) for name in reductions)
    for name in reductions:
        before, sch = sch, in_lanes(sch, name, target)
        partial += sch.added(before)
    names = [name for name in sch.blocks() if name not in others]
    loops = sch.loops_of(last, "S")
    rows = loops if last in reductions else loops[: min(depth, len(loops) - 1)]
    together = 1
    if rows and len(rows) == len(loops) - 1:
        several = (divisor(sch.extent(last, rows[-1]), most) for most in (1, 2, 4, 8))
        sch, together = choose(sch, "rows_together", (rows_together(sch, last, rows), *several))
    if together > 1:
        sch, (outer, _) = sch.cut(last, rows[-1], together)
        rows = [*rows[:-1], outer]
        for name in partial:
            sch = lanes_last(sch, name)
    long = [loop for loop in rows if sch.extent(last, loop) > 1]
    shared = long[:1] if elements >= WORTH_THREADS else []
    if rows:
        for name in reversed([name for name in names if name != last]):
            sch = sch.compute_at(name, rows[-1])
    sch, ahead = choose(sch, "prefetch", (True, False))
    if rows and together == 1 and ahead:
        sch = next_row_asked_for(sch, last, partial, rows[-1], target)
    for name in names:
        sch = in_vectors(sch, name, rows, name in partial, together > 1)
    for loop in shared:
        sch = sch.parallel(loop)
    return sch


def next_row_asked_for(
    sch: Draft, last: str, partial: list[str], row: str, target: Target
) -> Draft:
    """Prefetch the next row while one is worked on: the hardware does not look beyond a page.

    The last sum over a row prefetches its input, since before it the current row is still being
    loaded; a block that writes whole vectors prefetches its output.
    """
    for name in reversed(partial):
        loads = nodes_of(sch.block(name).body, Load)
        inputs = [load for load in loads if load.buffer in sch.func.params]
        far = [load for load in inputs if is_far(load, row_bytes(sch, name, load, row), target)]
        if far:
            loop = sch.loops_of(name, "R")[0]
            sch = sch.annotate(loop, "prefetch", (far[0].buffer.name, row))
            break
    store, inner = sch.store(last), sch.loops(last)[-1]
    size, lanes = row_bytes(sch, last, store, row), lanes_of(target, store.buffer.dtype)
    count = sch.extent(last, inner)
    whole = sch.block(last).init is None and count % lanes == 0
    if whole and size >= HALF_A_PAGE and is_far(store, size, target):
        sch, (loop, _) = sch.cut(last, inner, lanes * divisor(count // lanes, VECTORS))
        sch = sch.annotate(loop, "prefetch", (store.buffer.name, row))
    return sch


def row_bytes(sch: Draft, name: str, access: Load | Store, row: str) -> int:
    """How many bytes of a buffer one iteration of `row` touches; 0 if all touch the same."""
    iters = sch.block(name).iters
    own = {it.var.name for it in iters if row in {var.name for var in variables(it.value)}} | {row}
    moving = ({var.name for var in variables(index)} & own for index in access.indices)
    places = [at for at, moves in enumerate(moving) if moves]
    inner = access.buffer.shape[places[-1] + 1 :] if places else (0,)
    return prod(inner) * bytes_of(access.buffer.dtype)


def is_far(access: Load | Store, row: int, target: Target) -> bool:
    """Whether rows come from beyond the second level, and the first has room for four of them:
    this one and the next of an input and an output.
    """
    size = prod(access.buffer.shape) * bytes_of(access.buffer.dtype)
    return size > target.l2 and SHORT_ROW < row <= target.l1 // 4


def rows_deep(sch: Draft, name: str) -> int:
    """How many loops run over the rows that a block reduces, except inner ones of extent 1."""
    spatial = [sch.extent(name, loop) > 1 for loop in sch.loops_of(name, "S")]
    return max((at + 1 for at, long in enumerate(spatial) if long), default=0)


def rows_together(sch: Draft, last: str, rows: list[str]) -> int:
    """Rows that take each step together: while one waits for its last few sums, others go on.

    Long rows wait for memory instead.
    """
    if not rows:
        return 1
    element = bytes_of(sch.store(last).buffer.dtype)
    size = sch.extent(last, sch.loops(last)[-1]) * element
    count = sch.extent(last, rows[-1])
    return divisor(count, min(MOST_ROWS, max(count // 2, 1))) if size <= SHORT_ROW else 1


def is_along_rows(sch: Draft, name: str) -> bool:
    """Whether a block reduces by its innermost loops alone, and the last walks along its inputs."""
    item = sch.block(name)
    sums = sch.loops_of(name, "R")
    if not isinstance(item.init, Store) or {it.kind for it in item.iters} - {"S", "R"}:
        return False
    if not sums or sch.loops(name)[-len(sums) :] != sums:
        return False
    if len(sums) > 1 and sch.extent(name, sums[-1]) < LONG_ROW:  # along rows of a window, perhaps
        return False
    last = [it.var for it in item.iters if it.kind == "R"][-1]
    outer = (index for load in nodes_of(item.body, Load) for index in load.indices[:-1])
    return not any(last in walk(index) for index in outer)


def in_lanes(sch: Draft, name: str, target: Target) -> Draft:
    """Partial sums in vectors: each of n lanes adds up every n-th element of the row.

    Then the vectors are added up, and of many lanes the quarters: one lane after the other, each
    would wait for the last.
    """
    k = sch.loops_of(name, "R")[-1]
    item = sch.block(name)
    assert isinstance(item.init, Store)
    lanes = lanes_of(target, item.init.buffer.dtype)
    size = sch.extent(name, k)
    if size < 2 * lanes:
        return sch
    sch, most = choose(sch, f"vectors of {name}", (VECTORS, 1, 2, 4, 12, 16))
    fits = [n * lanes for n in range(most, 0, -1) if size >= 2 * n * lanes]
    wide = next((width for width in fits if size % width == 0 and 2 * width >= fits[0]), fits[0])
    widths = [wide, lanes] if wide > lanes else [wide]
    while widths[-1] > MOST_WRITTEN_OUT:
        widths.append(widths[-1] // 4)
    for width in widths:
        sch = sch.split(sch.loops_of(name, "R")[-1], [None, width])
        sch = sch.rfactor(sch.loops_of(name, "R")[-1])
    return sch


def lanes_last(sch: Draft, name: str) -> Draft:
    """Store partial sums with the lanes of a row side by side."""
    item = sch.block(name)
    assert isinstance(item.init, Store)
    axes = [f"a{axis}" for axis in range(len(item.init.indices))]
    layout = f"{', '.join(axes)} -> {', '.join([*axes[1:], axes[0]])}"
    return sch.transform_layout(name, item.init.buffer.name, layout)


def in_vectors(sch: Draft, name: str, rows: list[str], is_partial: bool, together: bool) -> Draft:
    """The innermost loop in lanes; what adds the last lanes up is written out, as are `rows`
    that are done together.
    """
    inner = sch.loops_below(name, rows[-1]) if rows else sch.loops(name)
    sums = sch.loops_of(name, "R")
    if not inner:
        return sch
    near = beside(sch, name, rows[-1]) if together else []
    lanes = [loop for loop in inner if loop not in (*near, *sums)]
    if not sums:
        return (sch.vectorize(lanes[-1]) if lanes else sch).unrolled(near)
    order = [*near, *sums, *lanes]
    sch = sch.reorder(*order) if len(order) > 1 else sch
    sch, (init, update) = sch.making("decompose_reduction", name, at=sums[0])
    if is_partial:
        sch = sch.vectorize(sch.loops(init)[-1]).vectorize(sch.loops(update)[-1])
    sch = sch.unrolled(near)
    if any(isinstance(part, IfThenElse | Select) for part in walk(sch.block(update).body)):
        sch = attempt(sch, "loop_partition", sums[0])
    return sch.unroll(sums[0]) if is_soon_done(sch, init, update) else sch


def is_soon_done(sch: Draft, init: str, update: str) -> bool:
    """Whether the steps of a sum are worth straight code: few, and through little data.

    A loop of more is faster than the same as straight code, which is fetched anew for every row.
    """
    loops, steps = sch.loops(update), sch.loops_of(update, "R")
    if not steps:
        return False
    elements = sch.iterations(update, loops[loops.index(steps[0]) :])
    straight = elements * bytes_of(sch.store(init).buffer.dtype) <= MOST_STRAIGHT
    return straight and sch.extent(update, steps[0]) <= MOST_WRITTEN_OUT


def beside(sch: Draft, name: str, loop: str) -> list[str]:
    """The loops around a block that feed the same iter as `loop`, from inside of it."""
    fed = [{var.name for var in variables(it.value)} for it in sch.block(name).iters]
    same = {other for names in fed if loop in names for other in names}
    return [other for other in sch.loops_below(name, loop) if other in same]
