"""Sizes known at the call, as graphs use them; where no part has such sizes, all are numbers."""

from collections.abc import Callable
from typing import Any

from minimlc.loops.values.literals import names_in
from minimlc.loops.values.parts import Hook

SIZES = Hook[Any]("sizes")
"""Their arithmetic, texts and bounds."""
FAMILIES = Hook[Any]("families")
"""The sizes of a function that its calls determine, and the function for these."""

CONTROL_FLOW = Hook[Any]("control flow")
"""Conditions and loops in graphs: their types, and what runs them."""


def size_of(value: Any) -> Any:
    """A size from its text, or from a name and its bounds; any other value as it is."""
    sizes = None if type(value) is int else SIZES.first
    return sizes.size_of(value) if sizes else value


def generic(rule: Callable[[], Any], values: Any) -> Any:
    """The answer of a rule where sizes in `values`, a nested tuple, may not be known."""
    sizes = SIZES.first if names_in(values) else None
    return sizes.generic(rule, values) if sizes else rule()
