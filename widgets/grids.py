"""Buffers as grids of cells: the first axes run down, the others to the right."""

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import Buffer

MOST = 64
"""The most cells of a grid along a side."""


class Grid(NamedTuple):
    """`rows` × `columns` elements, drawn as cells of `tall` × `wide` of them."""

    rows: int
    columns: int
    tall: int = 1
    wide: int = 1

    @property
    def cells(self) -> tuple[int, int]:
        return -(-self.rows // self.tall), -(-self.columns // self.wide)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Values by element, summed by cell."""
        full = np.zeros(self.rows * self.columns, np.int64)
        full[: values.size] = values
        down, right = self.cells
        padded = np.zeros((down * self.tall, right * self.wide), np.int64)
        padded[: self.rows, : self.columns] = full.reshape(self.rows, self.columns)
        return padded.reshape(down, self.tall, right, self.wide).sum((1, 3))


def grid_of(buffer: Buffer) -> Grid:
    """The grid of a buffer: a long vector is folded like text, more than two axes are shared out so
    that the grid is as square as can be, and a large grid has larger cells.
    """
    size, shape = prod(buffer.shape), buffer.shape
    if buffer.ndim <= 1:
        columns = min(size, MOST)
    else:
        halves = [(prod(shape[:n]), prod(shape[n:])) for n in range(buffer.ndim - 1, 0, -1)]
        columns = min(halves, key=max)[1]
    columns = max(1, columns)
    rows = max(1, -(-size // columns))
    return Grid(rows, columns, -(-rows // MOST), -(-columns // MOST))


def shape_text(shape: tuple[int, ...]) -> str:
    """(2, 3) as "2 × 3"."""
    return " × ".join(map(str, shape)) or "a single element"


def element_text(buffer: Buffer, number: int) -> str:
    """An element by its number in row-major order, as "A[3, 5]"."""
    index = np.unravel_index(number, buffer.shape)
    return f"{buffer.name}[{', '.join(map(str, index))}]"


def runs(values: Iterable[Any]) -> list[int]:
    """Numbers as count, value, count, value, ...: neighbours are often the same."""
    found: list[int] = []
    for value in values:
        if found and found[-1] == value:
            found[-2] += 1
        else:
            found += [1, int(value)]
    return found
