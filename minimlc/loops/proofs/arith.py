"""Index expressions as sums with integer coefficients, and the parts of expressions."""

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Sequence
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from minimlc.loops.ir.nodes import Binary, Buffer, Const, Expr, Unary, Var, index, used
from minimlc.loops.values.dtypes import INDEX, integer_range, is_float
from minimlc.loops.values.node import Node

Interval = tuple[int, int]
EVERYTHING: Interval = integer_range(INDEX)
U = TypeVar("U", bound=Hashable)


class Form:
    """The object that all expressions of one key share: keys are compared by `is`."""

    __slots__ = ("__weakref__",)


_FORMS: WeakValueDictionary[Hashable, Form] = WeakValueDictionary()
_LOCK = Lock()


def key(expr: Expr) -> Any:
    """A hashable form, equal for expressions that are equal when their variables are the same."""
    if type(expr) is Var:
        return expr
    form = getattr(expr, "_form", None)
    if form is None:
        kind = type(expr)
        parts = (kind, *map(_part_key, kind._values(expr)))
        with _LOCK:
            form = _FORMS.setdefault(parts, Form())
        object.__setattr__(expr, "_form", form)
    return form


def _part_key(part: Any) -> Any:
    if isinstance(part, Expr):
        return key(part)
    if isinstance(part, float):
        return repr(part)  # 0.0 is not -0.0
    return tuple(map(_part_key, part)) if isinstance(part, tuple) else part


class Atom(tuple):
    """An expression as the unknown of a sum: equal to others with the same key."""

    expr: Expr

    @classmethod
    def of(cls, expr: Expr) -> "Atom":
        atom = cls((key(expr),))
        atom.expr = expr
        return atom


def _digit_interval(digit: Any) -> Interval:
    return 0, digit.extent - 1


