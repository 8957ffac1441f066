"""Index expressions as linear forms: a constant, and atoms with their coefficients."""

from collections.abc import Hashable
from typing import Any, NamedTuple

from minimlc.dtypes import INDEX, integer_range, is_float
from minimlc.tir.nodes import Binary, Const, Expr, Load, Unary, Var, index

Interval = tuple[int, int]
EVERYTHING: Interval = integer_range(INDEX)


def key(expr: Expr) -> Any:
    """A hashable form, equal for expressions that are equal when their variables are the same."""
    match expr:
        # other nodes: their class, and the keys of their fields
        case Var():
            return expr
        case Const(value, dtype):
            return (repr(value) if isinstance(value, float) else value, dtype)  # 0.0 is not -0.0
        case Load(buffer, indices):
            return ("load", buffer, *map(key, indices))
    parts = (getattr(expr, name) for name in expr._fields)
    return (type(expr).__name__, *map(_part_key, parts))


def _part_key(part: Any) -> Any:
    if isinstance(part, Expr):
        return key(part)
    return tuple(map(_part_key, part)) if isinstance(part, tuple) else part


class Linear(NamedTuple):
    """`constant` + the sum of coefficient * atom; `terms` maps an atom's key to both."""

    terms: dict[Any, tuple[int, Expr]]
    constant: int

    def to_expr(self) -> Expr:
        """The sum as an expression, its terms in their order."""
        total: Expr | None = None
        for coefficient, atom in self.terms.values():
            size = abs(coefficient)
            term = atom if size == 1 else Binary("*", atom, index(size))
            if total is None:
                total = term if coefficient > 0 else Binary("*", atom, index(coefficient))
            else:
                total = Binary("+" if coefficient > 0 else "-", total, term)
        if total is None:
            return index(self.constant)
        if self.constant == 0:
            return total
        op = "+" if self.constant > 0 else "-"
        return Binary(op, total, index(abs(self.constant)))

    def minus(self, other: "Linear") -> "Linear":
        """The difference of two forms."""
        terms = dict(self.terms)
        for known, (coefficient, atom) in other.terms.items():
            terms[known] = (terms.get(known, (0, atom))[0] - coefficient, atom)
        kept = {k: term for k, term in terms.items() if term[0] != 0}
        return Linear(kept, self.constant - other.constant)

    def key(self) -> Hashable:
        """Equal for equal forms."""
        return frozenset((k, c) for k, (c, _) in self.terms.items()), self.constant


def linear(expr: Expr) -> Linear:
    """`expr` as a linear form; what is not linear, or no index, becomes an atom."""
    terms: dict[Any, tuple[int, Expr]] = {}
    constant = _collect(expr, 1, terms)
    return Linear({k: term for k, term in terms.items() if term[0] != 0}, constant)


def recombined(form: Linear) -> Linear:
    """The same sum, where `x // 4 * 4 + x % 4` has become `x`, and so on with multiples of both.

    With a remainder of the quotient, `x // 4 % 3 * 4 + x % 4` has become `x % 12`. Both hold for
    each `x`, as the quotient is rounded down and the remainder is not negative.
    """
    for coefficient, atom in form.terms.values():
        met = _whole(atom)
        if met is None:
            continue
        x, by, whole = met
        scale, rest = coefficient // by, key(Binary("%", x, index(by)))
        if scale * by == coefficient and form.terms.get(rest, (0,))[0] == scale:
            terms = {k: t for k, t in form.terms.items() if k not in (rest, key(atom))}
            constant = _collect(whole, scale, terms)
            terms = {k: t for k, t in terms.items() if t[0] != 0}
            return recombined(Linear(terms, form.constant + constant))
    return form


def _whole(atom: Expr) -> tuple[Expr, int, Expr] | None:
    """Of `x // by` or `x // by % n`: x, by, and what `atom * by + x % by` is."""
    match atom:
        # other nodes: no quotient, so nothing to join
        case Binary("//", x, Const(by)) if by > 0:
            return x, int(by), x
        case Binary("%", Binary("//", x, Const(by)), Const(n)) if (
            by > 0 < n and by * n <= EVERYTHING[1]
        ):
            return x, int(by), Binary("%", x, index(int(by) * int(n)))
    return None


def _collect(expr: Expr, scale: int, terms: dict[Any, tuple[int, Expr]]) -> int:
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
    atom = key(expr)
    terms[atom] = (terms.get(atom, (0, expr))[0] + scale, expr)
    return 0


def constant_value(expr: Expr) -> int | None:
    """The number that an index expression is, or None where it is not constant."""
    form = linear(expr)
    return None if form.terms else form.constant
