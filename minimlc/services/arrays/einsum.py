"""Einstein summation: products of elements at equal letters, summed over letters not in the result.

Three and more factors are multiplied two at a time, in the order that takes the fewest products;
one nest over all letters would take the product of all sizes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import combinations
from math import prod
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from minimlc.graphs.ops.checks import NUMBERS, refuse
from minimlc.graphs.ops.record import primitive
from minimlc.graphs.ops.values import Values
from minimlc.loops.ir.nodes import Expr, const
from minimlc.loops.te import te

Term = tuple[str, ...]
"""The letters of a tensor's axes. An axis of "..." goes by its place from the last on."""
Group = frozenset[int]
"""Factors, by their numbers."""
Order = Any
"""The order of the products: a factor's number, or a pair of orders."""

MOST = 8
"""The most factors for which the best order is searched; for more, the cheapest pair goes first."""


class Sum(NamedTuple):
    """The letters of all factors and of the result, and the size of each."""

    terms: tuple[Term, ...]
    out: Term
    sizes: Mapping[str, int]

    @property
    def summed(self) -> Term:
        """The letters that the result has not, in order."""
        return tuple([letter for letter in self.sizes if letter not in self.out])

    def kept(self, group: Group) -> Term:
        """The letters of some factors' product: the ones that other factors or the result have."""
        rest = [term for number, term in enumerate(self.terms) if number not in group]
        needed = {*self.out}.union(*rest)
        used = dict.fromkeys(letter for number in sorted(group) for letter in self.terms[number])
        return tuple([letter for letter in used if letter in needed])

    def part(self, terms: Sequence[Term], out: Term) -> "Sum":
        """The sum of other factors with the same letters."""
        return Sum(tuple(terms), out, {c: self.sizes[c] for term in terms for c in term})

    def order(self) -> Order | None:
        """The order that takes the fewest products; None where one nest takes hardly more."""
        count = len(self.terms)
        if count < 2 or 0 in self.sizes.values():
            return None
        cost, order = self._best() if count <= MOST else self._cheapest()
        return order if 2 * cost <= (count - 1) * prod(self.sizes.values()) else None

    def _products(self, *groups: Group) -> int:
        """The number of multiplications that combine the products of some groups."""
        letters = {letter for group in groups for letter in self.kept(group)}
        return prod(self.sizes[letter] for letter in letters)

    def _alone(self) -> dict[Group, tuple[int, Order]]:
        """Each factor, summed first over letters that it alone has, and the cost of that."""
        known: dict[Group, tuple[int, Order]] = {}
        for number, term in enumerate(self.terms):
            group = frozenset([number])
            whole = len({*term}) == len(self.kept(group))
            known[group] = 0 if whole else prod(self.sizes[c] for c in {*term}), number
        return known

    def _joined(self, one: tuple[Group, Any], other: tuple[Group, Any]) -> tuple[int, Order]:
        (a, (cost, first)), (b, (more, second)) = one, other
        return cost + more + self._products(a, b), (first, second)

    def _best(self) -> tuple[int, Order]:
        """The least cost and its order, by dynamic programming over groups, from pairs on."""
        known = self._alone()
        for count in range(2, len(self.terms) + 1):
            for chosen in map(frozenset, combinations(range(len(self.terms)), count)):
                ways = [((a, known[a]), (b, known[b])) for a, b in _halves(chosen)]
                known[chosen] = min((self._joined(*way) for way in ways), key=lambda way: way[0])
        return known[frozenset(range(len(self.terms)))]

    def _cheapest(self) -> tuple[int, Order]:
        """The cost and the order in which the next pair is the cheapest one."""
        known = self._alone()
        while len(known) > 1:
            one, other = min(combinations(known, 2), key=lambda pair: self._products(*pair))
            joined = self._joined((one, known.pop(one)), (other, known.pop(other)))
            known[one | other] = joined
        return next(iter(known.values()))


def _halves(group: Group) -> Iterator[tuple[Group, Group]]:
    """All ways to cut a group in two."""
    first, *rest = sorted(group)
    for count in range(len(rest)):
        for chosen in combinations(rest, count):
            one = frozenset((first, *chosen))
            yield one, group - one


# The text


def _parsed(subscripts: object, shapes: Sequence[tuple[int, ...]]) -> Sum:
    """The subscripts as a `Sum` over factors of these shapes."""
    text = subscripts.replace(" ", "") if isinstance(subscripts, str) else "?"
    left, arrow, right = text.partition("->")
    names = left.split(",")
    letters = text.replace("->", "", 1).replace(",", "").replace("...", "")
    several = any(name.count("...") > 1 for name in (*names, right))
    if (letters and not (letters.isascii() and letters.isalpha())) or several or "," in right:
        refuse(f'subscripts are letters as in "ij,jk->ik" or "...i,i", got {subscripts!r}', "E204")
    if len(names) != len(shapes):
        refuse(f'"{left}" does not name the axes of {", ".join(map(str, shapes))}')
    terms = tuple(map(_term, names, shapes))
    every = [letter for term in terms for letter in term]
    dots = sorted({letter for letter in every if letter.startswith("-")}, key=int)
    once = sorted(letter for letter in {*every} - {*dots} if every.count(letter) == 1)
    if not arrow:
        return Sum(terms, (*dots, *once), _sizes(terms, shapes))
    before, more, after = right.partition("...")
    out = (*before, *(dots if more else ()), *after)
    if len({*out}) != len(out) or not {*out} <= {*every}:
        refuse(f'"{right}" must have each letter once, and be of "{left}"', "E204")
    if dots and not more:
        refuse(f'"{right}" must have "...", as "{left}" has axes there', "E204")
    return Sum(terms, out, _sizes(terms, shapes))


