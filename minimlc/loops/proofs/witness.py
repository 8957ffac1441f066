"""Two iterations that touch one element: the example in an error about a dependence."""

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import For, Var
from minimlc.loops.proofs.access import Access, loop_extents, loop_ranges
from minimlc.loops.proofs.arith import has_loads, variables
from minimlc.loops.proofs.dependence import A_FEW, DEEPEST, EXHAUSTIVE, Conflict, Direction
from minimlc.loops.proofs.points import evaluate

Values = Mapping[Var, int]
"""An iteration: the value of each loop's variable."""
Element = tuple[int, ...]


class Witness(NamedTuple):
    """Two instances that touch one element: loop values of each, and the element."""

    first: dict[Var, int]
    second: dict[Var, int]
    element: tuple[int, ...]


class Search(NamedTuple):
    """The result of a search of iterations: a witness, or none; `complete` if all were tried."""

    witness: Witness | None
    complete: bool


class Points(NamedTuple):
    """Instances of an access: each loop's values, the elements' coordinates, complete or not."""

    values: dict[Var, np.ndarray]
    elements: np.ndarray
    complete: bool

    def at(self, row: int) -> dict[Var, int]:
        """The loops' values in one of the iterations."""
        return {var: int(column[row]) for var, column in self.values.items()}


def points(access: Access, limit: int = EXHAUSTIVE) -> Points | None:
    """The iterations of an access in order, the first few of each loop where they are too many.

    None where an index or a guard depends on data, or there are too many loops.
    """
    if len(access.loops) > DEEPEST:
        return None
    if any(has_loads(loop.extent) for loop in access.loops):
        return None
    limiting = _limiting(access)
    extents = loop_extents(access.loops)
    if len(limiting) < len(access.loops):
        ranges = loop_ranges(access.loops).assume(*access.guards)
        extents = {var: max(1, ranges.variables[var][1] + 1) for var in extents}
    sizes = dict(extents)
    while prod(sizes.values()) > limit:
        largest = max(sizes, key=lambda var: sizes[var])
        sizes[largest] = -(-sizes[largest] // 2)
    axes = [np.arange(sizes[loop.var]) for loop in access.loops]
    grids = np.meshgrid(*axes, indexing="ij") if axes else []
    values = {loop.var: g.ravel() for loop, g in zip(access.loops, grids, strict=True)}
    count = prod(sizes.values())
    evaluated = _evaluated(access, values, count)
    if evaluated is None:
        return None
    keep, columns = evaluated
    elements = np.stack(columns, axis=1)[keep] if columns else np.zeros((keep.sum(), 0), int)
    kept = {var: column[keep] for var, column in values.items()}
    return Points(kept, elements, sizes == extents)


def _limiting(access: Access) -> list[For]:
    """The loops whose extents decide which iterations there are: an extent over iters of blocks
    stands as a guard over loops.
    """
    nest = {loop.var for loop in access.loops}
    return [loop for loop in access.loops if variables(loop.extent) <= nest]


def element_at(access: Access, at: Values) -> Element | None:
    """The element that an access surely touches in an iteration; None where it does not run, or
    data decides that.
    """
    evaluated = _evaluated(access, {var: np.int64(value) for var, value in at.items()}, 1)
    if evaluated is None or not evaluated[0][0]:
        return None
    return tuple(int(column[0]) for column in evaluated[1])


def _evaluated(
    access: Access, values: Mapping[Var, Any], count: int
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Where an access runs among `count` iterations, and its indices; None if data decide."""
    if any(has_loads(loop.extent) for loop in access.loops):
        return None
    try:
        keep = np.ones(count, bool)
        for loop in _limiting(access):
            keep &= values[loop.var] < evaluate(loop.extent, values)
        for guard in access.guards:
            keep &= evaluate(guard, values).astype(bool)
        return keep, [np.broadcast_to(evaluate(part, values), count) for part in access.indices]
    except ValueError:
        return None


def find_conflict(
    first: Access, second: Access, equal: Iterable[Var], differ: Var, *, earlier: bool = False
) -> Search:
    """Look for instances that touch one element, agree in `equal` and not in `differ`.

    With `earlier`, only for those in which the second access has the smaller `differ`.
    """
    search = Search(None, False)
    for limit in (A_FEW, EXHAUSTIVE):
        a, b = points(first, limit), points(second, limit)
        if a is None or b is None:
            return Search(None, False)
        search = _search_in(a, b, list(equal), differ, earlier)
        if search.witness is not None or search.complete:
            break
    return search


def _search_in(a: Points, b: Points, equal: list[Var], differ: Var, earlier: bool) -> Search:
    complete = a.complete and b.complete
    if len(a.elements) == 0 or len(b.elements) == 0:
        return Search(None, complete)
    rows = [np.column_stack([*(side.values[v] for v in equal), side.elements]) for side in (a, b)]
    number = _numbered(np.concatenate(rows))
    left, right = number[: len(rows[0])], number[len(rows[0]) :]
    pair = _differing(left, a.values[differ], right, b.values[differ], earlier)
    if pair is None:
        return Search(None, complete)
    i, j = pair
    element = tuple(int(x) for x in a.elements[i])
    return Search(Witness(a.at(i), b.at(j), element), complete)


def _numbered(rows: np.ndarray) -> np.ndarray:
    """A number for each row; equal rows have equal numbers."""
    low = rows.min(axis=0, initial=0)
    high = rows.max(axis=0, initial=0)
    sizes = [int(most) - int(least) + 1 for least, most in zip(low, high, strict=True)]
    if prod(sizes) >= 2**62:
        return np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    number = np.zeros(len(rows), np.int64)
    for column, least, size in zip(rows.T, low, sizes, strict=True):
        number = number * size + (column - least)
    return number


def _differing(
    left: np.ndarray,
    left_values: np.ndarray,
    right: np.ndarray,
    right_values: np.ndarray,
    earlier: bool,
) -> tuple[int, int] | None:
    """The first rows of both sides with one key and two values (the right one smaller)."""
    order = np.lexsort((right_values, right))
    keys = right[order]
    start = np.searchsorted(keys, left, "left")
    stop = np.searchsorted(keys, left, "right")
    present = stop > start
    low = order[np.minimum(start, len(order) - 1)]
    high = order[np.maximum(stop - 1, 0)]
    differs = right_values[low] < left_values
    if not earlier:
        differs |= right_values[high] != left_values
    rows = np.flatnonzero(present & differs)
    if len(rows) == 0:
        return None
    i = int(rows[0])
    apart = right_values < left_values[i] if earlier else right_values != left_values[i]
    others = np.flatnonzero((right == left[i]) & apart)
    nearest = np.argmin(np.abs(right_values[others] - left_values[i]))
    return i, int(others[nearest])


def direction_vectors(
    conflict: Conflict, loops: Iterable[For], matters: Callable[[tuple[str, ...]], bool]
) -> Iterable[tuple[str, ...]]:
    """Every combination of directions of the given shared loops that `matters` and that a conflict
    may have, where the shared loops outside of them have the same value.
    """
    chosen = [loop.var for loop in loops]
    outside: dict[Var, Direction] = {}
    for loop in conflict.common:
        if loop.var in chosen:
            break
        outside[loop.var] = "0"
    choices = [[s for s in "0+-" if conflict.possible({**outside, var: s})] for var in chosen]
    for signs in filter(matters, product(*choices)):
        if conflict.possible({**outside, **dict(zip(chosen, signs, strict=True))}):
            yield signs
