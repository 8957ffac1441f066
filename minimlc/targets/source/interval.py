"""Bounds of integers within their loops, which show where C's own operators cannot overflow."""

from minimlc.loops.ir.nodes import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from minimlc.loops.values.dtypes import INDEX, integer_range, is_float, is_integer

Interval = tuple[int, int]


class Intervals:
    """Bounds of expressions, from the `ranges` of the loops' variables."""

    def __init__(self) -> None:
        self.ranges: dict[Var, Interval] = {}

    def wraps(self, item: Expr) -> bool:
        """Whether C's operator on 32 or 64 bits might overflow."""
        return not self.stays_in(item, item.dtype if self._is_wide(item) else "int32")

    def stays_in(self, item: Expr, dtype: str) -> bool:
        """Whether the value before it wraps always fits an integer dtype."""
        exact = self.exact_interval(item)
        least, most = integer_range(dtype)
        return exact is not None and least <= exact[0] and exact[1] <= most

    def _is_wide(self, item: Expr) -> bool:
        """Whether the C text of an int64 certainly has 64 bits: small numbers are of type int."""
        match item:
            case Const():
                return False
            case Unary():
                return self._is_wide(item.a)
            case Binary() | Select():
                return self._is_wide(item.a) or self._is_wide(item.b)
            case _:  # other nodes: of their dtype's C type
                return item.dtype == INDEX

    def interval(self, item: Expr) -> Interval:
        """Bounds of an integer's value: its dtype's range where the arithmetic may wrap."""
        low, high = (0, 1) if item.dtype == "bool" else integer_range(item.dtype)
        exact = self.exact_interval(item)
        if exact is None or exact[0] < low or exact[1] > high:
            return low, high
        return exact

    def exact_interval(self, item: Expr) -> Interval | None:
        """Bounds of the value before it wraps, from bounds of its operands; None if not known."""
        match item:
            case Var():
                return self.ranges.get(item)
            case Const():
                return int(item.value), int(item.value)
            case Cast(_, a) if not is_float(a.dtype) and item.dtype != "bool":
                return self.interval(a)
            case Unary(op, a) if is_integer(a.dtype):
                low, high = self.interval(a)
                return (~high, ~low) if op == "~" else (-high, -low)
            case Select(_, a, b):
                return _hull(*self.interval(a), *self.interval(b))
            case Binary("&", a, b) if is_integer(a.dtype) and self.interval(b)[0] >= 0:
                return 0, self.interval(b)[1]
            case Binary("&" | "|" | "^", a, _) if is_integer(a.dtype):
                return integer_range(a.dtype)
            case Binary(op, a, b) if is_integer(a.dtype):
                return _binary_interval(op, self.interval(a), self.interval(b))
            case Load() if item.dtype != "bool":
                return integer_range(item.dtype)
            case _:  # other nodes: nothing is known
                return None


def _hull(*ends: int) -> Interval:
    return min(ends), max(ends)


def _binary_interval(op: str, a: Interval, b: Interval) -> Interval | None:
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "*":
        return _hull(*(x * y for x in a for y in b))
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op == "//" and b[0] > 0:
        return _hull(*(x // y for x in a for y in b))
    if op == "%" and b[0] > 0:
        return 0, b[1] - 1
    return None
