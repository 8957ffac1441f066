"""Checked accesses, and the error that every target raises for an index outside its buffer."""

from collections.abc import Sequence
from typing import NamedTuple

from minimlc.loops.values.errors import BoundsError, Span


class Site(NamedTuple):
    """A checked access: which buffer, and where in the source."""

    buffer: str
    shape: tuple[int, ...]
    action: str
    span: Span | None


def outside(site: Site, indices: Sequence[int]) -> BoundsError:
    """The error of an access with these indices."""
    index = tuple(map(int, indices))
    axis = next(n for n, i in enumerate(index) if not 0 <= i < site.shape[n])
    return BoundsError(
        f"{site.action} of {site.buffer}[{', '.join(map(str, index))}] is outside its shape "
        f"{site.shape}",
        code="E609",
        span=site.span,
        example=f"axis {axis} has the indices 0 to {site.shape[axis] - 1}, "
        f"this one is {index[axis]}",
    )
