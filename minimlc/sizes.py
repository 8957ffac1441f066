"""Sizes that are known at a call: polynomials in named integers, such as `n` and `n * 2 + 1`.

A `Size` computes with integers and other sizes as an integer does, so the type rules of operators
know nothing of it. Equal sizes are equal for all values. Where a rule has to decide something else
(is the kernel larger than the image?), it is decided as for a size that is a large prime: for all
but small or special ones. What a rule then says is proved where the sizes are numbers, by the same
rule; what depends on the number itself differs from one `sample` to another.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any, NamedTuple, Union
from zlib import crc32

from minimlc.errors import CompileError, shown
from minimlc.node import Node

Operand = Union[int, "Size"]
MOST_TEXT = 1000
"""Characters of a size's text, at the most."""


class Part(NamedTuple):
    """A name, or a quotient or remainder that divides into no others."""

    text: str
    operation: str = ""
    operands: tuple[Operand, ...] = ()


Monomial = tuple[Part, ...]
_APPLY: dict[str, Callable[[Any, Any], Any]] = {"//": operator.floordiv, "%": operator.mod}
_PRIMES = (61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139)
_SAMPLE: ContextVar[int] = ContextVar("sample", default=0)


@contextmanager
def sample(number: int) -> Iterator[None]:
    """Inside, sizes are compared as they are for another choice of large primes."""
    token = _SAMPLE.set(number)
    try:
        yield
    finally:
        _SAMPLE.reset(token)


class Size:
    """An integer that a call or its data tell: a sum of products of names, with integers before."""

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
        return tuple(dict.fromkeys(self._names()))

    def _names(self) -> Iterator[str]:
        for monomial, _ in self.terms:
            for part in monomial:
                if not part.operation:
                    yield part.text
                yield from names_in(part.operands)

    def at(self, values: Mapping[str, Any]) -> Any:
        """The size where names have these values, numbers or sizes; others stay."""
        return reduce(operator.add, [_term_at(*term, values) for term in self.terms])

    def linear(self) -> tuple[str, int, int] | None:
        """(name, a, b) of a size that is name * a + b; None of any other."""
        names, rest = [t for t in self.terms if t[0]], dict(self.terms).get((), 0)
        if len(names) != 1 or len(names[0][0]) != 1 or names[0][0][0].operation:
            return None
        return names[0][0][0].text, names[0][1], rest

    def __int__(self) -> int:
        """The number that stands for the size in questions that its text does not answer."""
        return int(self.at({name: _prime(name) for name in self.names}))

    __index__ = __int__

    def __float__(self) -> float:
        return float(int(self))

    def __bool__(self) -> bool:
        return int(self) != 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        texts = [_term_text(monomial, factor) for monomial, factor in self.terms]
        return " + ".join(texts).replace("+ -", "- ")

    def __repr__(self) -> str:
        return f'"{self}"'

    def __neg__(self) -> Operand:
        return self * -1

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _number_or_size(terms)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other).items():
                monomial = tuple(sorted((*left, *right)))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _number_or_size(terms)

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __truediv__(self, other: Any) -> float:
        return float(self) / float(other)

    def __rtruediv__(self, other: Any) -> float:
        return float(other) / float(self)

    def __floordiv__(self, other: Any) -> Any:
        return _divided(self, other)[0]

    def __mod__(self, other: Any) -> Any:
        return _divided(self, other)[1]

    def __rfloordiv__(self, other: int) -> Any:
        return _divided(other, self)[0]

    def __rmod__(self, other: int) -> Any:
        return _divided(other, self)[1]

    __radd__, __rmul__ = __add__, __mul__


