"""Whether two accesses can touch one element, and in which iterations.

Two instances p and q of statements conflict where their index expressions agree: a system of
linear equations over the digits of the loop variables and their differences, with bounds. The
`solver` proves independence or leaves it open; `find_conflict` searches for a concrete pair and,
where it can look at every iteration, settles the question.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from minimlc.loops.ir.nodes import Binary, Var
from minimlc.loops.proofs.access import Access, keys_of, loop_extents, nest_key, shared_loops
from minimlc.loops.proofs.affine import WRAP, Digit, DigitSum, Divided
from minimlc.loops.proofs.arith import Sum, has_loads, key
from minimlc.loops.proofs.solver import Bounds, Equation, Limit, is_possible
from minimlc.loops.values.dtypes import INDEX

Direction = str
"""Of a shared loop, the later instance less the earlier: "0", "+" greater, "-" less, "*" any."""

A_FEW = 1 << 12
"""The number of iterations tried first: where there is a conflict, they nearly always show it."""

DEEPEST = 32
"""The most loops around an access whose iterations are tried: the most axes of a numpy array."""

EXHAUSTIVE = 1 << 18
"""The most iterations that are all tried in search of a conflict."""


class _System:
    """The indices of two accesses over common digits, and the answers to questions about them."""

    def __init__(self, first: Access, second: Access, guards: Sequence[Binary]):
        self.extents = {**loop_extents(first.loops), **loop_extents(second.loops)}
        self.digits = Divided(self.extents)
        sides = [side for guard in guards for side in (guard.a, guard.b)]
        sums = self.digits.sums((*first.indices, *second.indices, *sides))
        half = len(first.indices)
        self.pairs = [
            (a, b)
            for a, b in zip(sums[:half], sums[half : 2 * half], strict=True)
            if a is not None and b is not None
        ]
        self.ranges = [
            limited
            for guard, a, b in zip(
                guards, sums[2 * half :: 2], sums[2 * half + 1 :: 2], strict=True
            )
            if a is not None and b is not None and (limited := _range_of(guard.op, a, b))
        ]
        self.answers: dict[tuple[Direction, ...], bool] = {}


def _range_of(op: str, a: DigitSum, b: DigitSum) -> tuple[DigitSum, int] | None:
    """A sum that a comparison of two others keeps in a range, and that range's length."""
    if any(abs(end) >= WRAP for side in (a, b) for end in side.bounds()):
        return None
    less, more = (a, b) if op in ("<", "<=") else (b, a)
    gap = less.minus(more)
    most = min(gap.bounds()[1], -1 if op in ("<", ">") else 0)
    return gap, max(0, most - gap.bounds()[0])


def _common_guards(first: Access, second: Access) -> tuple[Binary, ...]:
    """The comparisons of indices that hold for both accesses, each with its own loops' values."""
    if not first.guards or not second.guards:
        return ()
    others = keys_of(second.guards)
    return tuple(
        guard
        for guard in first.guards
        if isinstance(guard, Binary)
        and guard.op in ("<", "<=", ">", ">=")
        and guard.a.dtype == INDEX
        and key(guard) in others
        and not has_loads(guard)
    )


_SYSTEMS: dict[Hashable, _System] = {}
MOST_SYSTEMS = 256


def _system(first: Access, second: Access, common: int) -> _System:
    """The system of two accesses; one for all pairs with the same loops and indices, in whatever
    program: a step leaves most of them as they were.
    """
    guards = _common_guards(first, second)
    nests = nest_key(first.loops), nest_key(second.loops), keys_of(guards)
    name = (*nests, common, keys_of(first.indices), keys_of(second.indices))
    system = _SYSTEMS.get(name)
    if system is None:
        if len(_SYSTEMS) >= MOST_SYSTEMS:
            _SYSTEMS.clear()
        system = _SYSTEMS[name] = _System(first, second, guards)
    return system


NOTHING: DigitSum = Sum({})


class Conflict:
    """The question whether instances of two accesses to one buffer touch the same element."""

    def __init__(self, first: Access, second: Access):
        self.first, self.second = first, second
        self.common = shared_loops(first, second)
        self.system = _system(first, second, len(self.common))

    def possible(self, directions: Mapping[Var, Direction]) -> bool:
        """Whether a pair (p of the first, q of the second) may touch one element where q less p
        has the given direction for each shared loop ("*" where none is given).
        """
        signs = tuple([directions.get(loop.var, "*") for loop in self.common])
        answer = self.system.answers.get(signs)
        if answer is None:
            answer = self.system.answers[signs] = self._solvable(directions)
        return answer

    def _solvable(self, directions: Mapping[Var, Direction]) -> bool:
        asked = _Asked(self, directions)
        for a, b in self.system.pairs:
            asked.equal(a, b)
        for loop in self.common:
            direction = directions.get(loop.var, "*")
            if direction in "+-":
                if self.system.extents[loop.var] < 2:
                    return False
                asked.ordered(loop.var, direction)
        return asked.solvable()


