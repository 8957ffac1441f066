"""Nested graph expressions in normal form."""

from collections.abc import Callable
from typing import Any

from minimlc.graph.nodes import Call, Expr, Tuple, TupleGetItem
from minimlc.node import replace


def in_normal_form(value: Expr, bind: Callable[[Expr], Expr]) -> Expr:
    """`value`, and a variable by `bind` for each call inside it."""
    done: dict[Expr, Expr] = {}

    def inner(item: Any) -> Any:
        if item not in done and isinstance(item, Call | TupleGetItem):
            done[item] = bind(normal(item))
        return done.get(item) or normal(item)

    def normal(item: Expr) -> Expr:
        match item:
            case Call():
                return replace(item, args=list(map(inner, item.args)))
            case TupleGetItem():
                return replace(item, tuple=inner(item.tuple))
            case Tuple():
                return replace(item, fields=list(map(inner, item.fields)))
            case _:  # other nodes: atoms
                return item

    return normal(value)
