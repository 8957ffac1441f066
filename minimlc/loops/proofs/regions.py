"""The elements that statements read and write: boxes, private buffers.

All of it is derived from the tree; what an author declares is only compared with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from minimlc.loops.ir.nodes import Binary, Block, Buffer, Const, Expr, For, Var, index, substitute
from minimlc.loops.ir.walks import stored_in
from minimlc.loops.proofs.access import (
    Access,
    loop_extents,
    reads_any,
    reducer_of,
    shared_loops,
    starts_its_target,
)
from minimlc.loops.proofs.affine import Digit, Digits, DigitSum, Divided, terms_of, to_expr
from minimlc.loops.proofs.arith import conjuncts, constant_value, has_loads, variables
from minimlc.loops.proofs.coverage import cover_together, covers, limit_of
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.values.node import nodes_of


class Side(NamedTuple):
    """One dimension of a box: `extent` elements from `start`, over outer variables."""

    start: Expr
    extent: int


Box = tuple[Side, ...]


def enclosing_box(buffer: Buffer, items: Sequence[Access], fixed: Iterable[Var]) -> Box:
    """The smallest box known to hold every element that `items` touch while `fixed` stand still.

    A dimension in which no tighter side is found is taken whole.
    """
    extents: dict[Var, int] = {}
    for item in items:
        extents.update(loop_extents(item.loops))
    digits = Digits(extents)
    sums = digits.sums([i for item in items for i in item.indices])
    still = set(fixed)
    box = []
    for dim, size in enumerate(buffer.shape):
        column = sums[dim :: buffer.ndim]
        # Digits give a simpler start, where an index has them.
        if None in column:
            near = _near([item.indices[dim] for item in items], still, extents, size)
        else:
            near = side_of(column, still, extents, size)
        box.append(near)
    return tuple(box)


def _near(column: Sequence[Expr], fixed: set[Var], extents: Mapping[Var, int], size: int) -> Side:
    """A side around indices of whatever form: from the first one with its moving variables at 0,
    widened by the known distances of all from that.

    It may be computed where nothing is accessed, so nothing is divided by what may be zero there.
    """
    whole, ranges = Side(index(0), size), Ranges(extents)
    if any(map(has_loads, column)):
        return whole
    start = substitute(column[0], {v: index(0) for v in variables(column[0]) - fixed})
    divisors = [part.b for part in nodes_of(start, Binary) if part.op in ("//", "%")]
    if not all(isinstance(by, Const) and by.value for by in divisors):
        return whole
    distances = [ranges.difference(part, start) for part in column]
    low, high = min(low for low, _ in distances), max(high for _, high in distances)
    return whole if high - low + 1 >= size else Side(start + low if low else start, high - low + 1)


def side_of(
    column: Sequence[DigitSum | None], fixed: set[Var], extents: Mapping[Var, int], size: int
) -> Side:
    """The values of some sums while some variables stand still: all from 0 to below `size`, if no
    fewer are known to be enough.
    """
    whole = Side(index(0), size)
    base: DigitSum | None = None
    low = high = 0
    for total in column:
        if total is None:
            return whole
        outer = terms_of(total, fixed)
        first, last = total.minus(outer).bounds()
        if base is None:
            base, low, high = outer, first, last
        elif base != outer:
            return whole
        low, high = min(low, first), max(high, last)
    if base is None or high - low + 1 >= size:
        return whole
    return Side(to_expr(base._replace(constant=low), extents), high - low + 1)


def is_private(buffer: Buffer, loop: For, items: Sequence[Access]) -> bool:
    """Whether each iteration of `loop` writes every element of `buffer` before reading it, and
    nothing outside the loop looks at it: each iteration can then own a copy.

    `items` are the function's accesses in program order; `buffer` is one of its allocations.
    """
    mine = [item for item in items if item.buffer is buffer]
    if not all(loop in item.loops for item in mine):
        return False
    writes = [item for item in mine if item.is_write]
    conditions = {part for item in mine for part in (*item.guards, *item.runs_where)}
    changing: set[Buffer] = set()
    if any(map(has_loads, conditions)):
        changing = {item.buffer for item in items if item.is_write and loop in item.loops}
    return all(
        is_written_before(item, item.loops.index(loop) + 1, writes, changing)
        for item in mine
        if not item.is_write
    )


def is_written_before(
    read: Access, depth: int, writes: Iterable[Access], changing: set[Buffer]
) -> bool:
    """Whether all that a read needs is surely written before, by some writes or the init of its
    block, in the same iteration of the outermost `depth` loops; `changing` are buffers that may be
    written in between.
    """
    if read.role == "update" and read.block is not None and read.block.init is not None:
        if any(reads_any(guard, changing) for guard in read.runs_where):
            return False
        return starts_inside(read.block, read.loops[depth:], read.loops, read.runs_where)
    read = read._replace(guards=tuple(g for g in read.guards if not reads_any(g, changing)))
    mine = [write for write in writes if write.buffer is read.buffer]
    earlier = [write for write in mine if write.order <= read.order]
    for write in earlier:
        shared = [loop.var for loop in shared_loops(write, read)]
        if covers(write, read, shared) or _begins_with(write, read, shared, depth):
            return True
    return len(earlier) > 1 and cover_together(earlier, read)


def _begins_with(write: Access, read: Access, shared: Sequence[Var], depth: int) -> bool:
    """Whether a write in an init covers a read in the first iteration of the loops, inside the
    outermost `depth` ones, that decide when the init runs: no other iteration comes before it.
    """
    if write.role != "init":
        return False
    starts = [part for part in write.guards if _is_start(part)]
    first = set[Var]().union(*map(variables, starts)) & {*shared[depth:]}
    others = [part for part in write.guards if not _is_start(part)]
    extents = [loop.extent for loop in shared_loops(write, read)[depth:]]
    if any(map(has_loads, extents)):
        return False
    if any(variables(part) & first for part in (*write.indices, *others, *extents)):
        return False
    return covers(write, read, [var for var in shared if var not in first])


def _is_start(guard: Expr) -> bool:
    """Whether a condition is that of an init: a value is 0."""
    return isinstance(guard, Binary) and guard.op == "==" and constant_value(guard.b) == 0


def starts_inside(
    block: Block, inner: Sequence[For], around: Sequence[For], guards: Sequence[Expr]
) -> bool:
    """Whether a reduction block's init, for whatever it updates in one iteration of the loops
    outside `inner`, runs in that iteration too, and first.

    `guards`, over the loops, are all conditions under which the block runs.
    """
    moving = {loop.var for loop in inner}
    return all(
        variables(it.value) <= moving for it in block.iters if it.kind == "R"
    ) and init_comes_first(block, around, guards)


def init_comes_first(block: Block, around: Sequence[For], guards: Sequence[Expr]) -> bool:
    """Whether, for each element, the instance whose reduce iters are 0 is the first to run, and
    its init starts just what the body updates.
    """
    return starts_its_target(block) and first_comes_first(block, around, guards)


def first_comes_first(block: Block, around: Sequence[For], guards: Sequence[Expr]) -> bool:
    """Whether, of the instances with the same spatial iters, the one whose reduce iters are 0 is
    the first to run.

    So it is when the iters' values are sums over digits that start at 0, or quotients and rests of
    such, and no digit serves both spatial and reduce iters: whatever the order of the loops, the
    first instance has all digits 0. No guard, and no extent, may let others pass and not that one.
    """
    if any(it.kind == "O" for it in block.iters) or _stops_itself(block, guards):
        return False
    guards = (*guards, *_changing_ends(block, around))
    # Where such a guard lets some reduce values pass it lets 0 pass too, if the value rises.
    limits = {guard: limit_of(guard) for guard in guards}
    rising = {guard: limit[1] for guard, limit in limits.items() if limit and limit[0] == "<"}
    digits = Divided(loop_extents(tuple(around)))
    values = [it.value for it in block.iters]
    sums = digits.sums([*values, *rising.values()])
    spatial: set[Digit] = set()
    reduce: set[Digit] = set()
    for it, total in zip(block.iters, sums, strict=False):
        if total is None:
            return False
        if it.kind == "R":
            if not digits.starts_at_zero(total):
                return False
            reduce |= digits.loops(total)
        else:
            spatial |= digits.loops(total)
    if spatial & reduce:
        return False
    moving = {d.var for d in reduce}
    totals = dict(zip(rising, sums[len(values) :], strict=True))
    relevant = (g for g in guards if moving & variables(g) or (g in totals and has_loads(g)))
    return all(_rises(totals.get(guard), digits, reduce) for guard in relevant)


def _rises(total: DigitSum | None, digits: Divided, reduce: set[Digit]) -> bool:
    """Whether a sum is known to be least where some of its digits are 0."""
    return (
        total is not None
        and not any(d.var in digits.divisions for d in total.terms)
        and all(c > 0 for d, c in total.terms.items() if d in reduce)
    )


def _stops_itself(block: Block, guards: Iterable[Expr]) -> bool:
    """Whether what a block writes decides which of its instances run."""
    written = stored_in(block)
    return any(reads_any(guard, written) for guard in guards)


def _changing_ends(block: Block, around: Sequence[For]) -> Iterator[Expr]:
    """The extents that may differ between reduce iters' values, as conditions."""
    reduced: set[Var] = set()
    for it in block.iters:
        reduced |= variables(it.value) if it.kind == "R" else set()
    inside = False
    for loop in around:
        if inside and (has_loads(loop.extent) or variables(loop.extent) & reduced):
            yield Binary("<", loop.var - loop.extent, index(0))
        inside = inside or loop.var in reduced


@lru_cache(maxsize=128)
def is_commutative_reduction(block: Block, around: tuple[For, ...]) -> bool:
    """Whether the instances of a block may run in any order: a reduction with a commutative
    operator whose init, if it has one, stays first and runs once per element.
    """
    guards = tuple(conjuncts(block.predicate))
    if reducer_of(block) is None or _stops_itself(block, guards):
        return False
    return block.init is None or init_comes_first(block, around, guards)


@lru_cache(maxsize=128)
def repeats(block: Block, around: tuple[For, ...]) -> tuple[For, ...]:
    """The loops of `around` whose iterations may run the same instance of a block again."""
    values = tuple(it.value for it in block.iters)
    nowhere = Buffer("instances", (), "bool")
    instance = Access(nowhere, values, True, tuple(around), (), block, "", 0, block)
    question = Conflict(instance, instance)
    return tuple(loop for loop in around if question.possible({loop.var: "+"}))
