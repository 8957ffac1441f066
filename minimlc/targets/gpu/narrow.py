"""Indices in 32 bits: a GPU has one adder for those, and computes 64 bits in several steps.

Indices of the loop IR are int64. Where the bounds of loops prove that a value fits into int32, as
in nearly every index, it is computed there; the values are the same.
"""

from collections.abc import Iterable

from minimlc.loops.ir import nodes as tir
from minimlc.loops.values.dtypes import INDEX, integer_range
from minimlc.loops.values.node import Mutator, replace
from minimlc.targets.gpu.kernels import Kernel
from minimlc.targets.source.interval import Intervals

NARROW = "int32"
_WITHIN = ("int32", "int16", "int8", "uint16", "uint8")
"""Integers whose values all fit."""


def narrow(kernel: Kernel) -> Kernel:
    """A kernel whose loops and axes count in 32 bits where that is enough."""
    rewrite = _Narrow()
    axes = tuple(axis._replace(var=rewrite.counter(axis.var, axis.extent)) for axis in kernel.axes)
    return kernel._replace(axes=axes, body=rewrite.visit(kernel.body))


class _Narrow(Mutator):
    """Replaces variables by narrow ones; an expression that must stay wide casts them."""

    def __init__(self) -> None:
        self.bounds = Intervals()
        self.twins: dict[tir.Var, tir.Var] = {}

    def counter(self, var: tir.Var, most: int) -> tir.Var:
        """The variable that counts up to `most` in the place of `var`."""
        self.bounds.ranges[var] = 0, max(0, most - 1)
        if var.dtype != INDEX or most > integer_range(NARROW)[1]:
            return var
        self.twins[var] = tir.Var(var.name, NARROW)
        return self.twins[var]

    def short(self, item: tir.Expr) -> tir.Expr | None:
        """An integer in 32 bits; None where it is not known to fit."""
        if item.dtype in _WITHIN:
            new = self.visit(item)
            return new if item.dtype == NARROW else tir.Cast(NARROW, new)
        if item.dtype != INDEX or not self.bounds.stays_in(item, NARROW):
            return None
        match item:
            case tir.Var():
                return self.twins.get(item)
            case tir.Const(value):
                return tir.Const(value, NARROW)
            case tir.Cast(_, a) if a.dtype in _WITHIN or a.dtype == INDEX:
                return self.short(a)
            case tir.Binary("+" | "-" | "*" | "//" | "%" | "min" | "max", a, b):
                return _whole(item, {"a": self.short(a), "b": self.short(b)})
            case tir.Select(condition, a, b):
                new = _whole(item, {"a": self.short(a), "b": self.short(b)})
                return None if new is None else replace(new, condition=self.visit(condition))
            case _:  # other nodes: computed in 64 bits
                return None

    def index(self, item: tir.Expr) -> tir.Expr:
        """An expression where any integer dtype will do."""
        new = self.short(item)
        return self.visit(item) if new is None else new

    def indices(self, items: Iterable[tir.Expr]) -> tuple[tir.Expr, ...]:
        return tuple(map(self.index, items))

    def visit_Var(self, item: tir.Var) -> tir.Expr:
        return tir.Cast(INDEX, self.twins[item]) if item in self.twins else item

    def visit_Binary(self, item: tir.Binary) -> tir.Expr:
        if item.a.dtype != INDEX:
            return self.visit_children(item)
        if item.op in tir.COMPARISONS:
            new = _whole(item, {"a": self.short(item.a), "b": self.short(item.b)})
            return self.visit_children(item) if new is None else new
        new = self.short(item)
        return self.visit_children(item) if new is None else tir.Cast(INDEX, new)

    def visit_Cast(self, item: tir.Cast) -> tir.Expr:
        new = self.short(item.a) if item.a.dtype == INDEX else None
        return self.visit_children(item) if new is None else tir.Cast(item.dtype, new)

    def visit_Load(self, item: tir.Load) -> tir.Expr:
        return replace(item, indices=self.indices(item.indices))

    def visit_Store(self, item: tir.Store) -> tir.Store:
        return replace(item, indices=self.indices(item.indices), value=self.visit(item.value))

    def visit_For(self, item: tir.For) -> tir.For:
        extent = self.short(item.extent)
        most = self.bounds.interval(item.extent)[1]
        var = item.var if extent is None else self.counter(item.var, most)
        self.bounds.ranges.setdefault(item.var, (0, max(0, most - 1)))
        extent = self.visit(item.extent) if extent is None else extent
        return replace(item, var=var, extent=extent, body=self.visit(item.body))


def _whole(item: tir.Expr, parts: dict[str, tir.Expr | None]) -> tir.Expr | None:
    """`item` with new parts; None if one of them is missing."""
    missing = any(part is None for part in parts.values())
    return None if missing else replace(item, **parts)
