"""Nested expressions in normal form: calls inside them get variables."""

from collections.abc import Callable
from typing import Any

from minimlc.graphs.ir.nodes import Call, Expr, Tuple, TupleGetItem, Var
from minimlc.loops.values.node import children, replace

Bind = Callable[[Expr], Var]
"""A new variable for a value in normal form."""


class Normal:
    """Brings values into normal form. `leaf` maps or refuses values that are no calls or tuples."""

    def __init__(self, bind: Bind, leaf: Callable[[Expr], Expr]):
        self.bind, self.leaf = bind, leaf

    def value(self, value: Expr) -> Expr:
        """`value` with variables or constants as operands; calls inside it are bound."""
        return self._with_atoms(value, self._bind_all(_calls_in_operands(value)))

    def atom(self, value: Expr) -> Expr:
        """A variable, a constant, or a tuple of them, that stands for `value`."""
        return self._atom(value, self._bind_all(_calls_in(value)))

    def _bind_all(self, calls: list[Expr]) -> dict[Expr, Var]:
        """Bind calls and the calls inside them, inner ones first, each node once."""
        done: dict[Expr, Var] = {}
        stack = calls[::-1]
        while stack:
            item = stack.pop()
            if item in done:
                continue
            waiting = [c for c in _calls_in_operands(item) if c not in done]
            if waiting:
                stack += [item, *waiting[::-1]]
            else:
                done[item] = self.bind(self._with_atoms(item, done))
        return done

    def _with_atoms(self, value: Expr, done: dict[Expr, Var]) -> Expr:
        match value:
            case Call():
                return replace(value, args=self._atoms(value.args, done))
            case TupleGetItem():
                return replace(value, tuple=self._atom(value.tuple, done))
            case _:  # other nodes: atoms
                return self._atom(value, done)

    def _atoms(self, values: tuple[Expr, ...], done: dict[Expr, Var]) -> list[Expr]:
        return [self._atom(value, done) for value in values]

    def _atom(self, value: Expr, done: dict[Expr, Var]) -> Expr:
        match value:
            case Call() | TupleGetItem():
                return done[value]
            case Tuple():
                return replace(value, fields=self._atoms(value.fields, done))
            case _:  # other nodes: by `leaf`
                return self.leaf(value)


def _calls_in(value: Any) -> list[Expr]:
    """The outermost calls in a value."""
    return [value] if isinstance(value, Call | TupleGetItem) else _calls_in_operands(value)


def _calls_in_operands(value: Any) -> list[Expr]:
    """The outermost calls among a value's operands."""
    parts = children(value) if isinstance(value, Expr) else ()
    return [call for part in parts for call in _calls_in(part)]
