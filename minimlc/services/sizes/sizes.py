"""Sizes that are known at a call: their texts, slices of such axes, and type rules for them.

`Size` itself, with its arithmetic, is in `minimlc.services.sizes.polynomials`.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import count
from math import inf, isqrt, lcm
from typing import Any

from minimlc.loops.text.folding import BINARY
from minimlc.loops.values.errors import CompileError, OpError, shown
from minimlc.loops.values.literals import names_in
from minimlc.loops.values.node import Node
from minimlc.services.sizes.polynomials import (
    Operand,
    Size,
    Span,
    least,
    most,
    named,
    sampled,
    size_at,
)

__all__ = [
    "Size",
    "applied",
    "bounds_of",
    "cut",
    "declared",
    "generic",
    "least",
    "most",
    "names_in",
    "size_at",
    "size_of",
]
MOST_TEXT = 1000
"""Characters of a size's text, at the most."""

_CHOICES: dict[str, Callable[[Any, Any], Any]] = {"min": least, "max": most}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    **_CHOICES,
}


def size_of(value: Any) -> Any:
    """A size from its text, such as "n * 2 + 1", from an expression of the loop language, or from a
    name and its bounds, such as ("n", 1, 512); any other value as it is. `CompileError` E136 for a
    text that is no size.
    """
    if isinstance(value, tuple) and 2 <= len(value) <= 3 and isinstance(value[0], str | Size):
        return _bounded(*value)
    text = value if isinstance(value, str) else value.script() if isinstance(value, Node) else None
    if text is None:
        return value
    try:
        return _meaning(ast.parse(text[:MOST_TEXT].strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError, KeyError):
        why = f"{shown(text)} is not a size: names and integers with +, -, *, //, %, min, max"
        raise CompileError(why, code="E136", hint='R.Tensor(("n * 2 + 1", 4), "float32")') from None


def _bounded(name: Any, low: Any, high: Any = inf) -> Size:
    """A name and the numbers that it may be, these included."""
    size = size_of(name)
    whole = [isinstance(end, int) and not isinstance(end, bool) for end in (low, high)]
    plain = isinstance(size, Size) and size.linear() == (str(size), 1, 0)
    if not plain or not whole[0] or not (whole[1] or high == inf) or not 0 <= low <= high:
        why = f"a bounded size is a name, its least and its largest number, got {shown(name)}, "
        raise CompileError(f"{why}{shown(low)}, {shown(high)}", code="E136", hint='("n", 1, 512)')
    return named(str(size), low, high)


def applied(sign: str, *operands: Operand) -> Any:
    """The operation of that sign on sizes, or numbers; `SizeError` if sizes have none."""
    if len(operands) > 1 and sign in _OPERATIONS:
        return reduce(_OPERATIONS[sign], operands)
    if sign == "-":
        return -operands[0]
    return next(size for size in operands if isinstance(size, Size)).refuse(f"an operand of {sign}")


def _meaning(tree: ast.expr) -> Any:
    match tree:
        case ast.Name(name):
            return named(name)
        case ast.Constant(int() as number) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(ast.USub(), inner):
            return -_meaning(inner)
        case ast.BinOp(left, op, right) if not isinstance(op, ast.Pow):
            return _OPERATIONS[BINARY[type(op)][0]](_meaning(left), _meaning(right))
        case ast.Call(ast.Name(name) | ast.Attribute(attr=name), [_, _, *_] as operands, []) if (
            name in _CHOICES
        ):
            return reduce(_CHOICES[name], map(_meaning, operands))
        case _:
            raise ValueError


_Chooser = Callable[[Any, Any], Any]
_OF_SAMPLES: tuple[_Chooser, _Chooser] = (min, max)


def cut(part: slice, size: Operand) -> tuple[Operand, int, Operand]:
    """Where a slice of an axis starts, its step, and how many elements it has.

    Ends of other sizes than the axis are compared with it at the call (`c[:n]` of 64 elements has
    `min(n, 64)`), other ends by a sample (`x[1:]` has `n - 1`).
    """
    if not names_in((size, part.start, part.stop)):
        places = range(*part.indices(int(size)))
        return places.start, places.step, len(places)
    others = {*names_in((part.start, part.stop))} - {*names_in(size)}
    smaller, larger = (least, most) if others else _OF_SAMPLES
    step = 1 if part.step is None else part.step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def place(value: Any, default: Operand) -> Operand:
        value = default if value is None else value + size if value < 0 else value
        return larger(low, smaller(high, value))

    start, stop = (low, high) if step > 0 else (high, low)
    start, stop = place(part.start, start), place(part.stop, stop)
    count = (stop - start + step - (1 if step > 0 else -1)) // step
    return start, step, larger(0, count)


def bounds_of(values: Any) -> dict[str, Span]:
    """The declared bounds of the names in sizes, and in tuples with sizes: the least and largest
    number, 0 and infinity where none are.
    """
    if isinstance(values, tuple):
        parts = [(name, *span) for value in values for name, span in bounds_of(value).items()]
    else:
        found = values.named_parts() if isinstance(values, Size) else ()
        parts = [(part.text, part.low, part.high) for part in found]
    known: dict[str, Span] = {}
    for name, low, high in parts:
        least_of, most_of = known.get(name, (0, inf))
        known[name] = max(least_of, low), min(most_of, high)
        if known[name][0] > known[name][1]:
            raise CompileError(f"no number is in all bounds that {name} has", code="E136")
    return known


def declared(shapes: Any) -> dict[str, Size]:
    """The names in shapes, as sizes with their declared bounds."""
    return {name: named(name, *span) for name, span in bounds_of(shapes).items()}


# Type rules

ENDLESS = 10**9
"""A number from here on, such as the end of a slice, is above all samples of sizes."""
_DIVISORS = (lcm(*range(1, 17)), 5040, 720, 60, 12, 4, 2, 1)


def generic(rule: Callable[[], Any], values: Any) -> Any:
    """The answer of a rule where the sizes in `values`, a nested tuple, are not known.

    Numbers stand for their names: primes above all numbers in `values`; if the rule refuses these,
    numbers that are divided by much, then equal ones, then small ones. Two choices of a kind must
    have one answer. It is right for some sizes: at a call the rule is asked again, of numbers.
    """
    refusal: OpError | None = None
    for choices in zip(_choices(values, 0), _choices(values, 1), strict=True):
        try:
            return _agreed(rule, choices)
        except OpError as error:
            refusal = refusal or error
    raise refusal or AssertionError


def _agreed(rule: Callable[[], Any], choices: Sequence[Mapping[str, int]]) -> Any:
    answers = []
    for choice in choices:
        with sampled(choice):
            answers.append(rule())
    if answers[0] != answers[1]:
        why = "the result's shape is no formula of the sizes: it differs from one to the other"
        raise OpError(why, code="E136", hint="a size as a number, or mlc.specialize(mod, ...)")
    return answers[0]


def _choices(values: Any, number: int) -> Iterator[dict[str, int]]:
    """Numbers for the names in `values`, of four kinds; `number` is 0 for one of each, or 1."""
    spans, known = bounds_of(values), {*_numbers(values)}
    names = sorted(spans, reverse=number > 0)  # no two have one order in both
    first, second = sorted((1, 1, *known, *[int(low) for low, _ in spans.values()]))[-2:]
    above = min(16 * (first + 1) * (second + 1), ENDLESS // 4)
    many = lcm(_DIVISORS[0], *known)
    large = (above // many + 1 + number) * many
    start = above * (1 + number)
    yield {name: _prime(start + 997 * at, spans[name]) for at, name in enumerate(names)}
    for factors in ((2, 3, 5, 7, 11, 13), (1,)):
        numbers = [large * factors[at % len(factors)] for at in range(len(names))]
        pairs = zip(names, numbers, strict=True)
        yield {name: _multiple(size, spans[name], number) for name, size in pairs}
    small = 2 + 2 * number
    yield {n: int(min(max(small, low + number), high)) for n, (low, high) in spans.items()}


def _numbers(values: Any) -> Iterator[int]:
    """The numbers in values that sizes are compared with, those in sizes too."""
    if isinstance(values, tuple):
        for value in values:
            yield from _numbers(value)
    elif isinstance(values, Size):
        for monomial, factor in values.terms:
            yield from _numbers((factor, *[part.operands for part in monomial]))
    elif isinstance(values, int) and 1 < abs(values) < ENDLESS:
        yield abs(values)


@cache
def _prime(start: int, span: Span) -> int:
    """The first prime from `start` on; where that is above the bounds, one in the upper part."""
    low, high = span
    if start <= high:
        return next(n for n in count(start) if _is_prime(n))
    inside = range(int(high), int(max(low - 1, high - 99)), -1)
    primes = [n for n in inside if _is_prime(n)] or inside
    return primes[start % len(primes)]


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % by for by in range(2, isqrt(number) + 1))


def _multiple(number: int, span: Span, place: int) -> int:
    """`number`; where that is above the bounds, one inside that has many divisors."""
    low, high = span
    if number <= high:
        return number
    inside = (int(high) // by * by - place * by for by in _DIVISORS)
    return next((n for n in inside if n >= max(low, 1)), int(high))
