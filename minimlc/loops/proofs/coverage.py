"""Whether writes surely fill the elements that a read needs."""

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from minimlc.loops.ir.nodes import Binary, Const, Expr, Var
from minimlc.loops.proofs.access import Access, loop_extents, shared_loops
from minimlc.loops.proofs.affine import (
    Coverage,
    Digit,
    Digits,
    DigitSum,
    contiguous,
    quotient_and_rest,
    terms_of,
)
from minimlc.loops.proofs.arith import Interval, constant_value, has_loads, key, split_by, variables
from minimlc.loops.proofs.forms import has_match
from minimlc.loops.proofs.ranges import Ranges


def covers(write: Access, read: Access, fixed: Iterable[Var]) -> bool:
    """Whether `write`, while `fixed` stand still, surely writes every element `read` reads."""
    still = set(fixed)
    parts = _ranges(write, read, still)
    whole = parts is not None and all(part.is_whole for part in parts)
    return whole or has_match(write, read, still)


class _Part(NamedTuple):
    """The index that a read needs in one dimension, or in a part of one; its interval `reach` and
    the `values` written, both beyond `outer`, the fixed terms (None where they are no sum).
    """

    need: DigitSum | None
    outer: DigitSum | None
    reach: Interval | None
    values: range
    is_whole: bool


def _ranges(write: Access, read: Access, still: set[Var]) -> list[_Part] | None:
    """The elements written as ranges, one for each dimension; None where they may not be such."""
    extents = {**loop_extents(write.loops), **loop_extents(read.loops)}
    digits = Digits(extents)
    guards = [guard for guard in write.guards if not _is_granted(guard, write, read, still)]
    zeros = [_zero_guarded(guard) for guard in guards]
    if any(value is None for value in zeros):
        return None
    ndim = write.buffer.ndim
    ends = [guard for guard in read.guards if limit_of(guard) is not None]
    asked = [value for value in zeros if value is not None]
    asked += [limit[1] for limit in map(limit_of, ends) if limit is not None]
    written, reaches = _moving(write, read, still, extents)
    sums = digits.sums((*written, *read.indices, *asked))
    if not _takes_every_value(write, still, digits):
        return None
    coverage = Coverage(digits)
    held = dict(zip(guards, sums[2 * ndim :], strict=False))
    needed = dict(zip(ends, sums[2 * ndim + len(guards) :], strict=True))
    sides = zip(sums[:ndim], sums[ndim : 2 * ndim], write.buffer.shape, reaches, strict=True)
    parts = []
    for out, need, size, known in (part for side in sides for part in _rows(*side, still)):
        if out is None:
            return None
        outer = terms_of(out, still)
        moving = out.minus(outer)
        values = coverage.take(moving)
        if values is None:
            return None
        for guard, end in [(g, _end(g, total, moving)) for g, total in held.items()]:
            if end is not None:
                values = range(values.start, min(values.stop, end))
                del held[guard]
        alone = known is None and not outer.terms
        whole = alone and values.start <= 0 and values.stop >= size
        reach = known or _reach(need, outer, needed)
        base = outer if known is None else None
        parts.append(_Part(need, base, reach, values, whole or _within(reach, values)))
    ends_elsewhere = all(_reaches_zero(total, still, coverage.used) for total in held.values())
    return parts if ends_elsewhere else None


def _moving(
    write: Access, read: Access, still: set[Var], extents: Mapping[Var, int]
) -> tuple[list[Expr], list[Interval | None]]:
    """A write's indices, without the fixed terms where these keep one from being a sum of digits;
    for such indices, the interval that the read needs beyond the fixed terms.
    """
    indices = list(write.indices)
    reaches: list[Interval | None] = [None] * len(indices)
    ranges = Ranges(extents).assume(*read.guards)
    for dim, total in enumerate(Digits(extents).sums(indices)):
        parts = split_by(indices[dim], still) if total is None else None
        if parts is not None and not has_loads(parts[0]):
            indices[dim] = parts[1]
            reaches[dim] = ranges.difference(read.indices[dim], parts[0])
    return indices, reaches


