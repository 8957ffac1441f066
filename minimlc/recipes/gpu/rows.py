"""Rows: sums along them, softmax, norms."""

from collections.abc import Sequence

from minimlc.loops.values.errors import CompileError
from minimlc.recipes.elementwise import is_elementwise
from minimlc.recipes.gpu.each import GRID, shared_out
from minimlc.recipes.gpu.tiles import in_tiles
from minimlc.recipes.rowwise import is_along_rows, rows_deep
from minimlc.recipes.views import Draft, bytes_of, fused, refusal
from minimlc.targets.gpu.kernels import kernels

MOST = 256
"""Threads of a row."""
LEAST = 32
"""Elements of a row from which on threads work on it together."""
OWN = 32
"""Elements of a row for each thread up to which its loop is straight code, so that it may keep them
in registers.
"""
SHARED = 1 << 15
"""Bytes of a row in shared memory."""
FEW, LONG, PARTS = 64, 1 << 14, 256
"""Fewer rows than that leave a device idle; such long ones are worth a launch for their parts."""


def rows(sch: Draft, names: Sequence[str]) -> Draft:
    """Blocks in a row, all of them for one row at a time: by the threads of a block together, which
    keep values in between in the memory that they share; short rows by one thread per row.
    """
    reductions = [name for name in names if is_along_rows(sch, name)]
    if not reductions:
        raise refusal("rows: no block reduces along rows")
    last = names[-1]
    depth = max(rows_deep(sch, name) for name in reductions)
    loops = sch.loops_of(last, "S")
    outer = loops if last in reductions else loops[:depth]
    sch = fused(sch, outer) if outer else sch.add_unit_loop([*sch.loops(last), last][0])
    row = sch.loops(last)[0]
    for name in [other for other in names[:-1] if _is_long(sch, other, sch.extent(last, row))]:
        sch = sch.compute_inline(name)
    names = [name for name in names if name in sch.blocks()]
    work = sum(map(sch.iterations, names))
    size = max(sch.iterations(name, sch.loops_of(name, "R")) for name in reductions)
    scope = "shared" if size >= LEAST else "local"
    for name in reversed(names[:-1]):
        sch = sch.compute_at(name, row).set_scope(name, sch.buffer(name), scope)
        if sch.iterations(name) > work:
            raise refusal(f"rows: all of {name} would be computed again for each row")
    if scope == "local":
        return shared_out(sch, [row])
    threads = min(MOST, 1 << size.bit_length() - 1)
    for name in names:
        sch = _together(sch, name, row, threads)
    sch = sch.bind(row, GRID[0])
    for name in [other for other in names[:-1] if other not in reductions]:
        sch = _in_registers(sch, name, threads)
    return sch


def _in_registers(sch: Draft, name: str, threads: int) -> Draft:
    """The values of a row from a block, in registers of the threads that use them; where other
    threads do, in shared memory.
    """
    try:
        after = in_tiles(sch, name, [threads]).set_scope(name, sch.buffer(name), "local")
        kernels(after.func_name, after.func)
    except CompileError:
        return sch
    return after


def _is_long(sch: Draft, name: str, rows: int) -> bool:
    """Whether an element-wise block makes rows too long for shared memory: used twice, they are
    computed twice.
    """
    size = sch.iterations(name) * bytes_of(sch.store(name).buffer.dtype) // rows
    return is_elementwise(sch, name) and size > SHARED


def _together(sch: Draft, name: str, row: str, threads: int) -> Draft:
    """The work of a block on a row, by the threads of the row together."""
    loops = sch.loops_of(name, "R") or sch.loops_below(name, row)
    if not loops:
        return sch
    sch = fused(sch, loops)
    sch, (steps, lane) = sch.cut(name, sch.loops_below(name, row)[-1], threads)
    sch = sch.unroll(steps) if sch.extent(name, steps) <= OWN else sch
    return sch.bind(lane, GRID[1])


def in_parts(sch: Draft, name: str) -> Draft:
    """Few long sums, each in parts that blocks of threads add up first."""
    sums = sch.loops_of(name, "R")
    size = sch.iterations(name, sums)
    if not is_along_rows(sch, name) or sch.iterations(name) // size >= FEW or size < LONG:
        raise refusal(f'rows: block "{name}" has no few long sums')
    sch = sch.split(sums[0], [min(PARTS, sch.extent(name, sums[0])), None])
    sch, (part, *_) = sch.making("rfactor", sch.loops_of(name, "R")[0])
    return rows(sch, [part])
