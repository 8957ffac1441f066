"""Reductions along rows, and the work on their results: softmax, layer norm, sums.

A row, or a few short ones, is finished before the next begins, so that it stays in the first-level
cache. Each sum is kept in several vectors of partial sums, which do not wait for each other.
"""

from math import prod

from minimlc.loops.ir.nodes import IfThenElse, Load, Select, Store, Var
from minimlc.loops.proofs.arith import flat, loaded, variables
from minimlc.loops.values.node import nodes_of, walk
from minimlc.loops.values.target import Target
from minimlc.recipes.general import attempt
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    is_long,
    lanes_of,
    none_is,
    recipe,
    refusal,
    worth_threads,
)

VECTORS, ENOUGH = 8, 2048
"""Vectors of partial sums: adders and load ports are then about equally busy. So many bits of
them are enough for each of two rows, and for one beside exponentials.
"""

LONG_ROW = 16
"""A sum over several axes fits this recipe if the last has at least so many elements."""

SHORT_ROW, PAGE = 512, 4096
"""Bytes of a row up to which four rows take each step together, and up to which two do."""

LINE = 64
"""Bytes of a cache line."""

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
    for name in sch.blocks():
        sch = one_sum(sch, name)
    names = sch.blocks()
    reductions = [name for name in names if is_along_rows(sch, name)]
    if not reductions or block not in (None, *reductions):
        what = none_is(block, "is not", "is")
        raise refusal(f"rowwise: {what} a reduction along the last axis")
    return row_by_row(sch, names, target)


