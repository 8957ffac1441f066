"""Tiles: values of many elements at once, as expressions of their indices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from minimlc.errors import CompileError
from minimlc.node import nodes_of
from minimlc.tir.nodes import Buffer, Expr, Load, Var, as_expr, index, load

Shape = tuple[int, ...]
Place = Sequence[Expr]


@dataclass(frozen=True)
class Tile:
    """One element for each place in a shape: `at(indices)` is the element's expression."""

    shape: Shape
    at: Callable[[Place], Expr]

    @property
    def element(self) -> Expr:
        """Any one element: what all have in common."""
        return self.at([Var(f"i{axis}") for axis in range(len(self.shape))])

    @property
    def dtype(self) -> str:
        return self.element.dtype

    @property
    def T(self) -> "Tile":
        """The rows as columns."""
        return Tile(self.shape[::-1], lambda place: self.at(list(reversed(place))))

    @property
    def is_read(self) -> bool:
        """Whether an element comes from memory."""
        return bool(nodes_of(self.element, Load))


class Elements(NamedTuple):
    """Elements of a buffer, one for each place in a tile."""

    buffer: Buffer
    indices: tuple[Tile, ...]

    @property
    def shape(self) -> Shape:
        return broadcast(*(part.shape for part in self.indices))

    def at(self, place: Place) -> list[Expr]:
        """Which element is at a place of the tile."""
        return [spread(part, place) for part in self.indices]


def broadcast(*shapes: Shape) -> Shape:
    """The shape of an operation on tiles of these shapes: sides of 1 are repeated."""
    result: list[int] = []
    for shape in shapes:
        longer, shorter = (result, shape) if len(result) >= len(shape) else (list(shape), result)
        missing = len(longer) - len(shorter)
        sides = zip(longer, [1] * missing + list(shorter), strict=True)
        result = [b if a == 1 else a for a, b in sides]
    for shape in shapes:
        ends = zip(reversed(result), reversed(shape), strict=False)
        if any(side not in (1, whole) for whole, side in ends):
            shown = " and ".join(map(str, shapes))
            raise CompileError(
                f"tiles of shapes {shown} do not match",
                code="E109",
                hint="x[:, None] is a column, x[None, :] is a row",
            )
    return tuple(result)


def spread(value: Any, place: Place) -> Expr:
    """The element of a value at a place of a larger tile."""
    if not isinstance(value, Tile):
        return as_expr(value)
    own = place[len(place) - len(value.shape) :]
    ends = zip(value.shape, own, strict=True)
    return value.at([index(0) if side == 1 else part for side, part in ends])


def shape_of(value: Any) -> Shape:
    """The shape of a tile; that of a number is ()."""
    return value.shape if isinstance(value, Tile) else ()


def each(function: Callable[..., Expr], *values: Any) -> Tile:
    """A function of numbers, applied to each element of tiles and numbers."""

    def at(place: Place) -> Expr:
        return function(*(v if _is_number(v) else spread(v, place) for v in values))

    result = Tile(broadcast(*map(shape_of, values)), at)
    _ = result.element  # wrong operands are refused here, not where an element is needed
    return result


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


def reshaped(value: Tile, added: Sequence[bool]) -> Tile:
    """`value[:, None]`: a side of 1 where `added` says so."""
    sides = iter(value.shape)
    shape = tuple(1 if new else next(sides) for new in added)
    kept = [axis for axis, new in enumerate(added) if not new]
    return Tile(shape, lambda place: value.at([place[axis] for axis in kept]))


def counted(start: int, stop: int) -> Tile:
    """start ... stop-1."""
    return Tile((stop - start,), lambda place: place[0] + start if start else place[0])


def filled(shape: Shape, value: Any, dtype: str | None = None) -> Tile:
    """One number everywhere."""
    return Tile(shape, lambda _: as_expr(value, dtype))


def of_buffer(buffer: Buffer) -> Tile:
    """What a buffer holds."""
    return Tile(buffer.shape, lambda place: load(buffer, place))
