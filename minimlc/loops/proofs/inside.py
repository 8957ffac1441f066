"""Whether an access stays inside its buffer: a proof, or an iteration that leaves it.

Intervals are tried first. Where they are too wide, loops, conditions, quotients and remainders
become linear inequalities: with that the index is outside, they must have no solution. What is
not linear is settled by all iterations, where they are few.
"""

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import Binary, Buffer, Const, Expr, For, Unary
from minimlc.loops.proofs.access import Access, lasting, loop_ranges, reads_any
from minimlc.loops.proofs.arith import Atom, Sum, conjuncts, linear, weighted
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.proofs.solver import Inequality, Undecided, solution
from minimlc.loops.proofs.witness import Element, Values, element_at, points
from minimlc.loops.values.dtypes import INDEX

MOST_CASES = 16
"""Conditions with more cases than this are taken as a whole."""


class Escape(NamedTuple):
    """A dimension in which an access may leave its buffer, below or above, and an iteration that
    surely does; '' where none is known. `always`: no value that the index may have is inside.
    """

    dim: int
    below: bool
    example: str
    always: bool


def escapes(item: Access, changing: Container[Buffer] = ()) -> Iterator[Escape]:
    """The ways in which an access may leave its buffer: none where it is proven to stay inside.

    `changing` are buffers that may be written after a condition has read them: what it read
    proves nothing about their content now, or about what another condition reads.
    """
    guards = _lasting(item, changing)
    ranges = known(item.loops, guards)
    if ranges.is_empty():
        return
    for dim, (part, size) in enumerate(zip(item.indices, item.buffer.shape, strict=True)):
        low, high = ranges.bounds(part)
        for below in (True, False):
            if low < 0 if below else high >= size:
                example = _violation(item, guards, ranges, dim, below)
                if example is not None:
                    yield Escape(dim, below, example, high < 0 or low >= size)


def fits(item: Access, around: Ranges, changing: Container[Buffer]) -> bool:
    """Whether intervals alone show that an access stays inside its buffer; `around` are
    the ranges of the variables outside its loops, `changing` as for `escapes`.
    """
    ranges = loop_ranges(item.loops, around).assume(*_lasting(item, changing))
    sides = zip(map(ranges.bounds, item.indices), item.buffer.shape, strict=True)
    return all(low >= 0 and high < size for (low, high), size in sides)


def _lasting(item: Access, changing: Container[Buffer]) -> tuple[Expr, ...]:
    """The conditions on an access that still hold when it happens."""
    return tuple(guard for guard in item.guards if not reads_any(guard, changing))


@lru_cache(maxsize=256)
def known(loops: tuple[For, ...], guards: tuple[Expr, ...]) -> Ranges:
    """The ranges of the variables of nested loops where conditions hold."""
    return loop_ranges(loops).assume(*guards)


def _violation(
    item: Access, guards: tuple[Expr, ...], ranges: Ranges, dim: int, below: bool
) -> str | None:
    """An iteration in which an index is too small, or too large; '' where none is found, None where
    there is none.
    """
    values: Mapping[Hashable, int] = {}
    left = False
    cases = list(islice(_cases(guards), MOST_CASES + 1))
    for case in cases if len(cases) <= MOST_CASES else [guards]:
        inside = ranges.assume(*case)
        if inside.is_empty():
            continue
        try:
            solved = _System(inside).violation(item._replace(guards=case), dim, below)
        except Undecided:
            solved = {}
        if solved is not None:
            left, values = True, solved or values
    if not left:
        return None
    tried = points(item)
    if tried is None:
        return ""
    column = tried.elements[:, dim]
    rows = np.flatnonzero(column < 0 if below else column >= item.buffer.shape[dim])
    if len(rows):
        row = int(rows[0])
        return _example(item, tried.at(row), tuple(map(int, tried.elements[row])))
    if tried.complete:
        return None
    return _confirmed(
        item, dim, {loop.var: values.get(Atom.of(loop.var), 0) for loop in item.loops}
    )


