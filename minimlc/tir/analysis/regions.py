"""What statements read and write: boxes of elements, coverage, private buffers.

All of it is derived from the tree; what an author declares is only compared with it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from minimlc.errors import VerifyError
from minimlc.node import Node, span_of
from minimlc.tir.analysis.access import (
    Access,
    Alone,
    accesses_alone,
    loop_extents,
    reads_any,
    reducer_of,
    shared_loops,
    starts_its_target,
)
from minimlc.tir.analysis.affine import (
    Coverage,
    Digit,
    Digits,
    DigitSum,
    contiguous,
    quotient_and_rest,
    terms_of,
    to_expr,
)
from minimlc.tir.analysis.arith import conjuncts, constant_value, has_loads, key, variables
from minimlc.tir.analysis.dependence import Conflict
from minimlc.tir.analysis.ranges import Ranges
from minimlc.tir.nodes import Binary, Block, Buffer, Const, Expr, For, Var, index, substitute
from minimlc.tir.walks import stored_in

Declared = tuple[tuple[Buffer, tuple[tuple[Expr, Expr], ...]], ...]


class Side(NamedTuple):
    """One dimension of a box: `extent` elements from `start`, over outer variables."""

    start: Expr
    extent: int


Box = tuple[Side, ...]
_Bounds = tuple[tuple[Expr, ...], ...]


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
        box.append(_side(column, still, extents, size))
    return tuple(box)


def _side(
    column: Sequence[DigitSum | None], fixed: set[Var], extents: Mapping[Var, int], size: int
) -> Side:
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


def covers(write: Access, read: Access, fixed: Iterable[Var]) -> bool:
    """Whether `write`, while `fixed` stand still, surely writes every element `read` reads."""
    still = set(fixed)
    extents = {**loop_extents(write.loops), **loop_extents(read.loops)}
    digits = Digits(extents)
    guards = [guard for guard in write.guards if not _is_granted(guard, write, read, still)]
    zeros = [_zero_guarded(guard) for guard in guards]
    if any(value is None for value in zeros):
        return False
    ndim = write.buffer.ndim
    sums = digits.sums((*write.indices, *read.indices, *(v for v in zeros if v is not None)))
    if not _takes_every_value(write, still, digits):
        return False
    coverage = Coverage(digits)
    sides = zip(sums[:ndim], sums[ndim : 2 * ndim], write.buffer.shape, strict=True)
    for out, need, size in (part for side in sides for part in _rows(*side, still)):
        if out is None:
            return False
        outer = terms_of(out, still)
        values = coverage.take(out.minus(outer))
        if values is None:
            return False
        whole = not outer.terms and values.start <= 0 and values.stop >= size
        if not whole and not _within(need, outer, values, still):
            return False
    return all(_reaches_zero(total, still, coverage.used) for total in sums[2 * ndim :])


_Dimension = tuple[DigitSum | None, DigitSum | None, int]


def _rows(
    out: DigitSum | None, need: DigitSum | None, size: int, fixed: set[Var]
) -> list[_Dimension]:
    """What is written and read in one dimension, and its size; where the written elements have
    gaps, as padded rows have, the row and the place in it are dimensions of their own.
    """
    if out is None or need is None:
        return [(out, need, size)]
    moving = out.minus(terms_of(out, fixed))
    if contiguous(moving) is None:
        for radix in sorted({c for c in moving.terms.values() if c > 1}, reverse=True):
            parts, others = quotient_and_rest(out, radix), quotient_and_rest(need, radix)
            if parts is not None and others is not None:
                row = _rows(parts[0], others[0], -(-size // radix), fixed)
                return [*row, *_rows(parts[1], others[1], radix, fixed)]
    return [(out, need, size)]


def _is_granted(guard: Expr, write: Access, read: Access, fixed: set[Var]) -> bool:
    """Whether a guard of a write takes nothing away from what the read needs: it holds for the
    read as well, or always, or it only leaves out elements that the buffer does not have.
    """
    if variables(guard) <= fixed and any(key(guard) == key(g) for g in read.guards):
        return True
    ranges = Ranges(loop_extents(write.loops))
    sides = zip(write.indices, write.buffer.shape, strict=True)
    return ranges.prove(guard) or clips_only(guard, sides, ranges)


def _limit(guard: Expr) -> tuple[str, Expr, int] | None:
    """Of a guard `value < constant` or `value >= constant`: operator, value and constant."""
    match guard:
        # other nodes: guards of another form
        case Binary("<" | ">=" as op, value, limit) if (bound := constant_value(limit)) is not None:
            return op, value, bound
    return None


def clips_only(guard: Expr, sides: Iterable[tuple[Expr, int]], ranges: Ranges) -> bool:
    """Whether a guard leaves out nothing but values of one of `sides` beyond 0 ... size-1.

    Nothing is concluded where arithmetic wraps: `i + big < big` may hold for one `i` only.
    """
    limit = _limit(guard)
    if limit is None or not ranges.is_exact(limit[1]):
        return False
    op, value, bound = limit
    for part, size in sides:
        distance = constant_value(Binary("-", part, value))
        if distance is not None and ranges.is_exact(part):
            end = bound + distance
            if end >= size if op == "<" else end <= 0:
                return True
    return False


def _zero_guarded(guard: Expr) -> Expr | None:
    """A value that satisfies the guard where it is 0; None for a guard of another form."""
    match guard:
        # other nodes: guards of another form
        case Binary("==", value, Const(0)):
            return value
    limit = _limit(guard)
    return limit[1] if limit is not None and limit[0] == "<" and limit[2] > 0 else None


def _reaches_zero(total: DigitSum | None, fixed: set[Var], used: set[Digit]) -> bool:
    """Whether a value is 0 for some values of moving digits that are not in the index."""
    return (
        total is not None
        and total.constant == 0
        and all(c > 0 and d.var not in fixed for d, c in total.terms.items())
        and not used & set(total.terms)
    )


def _takes_every_value(write: Access, fixed: set[Var], digits: Digits) -> bool:
    """Whether the moving loops around a write run in full and fill all combinations of digits."""
    return all(
        loop.var in fixed or ((constant_value(loop.extent) or 0) > 0 and digits.is_exact(loop.var))
        for loop in write.loops
    )


def _within(need: DigitSum | None, outer: DigitSum, values: range, fixed: set[Var]) -> bool:
    """Whether `need` stays in `values` beyond `outer`, a sum of what is fixed."""
    if need is None or terms_of(need, fixed) != outer:
        return False
    low, high = need.minus(outer).bounds()
    return values.start <= low and high < values.stop


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
        _is_written_before(item, loop, writes, changing) for item in mine if not item.is_write
    )


def _is_written_before(
    read: Access, loop: For, writes: Iterable[Access], changing: set[Buffer]
) -> bool:
    depth = read.loops.index(loop) + 1
    if read.role == "update" and read.block is not None and read.block.init is not None:
        if any(reads_any(guard, changing) for guard in read.runs_where):
            return False
        return starts_inside(read.block, read.loops[depth:], read.loops, read.runs_where)
    read = read._replace(guards=tuple(g for g in read.guards if not reads_any(g, changing)))
    for write in writes:
        if write.order > read.order:
            continue
        if covers(write, read, [shared.var for shared in shared_loops(write, read)]):
            return True
    return False


def starts_inside(
    block: Block, inner: Sequence[For], around: Sequence[For], guards: Sequence[Expr]
) -> bool:
    """Whether a reduction block's init, for whatever it updates in one iteration of the loops
    outside `inner`, runs in that iteration too, and first.

    `guards`, over the loops, are all conditions under which the block runs.
    """
    own = {loop.var for loop in inner}
    return all(
        variables(it.value) <= own for it in block.iters if it.kind == "R"
    ) and init_comes_first(block, around, guards)


def init_comes_first(block: Block, around: Sequence[For], guards: Sequence[Expr]) -> bool:
    """Whether, for each element, the instance whose reduce iters are 0 is the first to run, and
    its init starts just what the body updates.
    """
    return starts_its_target(block) and first_comes_first(block, around, guards)


def first_comes_first(block: Block, around: Sequence[For], guards: Sequence[Expr]) -> bool:
    """Whether, of the instances with the same spatial iters, the one whose reduce iters are 0 is
    the first to run.

    So it is when the iters' values are rising sums over digits, and no digit serves both spatial
    and reduce iters: whatever the order of the loops, the first instance has all digits 0. No
    guard, and no extent, may let others pass and not that one.
    """
    if any(it.kind == "O" for it in block.iters) or _stops_itself(block, guards):
        return False
    guards = (*guards, *_changing_ends(block, around))
    # Where such a guard lets some reduce values pass it lets 0 pass too, if the value rises.
    limits = map(_limit, guards)
    limited = [limit[1] if limit is not None and limit[0] == "<" else None for limit in limits]
    digits = Digits(loop_extents(tuple(around)))
    values = [it.value for it in block.iters]
    sums = digits.sums([*values, *(value for value in limited if value is not None)])
    spatial: set[Digit] = set()
    reduce: set[Digit] = set()
    for it, total in zip(block.iters, sums, strict=False):
        if total is None:
            return False
        if it.kind == "R":
            if total.constant or any(c < 0 for c in total.terms.values()):
                return False
            reduce |= set(total.terms)
        else:
            spatial |= set(total.terms)
    if spatial & reduce:
        return False
    own = {d.var for d in reduce}
    free = [g for g, value in zip(guards, limited, strict=True) if value is None]
    return not any(own & variables(guard) for guard in free) and all(
        total is not None and all(c > 0 for d, c in total.terms.items() if d in reduce)
        for total in sums[len(values) :]
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


def is_commutative_reduction(block: Block, around: Sequence[For]) -> bool:
    """Whether the instances of a block may run in any order: a reduction with a commutative
    operator whose init, if it has one, stays first and runs once per element.
    """
    guards = tuple(conjuncts(block.predicate))
    if reducer_of(block) is None or _stops_itself(block, guards):
        return False
    return block.init is None or init_comes_first(block, around, guards)


def repeats(block: Block, around: Sequence[For]) -> tuple[For, ...]:
    """The loops of `around` whose iterations may run the same instance of a block again."""
    values = tuple(it.value for it in block.iters)
    instance = Access(_NOWHERE, values, True, tuple(around), (), block, "", 0, block)
    question = Conflict(instance, instance)
    return tuple(loop for loop in around if question.possible({loop.var: "+"}))


_NOWHERE = Buffer("instances", (), "bool")


def check_declared(
    block: Block,
    reads: Declared | None,
    writes: Declared | None,
    around: Mapping[Var, int] = {},
) -> None:
    """Compare what an author declared with what the block does; `VerifyError` where it is less.

    Both may use the variables `around` the block; each is less than its number. A region may be
    declared over the loops or over the block's own iters.
    """
    ranges = Ranges({**around, **{it.var: it.extent for it in block.iters}})
    values: dict[Node, Node] = {it.var: it.value for it in block.iters}

    def over_loops(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(substitute(expr, values) for expr in exprs)

    for item in accesses_alone(Alone.of(block)):
        declared = writes if item.is_write else reads
        if declared is None or (item.role == "update" and not item.is_write):
            continue
        inside = ranges.extended(loop_extents(item.loops)).assume(*item.guards)
        boxes: list[_Bounds] = [box for buffer, box in declared if buffer is item.buffer]
        forms = [(item.indices, box) for box in boxes]
        forms += [(over_loops(item.indices), tuple(map(over_loops, box))) for box in boxes]
        if not any(_holds(box, indices, inside) for indices, box in forms):
            verb = "writes" if item.is_write else "reads"
            touched = f"{item.buffer.name}[{', '.join(i.script() for i in item.indices)}]"
            raise VerifyError(
                f'block "{block.name}" {verb} {touched}, which T.{verb} does not declare',
                code="E110",
                span=span_of(item.node) or span_of(block),
                hint=f"leave T.{verb} out: it is derived from the block's body",
            )


def _holds(box: _Bounds, indices: tuple[Expr, ...], ranges: Ranges) -> bool:
    return len(box) == len(indices) and all(
        ranges.prove(Binary(">=", i, start)) and ranges.prove(Binary("<", i - start, extent))
        for (start, extent), i in zip(box, indices, strict=True)
    )
