"""Elements of buffers, as the interpreter keeps and finds them."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.ir.nodes import Buffer
from minimlc.loops.proofs.unwritten import Unwritten
from minimlc.loops.values.dtypes import integer_range, is_float, to_numpy
from minimlc.loops.values.errors import BoundsError, Span

Frame = list[Any]
"""The current values of variables and buffers."""
Eval = Callable[[Frame], Any]


def poison(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A new array that shows where undefined content is read: NaN, or an integer's extreme."""
    if is_float(dtype):
        return np.full(shape, np.nan, to_numpy(dtype))
    if dtype == "bool":
        return np.ones(shape, np.bool_)
    low, high = integer_range(dtype)
    return np.full(shape, low or high, to_numpy(dtype))


class Marks(NamedTuple):
    """The elements of a buffer that were written; for an unwritten one, the source of its value."""

    written: np.ndarray
    sources: dict[tuple[int, ...], Unwritten]


def marks_of(buffer: Buffer) -> Hashable:
    """The key of the slot that holds a buffer's marks."""
    return buffer, "written"


def checked_place(buffer: Buffer, indices: Sequence[Eval], span: Span | None) -> Eval:
    """The place of an element as a tuple; `BoundsError` where an index is outside the buffer."""
    shape = buffer.shape

    def refuse(values: tuple[int, ...]) -> BoundsError:
        listed = ", ".join(map(str, values))
        axis = next(a for a, v in enumerate(values) if not 0 <= v < shape[a])
        return BoundsError(
            f"{buffer.name}[{listed}] is outside {buffer.name}, whose shape is {shape}",
            code="E609",
            span=span,
            example=f"index {values[axis]} along axis {axis} of size {shape[axis]}",
        )

    def place(frame: Frame) -> tuple[int, ...]:
        values = tuple([i(frame) for i in indices])
        for value, size in zip(values, shape, strict=True):
            if not 0 <= value < size:
                raise refuse(values)
        return values

    if len(indices) == 1:  # one and two dimensions are quicker without a loop
        only, length = indices[0], shape[0]

        def place1(frame: Frame) -> tuple[int, ...]:
            i = only(frame)
            if 0 <= i < length:
                return (i,)
            raise refuse((i,))

        return place1
    if len(indices) == 2:
        first, second = indices
        rows, columns = shape

        def place2(frame: Frame) -> tuple[int, ...]:
            i, j = first(frame), second(frame)
            if 0 <= i < rows and 0 <= j < columns:
                return (i, j)
            raise refuse((i, j))

        return place2
    return place
