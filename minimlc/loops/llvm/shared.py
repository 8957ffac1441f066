"""Equal parts of an expression are computed once.

    A[i] * exp(A[i])    -->    Let(a, A[i], a * exp(a))

Equal parts become one node of a graph (value numbering: J. Cocke, "Global Common Subexpression
Elimination", 1970). A node with several uses gets a name where it is sure to be needed, so nothing
is computed, and no memory is read, that was not before. What remains of a `Select` then often reads
no memory and needs no branch.
"""

from collections import Counter
from typing import Any

from minimlc.loops.ir.nodes import Binary, Const, Expr, Let, Load, Select, Store, Var
from minimlc.loops.values.node import Mutator, Node, children, replace

LEAF = Var | Const | Load | Let
"""Nothing in these gets a name: an index stays as it is written."""


class Share(Mutator):
    """Rewrites stored values so that parts with several uses are computed once."""

    def visit_Store(self, item: Store) -> Store:
        graph = _Unique().visit(item.value)
        return replace(item, value=_named(graph, {}))


class _Unique(Mutator):
    """Makes equal expressions one object."""

    def __init__(self) -> None:
        self.unique: dict[Node, Expr] = {}
        self.first: dict[Any, Expr] = {}

    def visit(self, value: Any) -> Any:
        if not isinstance(value, Expr):
            return super().visit(value)
        if value not in self.unique:
            item = value if isinstance(value, Let) else super().visit(value)
            self.unique[value] = self.first.setdefault(_key(item), item)
        return self.unique[value]


def _key(item: Expr) -> Any:
    """A key that is equal for expressions of the same kind on the same parts."""
    if isinstance(item, Var | Let):
        return item
    return type(item), *map(_mark, type(item)._values(item))


def _mark(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_mark, value))
    # -0.0 is not 0.0, and 1 is neither 1.0 nor True.
    return value if isinstance(value, Node) else (type(value), repr(value))


def _parts(item: Expr) -> tuple[Expr, ...]:
    return () if isinstance(item, LEAF) else tuple(p for p in children(item) if isinstance(p, Expr))


def _sure(item: Expr) -> tuple[Expr, ...]:
    """The parts that are evaluated whenever `item` is."""
    one_side = isinstance(item, Select) or (isinstance(item, Binary) and item.op in ("and", "or"))
    return _parts(item)[:1] if one_side else _parts(item)


def _inside(root: Expr, parts: Any, known: dict[Expr, Var]) -> list[Expr]:
    """Each expression that `parts` leads to from `root`, the inner before the outer."""
    order: dict[Expr, None] = {}

    def enter(item: Expr) -> None:
        if item not in order and item not in known:
            for part in parts(item):
                enter(part)
            order[item] = None

    enter(root)
    return list(order)


def _named(root: Expr, names: dict[Expr, Var]) -> Expr:
    """`root`, with names for its parts that have several uses, beside the `names` there are."""
    names = dict(names)
    uses = Counter(part for item in _inside(root, _parts, names) for part in _parts(item))
    steps = []
    for part in _inside(root, _sure, names):
        if uses[part] > 1 and not isinstance(part, Var | Const):
            value = _Names(names).visit(part)
            names[part] = Var("shared", part.dtype)
            steps.append((names[part], value))
    result = _Names(names).visit(root)
    for var, value in reversed(steps):
        result = Let(var, value, result)
    return result


class _Names(Mutator):
    """Puts names in; a part that may not be evaluated has separate names."""

    def __init__(self, names: dict[Expr, Var]):
        self.names = names

    def visit(self, value: Any) -> Any:
        if isinstance(value, LEAF) or value in self.names:
            return self.names.get(value, value)
        return super().visit(value)

    def visit_Select(self, item: Select) -> Expr:
        sides = {"a": _named(item.a, self.names), "b": _named(item.b, self.names)}
        return replace(item, condition=self.visit(item.condition), **sides)

    def visit_Binary(self, item: Binary) -> Expr:
        if item.op not in ("and", "or"):
            return self.visit_children(item)
        return replace(item, a=self.visit(item.a), b=_named(item.b, self.names))