def _cases(guards: Iterable[Expr]) -> Iterator[tuple[Expr, ...]]:
    """The cases of `guards`, each `or` by one side: where all guards hold, one case does."""
    parts = list(chain.from_iterable(map(conjuncts, guards)))
    for place, part in enumerate(parts):
        match part:
            # other nodes: conditions of one case
            case Binary("or", a, b):
                sides = (a, b)
            case Unary("not", Binary("and", a, b)):
                sides = (Unary("not", a), Unary("not", b))
            case _:
                continue
        for side in sides:
            yield from _cases((*parts[:place], side, *parts[place + 1 :]))
        return
    yield tuple(parts)


def _confirmed(item: Access, dim: int, at: Values) -> str:
    """An iteration as an example, if the access runs in it and its index is outside; else ''."""
    element = element_at(item, at) if min(at.values(), default=0) >= 0 else None
    if element is None or 0 <= element[dim] < item.buffer.shape[dim]:
        return ""
    return _example(item, at, element)


def _example(item: Access, values: Values, element: Element) -> str:
    """An iteration and the element it touches."""
    at = ", ".join(f"{var.name}={value}" for var, value in values.items())
    place = ", ".join(map(str, element))
    reached = f"{item.buffer.name}[{place}]" if item.buffer.dtype != INDEX or at else place
    return f"{f'at {at}: ' if at else ''}{reached}"


class _System:
    """Linear inequalities over the values of loop variables and of other atoms of sums."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges
        self.rows: list[Inequality] = []
        self.values: dict[Atom, Inequality] = {}

    def violation(self, item: Access, dim: int, below: bool) -> dict[Hashable, int] | None:
        """A solution in which an index is below 0, or above its size; None where there is none."""
        index, size = self.sum(simplify(item.indices[dim], self.ranges)), item.buffer.shape[dim]
        for loop in item.loops:
            extent = lasting(loop.extent, loop.body)
            if extent is not None and self.ranges.is_exact(extent):
                self.at_most(loop.var, extent, -1)
        for guard in item.guards:
            for part in conjuncts(guard):
                for a, b, limit in self.ranges.inequalities(part):
                    if self.ranges.is_exact(a) and self.ranges.is_exact(b):
                        self.at_most(a, b, limit)
        wrong = weighted((index, -1 if below else 1), constant=-1 if below else -size)
        return solution([*self.rows, wrong])

    def at_most(self, a: Expr, b: Expr, limit: int) -> None:
        """Add `a - b <= limit`."""
        self.rows.append(weighted((self.sum(b), 1), (self.sum(a), -1), constant=limit))

    def sum(self, expr: Expr) -> Inequality:
        """A sum over unknowns; `Undecided` for one that may wrap."""
        if not self.ranges.is_exact(expr):
            raise Undecided
        total = linear(expr)
        parts = [(self.value(atom), times) for atom, times in total.terms.items()]
        return weighted(*parts, constant=total.constant)

    def value(self, atom: Atom) -> Inequality:
        """An atom over unknowns, with inequalities for its bounds and its parts."""
        if atom not in self.values:
            self.values[atom] = self.unknown(atom)
        return self.values[atom]

    def unknown(self, atom: Atom) -> Inequality:
        match atom.expr:
            # other nodes: separate unknowns, below
            case Binary("%", a, Const(by) as divisor) if by > 0 and self.ranges.is_exact(a):
                quotient = self.value(Atom.of(Binary("//", a, divisor)))
                return self.bounded(weighted((self.sum(a), 1), (quotient, -int(by))), atom)
        one = self.bounded(Sum({atom: 1}), atom)
        match atom.expr:
            # other nodes: only their bounds are known
            case Binary("//", a, Const(by)) if by > 0 and self.ranges.is_exact(a):
                rest = weighted((self.sum(a), 1), (one, -int(by)))
                self.rows += [rest, weighted((rest, -1), constant=int(by) - 1)]
            case Binary(("min" | "max") as op, a, b):
                sign = 1 if op == "min" else -1
                for side in (a, b):
                    if self.ranges.is_exact(side):
                        self.rows.append(weighted((self.sum(side), sign), (one, -sign)))
        return one

    def bounded(self, value: Inequality, atom: Atom) -> Inequality:
        """The value of an atom, within its bounds."""
        low, high = self.ranges.bounds(atom.expr)
        self.rows += [weighted((value, 1), constant=-low), weighted((value, -1), constant=high)]
        return value
