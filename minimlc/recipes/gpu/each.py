"""A thread for each element."""

from collections.abc import Sequence
from itertools import takewhile

from minimlc.loops.ir.nodes import For, Intrin, Load, Stmt, Store
from minimlc.loops.ir.walks import inner_stmts, loops_in
from minimlc.loops.schedule.tree import constant_extent, find_loop
from minimlc.loops.values.node import nodes_of
from minimlc.recipes.elementwise import is_elementwise, used_once
from minimlc.recipes.general import attempt
from minimlc.recipes.matmul import with_epilogue
from minimlc.recipes.views import Draft, bytes_of, refusal
from minimlc.targets.gpu.kernels import kernels
from minimlc.targets.gpu.lanes import copy_of, several_of
from minimlc.targets.gpu.narrow import narrow

GRID = ("blockIdx.x", "threadIdx.x")
THREADS = 256
"""Threads of a block, one for each element."""
PARTS = "all", "block", "thread", "own"
MANY, OWN = 1 << 20, 4
"""From `MANY` elements on, a thread has `OWN`, whose loads do not wait for each other."""


def reduced(sch: Draft, name: str) -> Draft:
    """A thread for each element that a block reduces to; it does the element-wise work after it."""
    sch, (copy,) = sch.making("cache_write", name, sch.buffer(name))
    sch, last = with_epilogue(sch, copy)
    if not sch.loops(last):
        raise refusal(f'reduced: block "{name}" has one result')
    sch = in_threads(sch, find_loop(sch.func, sch.loops(last)[0]).stmt)
    sch = sch.compute_at(name, sch.loops(last)[-1])
    return sch.decompose_reduction(name, at=sch.loops_of(name, "R")[0])


def inlined(sch: Draft) -> Draft:
    """Element-wise work where it is used: at one place, or for next to nothing at several."""
    for name in sch.blocks()[:-1]:
        if is_elementwise(sch, name) and (used_once(sch, name) or is_cheap(sch, name)):
            sch = attempt(sch, "compute_inline", name)
    return sch


def is_cheap(sch: Draft, name: str) -> bool:
    """Whether a block does little more than move an element, as one that pads an image."""
    value = sch.store(name).value
    return len(nodes_of(value, Load)) == 1 and not nodes_of(value, Intrin)


def in_threads(
    sch: Draft, stmt: Stmt, axes: Sequence[str] = GRID, *, vectors: bool = False
) -> Draft:
    """Threads for the outermost loops that allow it. Inside of one that runs in order, they are
    of one block, which can wait for each other. With `vectors`, a thread takes neighbours at once.
    """
    chain = _chain(stmt)
    if not all(loop.kind == "serial" for loop in chain):
        return sch
    names = [loop.var.name for loop in chain]
    free = [name for name in names if attempt(sch, "bind", name, GRID[0]) is not sch]
    rest = [name for name in names if name not in free]
    moved = attempt(sch, "reorder", *free, *rest) if free and rest else sch
    outer = free if moved is not sch else list(takewhile(free.__contains__, names))
    if outer:
        return shared_out(moved, outer, axes, vectors=vectors)
    for part in inner_stmts(stmt):
        sch = in_threads(sch, part, axes[-1:])
    return sch


def shared_out(
    sch: Draft, loops: Sequence[str], axes: Sequence[str] = GRID, *, vectors: bool = False
) -> Draft:
    """Loops directly in each other as one, whose iterations go to the threads of `axes`: several to
    each where there are so many that all threads of a device have some, neighbours if they can be.
    """
    taken, name = {loop.var.name for loop in loops_in(sch.func.body)}, loops[0]
    while taken & {f"{name}_{part}" for part in PARTS}:
        name += "_"
    whole, block, thread, lane = (f"{name}_{part}" for part in PARTS)
    fused = attempt(sch, "fuse", *loops, name=whole) if len(loops) > 1 else sch
    whole = loops[0] if fused is sch else whole
    extent = constant_extent(find_loop(fused.func, whole).stmt)
    if axes == GRID and extent <= THREADS:
        return fused.bind(whole, GRID[1])
    if vectors and axes == GRID and extent >= MANY:
        sizes = [None, THREADS, lanes_of(fused, whole)]
        wide = attempt(fused.split(whole, sizes, names=[block, thread, lane]), "vectorize", lane)
        if is_at_once(wide, lane):
            return wide.bind(thread, GRID[1]).bind(block, GRID[0])
    sch = fused.split(whole, [None, THREADS], names=[block, thread]).bind(thread, GRID[1])
    if axes != GRID:
        return sch
    if extent >= MANY:
        sch = sch.split(block, [None, OWN], names=[f"{block}s", lane])
        block, sch = f"{block}s", attempt(sch, "reorder", thread, lane).unroll(lane)
    return sch.bind(block, GRID[0])


def lanes_of(sch: Draft, loop: str) -> int:
    """How many neighbours of the widest type in a loop are 16 bytes."""
    stmt = find_loop(sch.func, loop).stmt
    touched: list[Load | Store] = [*nodes_of(stmt, Load), *nodes_of(stmt, Store)]
    return 16 // max(bytes_of(part.buffer.dtype) for part in touched)


def is_at_once(sch: Draft, loop: str) -> bool:
    """Whether all that a vectorized loop takes is neighbours that a thread can take at once."""
    parts = map(narrow, kernels(sch.func_name, sch.func).kernels)
    loops = [it for part in parts for it in nodes_of(part.body, For) if it.var.name == loop]
    return bool(loops) and all(copy_of(item) or several_of(item) for item in loops)


def _chain(stmt: Stmt) -> list[For]:
    """The chain of loops that begins with a statement: each has only the next one inside."""
    chain = []
    while isinstance(stmt, For):
        chain.append(stmt)
        stmt = stmt.body
    return chain