def cover_together(writes: Iterable[Access], read: Access) -> bool:
    """Whether writes, each whole in all dimensions but the same one, surely write every element
    that a read needs: side by side, as a loop's tail comes after its other iterations.
    """
    pieces: dict[Hashable, list[_Part]] = {}
    for write in writes:
        still = {shared.var for shared in shared_loops(write, read)}
        parts = _ranges(write, read, still) or ()
        short = [at for at, part in enumerate(parts) if not part.is_whole]
        if len(short) == 1 and all(part.outer is not None for part in parts):
            part = parts[short[0]]
            needs = tuple([_name(side.need) for side in parts])
            place = (short[0], needs, _name(part.outer), frozenset(still))
            pieces.setdefault(place, []).append(part)
    return any(map(_is_within_union, pieces.values()))


def _name(total: DigitSum | None) -> Hashable:
    return total and (frozenset(total.terms.items()), total.constant)


def _is_within_union(parts: list[_Part]) -> bool:
    first = min(parts, key=lambda part: part.values.start)
    values = first.values
    for part in sorted(parts, key=lambda part: part.values.start):
        if part.values and part.values.start <= values.stop:
            values = range(values.start, max(values.stop, part.values.stop))
    return _within(first.reach, values)


def _end(guard: Expr, total: DigitSum | None, part: DigitSum) -> int | None:
    """The end of the values of `part` by a guard `total < bound`, if it limits them alone: `total`
    is a multiple of `part` and a rest that does not matter.
    """
    limit = limit_of(guard)
    if total is None or limit is None or limit[0] != "<" or not part.terms:
        return None
    digit, coefficient = next(iter(part.terms.items()))
    times, uneven = divmod(total.terms.get(digit, 0), coefficient)
    parts = quotient_and_rest(total, times) if times > 0 and not uneven else None
    if parts is None or parts[0].terms != part.terms or limit[2] % times:
        return None
    return limit[2] // times - parts[0].constant + part.constant


_Row = tuple[DigitSum | None, DigitSum | None, int, Interval | None]


def _rows(
    out: DigitSum | None,
    need: DigitSum | None,
    size: int,
    known: Interval | None,
    fixed: set[Var],
) -> list[_Row]:
    """The written and the read index in one dimension, and its size; where the written elements
    have gaps, as padded rows have, the row and the place in it are separate dimensions.
    """
    if out is None or need is None or known is not None:
        return [(out, need, size, known)]
    moving = out.minus(terms_of(out, fixed))
    if contiguous(moving) is None:
        for radix in sorted({c for c in moving.terms.values() if c > 1}, reverse=True):
            parts, others = quotient_and_rest(out, radix), quotient_and_rest(need, radix)
            if parts is not None and others is not None:
                row = _rows(parts[0], others[0], -(-size // radix), None, fixed)
                return [*row, *_rows(parts[1], others[1], radix, None, fixed)]
    return [(out, need, size, None)]


def _is_granted(guard: Expr, write: Access, read: Access, fixed: set[Var]) -> bool:
    """Whether a guard of a write takes nothing away from what the read needs: it holds for the
    read as well, or always, or it only leaves out elements that the buffer does not have.
    """
    if variables(guard) <= fixed and any(key(guard) == key(g) for g in read.guards):
        return True
    ranges = Ranges(loop_extents(write.loops))
    sides = zip(write.indices, write.buffer.shape, strict=True)
    return ranges.prove(guard) or clips_only(guard, sides, ranges)


def limit_of(guard: Expr) -> tuple[str, Expr, int] | None:
    """Operator, value and constant of a guard `value < constant` or `value >= constant`."""
    match guard:
        # other nodes: guards of another form
        case Binary("<" | ">=" as op, value, limit) if (bound := constant_value(limit)) is not None:
            return op, value, bound
    return None


def clips_only(guard: Expr, sides: Iterable[tuple[Expr, int]], ranges: Ranges) -> bool:
    """Whether a guard leaves out nothing but values of one of `sides` beyond 0 ... size-1.

    Nothing is concluded where arithmetic wraps: `i + big < big` may hold for one `i` only.
    """
    limit = limit_of(guard)
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
    limit = limit_of(guard)
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


def _reach(
    need: DigitSum | None, outer: DigitSum, guards: Mapping[Expr, DigitSum | None]
) -> Interval | None:
    """The least and the greatest value that a read under guards needs beyond `outer`."""
    if need is None:
        return None
    moving = need.minus(outer)
    low, high = moving.bounds()
    ends = (_end(guard, total, moving) for guard, total in guards.items())
    return low, min([high, *(end - 1 for end in ends if end is not None)])


def _within(reach: Interval | None, values: range) -> bool:
    """Whether all that is needed is among `values`."""
    return reach is not None and values.start <= reach[0] and reach[1] < values.stop
