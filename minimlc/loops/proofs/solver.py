"""Whether linear equations and inequalities have a solution in integers.

An equation gives one unknown by the others, exactly; where no coefficient is 1 or -1, a new unknown
takes the multiples that are left over (W. Pugh, "The Omega test", Supercomputing 1991). Then
unknowns are eliminated one by one, each lower bound of one being added to each of its upper bounds
(Fourier and Motzkin). An inequality is divided by the common divisor of its coefficients and its
constant rounded down; two that leave one value are an equation. What has no solution then has none
in integers, though it may have others (the "real shadow"): a last unknown is tried value by value.
"""

from collections.abc import Hashable, Iterable, Mapping
from math import gcd
from typing import Any

from minimlc.loops.proofs.arith import Interval, Sum, weighted

MOST = 600
"""With more inequalities than this the question stays open."""
MOST_PAIRS = 4 * MOST
"""With more pairs of lower and upper bounds of each unknown, too."""
MOST_TRIED = 8
"""The most values of an unknown that are tried one by one."""

Inequality = Sum[Any]
"""A sum that is 0 or more."""
Equation = Sum[Any]
"""A sum that is 0."""
Bounds = dict[Any, Interval]
"""The least and greatest value of each unknown."""


class Undecided(Exception):
    """Neither a solution nor a proof that there is none."""


class _Contradiction(Exception):
    """There is no solution."""


def is_possible(
    equations: Iterable[Equation], bounds: Bounds, inequalities: Iterable[Inequality] = ()
) -> bool:
    """Whether there may be integers within `bounds` that fulfil all equations and inequalities."""
    rows = [*inequalities]
    for unknown, (low, high) in bounds.items():
        rows += within(Sum({unknown: 1}), low, high)
    try:
        return solution(rows, equations) is not None
    except Undecided:
        return True


def within(value: Sum[Any], low: Any, high: Any) -> list[Inequality]:
    """The inequalities `low <= value <= high`."""
    return [weighted((value, 1), constant=-low), weighted((value, -1), constant=high)]


def solution(
    inequalities: Iterable[Inequality], equations: Iterable[Equation] = (), tries: int = 3
) -> dict[Hashable, int] | None:
    """Integers that fulfil all inequalities and equations; None where there surely are none.

    Raises `Undecided` where neither is found, after `tries` of unknowns value by value.
    """
    system = _System(equations)
    rows: list[Inequality] = []
    steps: list[_Step] = []
    try:
        system.add(inequalities)
        rows, steps = [*system.rows.values()], [*system.steps]
        while system.rows:
            system.eliminate()
        return _values(system.steps, {})
    except _Contradiction:
        return None
    except Undecided:
        if not tries:
            raise
    found = _one_by_one(rows, tries)
    return None if found is None else _values(steps, found)


def _one_by_one(rows: list[Inequality], tries: int) -> dict[Hashable, int] | None:
    """A solution for one of the values of the unknown with the fewest."""
    ends: dict[Hashable, list[int]] = {}
    for row in rows:
        for unknown, c in row.terms.items() if len(row.terms) == 1 else ():
            ends.setdefault(unknown, []).append(-c * row.constant)
    ranges = {unknown: range(min(e), max(e) + 1) for unknown, e in ends.items() if len(e) == 2}
    unknown = min(ranges, key=lambda unknown: len(ranges[unknown]), default=None)
    if unknown is None or len(ranges[unknown]) > MOST_TRIED:
        raise Undecided
    is_open = False
    for value in ranges[unknown]:
        try:
            found = solution(rows, [Sum({unknown: 1}, -value)], tries - 1)
        except Undecided:
            is_open = True
            continue
        if found is not None:
            return found
    if is_open:
        raise Undecided
    return None


_Step = tuple[Hashable, list[Inequality]]
"""An unknown that was eliminated, and the inequalities that had it."""