def row_by_row(sch: Draft, names: list[str], target: Target) -> Draft:
    """Blocks in a row: one row of the last block, or a few, are finished before the next begin. The
    blocks that are not for one of its rows go row by row of the last one of them.
    """
    others = [name for name in sch.blocks() if name not in names]
    deep = {name: rows_deep(sch, name) for name in names if is_along_rows(sch, name)}
    partial: list[str] = []
    at_once = 1 if names[-1] in deep else rows_at_once(sch, names[-1], target)
    few = at_once == 2 or any(is_long(sch, name) for name in names)
    vectors = max(1, min(VECTORS, ENOUGH // target.vector_bits)) if few else VECTORS
    for name in deep:
        before, sch = sch, in_lanes(sch, name, target, vectors)
        partial += sch.added(before)
    left = [name for name in sch.blocks() if name not in others]
    while left:
        sch, left = last_rows(sch, left, deep, partial, target)
    return sch


def last_rows(
    sch: Draft, names: list[str], deep: dict[str, int], partial: list[str], target: Target
) -> tuple[Draft, list[str]]:
    """The last block row by row, with those that are computed for one of its rows; and the rest."""
    *before, last = names
    elements = sch.iterations(last)
    sch, rows = rows_of(sch, last, deep, partial)
    together = 1
    if rows and rows == sch.loops(last)[:-1] and last not in (*deep, *partial):
        several = (divisor(sch.extent(last, rows[-1]), most) for most in (1, 2, 4, 8))
        default = rows_together(sch, last, rows, target)
        sch, together = choose(sch, "rows_together", (default, *several))
    if together > 1:
        sch, (outer, _) = sch.cut(last, rows[-1], together)
        rows = [*rows[:-1], outer]
    long = [loop for loop in rows if sch.extent(last, loop) > 1]
    shared = long[:1] if worth_threads(elements, target) else []
    group: list[str] = [last]
    rest: list[str] = []
    for name in reversed(before):
        new = at_row(sch, name, rows)
        (rest if new is sch else group).insert(0, name)
        sch = new
    sums = [name for name in group if name in partial]
    for name in sums if together > 1 else ():
        sch = lanes_last(sch, name) if rows[-1] in sch.loops(name) else sch
    if rows and together == 1:
        sch = next_row_asked_for(sch, group, sums, rows[-1], target)
    for name in group:
        sch = in_vectors(sch, name, rows, name in partial, together > 1)
    for loop in shared:
        sch = sch.parallel(loop)
    return sch, rest


def rows_of(
    sch: Draft, last: str, deep: dict[str, int], partial: list[str]
) -> tuple[Draft, list[str]]:
    """The loops of a block over rows, which are the rows of the sums that it needs. There are none
    where it does not go along them, and they fill no two vectors: several sums fill vectors better.
    """
    loops, needed = sch.loops_of(last, "S"), feeds(sch, last)
    short = not needed & {*partial}
    if last in partial:
        return sch, loops[:-1]
    if last in deep:
        return sch, [] if short else loops
    depth = max((deep[name] for name in needed if name in deep), default=0)
    if depth < len(loops) or short or not loops:
        return sch, loops[:depth] if depth < len(loops) else []
    return sch.add_unit_loop(last), loops  # a row of the last block is one element


def feeds(sch: Draft, name: str) -> set[str]:
    """The blocks that a block needs, directly or by way of others."""
    found: set[str] = set()
    rest = [name]
    while rest:
        new = {*sch.producers(rest.pop())} - found
        found |= new
        rest += new
    return found


def at_row(sch: Draft, name: str, rows: list[str]) -> Draft:
    """A block computed for one row of the last one, in as many loops over rows as it can be without
    computing anything again: a sum over ranks takes the loops of its whole row.
    """
    for row in reversed(rows):
        new = attempt(sch, "compute_at", name, row)
        if new is not sch and new.iterations(name) <= sch.iterations(name):
            return new
    return sch


def next_row_asked_for(
    sch: Draft, names: list[str], partial: list[str], row: str, target: Target
) -> Draft:
    """Prefetch the next row while one is worked on: the hardware does not look beyond a page. It
    pays where a row is read by two sums and what writes one, with little arithmetic: a layer norm.

    The last sum over a row prefetches its input, since before it the current row is still being
    loaded. A block that writes whole vectors prefetches its output: a line that is written at once
    need not be read before, but for that.
    """
    last = names[-1]
    store, inner = sch.store(last), sch.loops(last)[-1]
    size, lanes = row_bytes(sch, last, store, row), lanes_of(target, store.buffer.dtype)
    count = sch.extent(last, inner)
    whole = sch.block(last).init is None and count % lanes == 0 and size >= HALF_A_PAGE
    inputs = {*sch.func.params} - {store.buffer}
    readers = [name for name in names if inputs & loaded(sch.block(name).body)]
    light = whole and len(readers) > 2 and not any(is_long(sch, name) for name in names)
    usual = ("read" if target.vector_bits >= 8 * LINE else "both") if light else "none"
    sch, ahead = choose(sch, "prefetch", (usual, "none", "read", "both"))
    for name in reversed(partial) if ahead != "none" else ():
        loads = [load for load in nodes_of(sch.block(name).body, Load) if load.buffer in inputs]
        far = [load for load in loads if is_far(load, row_bytes(sch, name, load, row), target)]
        if far:
            loop = sch.loops_of(name, "R")[0]
            sch = sch.annotate(loop, "prefetch", (far[0].buffer.name, row))
            break
    if ahead == "both" and whole and is_far(store, size, target):
        sch, (loop, _) = sch.cut(last, inner, lanes * divisor(count // lanes, VECTORS))
        sch = sch.annotate(loop, "prefetch", (store.buffer.name, row))
    return sch


def row_bytes(sch: Draft, name: str, access: Load | Store, row: str) -> int:
    """How many bytes of a buffer one iteration of `row` touches; 0 if all touch the same."""
    iters = sch.block(name).iters
    fed = {it.var.name for it in iters if row in {var.name for var in variables(it.value)}} | {row}
    moving = ({var.name for var in variables(index)} & fed for index in access.indices)
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


def rows_together(sch: Draft, last: str, rows: list[str], target: Target) -> int:
    """How many rows take each step together, no more than there are."""
    if not rows:
        return 1
    count = sch.extent(last, rows[-1])
    return divisor(count, min(rows_at_once(sch, last, target), max(count // 2, 1)))


def rows_at_once(sch: Draft, last: str, target: Target) -> int:
    """How many rows could take each step together: while one waits for its last few sums, others
    go on. Long rows wait for memory instead, and so do rows of more than the caches hold.
    """
    loops = sch.loops(last)
    if not loops:
        return 1
    size = sch.extent(last, loops[-1]) * bytes_of(sch.store(last).buffer.dtype)
    total = sum(prod(param.shape) * bytes_of(param.dtype) for param in sch.func.params)
    few = 2 if size <= PAGE and total <= target.l3 // 2 else 1
    return 4 if size <= SHORT_ROW else few


def one_sum(sch: Draft, name: str) -> Draft:
    """A sum over the last axes of all that it reads, as over one: 7 × 7 numbers in a row are 49."""
    item = sch.block(name)
    if not isinstance(item.init, Store):
        return sch
    count = sum(it.kind == "R" for it in item.iters)
    for start in range(len(item.iters) - count, len(item.iters) - 1):
        last = item.iters[start:]
        sizes = tuple([it.extent for it in last])
        place = tuple([it.var for it in last]), sizes
        summed = {it.var for it in last}
        loads = [load for load in nodes_of(item.body, Load) if summed & {*walk(load)}]
        ends = {(load.indices[-len(last) :], load.buffer.shape[-len(last) :]) for load in loads}
        if ends == {place} and all(it.kind == "R" for it in last):
            *kept, total = [f"a{at}" for at in range(start + 1)]
            more = [f"a{at}" for at in range(start + 1, len(item.iters))]
            for other, size in zip(more, sizes[1:], strict=True):
                total = f"({total}) * {size} + {other}"
            layout = f"{', '.join([*kept, f'a{start}', *more])} -> {', '.join([*kept, total])}"
            return attempt(sch, "transform_block_layout", name, layout)
    return sch


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
    return all(walks_along(load, last) for load in nodes_of(item.body, Load))


def walks_along(load: Load, var: Var) -> bool:
    """Whether a variable moves an access along the last axis alone, or from one element in memory
    to the next.
    """
    if not any(var in walk(position) for position in load.indices[:-1]):
        return True
    number = flat(load.indices, load.buffer.shape)
    steps = [step for atom, step in number.terms.items() if var in walk(atom.expr)]
    return steps == [1]


def in_lanes(sch: Draft, name: str, target: Target, vectors: int = VECTORS) -> Draft:
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
    sch, most = choose(sch, f"vectors of {name}", (vectors, 1, 2, 4, 8, 12, 16))
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
    outer = [row for row in rows if row in sch.loops(name)]
    inner = sch.loops_below(name, outer[-1]) if outer else sch.loops(name)
    sums = sch.loops_of(name, "R")
    if not inner:
        return sch
    near = beside(sch, name, outer[-1]) if together and outer == rows else []
    lanes = [loop for loop in inner if loop not in (*near, *sums)]
    if not sums:
        return (sch.vectorize(lanes[-1]) if lanes else sch).unrolled(near)
    # What is summed along no row is not in lanes, but the sums are.
    across, along = is_partial or not outer, is_along_rows(sch, name)
    last = len(lanes) - 1 if across and lanes else len(lanes)
    order = [*near, *lanes[:last], *sums, *lanes[last:]]
    sch = sch.reorder(*order) if len(order) > 1 else sch
    sch, (init, update) = sch.making("decompose_reduction", name, at=sums[0])
    if is_partial or (across and lanes and not along):
        sch = sch.vectorize(sch.loops(init)[-1]).vectorize(sch.loops(update)[-1])
    sch = sch.unrolled(near)
    if any(isinstance(part, IfThenElse | Select) for part in walk(sch.block(update).body)):
        sch = attempt(sch, "loop_partition", sums[-1])
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