def _comparison(compare: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    def method(self: Size, other: Any) -> bool:
        return compare(int(self), int(other) if isinstance(other, Size) else other)

    return method


for _name in ("lt", "le", "gt", "ge"):
    setattr(Size, f"__{_name}__", _comparison(getattr(operator, _name)))


def _prime(name: str) -> int:
    return _PRIMES[(crc32(name.encode()) + 5 * _SAMPLE.get()) % len(_PRIMES)]


def _terms(value: Operand) -> Mapping[Monomial, int]:
    return dict(value.terms) if isinstance(value, Size) else {(): int(value)}


def _number_or_size(terms: Mapping[Monomial, int]) -> Operand:
    known = {monomial: factor for monomial, factor in terms.items() if factor}
    return Size(known) if any(known) else known.get((), 0)


def _named(name: str) -> Size:
    return Size({(Part(name),): 1})


def _term_at(monomial: Monomial, factor: int, values: Mapping[str, Any]) -> Any:
    if not monomial:
        return factor
    product = reduce(operator.mul, [_part_at(part, values) for part in monomial])
    return product if factor == 1 else product * factor


def _part_at(part: Part, values: Mapping[str, Any]) -> Any:
    if not part.operation:
        return values.get(part.text, _named(part.text))
    left, right = (size_at(operand, values) for operand in part.operands)
    if not isinstance(right, Size) and right == 0:
        raise CompileError(f"the size {part.text} is divided by 0", code="E136")
    return _APPLY[part.operation](left, right)


def _divided(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    """The quotient, rounded down, and the remainder: what divides is taken out first."""
    if right == 0:
        raise CompileError(f"the size {left} is divided by 0", code="E136")
    if left == 0:
        return 0, 0
    divisor = _terms(right)
    if len(divisor) > 1:
        return (1, 0) if left == right else _opaque(left, right)
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
    if left_over == 0:
        return exact, 0
    part, remainder = _opaque(left_over, right)
    return exact + part, remainder


def _opaque(left: Operand, right: Operand) -> tuple[Operand, Operand]:
    if not isinstance(left, Size) and not isinstance(right, Size):
        return left // right, left % right
    texts = {sign: f"{_operand(left)} {sign} {_operand(right)}" for sign in _APPLY}
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
    several = len(monomial) > 1 or abs(factor) != 1
    texts = [f"({p.text})" if p.operation and several else p.text for p in monomial]
    if not texts:
        return str(factor)
    sign = "-" if factor < 0 else ""
    return sign + " * ".join([*texts, *([str(abs(factor))] if abs(factor) != 1 else [])])


def size_at(value: Any, values: Mapping[str, Any]) -> Any:
    """A size, or a tuple with sizes in it, where names have these values."""
    if isinstance(value, tuple):
        return tuple([size_at(item, values) for item in value])
    return value.at(values) if isinstance(value, Size) else value


def names_in(values: Any) -> list[str]:
    """The names of the sizes in a value, and in tuples, each once, in order."""
    if isinstance(values, Size):
        return list(values.names)
    if not isinstance(values, tuple):
        return []
    return list(dict.fromkeys(name for value in values for name in names_in(value)))


# Text

_SIGNS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def size_of(value: Any) -> Any:
    """A size from its text, such as "n * 2 + 1", or from an expression of the loop language; any
    other value as it is. `CompileError` E136 for a text that is no size.
    """
    text = value if isinstance(value, str) else value.script() if isinstance(value, Node) else None
    if text is None:
        return value
    try:
        return _meaning(ast.parse(text[:MOST_TEXT].strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, KeyError):
        why = f"{shown(text)} is not a size: names and integers with +, -, *, // and %"
        raise CompileError(why, code="E136", hint='R.Tensor(("n * 2 + 1", 4), "float32")') from None


def applied(sign: str, *operands: Operand) -> Any:
    """The operation of that sign on one or two sizes; `CompileError` E136 if there is none."""
    texts = [f"({each})" for each in operands]
    return size_of(f" {sign} ".join(texts) if len(texts) > 1 else f"{sign} {texts[0]}")


def _meaning(tree: ast.expr) -> Any:
    match tree:
        case ast.Name(name):
            return _named(name)
        case ast.Constant(int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(ast.USub(), inner):
            return -_meaning(inner)
        case ast.BinOp(left, sign, right):
            return _SIGNS[type(sign)](_meaning(left), _meaning(right))
        case _:
            raise ValueError


def cut(part: slice, size: Operand) -> tuple[Operand, int, Operand]:
    """Where a slice of an axis starts, its step, and how many elements it has."""
    if not names_in((size, part.start, part.stop)):
        places = range(*part.indices(int(size)))
        return places.start, places.step, len(places)
    step = 1 if part.step is None else part.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def place(value: Any, default: Operand) -> Operand:
        value = default if value is None else value + size if value < 0 else value
        return max(low, min(high, value))

    start, stop = (low, high) if step > 0 else (high, low)
    start, stop = place(part.start, start), place(part.stop, stop)
    count = (stop - start + step - (1 if step > 0 else -1)) // step
    return start, step, max(0, count)