class _System:
    """Inequalities by their terms (of several with the same terms, the tightest), equations that
    are not used yet, and the steps so far.
    """

    def __init__(self, equations: Iterable[Equation]):
        self.rows: dict[Hashable, Inequality] = {}
        self.equations = list(equations)
        self.steps: list[_Step] = []

    def add(self, rows: Iterable[Inequality]) -> None:
        """Add inequalities; no unknown is left that an equation gives."""
        pending = [*rows]
        while self.equations or pending:
            if self.equations:
                pending = self._use(self.equations.pop(), [*self.rows.values(), *pending])
                self.rows = {}
            else:
                self._add(pending.pop())

    def _use(self, equation: Equation, rows: list[Inequality]) -> list[Inequality]:
        """Inequalities without an unknown that an equation gives."""
        by = gcd(*equation.terms.values(), 0)
        if equation.constant % by if by else equation.constant:
            raise _Contradiction
        if not by:
            return rows
        equation = Sum({u: c // by for u, c in equation.terms.items()}, equation.constant // by)
        unknown = min(equation.terms, key=lambda unknown: abs(equation.terms[unknown]))
        if abs(equation.terms[unknown]) > 1:
            self.equations.append(equation)
            equation = _with_unit(equation, abs(equation.terms[unknown]) + 1)
        self.steps.append((unknown, [equation, weighted((equation, -1))]))
        sign = equation.terms[unknown]

        def without(row: Sum[Any]) -> Sum[Any]:
            times = -sign * row.terms.get(unknown, 0)
            return weighted((row, 1), (equation, times)) if times else row

        self.equations = [*map(without, self.equations)]
        return [*map(without, rows)]

    def _add(self, row: Inequality) -> None:
        if not row.terms:
            if row.constant < 0:
                raise _Contradiction
            return
        by = gcd(*row.terms.values())
        row = Sum({unknown: c // by for unknown, c in row.terms.items()}, row.constant // by)
        name = frozenset(row.terms.items())
        if name in self.rows and row.constant >= self.rows[name].constant:
            return
        self.rows[name] = row
        other = self.rows.get(frozenset([(unknown, -c) for unknown, c in row.terms.items()]))
        if other is not None and row.constant + other.constant <= 0:
            if row.constant + other.constant < 0:
                raise _Contradiction
            self.equations.append(row)
        if len(self.rows) > MOST:
            raise Undecided

    def eliminate(self) -> None:
        """Eliminate the unknown that makes the fewest inequalities, the first of several."""
        counts: dict[Hashable, list[int]] = {}
        for row in self.rows.values():
            for unknown, c in row.terms.items():
                counts.setdefault(unknown, [0, 0])[c > 0] += 1
        gone = min(counts, key=lambda unknown: counts[unknown][0] * counts[unknown][1])
        if counts[gone][0] * counts[gone][1] > MOST_PAIRS:
            raise Undecided
        bounds = [row for row in self.rows.values() if gone in row.terms]
        self.steps.append((gone, bounds))
        self.rows = {name: row for name, row in self.rows.items() if gone not in row.terms}
        lower = [row for row in bounds if row.terms[gone] > 0]
        upper = [row for row in bounds if row.terms[gone] < 0]
        self.add(
            weighted((low, -high.terms[gone]), (high, low.terms[gone]))
            for low in lower
            for high in upper
        )


def _with_unit(equation: Equation, by: int) -> Equation:
    """What an equation says of its unknowns modulo `by`: one has the coefficient 1 or -1, if its
    coefficient in the equation is `by` - 1 or 1 - `by`.
    """
    terms = {unknown: _nearest(c, by) for unknown, c in equation.terms.items()}
    return weighted((Sum({**terms, object(): by}, _nearest(equation.constant, by)), 1))


def _nearest(number: int, by: int) -> int:
    """The remainder of a division that is nearest to 0."""
    return number - by * ((2 * number + by) // (2 * by))


def _values(steps: list[_Step], values: dict[Hashable, int]) -> dict[Hashable, int]:
    """`values`, and those of the unknowns eliminated in `steps`, the last one first."""
    for unknown, bounds in reversed(steps):
        rests = [(row.terms[unknown], _value(row, values)) for row in bounds]
        low = max((-(rest // c) for c, rest in rests if c > 0), default=None)
        high = min((rest // -c for c, rest in rests if c < 0), default=None)
        if low is not None and high is not None and low > high:
            raise Undecided
        values[unknown] = low if low is not None else high if high is not None else 0
    return values


def _value(row: Inequality, values: Mapping[Hashable, int]) -> int:
    """The value of a sum; an unknown without a value counts as 0."""
    return row.constant + sum(c * values.get(unknown, 0) for unknown, c in row.terms.items())
