"""Programs of a grid, such as tile programs: each works on its own blocks of elements."""

from minimlc.loops.ir.nodes import Load, Select, Store
from minimlc.loops.proofs.access import loop_ranges
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.schedule.tree import find_block
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.target import Target
from minimlc.recipes.elementwise import used_once
from minimlc.recipes.general import attempt
from minimlc.recipes.matmul import matmul
from minimlc.recipes.rowwise import in_lanes, in_vectors, is_along_rows, next_row_asked_for
from minimlc.recipes.views import Draft, recipe, refusal, worth_threads

GPUS = ("cuda", "gpusim", "opencl")
"""Targets whose kernels run by threads in blocks."""
MOST_THREADS, WARP = 128, 32
"""Threads of a program at the most, which are whole warps."""


@recipe
def programs(sch: Draft, block: str | None, target: Target) -> Draft:
    """Fast programs of a grid: blocks in loops that feed none of their iters.

    Takes the whole function; `block` names one of its blocks. Raises `ScheduleError` where a block
    has no such loop around it.
    """
    names = sch.blocks()
    alone = [name for name in names if not around(sch, name)]
    if not names or block not in (None, *names) or alone:
        raise refusal("programs: there is no loop around all blocks that feeds none of them")
    if target.name in GPUS:
        return on_threads(sch, names)
    program, work = sch.loops(names[0])[0], sum(map(sch.iterations, names))
    for name in names:
        sch = by_products(sch, name, target)
    for name in sch.blocks():
        if is_moved(sch, name):
            sch = attempt(sch, "compute_inline", name)
    sch = on_rows(sch, [name for name in sch.blocks() if is_serial(sch, name)], target)
    return attempt(sch, "parallel", program) if worth_threads(work, target) else sch


def around(sch: Draft, name: str) -> list[str]:
    """The loops around a block, outer to inner, that feed none of its iters."""
    feeding = {loop for kind in "SRO" for loop in sch.loops_of(name, kind)}
    return [loop for loop in sch.loops(name) if loop not in feeding]


def is_moved(sch: Draft, name: str) -> bool:
    """Whether a block only moves elements, or each of its results is used once; and no product
    that is in registers already reads them.
    """
    body = sch.block(name).body
    if not isinstance(body, Store) or has_kind(sch, name, "R") or not is_serial(sch, name):
        return False
    if any(has_kind(sch, user, "R") and not is_serial(sch, user) for user in sch.consumers(name)):
        return False
    place = find_block(sch.func, name)
    ranges = loop_ranges(place.loops).extended({it.var: it.extent for it in place.stmt.iters})
    value = simplify(body.value, ranges)
    if isinstance(value, Select) and any(is_along_rows(sch, user) for user in sch.consumers(name)):
        value = value.a  # sums end before the elements that a mask leaves out
    return isinstance(value, Load) or used_once(sch, name)


def has_kind(sch: Draft, name: str, kind: str) -> bool:
    """Whether a block has an iter of a kind."""
    return any(it.kind == kind for it in sch.block(name).iters)


def is_serial(sch: Draft, name: str) -> bool:
    """Whether all loops around a block run in order, and may run in another."""
    serial = all(loop.kind == "serial" for loop in find_block(sch.func, name).loops)
    return serial and not has_kind(sch, name, "O")


def by_products(sch: Draft, name: str, target: Target) -> Draft:
    """A block that is a product, as fast as others."""
    try:
        return matmul(sch, name, target=target)
    except ScheduleError:
        return sch


def on_rows(sch: Draft, names: list[str], target: Target) -> Draft:
    """Sums along rows as partial sums in lanes, everything in vectors; the next program's rows
    prefetched while one is at work.
    """
    partial: list[str] = []
    for name in filter(lambda name: is_along_rows(sch, name), names):
        before, sch = sch, in_lanes(sch, name, target)
        partial += sch.added(before)
    last = sch.blocks()[-1]
    row = around(sch, last)[-1]
    near = [name for name in partial if around(sch, name)[-1] == row]
    others = [name for name in names if name != last and around(sch, name)[-1:] == [row]]
    is_last = last in names
    for name in names:
        if sch.loops_of(name, "S") and not has_kind(sch, name, "R"):
            before, sch = sch, attempt(sch, "loop_partition", sch.loops_of(name, "S")[-1])
            names = [*names, *sch.added(before)]
    if near and is_last:
        sch = next_row_asked_for(sch, [*near, *others, last], near, row, target)
    for name in (*partial, *names):
        sch = in_vectors(sch, name, around(sch, name)[-1:], name in partial, False)
    return sch


def on_threads(sch: Draft, names: list[str]) -> Draft:
    """Programs as blocks of a GPU, which share their tiles; a tile's elements as threads. What has
    to be taken in order is one thread's work.
    """
    shared = [set(around(sch, name)) for name in names]
    grid = [loop for loop in around(sch, names[0]) if all(loop in loops for loops in shared)]
    for loop, axis in zip(reversed(grid), "xyz", strict=False):
        sch = sch.bind(loop, f"blockIdx.{axis}")
    sizes = [sch.iterations(name, sch.loops_of(name, "S")) for name in names]
    threads = min(MOST_THREADS, -(-max(sizes) // WARP) * WARP)
    for name in names:
        if sch.store(name).buffer in sch.func.allocs:
            sch = sch.set_scope(name, sch.buffer(name), "shared")
    for name in names:
        sch = by_threads(sch, name, threads)
    return sch


def by_threads(sch: Draft, name: str, threads: int) -> Draft:
    """A block's elements, or the values of its one sum, shared out to threads."""
    kind = "S" if sch.loops_of(name, "S") else "R"
    loops = sch.loops_of(name, kind)
    if not loops or has_kind(sch, name, "O"):
        return sch
    fused = attempt(sch, "fuse", *loops) if len(loops) > 1 else sch
    rest = [loop for loop in fused.loops(name) if loop not in sch.loops(name)] or loops
    after, (_, thread) = fused.cut(name, rest[0], threads)
    bound = attempt(after, "bind", thread, "threadIdx.x")
    return sch if bound is after else bound