class _Asked:
    """One question as unknowns and equations.

    p is the first instance, q the second one: a digit is ("same", d) where both have one value of
    it, ("own", d) where only one has it, else ("p", d) and ("q", d); ("delta", d, e) is digit e
    of q less digit d of p.
    """

    def __init__(self, conflict: Conflict, directions: Mapping[Var, Direction]):
        self.system, self.directions = conflict.system, directions
        self.common = {loop.var for loop in conflict.common}
        self.divisions = conflict.system.digits.divisions
        self.bounds: Bounds = {}
        self.equations: list[Equation] = []
        self.settled: set[tuple[int, int]] = set()

    def solvable(self) -> bool:
        """Whether there may be an integer solution."""
        for kind, *digits in list(self.bounds):
            if kind == "q" and digits[0].var in self.common:
                self._link(digits[0])
        limits = [limit for limit in self._limits() if limit.terms.keys() <= self.bounds.keys()]
        for number, limit in enumerate(limits):
            self.bounds["limit", number] = (-limit.most, limit.most)
            self.equations.append(Sum(limit.terms).minus(Sum({("limit", number): 1})))
        return is_possible(self.equations, self.bounds, limits)

    def equal(self, a: DigitSum, b: DigitSum) -> None:
        """Add that sum `a` of p is sum `b` of q, and that the divisions of their digits hold."""
        parts: list[tuple[Any, int]] = []
        for digit in dict.fromkeys((*a.terms, *b.terms)):
            alpha, beta = a.terms.get(digit, 0), b.terms.get(digit, 0)
            if digit.var in self.divisions:
                continue
            if digit.var not in self.common:
                parts.append((self._unknown("own", digit), alpha - beta))
            elif self.directions.get(digit.var, "*") == "0":
                parts.append((self._unknown("same", digit), alpha - beta))
            elif alpha == beta:
                parts.append((self._unknown("delta", digit, digit), -alpha))
            else:
                parts.append((self._unknown("p", digit), alpha))
                parts.append((self._unknown("q", digit), -beta))
        parts += self._quotients(a, b)
        self._is_zero(parts, a.constant - b.constant)

    def _is_zero(self, parts: Iterable[tuple[Any, int]], constant: int = 0) -> None:
        """Add that the sum of coefficient * unknown, plus a constant, is 0."""
        terms: dict[Any, int] = {}
        for unknown, coefficient in parts:
            terms[unknown] = terms.get(unknown, 0) + coefficient
        self.equations.append(Sum({name: c for name, c in terms.items() if c}, constant))

    def _quotients(self, a: DigitSum, b: DigitSum) -> Iterator[tuple[Any, int]]:
        """Terms of quotients and rests; two that seem to belong together become a difference."""
        theirs = {d: c for d, c in b.terms.items() if d.var in self.divisions}
        for digit, alpha in a.terms.items():
            division = self.divisions.get(digit.var)
            if division is None:
                continue
            alike = [e for e, c in theirs.items() if (c, self._by(e)) == (alpha, division.by)]
            partner = digit if digit in alike else next(iter(alike), None)
            if partner is None:
                yield self._unknown("p", digit), alpha
                self._settle(division.left, NOTHING)
                continue
            del theirs[partner]
            yield self._unknown("delta", digit, partner), -alpha
            self._settle(division.left, self.divisions[partner.var].left)
        for digit, beta in theirs.items():
            yield self._unknown("q", digit), -beta
            self._settle(NOTHING, self.divisions[digit.var].left)

    def _by(self, digit: Digit) -> int:
        return self.divisions[digit.var].by

    def _settle(self, a: DigitSum, b: DigitSum) -> None:
        """Add that two sums are equal, 0 because of divisions; each pair once."""
        if (id(a), id(b)) not in self.settled:
            self.settled.add((id(a), id(b)))
            self.equal(a, b)

    def _unknown(self, *name: Any) -> Any:
        low = 1 - name[1].extent if name[0] == "delta" else 0
        self.bounds.setdefault(name, (low, name[-1].extent - 1))
        return name

    def ordered(self, var: Var, direction: Direction) -> None:
        """Add that the digits' differences sum up to a positive (or negative) one of `var`."""
        parts = [(self._unknown("delta", d, d), d.divisor) for d in self._digits(var)]
        most = self.system.extents[var] - 1
        self.bounds["distance", var] = (1, most) if direction == "+" else (-most, -1)
        self._is_zero([(("distance", var), -1), *parts])

    def _digits(self, var: Var) -> list[Digit]:
        return [digit for digit in self.system.digits.of(var) if digit.extent > 1]

    def _link(self, digit: Digit) -> None:
        names = (("q", digit), 1), (("p", digit), -1), (("delta", digit, digit), -1)
        self._is_zero([(self._unknown(*name), c) for name, c in names])

    def _limits(self) -> Iterator[Limit]:
        """Limits of differences: of a variable with more combinations of digits than values, and
        of a sum in a condition that holds for p and q.
        """
        for var in self.common:
            if self.directions.get(var, "*") != "0" and not self.system.digits.is_exact(var):
                most = self.system.extents[var] - 1
                yield Limit({("delta", d, d): d.divisor for d in self._digits(var)}, most)
        for total, length in self.system.ranges:
            moving = [d for d in total.terms if self.directions.get(d.var, "*") != "0"]
            if moving and all(d.var in self.common for d in moving):
                yield Limit({("delta", d, d): total.terms[d] for d in moving}, length)
