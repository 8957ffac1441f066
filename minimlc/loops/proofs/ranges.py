"""Bounds of index expressions, and proofs of conditions.

Everything works over `Ranges`: for each variable in sight its least and greatest value, and what
guards have established about expressions. Bounds hold for the values that programs compute:
where exact arithmetic may leave 64 bits, theirs wraps, and any value is possible.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping

from minimlc.loops.ir.nodes import Binary, Cast, Const, Expr, Select, Unary, Var
from minimlc.loops.ir.operators import COMPARISONS, OPPOSITES
from minimlc.loops.proofs.arith import (
    EVERYTHING,
    Atom,
    Interval,
    Sum,
    conjuncts,
    linear,
    variables,
    weighted,
)
from minimlc.loops.values.dtypes import INDEX, integer_range, is_integer

Terms = frozenset[tuple[Atom, int]]


class Ranges:
    """Known facts: the values that variables take, and upper bounds that guards give."""

    def __init__(self, extents: Mapping[Var, int | Interval] = {}):
        self.variables: dict[Var, Interval] = {
            var: (0, extent - 1) if isinstance(extent, int) else extent
            for var, extent in extents.items()
        }
        self.facts: dict[Terms, int] = {}
        self.values: dict[tuple[Terms, int], Interval] = {}
        self.contradicted = False

    def extended(self, extents: Mapping[Var, int | Interval]) -> "Ranges":
        """These ranges and more variables."""
        result = Ranges(extents)
        result.variables = {**self.variables, **result.variables}
        result.facts = dict(self.facts)
        result.values = dict(self.values)
        result.contradicted = self.contradicted
        return result

    def key(self, used: frozenset[Var]) -> Hashable:
        """A key that is equal for ranges with the same facts over these variables."""
        known = tuple([(var, self.variables[var]) for var in used if var in self.variables])
        if not self.facts and not self.values:
            return known, self.contradicted
        facts = frozenset(item for item in self.facts.items() if _is_over(item[0], used))
        values = frozenset(item for item in self.values.items() if _is_over(item[0][0], used))
        return known, self.contradicted, facts, values

    def assume(self, *conditions: Expr | None) -> "Ranges":
        """These ranges where `conditions` hold too: their conjuncts that compare indices."""
        result = self.extended({})
        for condition in conditions:
            for part in conjuncts(condition):
                result._learn(part)
        return result

    def is_empty(self) -> bool:
        """Whether no values of the variables fit what is known: nothing here ever runs."""
        return self.contradicted or any(low > high for low, high in self.variables.values())

    def _learn(self, part: Expr) -> None:
        if isinstance(part, Const):
            self.contradicted = self.contradicted or not part.value
        for small, large, limit in self.inequalities(part):
            self._at_most(small, large, limit)

    def inequalities(self, part: Expr) -> Iterator[tuple[Expr, Expr, int]]:
        """Comparisons of indices as `(a, b, limit)`, each for `a - b <= limit`, that hold where
        `part` does: a comparison or the opposite of one.
        """
        match part:
            # other nodes: no comparisons of indices
            case Unary("not", Binary(op, a, b)) if op in OPPOSITES:
                yield from self.inequalities(Binary(OPPOSITES[op], a, b))
            case Binary("!=", a, b) if a.dtype == INDEX:
                low, high = self.difference(a, b)
                if low >= 0:
                    yield b, a, -1
                if high <= 0:
                    yield a, b, -1
            case Binary(op, a, b) if op in COMPARISONS and a.dtype == INDEX:
                if op in ("<", "<=", "=="):
                    yield a, b, -1 if op == "<" else 0
                if op in (">", ">=", "=="):
                    yield b, a, -1 if op == ">" else 0

    def _at_most(self, a: Expr, b: Expr, limit: int) -> None:
        """Learn that `a - b <= limit`: where a sum may wrap, only for its wrapped value."""
        if not (self.is_exact(a) and self.is_exact(b)):
            self._limit(a, EVERYTHING[0], self.bounds(b)[1] + limit)
            self._limit(b, self.bounds(a)[0] - limit, EVERYTHING[1])
            return
        gap = linear(a).minus(linear(b))
        bound = limit - gap.constant
        for atom, coefficient in gap.terms.items():
            if isinstance(atom.expr, Var):
                others = self.reach(gap.without((atom,)))
                self._narrow(atom.expr, coefficient, bound - others[0])
        if len(gap.terms) > 1 or not all(isinstance(atom.expr, Var) for atom in gap.terms):
            terms = frozenset(gap.terms.items())
            self.facts[terms] = min(bound, self.facts.get(terms, bound))

    def _limit(self, expr: Expr, low: int, high: int) -> None:
        """Learn the bounds of a value, whatever sum it was computed as."""
        total = linear(expr)
        self.values[total.key()] = self._limited((low, high), total)

    def _narrow(self, var: Var, coefficient: int, bound: int) -> None:
        """Learn that `coefficient * var <= bound`."""
        low, high = self.variables.get(var, EVERYTHING)
        if coefficient > 0:
            high = min(high, bound // coefficient)
        else:
            low = max(low, -(bound // -coefficient))
        self.variables[var] = (low, high)

    def bounds(self, expr: Expr) -> Interval:
        """The least and greatest value that `expr` can take (an enclosure)."""
        if isinstance(expr, Var) and not self.facts and not self.values:
            return self.variables.get(expr, EVERYTHING)
        total = linear(expr)
        reach = self.reach(total)
        if not is_within(reach, EVERYTHING):
            reach = integer_range(expr.dtype) if is_integer(expr.dtype) else EVERYTHING
        return self._limited(reach, total)

    def _limited(self, bounds: Interval, total: Sum[Atom]) -> Interval:
        """Bounds of a value, within those that guards give it."""
        if not self.values:
            return bounds
        least, most = self.values.get(total.key(), EVERYTHING)
        return max(bounds[0], least), min(bounds[1], most)

    def reach(self, total: Sum[Atom]) -> Interval:
        """The least and greatest value of a sum of its terms' values in exact arithmetic."""
        low, high = total.bounds(self._atom)
        pair = _quotients(total)
        if pair is not None:
            least, most = self._of_quotients(total, *pair)
            low, high = max(low, least), min(high, most)
        if self.facts and total.terms:
            high = min([high, *(total.constant + most for most in self._limits(total, 1))])
            low = max([low, *(total.constant - most for most in self._limits(total, -1))])
        return low, high

    def _of_quotients(self, total: Sum[Atom], one: Atom, other: Atom) -> Interval:
        """The least and greatest value of a sum in which one quotient is taken from another one by
        the same number: `a // n - b // n` is known where `a - b` is.
        """
        assert isinstance(one.expr, Binary) and isinstance(other.expr, Binary)
        by = linear(one.expr.b).constant
        gap = self.difference(one.expr.a, other.expr.a)
        times = min(total.terms[one], -total.terms[other])
        low, high = self.reach(weighted((total, 1), (Sum({one: 1, other: -1}), -times)))
        return low + times * (gap[0] // by), high - times * (-gap[1] // by)

    def _limits(self, total: Sum[Atom], sign: int) -> Iterable[int]:
        """Upper bounds of `sign` times the terms, one from each guard whose terms are contained in
        them, a whole number of times and possibly beside others.
        """
        for terms, bound in self.facts.items():
            times = _times_within(terms, total, sign)
            if times:
                low, high = total.without(dict(terms)).bounds(self._atom)
                yield times * bound + (high if sign > 0 else -low)

    def _atom(self, atom: Atom) -> Interval:
        """Bounds of an atom."""
        if isinstance(atom.expr, Var):
            return self.variables.get(atom.expr, EVERYTHING)
        bounds = self._atom_bounds(atom.expr)
        return self._limited(bounds, Sum({atom: 1})) if self.values else bounds

    def _atom_bounds(self, atom: Expr) -> Interval:
        """Bounds in exact arithmetic, if those are values of the dtype; else all of these."""
        every = integer_range(atom.dtype) if is_integer(atom.dtype) else EVERYTHING
        if not is_integer(atom.dtype) or not is_within(every, EVERYTHING):
            return every
        bounds = self._exact_bounds(atom)
        return bounds if is_within(bounds, every) else every

    def _exact_bounds(self, atom: Expr) -> Interval:
        match atom:
            # other nodes: any value is possible
            case Binary("//", a, Const(value)) if value > 0:
                low, high = self.bounds(a)
                return low // int(value), high // int(value)
            case Binary("%", a, Const(value)) if value > 0:
                low, high = self.bounds(a)
                return (low, high) if low >= 0 and high < value else (0, int(value) - 1)
            case Binary("min" | "max" as op, a, b):
                pick = min if op == "min" else max
                (low, high), (low2, high2) = self.bounds(a), self.bounds(b)
                return pick(low, low2), pick(high, high2)
            case Binary("+" | "-" as op, a, b):  # of another dtype than indices are
                (low, high), (low2, high2) = self.bounds(a), self.bounds(b)
                return (low + low2, high + high2) if op == "+" else (low - high2, high - low2)
            case Binary("*", a, b):
                ends = [x * y for x in self.bounds(a) for y in self.bounds(b)]
                return min(ends), max(ends)
            case Select(condition, a, b):
                low, high = self.assume(condition).bounds(a)
                low2, high2 = self.assume(Unary("not", condition)).bounds(b)
                return min(low, low2), max(high, high2)
            case Cast(_, a) if is_integer(a.dtype):
                known = integer_range(a.dtype)
                return self.bounds(a) if is_within(known, EVERYTHING) else known
        return EVERYTHING

    def prove(self, condition: Expr) -> bool | None:
        """True or False where `condition` is always or never so; None where it is unknown."""
        match condition:
            # other nodes: unknown
            case Const(value):
                return bool(value)
            case Binary("and" | "or" as op, a, b):
                sides, deciding = (self.prove(a), self.prove(b)), op == "or"
                return deciding if deciding in sides else None if None in sides else not deciding
            case Unary("not", a):
                inner = self.prove(a)
                return None if inner is None else not inner
            case Binary(op, a, b) if op in COMPARISONS and a.dtype == INDEX:
                return _compare(op, *self.difference(a, b))
        return None

    def difference(self, a: Expr, b: Expr) -> Interval:
        """Bounds of how much greater the value of `a` is than that of `b`."""
        if self.is_exact(a) and self.is_exact(b):
            return self.reach(linear(a).minus(linear(b)))
        (low, high), (low2, high2) = self.bounds(a), self.bounds(b)
        return low - high2, high - low2

    def is_exact(self, expr: Expr) -> bool:
        """Whether the sum that `expr` is cannot wrap: exact arithmetic then gives its value."""
        return is_within(self.reach(linear(expr)), EVERYTHING)


def _quotients(total: Sum[Atom]) -> tuple[Atom, Atom] | None:
    """Two quotients by one positive number in a sum, one added and the other taken away; None if
    there are none.
    """
    if len(total.terms) < 2 or all(c > 0 for c in total.terms.values()):
        return None
    found: dict[int, tuple[list[Atom], list[Atom]]] = {}
    for atom, coefficient in total.terms.items():
        match atom.expr:
            # other nodes: no quotients
            case Binary("//", _, Const(by)) if by > 0:
                found.setdefault(int(by), ([], []))[coefficient < 0].append(atom)
    return next(((more[0], less[0]) for more, less in found.values() if more and less), None)


def _is_over(terms: Terms, used: frozenset[Var]) -> bool:
    """Whether terms have only these variables: facts with others do not bound them."""
    return all(variables(atom.expr) <= used for atom, _ in terms)


def is_within(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _times_within(terms: Terms, total: Sum[Atom], sign: int) -> int:
    """How often `terms` stand in `sign * total`; 0 if not a whole number of times."""
    times = 0
    for atom, coefficient in terms:
        often, left = divmod(sign * total.terms.get(atom, 0), coefficient)
        if left or often <= 0 or times not in (0, often):
            return 0
        times = often
    return times


def _compare(op: str, low: int, high: int) -> bool | None:
    """Whether `x op 0` for x between low and high: always, never, or None."""
    if _always(op, low, high):
        return True
    return False if _always(OPPOSITES[op], low, high) else None


def _always(op: str, low: int, high: int) -> bool:
    return {
        "<": high < 0,
        "<=": high <= 0,
        ">": low > 0,
        ">=": low >= 0,
        "==": low == high == 0,
        "!=": low > 0 or high < 0,
    }[op]
