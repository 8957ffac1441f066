"""Index expressions as sums over digits of loop variables.

Splitting and fusing loops leaves floor divisions and remainders behind. Here a variable is cut
into digits, as a number is in a mixed radix: with cuts 1 | 4 | 16 it is d0 + 4*d1 + 16*d2, and
`v // 4` and `v % 4` are linear in the digits. All expressions of one question share the cuts.
The idea is that of iteration maps in TVM (arith/iter_affine_map) and of quasi-affine forms.
"""

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, NoReturn

from minimlc.loops.ir.nodes import Binary, Const, Expr, Var, index
from minimlc.loops.proofs.arith import Sum, expression, linear, weighted

WRAP = 2**62
"""Sums that may leave -WRAP ... WRAP-1 have no digits: programs compute them in 64 bits."""


class Digit(NamedTuple):
    """`var // divisor % extent`: takes 0 ... extent-1."""

    var: Var
    divisor: int
    extent: int


DigitSum = Sum[Digit]


def terms_of(total: DigitSum, variables: Container[Var]) -> DigitSum:
    """The terms of some variables, without the constant."""
    return Sum({digit: c for digit, c in total.terms.items() if digit.var in variables})


def quotient_and_rest(total: DigitSum, by: int) -> tuple[DigitSum, DigitSum] | None:
    """`total` divided by `by`, if the terms that it does not divide stay below it; else None."""
    whole, rest = total.divided(by)
    low, high = rest.bounds()
    return None if low < 0 or high >= by else (whole, rest)


class _NotAffine(Exception):
    """The expression is not a sum over digits."""


class _Again(Exception):
    """There are more cuts or divisors now: the sums are to be found from the start."""


