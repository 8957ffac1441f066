"""The indices that a map takes into a box."""

from collections.abc import Iterable, Mapping
from itertools import chain

from minimlc.loops.ir.nodes import Expr, Var, index
from minimlc.loops.proofs.affine import Digit, Digits, to_expr
from minimlc.loops.proofs.arith import Sum
from minimlc.loops.proofs.regions import Box, Side, side_of
from minimlc.loops.values.errors import ScheduleError
from minimlc.services.layouts.index_map import IndexMap


def preimage(
    iters: Mapping[Var, int], sides: Iterable[tuple[Expr, Side]], outer: Mapping[Var, int]
) -> Box:
    """A box, over the variables `outer`, that holds the values of some iters (with extents) at
    which expressions over them lie in given sides; all values where no smaller box is found.

    The expressions are read as a map, together with all values of the digits of the iters that do
    not occur in them; the iters come from its inverse.
    """
    known: dict[Expr, Side] = {}
    for part, side in sides:
        known.setdefault(part, side)
    whole = tuple(Side(index(0), extent) for extent in iters.values())
    if all(part in iters for part in known):
        return tuple(known.get(var, side) for var, side in zip(iters, whole, strict=True))
    outputs = _outputs(iters, known)
    try:
        back = IndexMap(tuple(iters), tuple(outputs)).inverse([*iters.values()])
    except ScheduleError:
        back = None  # the map goes beyond 64 bits, say
    if back is None:
        return whole
    inner = {Var("offset"): side.extent for side in outputs.values()}
    at = [side.start + var for side, var in zip(outputs.values(), inner, strict=True)]
    values = Digits({**outer, **inner}).sums(back(at))
    return tuple(
        side_of([value], {*outer}, outer, size)
        for value, size in zip(values, iters.values(), strict=True)
    )


def _outputs(iters: Mapping[Var, int], known: Mapping[Expr, Side]) -> dict[Expr, Side]:
    """Expressions over iters, from 0 on, and the digits that do not occur in them, with sides."""
    digits = Digits(dict(iters))
    parts = sorted(known, key=lambda part: part not in iters)
    outputs: dict[Expr, Side] = {}
    sums = digits.sums(parts)
    used: set[Digit] = set()
    for part, total in zip(parts, sums, strict=True):
        if total is not None and total.terms:
            least = total.bounds()[0]
            outputs[part - least] = Side(known[part].start - least, known[part].extent)
            used |= total.terms.keys()
    for digit in chain.from_iterable(map(digits.of, iters)):
        if digit not in used:
            outputs[to_expr(Sum({digit: 1}), iters)] = Side(index(0), digit.extent)
    return outputs
