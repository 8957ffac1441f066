"""The table of primitives. Each enters itself where it is defined: a file of its own is enough."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from minimlc.tir.nodes import PrimFunc


class Decided(NamedTuple):
    """What a sampling primitive gives: the function, and what it chose (plain data).

    Such a primitive has an argument `decision=None`. The step's trace holds the choice under that
    name; given back at replay, it is taken instead of a new one.
    """

    func: PrimFunc
    decision: Any


Rule = Callable[..., PrimFunc | Decided]
R = TypeVar("R", bound=Rule)

PRIMITIVES: dict[str, Rule] = {}
"""Each primitive's rule: PrimFunc -> PrimFunc, by name."""

KEEPS_ORDER: set[str] = set()
"""The primitives after which every reduction takes its values in the same order as before: floats
must then agree to the bit.
"""


def primitive(*, keeps_order: bool) -> Callable[[R], R]:
    """Decorates a rule: it becomes a method of `Schedule` and a function of modules."""

    def enter(rule: R) -> R:
        PRIMITIVES[rule.__name__] = rule
        if keeps_order:
            KEEPS_ORDER.add(rule.__name__)
        return rule

    return enter
