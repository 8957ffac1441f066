"""Tiles: values of many elements at once, as expressions of their indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minimlc.loops.ir.nodes import Buffer, Expr, Load, Var, as_expr, index
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import nodes_of

Shape = tuple[int, ...]
Place = Sequence[Expr]


@dataclass(frozen=True)
class Tile:
    """One element for each place in a shape: `at(place)` is the element's expression. `buffer` is
    the one that holds them all, in order, if any.
    """

    shape: Shape
    at: Callable[[Place], Any]
    buffer: Buffer | None = None

    @property
    def element(self) -> Any:
        """Any one element: what all have in common."""
        return self.at([Var(f"i{axis}") for axis in range(len(self.shape))])

    @property
    def T(self) -> "Tile":
        """The rows as columns."""
        return Tile(self.shape[::-1], lambda place: self.at(place[::-1]))

    @property
    def is_read(self) -> bool:
        """Whether an element comes from memory."""
        return bool(nodes_of(self.element, Load))

    def reshaped(self, *added: bool) -> "Tile":
        """`self[:, None]`: a side of 1 where `added` is true."""
        sides = iter(self.shape)
        shape = tuple(1 if new else next(sides) for new in added)
        kept = [axis for axis, new in enumerate(added) if not new]
        return Tile(shape, lambda place: self.at([place[axis] for axis in kept]))


class Elements(Tile):
    """`A[rows, columns]`, elements of a buffer: where to load or store."""


def tile_of(value: Any) -> Tile:
    """A tile: itself, the elements of a buffer, or a number as one of shape ()."""
    if isinstance(value, Buffer):
        return Tile(value.shape, lambda place: Load(value, tuple(place)), value)
    return value if isinstance(value, Tile) else Tile((), lambda _: as_expr(value))


def broadcast(*values: Any) -> Shape:
    """The shape of an operation on tiles and numbers: sides of 1 are repeated."""
    shapes = [value.shape for value in values if isinstance(value, Tile)]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        why = f"tiles of shapes {' and '.join(map(str, shapes))} do not match"
        hint = "x[:, None] is a column, x[None, :] is a row"
        raise CompileError(why, code="E109", hint=hint) from None


def spread(value: Any, place: Place) -> Any:
    """The element of a tile at a place of a larger one; a number is the same everywhere."""
    if not isinstance(value, Tile):
        return value
    tail = place[len(place) - len(value.shape) :]
    sides = zip(value.shape, tail, strict=True)
    return value.at([index(0) if side == 1 else part for side, part in sides])


def each(function: Callable[..., Any], *values: Any) -> Any:
    """A function of numbers, applied to each element of tiles; of numbers alone it is a number."""
    if not any(isinstance(value, Tile) for value in values):
        return function(*values)
    result = Tile(broadcast(*values), lambda at: function(*(spread(value, at) for value in values)))
    _ = result.element  # wrong operands are refused here, not where an element is needed
    return result