class Sum(NamedTuple, Generic[U]):
    """`constant` + the sum of coefficient * unknown, in exact arithmetic; no coefficient is 0."""

    terms: dict[U, int]
    constant: int = 0

    def bounds(self, of: Callable[[U], Interval] = _digit_interval) -> Interval:
        """The least and greatest value, from those `of` each unknown; a digit's are known. Empty
        (the least above the greatest) where an unknown has no values.
        """
        low = high = self.constant
        for unknown, coefficient in self.terms.items():
            least, most = of(unknown)
            if coefficient < 0:
                least, most = most, least
            low, high = low + coefficient * least, high + coefficient * most
        return low, high

    def minus(self, other: "Sum[U]") -> "Sum[U]":
        return weighted((self, 1), (other, -1))

    def without(self, unknowns: Container[U]) -> "Sum[U]":
        """The terms of other unknowns, without the constant."""
        return Sum({unknown: c for unknown, c in self.terms.items() if unknown not in unknowns})

    def divided(self, by: int) -> "tuple[Sum[U], Sum[U]]":
        """The sum as `by` * the first + the second, which has the terms that `by` does not divide
        and a constant below it.
        """
        whole = {unknown: c // by for unknown, c in self.terms.items() if c % by == 0}
        rest = {unknown: c for unknown, c in self.terms.items() if c % by}
        return Sum(whole, self.constant // by), Sum(rest, self.constant % by)

    def key(self) -> tuple[frozenset[tuple[U, int]], int]:
        """A key that is equal for equal sums."""
        return frozenset(self.terms.items()), self.constant


def weighted(*parts: tuple[Sum[U], int], constant: int = 0) -> Sum[U]:
    """The sum of coefficient * part, plus a constant."""
    terms: dict[U, int] = {}
    for part, times in parts:
        constant += times * part.constant
        for unknown, coefficient in part.terms.items():
            terms[unknown] = terms.get(unknown, 0) + times * coefficient
    return Sum({unknown: c for unknown, c in terms.items() if c}, constant)


def linear(expr: Expr) -> Sum[Atom]:
    """`expr` as a sum; parts that are not linear, or no index, are atoms."""
    total = getattr(expr, "_linear", None)
    if total is None:
        terms: dict[Atom, int] = {}
        constant = _collect(expr, 1, terms)
        total = Sum({atom: c for atom, c in terms.items() if c}, constant)
        if all(atom.expr is not expr for atom in terms):  # or it would hold itself
            object.__setattr__(expr, "_linear", total)
    return total


def _collect(expr: Expr, scale: int, terms: dict[Atom, int]) -> int:
    """Add `scale * expr` to `terms`; return its constant part."""
    match expr:
        # other nodes: atoms of the sum
        case Const(value, dtype) if not is_float(dtype):
            return scale * int(value)
        case Const() | Binary() | Unary() if expr.dtype != INDEX:  # it is rounded, or wraps
            pass
        case Binary("+", a, b):
            return _collect(a, scale, terms) + _collect(b, scale, terms)
        case Binary("-", a, b):
            return _collect(a, scale, terms) + _collect(b, -scale, terms)
        case Binary("*", a, Const(value)) | Binary("*", Const(value), a):
            return _collect(a, scale * int(value), terms)
        case Unary("-", a):
            return _collect(a, -scale, terms)
    atom = Atom.of(expr)
    terms[atom] = terms.get(atom, 0) + scale
    return 0


def expression(total: Sum[Atom]) -> Expr:
    """A sum as an expression, its terms in their order; `15 - i` where none is added."""
    result: Expr | None = None
    if total.terms and total.constant and all(c < 0 for c in total.terms.values()):
        result, total = index(total.constant), total._replace(constant=0)
    for atom, coefficient in total.terms.items():
        size = abs(coefficient)
        if result is None:
            result = atom.expr if coefficient == 1 else Binary("*", atom.expr, index(coefficient))
        else:
            term = atom.expr if size == 1 else Binary("*", atom.expr, index(size))
            result = Binary("+" if coefficient > 0 else "-", result, term)
    if result is None:
        return index(total.constant)
    if total.constant == 0:
        return result
    return Binary("+" if total.constant > 0 else "-", result, index(abs(total.constant)))


def constant_value(expr: Expr) -> int | None:
    """The number that an index expression is, or None where it is not constant."""
    total = linear(expr)
    return None if total.terms else total.constant


def recombined(total: Sum[Atom]) -> Sum[Atom]:
    """The same sum, where `x // 4 * 4 + x % 4` has become `x`, and so on with multiples of both.

    With a remainder of the quotient, `x // 4 % 3 * 4 + x % 4` has become `x % 12`. Both hold for
    each `x`, as the quotient is rounded down and the remainder is not negative.
    """
    for atom, coefficient in total.terms.items():
        division = _whole(atom.expr)
        if division is None:
            continue
        x, by, whole = division
        scale, rest = coefficient // by, Atom.of(Binary("%", x, index(by)))
        if scale * by == coefficient and total.terms.get(rest) == scale:
            others = {a: c for a, c in total.terms.items() if a not in (rest, atom)}
            return recombined(weighted((Sum(others, total.constant), 1), (linear(whole), scale)))
    return total


def split_by(expr: Expr, still: Collection[Var]) -> tuple[Expr, Expr] | None:
    """An expression as a sum of two: the terms over variables in `still`, with the constant, and
    those over others; None where a term has both.
    """
    total = linear(expr)
    moving = {atom for atom in total.terms if not variables(atom.expr) <= {*still}}
    if any(v in still for atom in moving for v in variables(atom.expr)):
        return None
    outer = total.without(moving)
    return expression(outer._replace(constant=total.constant)), expression(
        total.without(outer.terms)
    )


def flat(indices: Sequence[Expr], shape: Sequence[int]) -> Sum[Atom]:
    """The number of an element in memory, in which quotients and their remainders have met."""
    number: Expr = index(0)
    for position, size in zip(indices, shape, strict=True):
        number = number * size + position
    return recombined(linear(number))


def _whole(atom: Expr) -> tuple[Expr, int, Expr] | None:
    """For `x // by` or `x // by % n`: x, by, and the value of `atom * by + x % by`."""
    match atom:
        # other nodes: no quotient, so nothing to join
        case Binary("//", x, Const(by)) if by > 0:
            return x, int(by), x
        case Binary("%", Binary("//", x, Const(by)), Const(n)) if (
            by > 0 < n and by * n <= EVERYTHING[1]
        ):
            return x, int(by), Binary("%", x, index(int(by) * int(n)))
    return None


def conjuncts(condition: Expr | None) -> Iterable[Expr]:
    """The parts of `a and b and ...`, of `a & b`, also of `not (a or b or ...)`."""
    match condition:
        # other nodes: one condition, not several
        case None:
            return
        case Binary("and" | "&", a, b) if a.dtype == "bool":
            yield from conjuncts(a)
            yield from conjuncts(b)
        case Unary("not", Binary("or" | "|", a, b)):
            yield from conjuncts(Unary("not", a))
            yield from conjuncts(Unary("not", b))
        case Unary("not", Unary("not", a)):
            yield from conjuncts(a)
        case _:
            yield condition


def variables(item: Node | None) -> frozenset[Var]:
    """The variables that an expression or statement uses."""
    return frozenset() if item is None else used(item)[0]


def loaded(item: Node) -> frozenset[Buffer]:
    """The buffers that an expression or statement reads."""
    return used(item)[1]


def has_loads(expr: Expr | None) -> bool:
    """Whether an expression reads a buffer."""
    return expr is not None and bool(used(expr)[1])
