"""Single instances of accesses, and the instances of writes that may touch an element before them.

That there is none is proven of all instances; only a few are tried.
"""

from collections.abc import Mapping
from math import prod

import numpy as np

from minimlc.loops.ir.nodes import Binary, Expr, Var, index, substitute
from minimlc.loops.proofs.access import Access, loop_extents, loop_ranges, shared_loops
from minimlc.loops.proofs.affine import Digits
from minimlc.loops.proofs.arith import constant_value, has_loads, weighted
from minimlc.loops.proofs.dependence import A_FEW
from minimlc.loops.proofs.solver import Bounds, is_possible
from minimlc.loops.proofs.witness import Element, Points, Values, points
from minimlc.loops.values.node import Node, replace

MANY = 1 << 14
"""The most iterations searched for writes of one element."""

MOST_FOUND = 8
"""The most writes of one element that are listed."""


def _known_guards(item: Access) -> tuple[Expr, ...]:
    """The conditions on an access that do not depend on data."""
    return tuple(guard for guard in item.guards if not has_loads(guard))


def _restricted(item: Access, fixed: Values, below: Mapping[Var, int]) -> Access:
    """An access over the iterations in which some loops have the values `fixed`, and others stay
    below a limit.
    """
    known: dict[Node, Node] = {var: index(value) for var, value in fixed.items()}
    loops = []
    for loop in item.loops:
        if loop.var not in known:
            limit = below.get(loop.var)
            extent = substitute(loop.extent, known) if limit is None else index(limit)
            loops.append(replace(loop, extent=extent))
    indices = tuple(substitute(part, known) for part in item.indices)
    guards = tuple(substitute(part, known) for part in item.guards)
    return item._replace(loops=tuple(loops), indices=indices, guards=guards)


def reaching(
    write: Access, fixed: Values, below: tuple[Var, int] | None, element: Element
) -> list[Values] | None:
    """The instances of a write that may touch an element, while some loops have the values `fixed`
    and one stays below a limit. None where they are too many, or data decides.

    Conditions that depend on data are taken to hold.
    """
    item = write._replace(guards=_known_guards(write))
    narrow = narrowed(_restricted(item, fixed, dict([below] if below else [])), element)
    if narrow is None:
        return []
    for limit in (A_FEW, MANY):
        tried = points(narrow[0], limit)
        if tried is None:
            return None
        rows = np.flatnonzero(are_at(tried.elements, element))
        if len(rows) > MOST_FOUND:
            return None
        if tried.complete:
            return [{**fixed, **narrow[1], **tried.at(int(row))} for row in rows]
    return None


def narrowed(item: Access, element: Element) -> tuple[Access, Values] | None:
    """An access over fewer iterations, which still has all that touch an element, and the values of
    the loops that have only one. None where there surely are none.
    """
    equal = [Binary("==", i, index(e)) for i, e in zip(item.indices, element, strict=True)]
    ranges = loop_ranges(item.loops).assume(*equal, *_known_guards(item))
    if ranges.is_empty():
        return None
    sizes = {loop.var: constant_value(loop.extent) for loop in item.loops}
    limits = {var: ranges.variables[var] for var, size in sizes.items() if size is not None}
    fixed = {var: int(low) for var, (low, high) in limits.items() if low == high}
    below = {var: int(high) + 1 for var, (_, high) in limits.items() if var not in fixed}
    if any(value >= (sizes[var] or 0) for var, value in fixed.items()):
        return None
    item = _restricted(item, fixed, below)
    return (item, fixed) if _is_solvable(item, element) else None


def _is_solvable(item: Access, element: Element) -> bool:
    """Whether the equations of indices and element may have a solution."""
    digits = Digits(loop_extents(item.loops))
    bounds: Bounds = {}
    equations = []
    for total, value in zip(digits.sums(item.indices), element, strict=True):
        if total is not None:
            bounds.update((digit, (0, digit.extent - 1)) for digit in total.terms)
            equations.append(weighted((total, 1), constant=-value))
    return is_possible(equations, bounds)


def are_at(elements: np.ndarray, element: Element) -> np.ndarray:
    """Which rows equal that element."""
    return (elements == np.array(element, np.int64)).all(axis=1)


def written_before(write: Access, read: Access, scope: int, reads: Points) -> np.ndarray:
    """For each point of a read, whether one of the first points of a write touched its element
    before, in the same iteration of the outermost `scope` loops.
    """
    writes = points(write._replace(guards=_known_guards(write)), A_FEW)
    if writes is None:
        return np.ones(len(reads.elements), bool)
    if len(writes.elements) == 0 or len(reads.elements) == 0:
        return np.zeros(len(reads.elements), bool)
    strides = [prod(read.buffer.shape[n + 1 :]) for n in range(read.buffer.ndim)]
    places = [side.elements @ np.array(strides, np.int64) for side in (writes, reads)]
    times = [np.zeros(len(side.elements), np.int64) for side in (writes, reads)]
    for depth, loop in enumerate(shared_loops(write, read)):
        columns = [side.values[loop.var] for side in (writes, reads)]
        size = 1 + max(int(column.max()) for column in columns)
        kept = places if depth < scope else times
        kept[:] = [old * size + column for old, column in zip(kept, columns, strict=True)]
    order = np.lexsort((times[0], places[0]))
    elements, starts = np.unique(places[0][order], return_index=True)
    row = np.searchsorted(elements, places[1]).clip(max=len(elements) - 1)
    first = times[0][order][starts][row]
    return (elements[row] == places[1]) & (first < times[1] + (write.order < read.order))
