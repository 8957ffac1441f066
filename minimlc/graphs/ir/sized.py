"""Sizes of a graph function that are known only at the call, or only from its data."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from minimlc.graphs.ir.dimensions import FAMILIES
from minimlc.graphs.ir.nodes import Binding, Call, Expr, Function, Type, size_names
from minimlc.loops.values.literals import names_in


def is_symbolic(func: object) -> bool:
    """Whether `func` is a graph function with sizes known at the call, or data-dependent ones."""
    if not isinstance(func, Function):
        return False
    return bool(size_names(*[p.type for p in func.params])) or data_tell(func)


def told_by(value: Expr) -> str | None:
    """The data-dependent size that a call defines, by name: `R.first(x, count, size="k")`."""
    if not isinstance(value, Call) or value.op != "first" or len(value.args) < 2:
        return None
    return next(iter(names_in(value.attr("size"))), None)


def sizes_in(binding: Binding) -> list[str]:
    """The names of the sizes in a binding's type and options."""
    value = binding.value
    options = names_in(tuple([v for _, v in value.attrs])) if isinstance(value, Call) else []
    return [*size_names(binding.var.type), *options]


_TELLING: WeakKeyDictionary[Function, bool] = WeakKeyDictionary()


def data_tell(func: Function) -> bool:
    """Whether a graph function has a data-dependent size."""
    known = _TELLING.get(func)
    if known is None:
        known = any(told_by(binding.value) is not None for binding in func.bindings())
        _TELLING[func] = known
    return known


def type_at(kind: Type, sizes: Mapping[str, Any]) -> Type:
    """A type where sizes have these values."""
    families = FAMILIES.first if sizes else None
    return families.type_at(kind, sizes) if families else kind
