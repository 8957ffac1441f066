"""Sizes that are known at a call: polynomials in named integers, such as `n` and `n * 2 + 1`.

A `Size` computes as an integer does, and sizes are equal if they are for all values of their names.
Other comparisons work only under `sampled`, where numbers stand for the names: `sizes.generic`
runs type rules so, and each call runs them again. Elsewhere a size is no number: `SizeError`.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from typing import Any, NoReturn, Union

import numpy as np

from minimlc.loops.values.errors import CompileError, SizeError
from minimlc.loops.values.literals import Symbol

Operand = Union[int, "Size"]
MOST_POWER = 4
"""The highest power of a size."""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A name, or a quotient, remainder or minimum of operands. `low` and `high` bound a name."""

    text: str
    operation: str = field(default="", compare=False)
    operands: tuple[Operand, ...] = field(default=(), compare=False)
    low: float = field(default=0, compare=False)
    high: float = field(default=inf, compare=False)


Monomial = tuple[Part, ...]
_SAMPLE: ContextVar[Mapping[str, int] | None] = ContextVar("sample", default=None)


@contextmanager
def sampled(values: Mapping[str, int]) -> Iterator[None]:
    """Inside, sizes compare, and are equal, as they are for these values of their names."""
    token = _SAMPLE.set(values)
    try:
        yield
    finally:
        _SAMPLE.reset(token)


