"""Whether linear inequalities have a solution in integers.

Unknowns are eliminated one by one, each lower bound of one being added to each of its upper bounds
(Fourier and Motzkin). An inequality is divided by the common divisor of its coefficients and its
constant rounded down: what has no solution then has none in integers, though it may have others
(the "real shadow" of Pugh, "The Omega test", Supercomputing 1991).
"""

from collections.abc import Hashable, Iterable, Mapping
from math import gcd
from typing import Any

from minimlc.loops.proofs.arith import Sum, weighted

MOST = 600
"""With more inequalities than this the question stays open."""


Inequality = Sum[Any]
"""A sum that is 0 or more."""


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
