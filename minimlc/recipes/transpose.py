"""Transposes: a small rectangle of elements at a time, in registers."""

from collections.abc import Callable
from math import gcd, prod
from typing import NamedTuple

from minimlc.loops.ir.nodes import Block, Load, Store
from minimlc.loops.values.node import nodes_of
from minimlc.loops.values.target import Target
from minimlc.recipes.views import (
    Draft,
    bytes_of,
    choose,
    divisor,
    first,
    recipe,
    refusal,
    through_registers,
    worth_threads,
)

LINE = 64
"""Bytes of a cache line."""
PAGE = 4096
"""Bytes after which addresses map to the same set of the first-level cache again."""
REGISTERS = 8
"""Maximum side of a rectangle in elements that vectors of at most 256 bits hold."""
LONG_REGISTERS = 16
"""The same for vectors of a whole cache line."""
NARROW = 4
"""Rows that are written at a time where more of them would evict one another."""
WORD = 4
"""Minimum bytes of an element for which narrow rectangles pay: smaller ones fill no vector."""
READ, WRITE = 32, 16
"""Bytes of a row that a rectangle reads, and writes, where no square fits."""
EDGE = 48
"""Minimum rows and columns for which the edges that squares leave over are a small part."""
RUN = 256
"""Minimum elements of a row that are written before the next row, where the cache does not keep
the lines that are read: long columns evict even the translations of their pages.
"""
SHARES = 16
"""Minimum iterations of a parallel loop for which threads get about the same."""


class Transpose(NamedTuple):
    """Facts of a transpose that decide how it is cut.

    `rows` and `columns` of the output, the product of the `others` among the extents, bytes of an
    `element`; bytes between neighbours of a row where they are read (`read_apart`), and between
    rows where they are written; whether the cache keeps all lines that a row is read from (`kept`),
    whether threads are worth it, whether vectors are as long as a cache line (`long`), and whether
    everything lies beyond the second-level cache (`far`).
    """

    rows: int
    columns: int
    others: int
    element: int
    read_apart: int
    written_apart: int
    kept: bool
    threads: bool
    long: bool
    far: bool

    @property
    def square(self) -> int:
        """The side of the largest square whose rows are read and written in whole lines, as far as
        registers go; far from the caches edges may be left over.
        """
        line = LINE // self.element
        if not (self.long and is_crowded(self.read_apart)):
            line = gcd(line, self.rows, self.columns)
        if self.far and min(self.rows, self.columns) >= EDGE:
            line = max(line, REGISTERS)
        return min(line, LONG_REGISTERS if self.long else REGISTERS)

    def is_by_columns(self, rows: int) -> bool:
        """Whether columns are the outer loop: `rows` at a time leave threads too few shares."""
        few = self.others < SHARES > self.rows // min(rows, self.rows)
        return self.threads and few and self.columns > self.rows


class Rule(NamedTuple):
    """A row of the decision table: `when` a rectangle is cut, its columns (`lanes`) and `rows`."""

    when: Callable[[Transpose], bool]
    lanes: Callable[[Transpose], int]
    rows: Callable[[Transpose], int]