@dataclass
class Digits:
    """The digits of variables with the given extents; cuts are added as expressions need them."""

    extents: Mapping[Var, int]
    cuts: dict[Var, list[int]] = field(default_factory=dict)
    _forms: dict[Var, DigitSum] = field(default_factory=dict, init=False)

    def sums(self, exprs: Iterable[Expr]) -> list[DigitSum | None]:
        """Each expression over common digits; None for one that is not quasi-affine."""
        asked = list(exprs)
        while True:
            try:
                return [self._try(expr) for expr in asked]
            except _Again:
                continue

    def of(self, var: Var) -> list[Digit]:
        """The digits of a variable, lowest first."""
        extent = self.extents[var]
        cuts = self.cuts.get(var, [1])
        digits = [Digit(var, a, b // a) for a, b in pairwise(cuts)]
        return [*digits, Digit(var, cuts[-1], -(-extent // cuts[-1]))]

    def is_exact(self, var: Var) -> bool:
        """Whether every combination of the variable's digits is one of its values."""
        cuts = self.cuts.get(var, [1])
        return self.extents[var] % cuts[-1] == 0

    def _try(self, expr: Expr) -> DigitSum | None:
        try:
            return self._sum(expr)
        except _NotAffine:
            return None

    def _sum(self, expr: Expr) -> DigitSum:
        form = linear(expr)
        parts = [(self._atom(atom.expr), times) for atom, times in form.terms.items()]
        result = weighted(*parts, constant=form.constant)
        low, high = result.bounds()
        if low < -WRAP or high >= WRAP:
            raise _NotAffine  # the program's sum may wrap; differences of two others cannot
        return result

    def _atom(self, atom: Expr) -> DigitSum:
        match atom:
            case Var() if atom in self._forms:
                return self._forms[atom]
            case Var() if atom in self.extents:
                form = Sum({d: d.divisor for d in self.of(atom) if d.extent > 1})
                return self._forms.setdefault(atom, form)
            case Binary("//", a, Const(value)) if value > 0:
                return self._divide(self._sum(a), int(value))[0]
            case Binary("%", a, Const(value)) if value > 0:
                return self._divide(self._sum(a), int(value))[1]
            case _:
                raise _NotAffine

    def _divide(self, total: DigitSum, by: int) -> tuple[DigitSum, DigitSum]:
        """Quotient and remainder of a sum by a positive constant."""
        parts = quotient_and_rest(total, by)
        if parts is None:
            self._request_cut(total.divided(by)[1], by)
        return parts

    def _request_cut(self, rest: DigitSum, by: int) -> NoReturn:
        """Cut the digit that straddles `by` there, if one can be."""
        for digit, coefficient in rest.terms.items():
            size = abs(coefficient)
            if size < by and by % size == 0 and digit.extent > by // size:
                cut = digit.divisor * (by // size)
                cuts = sorted({*self.cuts.get(digit.var, [1]), cut})
                if any(b % a for a, b in pairwise(cuts)):
                    break
                self.cuts[digit.var] = cuts
                self._forms.clear()
                raise _Again
        raise _NotAffine


class Division(NamedTuple):
    """`total` is `by` times a quotient plus a rest, both sums over digits of new variables; `left`
    is total - by * quotient - rest, which is 0.
    """

    total: DigitSum
    by: int
    left: DigitSum


class Divided(Digits):
    """Digits of variables, and of the quotients and rests of divisions that cut no digit apart.

    `divisions` maps the variables of such a quotient and its rest to the division; `divisors`, a
    sum's key to the variables by divisor. A multiple of a divisor divides that one's quotient: of
    x // 50 and x // 5000, the latter is the former // 100.
    """

    def __init__(self, extents: Mapping[Var, int]):
        super().__init__(dict(extents))
        self.divisions: dict[Var, Division] = {}
        self.divisors: dict[Hashable, dict[int, tuple[Var, Var]]] = {}

    def _divide(self, total: DigitSum, by: int) -> tuple[DigitSum, DigitSum]:
        try:
            return super()._divide(total, by)
        except _NotAffine:
            return self._divided(total, by)

    def _divided(self, total: DigitSum, by: int) -> tuple[DigitSum, DigitSum]:
        divisors = self.divisors.setdefault(total.key(), {})
        least = min(divisor for divisor in (by, *divisors) if by % divisor == 0)
        is_new = least not in divisors
        quotient, rest = self._parts(total, least, divisors)
        if is_new and any(divisor % least == 0 for divisor in divisors if divisor > least):
            raise _Again
        if least == by:
            return quotient, rest
        whole, more = self._divide(quotient, by // least)
        return whole, weighted((more, least), (rest, 1))

    def _parts(
        self, total: DigitSum, by: int, divisors: dict[int, tuple[Var, Var]]
    ) -> tuple[DigitSum, DigitSum]:
        """Quotient and rest as variables, about which only their bounds are known."""
        low, high = (end // by for end in total.bounds())
        if max(-low, high) * by >= WRAP:
            raise _NotAffine
        variables = divisors.setdefault(by, (Var("quotient"), Var("rest")))
        self.extents = {**self.extents, variables[0]: high - low + 1, variables[1]: by}
        whole, rest = map(self._atom, variables)
        quotient = weighted((whole, 1), constant=low)
        division = Division(total, by, weighted((total, 1), (quotient, -by), (rest, -1)))
        self.divisions.update(dict.fromkeys(variables, division))
        return quotient, rest

    def loops(self, total: DigitSum) -> set[Digit]:
        """The loop variables' digits that a sum depends on, those in its divisions included."""
        found: set[Digit] = set()
        for digit in total.terms:
            division = self.divisions.get(digit.var)
            found |= {digit} if division is None else self.loops(division.total)
        return found

    def starts_at_zero(self, total: DigitSum) -> bool:
        """Whether a sum is 0 where all digits are, and never less."""
        if total.constant or any(c < 0 for c in total.terms.values()):
            return False
        parts = [self.divisions[d.var].total for d in total.terms if d.var in self.divisions]
        return all(map(self.starts_at_zero, parts))


def to_expr(total: DigitSum, extents: Mapping[Var, int]) -> Expr:
    """A sum as an index expression again."""
    parts = [(linear(_digit_expr(d, extents[d.var])), c) for d, c in total.terms.items()]
    return expression(weighted(*parts, constant=total.constant))


def _digit_expr(digit: Digit, extent: int) -> Expr:
    """A digit of a variable with an extent."""
    result: Expr = digit.var
    if digit.divisor > 1:
        result = Binary("//", result, index(digit.divisor))
    if digit.divisor * digit.extent < extent:
        result = Binary("%", result, index(digit.extent))
    return result


def contiguous(total: DigitSum) -> int | None:
    """The number of consecutive values, from its least on, of a sum; None if it has gaps.

    Exact where the digits range freely.
    """
    reach = 1
    for digit, coefficient in sorted(total.terms.items(), key=lambda item: abs(item[1])):
        if abs(coefficient) > reach:
            return None
        reach += abs(coefficient) * (digit.extent - 1)
    return reach


class Coverage:
    """The values that several sums take together, where each digit serves one of them."""

    def __init__(self, digits: Digits):
        self.digits = digits
        self.used: set[Digit] = set()

    def take(self, total: DigitSum | None) -> range | None:
        """The consecutive values that a sum takes whatever values those before it have; None where
        it may have gaps, or shares a digit with one before it.
        """
        reach = None if total is None else contiguous(total)
        if total is None or reach is None or self.used & total.terms.keys():
            return None
        self.used |= total.terms.keys()
        least = total.bounds()[0]
        return range(least, least + reach)

    def is_exact(self) -> bool:
        """Whether the digits range freely, so that all combinations of values are taken."""
        return all(self.digits.is_exact(digit.var) for digit in self.used)
