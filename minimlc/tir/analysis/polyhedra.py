"""Whether linear inequalities have a solution in integers.

Unknowns are eliminated one by one, each lower bound of one being added to each of its upper bounds
(Fourier and Motzkin). An inequality is divided by the common divisor of its coefficients and its
constant rounded down: what has no solution then has none in integers, though it may have others
(the "real shadow" of Pugh, "The Omega test", Supercomputing 1991).
"""

from collections.abc import Hashable, Iterable, Mapping
from math import gcd
from typing import NamedTuple

MOST = 600
"""With more inequalities than this the question stays open."""


class Inequality(NamedTuple):
    """The sum of coefficient * unknown, plus `constant`, is 0 or more."""

    terms: Mapping[Hashable, int]
    constant: int


def weighted(*parts: tuple[Inequality, int], constant: int = 0) -> Inequality:
    """The sum of coefficient * part, plus a constant."""
    terms: dict[Hashable, int] = {}
    for part, coefficient in parts:
        constant += coefficient * part.constant
        for unknown, c in part.terms.items():
            terms[unknown] = terms.get(unknown, 0) + coefficient * c
    return Inequality(terms, constant)


class Undecided(Exception):
    """Neither a solution nor a proof that there is none."""


class _Contradiction(Exception):
    """There is no solution."""


_Rows = dict[frozenset[tuple[Hashable, int]], int]
"""The constant of each inequality, by its terms: of several with the same terms, the tightest."""


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
            bounds = [Inequality(dict(t), c) for t, c in rows.items() if unknown in dict(t)]
            steps.append((unknown, bounds))
            rows = _without(unknown, rows, bounds)
    except _Contradiction:
        return None
    return _values(steps)


def _add(rows: _Rows, row: Inequality) -> None:
    terms = {unknown: c for unknown, c in row.terms.items() if c}
    if not terms:
        if row.constant < 0:
            raise _Contradiction
        return
    by = gcd(*terms.values())
    name = frozenset((unknown, c // by) for unknown, c in terms.items())
    rows[name] = min(row.constant // by, rows.get(name, row.constant // by))


def _cheapest(rows: _Rows) -> Hashable:
    """The unknown whose elimination makes the fewest inequalities, the first of several."""
    counts: dict[Hashable, list[int]] = {}
    for terms in rows:
        for unknown, c in terms:
            counts.setdefault(unknown, [0, 0])[c > 0] += 1
    return min(counts, key=lambda unknown: counts[unknown][0] * counts[unknown][1])


def _without(unknown: Hashable, rows: _Rows, bounds: list[Inequality]) -> _Rows:
    """The inequalities with an unknown eliminated; those in `bounds` have it."""
    left = {t: c for t, c in rows.items() if all(other != unknown for other, _ in t)}
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