RECTANGLES = (
    Rule(  # rows that are written evict one another, rows that are read do not
        lambda t: (
            is_crowded(t.written_apart)
            and not is_crowded(t.read_apart)
            and t.element >= WORD
            and not t.is_by_columns(NARROW)
        ),
        lambda t: NARROW,
        lambda t: NARROW,
    ),
    Rule(  # a square fits; with short vectors, crowded lines are lost before all of them is read
        lambda t: t.square >= REGISTERS and (t.long or not is_crowded(t.read_apart)),
        lambda t: t.square,
        lambda t: t.square,
    ),
    Rule(  # the next rows find their elements in the cache
        lambda t: t.kept,
        lambda t: min(REGISTERS, WRITE // t.element),
        lambda t: min(REGISTERS, WRITE // t.element),
    ),
    Rule(  # a line that is read is used further before it is lost
        lambda t: True,
        lambda t: min(REGISTERS, WRITE // t.element),
        lambda t: min(REGISTERS, READ // t.element),
    ),
)
"""How the elements of a rectangle are chosen: the first rule that holds."""


@recipe
def transpose(sch: Draft, block: str | None, target: Target) -> Draft:
    """A fast block that reads a buffer across the rows which it writes: B[j, i] = f(A[i, j]).

    It takes a few elements of a few rows at a time, which turn in registers; what is left over at
    the edges has loops of its own. `block` names the transpose, by default the first there is.
    Raises `ScheduleError` where there is none, or where plain loops are as fast.
    """
    why = "transpose: {} across the rows it writes"
    name, across = first(sch, block, _read_across, why, ("does not read", "reads"))
    _refuse_what_is_fast(sch, name, *across, target)
    return in_rectangles(sch, name, *across, target)


def _read_across(block: Block) -> tuple[Load, int] | None:
    """The one load that a block does across, and the axis of the output along its rows."""
    if any(it.kind != "S" for it in block.iters) or not isinstance(block.body, Store):
        return None
    output = block.body.indices
    spatial = {it.var: it for it in block.iters}
    if any(index not in spatial for index in output) or len(set(output)) != len(output):
        return None
    across = [
        (load, output.index(load.indices[-1]))
        for load in nodes_of(block.body.value, Load)
        if load.indices
        and load.indices[-1] in output[:-1]
        and output[-1] in load.indices
        and set(load.indices) <= set(output)
    ]
    return across[0] if len(across) == 1 else None


def _refuse_what_is_fast(sch: Draft, name: str, load: Load, axis: int, target: Target) -> None:
    """Refuse where there is nothing to turn; or where rows stay in the cache and elements are not
    of four bytes: reading them one by one takes no longer than turning narrow ones or a few wide
    ones.
    """
    ends = [sch.loops_along(name, place) for place in (axis, -1)]
    if [len(loops) for loops in ends] != [1, 1]:
        raise refusal(f'transpose: block "{name}" is not in loops of its own', "")
    if min(sch.extent(name, loop) for (loop,) in ends) < 2:
        raise refusal(f'transpose: block "{name}" has nothing to turn', "")
    lines = sch.iterations(name, sch.loops_below(name, *ends[0]))
    if bytes_of(load.buffer.dtype) != WORD and _stays(sch, name, load, lines, target):
        why = "all lines that a row is read from stay in the first cache"
        raise refusal(f'transpose: block "{name}": {why}', "")


def _stays(sch: Draft, name: str, load: Load, lines: int, target: Target) -> bool:
    """Whether the first cache holds all lines that a row of the output is read from, so that the
    next row finds its elements there; or a row uses up whole lines.
    """
    apart = _apart(sch, name, load)
    return apart < LINE or lines <= target.l1 // max(LINE, gcd(apart, PAGE))


def _apart(sch: Draft, name: str, load: Load) -> int:
    """How many bytes of what is read lie between neighbours of a row of the output."""
    place = load.indices.index(sch.store(name).indices[-1])
    return prod(load.buffer.shape[place + 1 :]) * bytes_of(load.buffer.dtype)


def is_crowded(apart: int) -> bool:
    """Whether rows so many bytes apart compete for few sets of the first cache."""
    return gcd(apart, PAGE) > PAGE // 4


def facts(sch: Draft, name: str, load: Load, axis: int, target: Target) -> Transpose:
    """The facts of a transpose whose output has its rows along `axis`."""
    sizes = [sch.extent(name, loop) for loop in sch.loops(name)]
    rows, columns = (sch.extent(name, sch.loops_along(name, along)[0]) for along in (axis, -1))
    element = bytes_of(load.buffer.dtype)
    return Transpose(
        rows,
        columns,
        prod(sizes) // (rows * columns),
        element,
        _apart(sch, name, load),
        prod(sch.store(name).buffer.shape[axis + 1 :]) * element,
        kept=_stays(sch, name, load, columns, target),
        threads=worth_threads(prod(sizes), target),
        long=target.vector_bits >= 8 * LINE,
        far=rows * columns * element > target.l2,
    )


def in_rectangles(sch: Draft, name: str, load: Load, axis: int, target: Target) -> Draft:
    """Cut both axes, the outer one first; then go through A by way of a rectangle of its own."""
    known = facts(sch, name, load, axis, target)
    (row,), (column,) = sch.loops_along(name, axis), sch.loops_along(name, -1)
    others = [loop for loop in sch.loops(name) if loop not in (row, column)]
    rule = next(rule for rule in RECTANGLES if rule.when(known))
    sides = (2, 4, REGISTERS, LONG_REGISTERS)
    sch, lanes = choose(sch, f"lanes of {name}", (rule.lanes(known), *sides))
    sch, rows = choose(sch, f"rows of {name}", (rule.rows(known), *sides))
    steps = {row: min(rows, known.rows), column: min(lanes, known.columns)}
    by_columns = known.is_by_columns(rows)
    first, second = (column, row) if by_columns else (row, column)
    if sch.loops(name) != [*others, first, second]:
        sch = sch.reorder(*others, first, second)
    sch, (outer, inner) = _cut_evenly(sch, name, first, steps[first])
    sch = sch.reorder(outer, second, inner)
    sch, (within, lane) = _cut_evenly(sch, name, second, steps[second])
    along, lane = (lane, inner) if by_columns else (inner, lane)
    sch = sch if by_columns else sch.reorder(within, along, lane)
    sch = through_registers(sch, name, load.buffer.name, within, [along, lane])
    run = divisor(sch.extent(name, within), RUN // lanes)
    whole = not by_columns and known.columns % lanes == 0
    if whole and not known.kept and 2 * run * lanes >= RUN:
        sch, (runs, _) = sch.cut(name, within, run)
        sch = sch.reorder(runs, outer)
        others = [*others, runs]
    if not known.threads:
        return sch
    counts = {loop: sch.extent(name, loop) for loop in (*others, outer)}
    longest = max([outer, *others], key=lambda loop: counts[loop])
    return sch.parallel(next((loop for loop in others if counts[loop] >= SHARES), longest))


def _cut_evenly(sch: Draft, name: str, loop: str, size: int) -> tuple[Draft, list[str]]:
    """A loop in runs of `size`; the rest gets its own loop, so that no run needs a guard."""
    whole = sch.extent(name, loop) // size * size
    if whole < sch.extent(name, loop):
        sch = sch.loop_partition(loop, [whole])
    return sch.cut(name, loop, size)
