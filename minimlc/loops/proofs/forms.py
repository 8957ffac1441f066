"""Instances of a write and of a read whose indices are of one form."""

from functools import partial
from typing import Any

from minimlc.loops.ir.nodes import Binary, Const, Expr, Var, index, substitute
from minimlc.loops.proofs.access import Access, loop_ranges
from minimlc.loops.proofs.arith import has_loads, key


def has_match(write: Access, read: Access, fixed: set[Var]) -> bool:
    """Whether each instance of a read has one of a write, with the same values of the loops
    `fixed`, that surely runs, and whose index is of the same form: B[j // 4, j % 4] is for
    B[k // 4, k % 4].
    """
    moving = [loop for loop in write.loops if loop.var not in fixed]
    if any(map(has_loads, (*write.indices, *write.guards, *(loop.extent for loop in moving)))):
        return False
    values: dict[Any, Any] = {}
    free = {loop.var for loop in moving}
    if not all(map(partial(_is_form, free, values), write.indices, read.indices)):
        return False
    values |= {var: index(0) for var in free - values.keys()}
    ranges = loop_ranges(read.loops).assume(*read.guards)
    ends = [(values[loop.var], substitute(loop.extent, values)) for loop in moving]
    return all(
        ranges.prove(Binary(">=", value, index(0))) and ranges.prove(Binary("<", value, extent))
        for value, extent in ends
    ) and all(ranges.prove(substitute(guard, values)) for guard in write.guards)


def _is_form(free: set[Var], values: dict[Any, Any], form: Any, other: Any) -> bool:
    """Whether one expression is another with `values` in the place of variables that are `free`;
    those that have none yet get one.
    """
    if form in free:
        return key(values.setdefault(form, other)) == key(other)
    if type(form) is not type(other) or isinstance(form, Var | Const):
        return form is other or (isinstance(form, Const) and key(form) == key(other))
    if not isinstance(form, Expr):
        return form == other
    parts = type(form)._values
    return all(map(partial(_is_form, free, values), parts(form), parts(other)))