def _term(name: str, shape: tuple[int, ...]) -> Term:
    """The letters of a factor's axes."""
    before, dots, after = name.partition("...")
    count = len(shape) - len(before) - len(after)
    if count < 0 or (count and not dots):
        refuse(f'"{name}" does not name the axes of {shape}')
    return (*before, *[str(place) for place in range(-count, 0)], *after)


def _sizes(terms: Sequence[Term], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The size of each letter: 1 fits any other, but not within one factor."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        local: dict[str, int] = {}
        for letter, size in zip(term, shape, strict=True):
            known = sizes.get(letter, 1)
            if local.setdefault(letter, size) != size or (size != 1 and known not in (1, size)):
                other = known if local[letter] == size else local[letter]
                refuse(f'the axes "{letter}" have sizes {other} and {size}')
            sizes[letter] = known if size == 1 else size
    return sizes


# The products


def _last(form: Sum, factors: Sequence[Any], product: Callable[..., Any]) -> tuple[Sum, list[Any]]:
    """The last sum and its factors, made by `product`; the whole sum where one nest is enough."""
    order = form.order()
    if order is None:
        return form, [*factors]

    def made(order: Order) -> tuple[Group, Term, Any]:
        if isinstance(order, int):
            group, terms, values = frozenset([order]), [form.terms[order]], [factors[order]]
        else:
            (a, *first), (b, *second) = map(made, order)
            group, (terms, values) = a | b, map(list, zip(first, second, strict=True))
        out = form.kept(group)
        if len(values) == 1 and {*out} == {*terms[0]}:
            return group, terms[0], values[0]
        return group, out, product(form.part(terms, out), values)

    parts = [made(half) for half in order]
    return form.part([term for _, term, _ in parts], form.out), [value for *_, value in parts]


def _of_arrays(tensors: Sequence[Any], subscripts: str) -> Any:
    form = _parsed(subscripts, [x.shape for x in tensors])
    return _array(*_last(form, tensors, _array))


def _array(form: Sum, arrays: Sequence[np.ndarray]) -> Any:
    number = {letter: at for at, letter in enumerate(form.sizes)}
    pairs = zip(arrays, form.terms, strict=True)
    operands = [item for x, term in pairs for item in (x, [number[letter] for letter in term])]
    return np.einsum(*operands, [number[letter] for letter in form.out])


def _nest(form: Sum, factors: Sequence[Values]) -> Values:
    """Products and their sums by one loop nest."""

    def element(*i: Expr) -> Any:
        if any(form.sizes[letter] == 0 for letter in form.summed):
            return const(0, factors[0].dtype)
        axes = {c: te.reduce_axis((0, form.sizes[c]), c) for c in form.summed}
        at = {**dict(zip(form.out, i, strict=True)), **axes}
        values = [_at(x, term, at, form) for x, term in zip(factors, form.terms, strict=True)]
        product = reduce(mul, values)
        return te.sum(product, axis=list(axes.values())) if axes else product

    shape = [form.sizes[letter] for letter in form.out]
    return Values(shape, factors[0].dtype, element, "einsum")


def _at(x: Values, term: Term, at: Mapping[str, Any], form: Sum) -> Any:
    """The element of a factor, one of whose axes may have size 1 where others have more."""
    sides = zip(term, x.shape, strict=True)
    return x[tuple([0 if size == 1 and form.sizes[c] != 1 else at[c] for c, size in sides])]


@primitive("einsum", NUMBERS, _of_arrays, variadic=True, rounds=True)
def einsum(tensors: tuple[Values, ...], *, subscripts: str) -> Values:
    """The products of elements at equal letters, summed over the letters not in the result:
    "ij,jk->ik" is a matrix product. Without an arrow, the result has the letters that occur once.
    Axes of "..." broadcast, as do axes of size 1. Three and more tensors are multiplied by pairs,
    in the order that takes the fewest products.
    """
    form = _parsed(subscripts, [x.shape for x in tensors])
    last = cache(lambda: _nest(*_last(form, tensors, _nest)))
    shape = [form.sizes[letter] for letter in form.out]
    name = "einsum" if form.summed else ""
    return Values(shape, tensors[0].dtype, lambda *i: last().element(*i), name)
