"""Index arithmetic and conditions in their simplest form."""

from math import gcd

from minimlc.loops.ir.nodes import COMPARISONS, Binary, Const, Expr, Select, Unary, index
from minimlc.loops.proofs.arith import EVERYTHING, expression, key, linear, recombined, weighted
from minimlc.loops.proofs.ranges import Ranges, is_within
from minimlc.loops.values.dtypes import INDEX
from minimlc.loops.values.node import Mutator


class Simplifier(Mutator):
    """Rewrite index arithmetic and conditions to their simplest form over `ranges`."""

    def __init__(self, ranges: Ranges):
        self.ranges = ranges

    def visit_Unary(self, expr: Unary) -> Expr:
        expr = self.visit_children(expr)
        if isinstance(expr.a, Const) and expr.op == "not":
            return Const(not expr.a.value, "bool")
        return self._sum(expr) if expr.dtype == INDEX else expr

    def visit_Binary(self, expr: Binary) -> Expr:
        expr = self.visit_children(expr)
        if expr.op in ("and", "or"):
            return _logic(expr)
        if expr.a.dtype != INDEX:
            return expr
        if expr.op in COMPARISONS:
            known = self.ranges.prove(expr)
            return expr if known is None else Const(known, "bool")
        if expr.op in ("+", "-", "*"):
            return self._sum(expr)
        if expr.op in ("//", "%") and isinstance(expr.b, Const) and expr.b.value > 0:
            return self._divide(expr, int(expr.b.value))
        if expr.op in ("min", "max"):
            return self._extremum(expr)
        return expr

    def visit_Select(self, expr: Select) -> Expr:
        condition = self.visit(expr.condition)
        if isinstance(condition, Const):
            return self.visit(expr.a if condition.value else expr.b)
        a = type(self)(self.ranges.assume(condition)).visit(expr.a)
        b = type(self)(self.ranges.assume(Unary("not", condition))).visit(expr.b)
        same = condition is expr.condition and a is expr.a and b is expr.b
        return expr if same else Select(condition, a, b)

    def _sum(self, expr: Expr) -> Expr:
        new = expression(recombined(linear(expr)))
        return expr if key(new) == key(expr) else new

    def _divide(self, expr: Binary, by: int) -> Expr:
        """Separate multiples of the divisor from a rest that stays within it."""
        if not self.ranges.is_exact(expr.a):
            return expr
        whole, rest = linear(expr.a).divided(by)
        low, high = self.ranges.reach(rest)
        if low >= 0 and high < by:
            return expression(rest if expr.op == "%" else whole)
        if not whole.terms and (coarser := self._coarser(expr, by)) is not None:
            return coarser
        if expr.op == "//" and not whole.terms:
            return self._nested_divide(expr, by)
        if not is_within((low, high), EVERYTHING):
            return expr
        if expr.op == "//":
            inside = self._nested_divide(Binary("//", expression(rest), expr.b), by)
            return expression(weighted((whole, 1), (linear(inside), 1)))
        new = Binary("%", expression(rest), index(by))
        return expr if key(new) == key(expr) else new

    def _coarser(self, expr: Binary, by: int) -> Expr | None:
        """The quotient or remainder of x * m + r by m * n, with r from 0 to below m: x // n, or
        x % n * m + r.
        """
        total = linear(expr.a)
        steps = {gcd(by, coefficient) for coefficient in total.terms.values()}
        for step in sorted(steps - {1, by}, reverse=True):
            whole, rest = total.divided(step)
            low, high = self.ranges.reach(rest)
            if low >= 0 and high < step:
                by //= step
                part = self._divide(Binary(expr.op, expression(whole), index(by)), by)
                left = weighted((linear(part), step), (rest, 1))
                return part if expr.op == "//" else expression(left)
        return None

    def _nested_divide(self, expr: Binary, by: int) -> Expr:
        match expr.a:
            # other nodes: nothing to join the division with
            case Binary("//", a, Const(value)) if 0 < value * by <= EVERYTHING[1]:
                return self._divide(Binary("//", a, index(int(value) * by)), int(value) * by)
        return expr

    def _extremum(self, expr: Binary) -> Expr:
        low, high = self.ranges.difference(expr.a, expr.b)
        if low >= 0:
            return expr.a if expr.op == "max" else expr.b
        if high <= 0:
            return expr.b if expr.op == "max" else expr.a
        return expr


def _logic(expr: Binary) -> Expr:
    """`and` and `or` with a constant side; the left side is evaluated first."""
    absorbing = expr.op == "or"
    if isinstance(expr.a, Const):
        return expr.a if expr.a.value == absorbing else expr.b
    if isinstance(expr.b, Const) and expr.b.value != absorbing:
        return expr.a
    return expr


def simplify(expr: Expr, ranges: Ranges | None = None) -> Expr:
    """`expr` in its simplest form where its variables stay within `ranges`."""
    return Simplifier(ranges or Ranges()).visit(expr)