def _arithmetic(method: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A method of integers and sizes. Values of the graph take over; floats are refused."""

    def apply(self: "Size", other: Any) -> Any:
        if isinstance(other, int | Size | np.integer):
            return method(self, int(other) if isinstance(other, np.integer) else other)
        if isinstance(other, float | complex | np.inexact):
            self.refuse("a float")
        return NotImplemented

    return apply


class Size(Symbol):
    """An integer that depends on a call or its data: a sum of products of names and integers."""

    __slots__ = ("terms",)
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]):
        ordered = sorted(terms.items(), key=lambda term: (-len(term[0]), term[0]))
        object.__setattr__(self, "terms", tuple(ordered))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a size does not change")

    @property
    def names(self) -> tuple[str, ...]:
        """The names in it, each once."""
        return tuple(dict.fromkeys(part.text for part in self.named_parts()))

    def named_parts(self) -> Iterator[Part]:
        """Its names with their bounds, as often as they stand in it."""
        for part in [part for monomial, _ in self.terms for part in monomial]:
            if not part.operation:
                yield part
            for operand in part.operands:
                yield from operand.named_parts() if isinstance(operand, Size) else ()

    def at(self, values: Mapping[str, Any], minimum: Any = None) -> Any:
        """The size where names have these values, numbers or sizes; others stay. Values that are
        neither need their own `minimum`.
        """
        apply = {**_APPLY, "min": minimum} if minimum else _APPLY
        return reduce(operator.add, [_term_at(*term, values, apply) for term in self.terms])

    def linear(self) -> tuple[str, int, int] | None:
        """(name, a, b) of a size that is name * a + b; None for any other."""
        names, rest = [t for t in self.terms if t[0]], dict(self.terms).get((), 0)
        if len(names) != 1 or len(names[0][0]) != 1 or names[0][0][0].operation:
            return None
        return names[0][0][0].text, names[0][1], rest

    def min(self, other: Operand) -> Operand:
        """The smaller of this size and another, or a number: `min(n, 64)` in text."""
        return least(self, other)

    def max(self, other: Operand) -> Operand:
        """The larger of this size and another, or a number."""
        return most(self, other)

    def _number(self, what: str) -> int:
        values = _SAMPLE.get()
        if values is None or not values.keys() >= {*self.names}:
            self.refuse(what)
        return int(self.at(values))

    def __int__(self) -> int:
        return self._number("an int")

    def __index__(self) -> int:
        self.refuse("an int")  # no rule takes as many steps as a sample has

    def __float__(self) -> float:
        return float(self._number("a float"))

    def __bool__(self) -> bool:
        return self._number("a truth value") != 0

    def refuse(self, what: str) -> NoReturn:
        """Raise the `SizeError` of a size that is used as a number."""
        why = f"the size {self} is known only at a call; here it cannot be {what}"
        name = self.names[0]
        hint = (
            f"x * {name} of a tensor x, {name} // 2, {name}.min(64) (in a script min({name}, 64)) "
        )
        hint += f"are computed at the call; mlc.specialize(mod, {name}=128) makes it a number"
        raise SizeError(why, code="E236", hint=hint)

    def __eq__(self, other: object) -> bool:
        if _SAMPLE.get() is not None and isinstance(other, int | Size):
            return int(self) == int(other)
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        texts = [_term_text(monomial, factor) for monomial, factor in self.terms]
        return " + ".join(texts).replace("+ -", "- ")

    def __repr__(self) -> str:
        return f'"{self}"'

    @property
    def bounded(self) -> tuple[Any, ...]:
        """The name, its least and its largest number, of a size that is a name with bounds."""
        part = next(self.named_parts())
        if str(self) != part.text or (part.low, part.high) == (0, inf):
            return ()
        return (part.text, part.low, *(() if part.high == inf else (part.high,)))

    def __neg__(self) -> Operand:
        return self * -1

    @_arithmetic
    def __add__(self, other: Operand) -> Operand:
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _number_or_size(terms)

    @_arithmetic
    def __mul__(self, other: Operand) -> Operand:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other).items():
                monomial = tuple(sorted((*left, *right)))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _number_or_size(terms)

    @_arithmetic
    def __sub__(self, other: Operand) -> Operand:
        return self + -other

    @_arithmetic
    def __rsub__(self, other: Operand) -> Operand:
        return -self + other

    @_arithmetic
    def __floordiv__(self, other: Operand) -> Operand:
        return _divided(self, other)[0]

    @_arithmetic
    def __mod__(self, other: Operand) -> Operand:
        return _divided(self, other)[1]

    @_arithmetic
    def __rfloordiv__(self, other: Operand) -> Operand:
        return _divided(other, self)[0]

    @_arithmetic
    def __rmod__(self, other: Operand) -> Operand:
        return _divided(other, self)[1]

    @_arithmetic
    def __pow__(self, other: Operand) -> Operand:
        if not isinstance(other, int) or not 0 <= other <= MOST_POWER:
            self.refuse("a base of large powers")
        return reduce(operator.mul, [self] * other, 1)

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, int | float | Size | np.number):
            return self._number("a float") / float(other)
        return NotImplemented

    def __rtruediv__(self, other: Any) -> float:
        return float(other) / self._number("a float")

    __radd__, __rmul__ = __add__, __mul__
    __array_ufunc__ = None  # numpy's numbers leave arithmetic to it


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def method(self: Size, other: Any) -> Any:
        if not isinstance(other, int | float | Size):
            return NotImplemented
        one = self._number("compared")
        return compare(one, int(other) if isinstance(other, Size) else other)

    return method


for _name in ("lt", "le", "gt", "ge"):
    setattr(Size, f"__{_name}__", _comparison(getattr(operator, _name)))


def _terms(value: Operand) -> Mapping[Monomial, int]:
    return dict(value.terms) if isinstance(value, Size) else {(): int(value)}


def _number_or_size(terms: Mapping[Monomial, int]) -> Operand:
    known = {monomial: factor for monomial, factor in terms.items() if factor}
    return Size(known) if any(known) else known.get((), 0)


def named(name: str, low: float = 0, high: float = inf) -> Size:
    """The size that is a name, with bounds."""
    return Size({(Part(name, low=low, high=high),): 1})


# Bounds

Span = tuple[float, float]


def span_of(value: Operand) -> Span:
    """The bounds of a size, whatever bounds its names are declared with: equal sizes have one form,
    with bounds or without.
    """
    low: float = 0
    high: float = 0
    for monomial, factor in _terms(value).items():
        ends: Span = (factor, factor)
        for part in monomial:
            ends = _product(ends, _part_span(part))
        low, high = low + ends[0], high + ends[1]
    return low, high


def _product(one: Span, other: Span) -> Span:
    ends = [a * b if a and b else 0 for a in one for b in other]
    return min(ends), max(ends)


def _part_span(part: Part) -> Span:
    if not part.operation:
        return 0, inf
    (low, high), (least_by, most_by) = map(span_of, part.operands)
    if part.operation == "min":
        return min(low, least_by), min(high, most_by)
    if least_by < 1:
        return -inf, inf
    if part.operation == "%":
        return 0, most_by - 1
    return min(low, 0), max(high, 0)


def least(a: Operand, b: Operand) -> Operand:
    """The smaller one of two sizes; one of them where that is known of all values."""
    low, high = span_of(a - b)
    if high <= 0:
        return a
    if low >= 0:
        return b
    first, second = sorted((a, b), key=lambda size: (isinstance(size, int), str(size)))
    return Size({(Part(f"min({first}, {second})", "min", (first, second)),): 1})


def most(a: Operand, b: Operand) -> Operand:
    """The larger one of two sizes: their sum without the smaller one."""
    return a + b - least(a, b)


# Arithmetic


_DIVISIONS = ("//", "%")
_Apply = Mapping[str, Callable[[Any, Any], Any]]
_APPLY: _Apply = {"//": operator.floordiv, "%": operator.mod, "min": least}


def _term_at(monomial: Monomial, factor: int, values: Mapping[str, Any], apply: _Apply) -> Any:
    if not monomial:
        return factor
    product = reduce(operator.mul, [_part_at(part, values, apply) for part in monomial])
    return product if factor == 1 else product * factor


def _part_at(part: Part, values: Mapping[str, Any], apply: _Apply) -> Any:
    if not part.operation:
        return values.get(part.text, Size({(part,): 1}))
    left, right = (size_at(operand, values, apply["min"]) for operand in part.operands)
    if part.operation in _DIVISIONS and not isinstance(right, Size) and right == 0:
        raise CompileError(f"the size {part.text} is divided by 0", code="E136")
    return apply[part.operation](left, right)


def _divided(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """The quotient, rounded down, and the remainder: divisible terms are taken out first."""
    if isinstance(right, int) and right == 0:
        raise CompileError(f"the size {left} is divided by 0", code="E136")
    if isinstance(left, int) and left == 0:
        return 0, 0
    divisor = _terms(right)
    if len(divisor) > 1:
        return (1, 0) if _terms(left) == divisor else _opaque(left, right)
    ((by, number),) = divisor.items()
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, factor in _terms(left).items():
        quotient = _without(monomial, by)
        if quotient is None or factor % number:
            rest[monomial] = factor
        else:
            whole[quotient] = factor // number
    exact, left_over = _number_or_size(whole), _number_or_size(rest)
    if isinstance(left_over, int) and left_over == 0:
        return exact, 0
    part, remainder = _opaque(left_over, right)
    return exact + part, remainder


def _opaque(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    if not isinstance(left, Size) and not isinstance(right, Size):
        return left // right, left % right
    texts = {sign: f"{_operand(left)} {sign} {_operand(right)}" for sign in _DIVISIONS}
    parts = [Part(text, sign, (left, right)) for sign, text in texts.items()]
    quotient, remainder = (Size({(part,): 1}) for part in parts)
    return quotient, remainder


def _without(monomial: Monomial, by: Monomial) -> Monomial | None:
    """A product without some of its factors; None if it has not all of them."""
    left = list(monomial)
    for part in by:
        if part not in left:
            return None
        left.remove(part)
    return tuple(left)


def _operand(value: Operand) -> str:
    text = str(value)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _term_text(monomial: Monomial, factor: int) -> str:
    several = len(monomial) > 1 or factor != 1
    texts = [f"({p.text})" if p.operation in _DIVISIONS and several else p.text for p in monomial]
    if not texts:
        return str(factor)
    sign = "-" if factor < 0 else ""
    return sign + " * ".join([*texts, *([str(abs(factor))] if abs(factor) != 1 else [])])


def size_at(value: Any, values: Mapping[str, Any], minimum: Any = None) -> Any:
    """A size, or a tuple with sizes in it, where names have these values; see `Size.at`."""
    if isinstance(value, tuple):
        return tuple([size_at(item, values, minimum) for item in value])
    return value.at(values, minimum) if isinstance(value, Size) else value
