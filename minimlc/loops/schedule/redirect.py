"""Accesses sent elsewhere: the one way in which primitives replace reads and writes of buffers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minimlc.loops.ir.nodes import Buffer, Expr, Load, PrimFunc, Store, used
from minimlc.loops.values.node import Mutator, replace

At = Callable[[Sequence[Expr]], Sequence[Expr]]
"""An element's indices in the new buffer, from those in the old one."""
Move = Callable[[Any], Any]
"""The replacement of a load or a store, after its parts were redirected."""


class Redirect(Mutator):
    """Makes every access of some buffers another one: `moves` gives it, by buffer. An expression
    that reads none of them stays as it is.

    `stores=False` leaves the stores as they are.
    """

    def __init__(self, moves: Mapping[Buffer, Move], *, stores: bool = True):
        self.moves, self.stores = moves, stores

    def visit(self, value: Any) -> Any:
        if isinstance(value, Expr) and self.moves.keys().isdisjoint(used(value)[1]):
            return value
        return super().visit(value)

    def visit_Load(self, item: Load) -> Any:
        item = self.visit_children(item)
        return self.moves[item.buffer](item) if item.buffer in self.moves else item

    def visit_Store(self, item: Store) -> Any:
        item = self.visit_children(item)
        moved = self.stores and item.buffer in self.moves
        return self.moves[item.buffer](item) if moved else item


def to(buffer: Buffer, at: At = tuple) -> Move:
    """The same access of another buffer, at the indices from `at`."""
    return lambda item: replace(item, buffer=buffer, indices=tuple(at(item.indices)))


def fixed(indices: Sequence[Expr]) -> At:
    """One and the same place, whatever the old indices were."""
    return lambda _: indices


def with_storage(func: PrimFunc, buffers: Mapping[Buffer, Buffer], at: At = tuple) -> PrimFunc:
    """`func` with some allocations exchanged for others, with elements at the indices from `at`."""
    if not buffers:
        return func
    allocs = tuple(buffers.get(buffer, buffer) for buffer in func.allocs)
    moves = {old: to(new, at) for old, new in buffers.items()}
    return replace(func, allocs=allocs, body=Redirect(moves).visit(func.body))
