"""Whether linear equations, or linear inequalities, have a solution in integers.

Equations of bounded unknowns: the classical tests (greatest common divisor; Banerjee's bounds;
splitting an equation where its small terms cannot reach the next radix: Maydan, Hennessy and Lam,
"Efficient and exact data dependence analysis", PLDI 1991).

Inequalities: unknowns are eliminated one by one, each lower bound of one being added to each of its
upper bounds (Fourier and Motzkin). An inequality is divided by the common divisor of its
coefficients and its constant rounded down: what has no solution then has none in integers, though
it may have others (the "real shadow" of Pugh, "The Omega test", Supercomputing 1991).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import floor, gcd
from typing import Any, NamedTuple

from minimlc.loops.proofs.arith import Interval, Sum, weighted

MOST = 600
"""With more inequalities than this the question stays open."""

Bounds = dict[Any, Interval]
"""The least and greatest value of each unknown."""
Equation = Sum[Any]
"""A sum that is 0."""
Inequality = Sum[Any]
"""A sum that is 0 or more."""


class Limit(NamedTuple):
    """The sum of the terms is no further from 0 than `most`."""

    terms: dict[Any, int]
    most: int


def is_possible(
    equations: Iterable[Equation], bounds: Bounds, limits: Sequence[Limit] = ()
) -> bool:
    """Whether equations may have a solution in integers within `bounds` and `limits`."""
    bounds = dict(bounds)
    work = list(equations)
    for _ in range(12):
        progress = False
        pending: list[Equation] = []
        for equation in work:
            live = _without_fixed(equation, bounds)
            if not live.terms:
                if live.constant:
                    return False
                progress = True
                continue
            if live.constant % gcd(*live.terms.values()):
                return False
            parts = _split(live, bounds, limits)
            if parts is None:
                return False
            progress |= len(parts) > 1
            for part in parts:
                narrowed = _narrow(part, bounds)
                if narrowed is None:
                    return False
                progress |= narrowed
                pending.append(part)
        work = pending
        if not progress or not work:
            break
    return True


def _without_fixed(equation: Equation, bounds: Bounds) -> Equation:
    ends = {unknown: bounds[unknown] for unknown in equation.terms}
    fixed = {unknown: int(low) for unknown, (low, high) in ends.items() if low == high}
    constant = sum(equation.terms[unknown] * value for unknown, value in fixed.items())
    return equation.without(fixed)._replace(constant=equation.constant + constant)


def _limited(total: Equation, bounds: Bounds, limits: Sequence[Limit]) -> Interval:
    """What a sum reaches, of whose terms some together may reach less than each by itself."""
    low, high = total.bounds(bounds.__getitem__)
    for limit in limits:
        if not total.terms.keys() >= limit.terms.keys():
            continue
        times = {Fraction(total.terms[unknown], c) for unknown, c in limit.terms.items()}
        if len(times) == 1:
            least, greatest = total.without(limit.terms).bounds(bounds.__getitem__)
            reach = floor(abs(times.pop()) * limit.most)
            low, high = max(low, least - reach), min(high, greatest + reach)
    return low, high


def _split(equation: Equation, bounds: Bounds, limits: Sequence[Limit]) -> list[Equation] | None:
    """Two equations where the small terms can make only one multiple of the large ones' radix."""
    ordered = sorted(equation.terms.items(), key=lambda term: abs(term[1]))
    for size in range(1, len(ordered)):
        small, large = dict(ordered[:size]), dict(ordered[size:])
        radix = gcd(*large.values())
        carry, rest = divmod(equation.constant, radix)
        low, high = _limited(Sum(small), bounds, limits)
        first, last = -(-(low + rest) // radix), (high + rest) // radix
        if first > last:
            return None
        if first == last:
            return [Sum(small, rest - first * radix), Sum(large, (carry + first) * radix)]
    return [equation]


def _narrow(equation: Equation, bounds: Bounds) -> bool | None:
    """Tighten the bounds of an equation's unknowns; None where one has no value left."""
    changed = False
    low, high = equation.bounds(bounds.__getitem__)
    if low > 0 or high < 0:
        return None
    for unknown, coefficient in equation.terms.items():
        old = bounds[unknown]
        ends = (coefficient * old[0], coefficient * old[1])
        least, most = max(ends) - high, min(ends) - low
        if coefficient < 0:
            least, most = -most, -least
        size = abs(coefficient)
        new = (max(old[0], -(-least // size)), min(old[1], most // size))
        if new[0] > new[1]:
            return None
        if new != old:
            bounds[unknown] = new
            changed = True
            low, high = equation.bounds(bounds.__getitem__)
    return changed


class Undecided(Exception):
    """Neither a solution nor a proof that there is none."""


class _Contradiction(Exception):
    """There is no solution."""


_Rows = dict[Hashable, Inequality]
"""Inequalities by their terms: of several with the same terms, the tightest."""


def solution(system: Iterable[Inequality]) -> dict[Hashable, int] | None:
    """Integers that fulfil all inequalities; None where there surely are none.

    Raises `Undecided` where neither is found.
    """
    rows: _Rows = {}
    steps: list[tuple[Hashable, list[Inequality]]] = []
    try:
        for row in system:
            _add(rows, row)
        while rows:
            unknown = _cheapest(rows)
            bounds = [row for row in rows.values() if unknown in row.terms]
            steps.append((unknown, bounds))
            rows = _without(unknown, rows, bounds)
    except _Contradiction:
        return None
    return _values(steps)


def _add(rows: _Rows, row: Inequality) -> None:
    if not row.terms:
        if row.constant < 0:
            raise _Contradiction
        return
    by = gcd(*row.terms.values())
    row = Sum({unknown: c // by for unknown, c in row.terms.items()}, row.constant // by)
    name = frozenset(row.terms.items())
    if name not in rows or row.constant < rows[name].constant:
        rows[name] = row


def _cheapest(rows: _Rows) -> Hashable:
    """The unknown whose elimination makes the fewest inequalities, the first of several."""
    counts: dict[Hashable, list[int]] = {}
    for row in rows.values():
        for unknown, c in row.terms.items():
            counts.setdefault(unknown, [0, 0])[c > 0] += 1
    return min(counts, key=lambda unknown: counts[unknown][0] * counts[unknown][1])


def _without(unknown: Hashable, rows: _Rows, bounds: list[Inequality]) -> _Rows:
    """The inequalities with an unknown eliminated; those in `bounds` have it."""
    left = {name: row for name, row in rows.items() if unknown not in row.terms}
    lower = [row for row in bounds if row.terms[unknown] > 0]
    upper = [row for row in bounds if row.terms[unknown] < 0]
    for low in lower:
        for high in upper:
            a, b = low.terms[unknown], -high.terms[unknown]
            _add(left, weighted((low, b), (high, a)))
            if len(left) > MOST:
                raise Undecided
    return left


def _values(steps: list[tuple[Hashable, list[Inequality]]]) -> dict[Hashable, int]:
    """A value for each unknown, in the opposite order of their elimination."""
    values: dict[Hashable, int] = {}
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
