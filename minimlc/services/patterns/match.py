"""Matches of patterns, and the facts about values that patterns need."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minimlc.graphs.ir.nodes import JOINTS, Call, Constant, Expr, Function, Var
from minimlc.graphs.ops.checks import fits, refuse
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.node import nodes_of, structural_equal
from minimlc.services.sizes.sizes import Size

Parts = Mapping[Any, Expr]
"""The value of each part of a pattern, as far as it is known."""


class Surroundings(NamedTuple):
    """The function around a value: its bindings, and how often variables are used."""

    lookup: Callable[[Expr], Expr | None]
    uses: Mapping[Var, int]

    def value(self, item: Expr) -> Expr:
        """The value bound to a variable, through mere aliases; a parameter is itself."""
        while isinstance(item, Var) and (bound := self.lookup(item)) is not None:
            item = bound
        return item


@dataclass(frozen=True, eq=False, repr=False)
class Match:
    """Where a pattern fits: `match[part]` is the value that a part of it stands for, a variable, a
    constant, or the call that is looked at; `part in match` is whether it is there.
    """

    pattern: Any
    parts: Parts
    around: Surroundings
    function: str = ""

    def __getitem__(self, part: Any) -> Expr:
        if part not in self.parts:
            why = f"the part {part!r} does not stand for anything here"
            refuse(why, "E233", f"the parts of {self.pattern!r} are the very objects in it")
        return self.parts[part]

    def __contains__(self, part: object) -> bool:
        return part in self.parts

    def value(self, part: Any) -> Any:
        """The call that a part stands for, or the constant; a parameter is its variable."""
        return self.around.value(self[part])

    @property
    def var(self) -> Any:
        """The variable of the whole, as `Pattern.match` gives it."""
        return self[self.pattern]

    def __repr__(self) -> str:
        return f"{self.pattern!r} at {self.var!r} of {self.function}"


def live_uses(func: Function) -> Counter[Var]:
    """The number of uses of each variable that matter: for the result, and calls of functions."""
    uses = Counter(nodes_of(func.result, Var))
    for binding in reversed(list(func.bindings())):
        value = binding.value
        if binding.var in uses or (isinstance(value, Call) and value.op in JOINTS):
            uses.update(nodes_of(value, Var))
    return uses


def same(a: Expr, b: Expr) -> bool:
    """Whether two operands surely have the same value."""
    constants = isinstance(a, Constant) and isinstance(b, Constant) and a.type == b.type
    return a is b or (constants and structural_equal(a, b))


def elements(item: Expr) -> np.ndarray | None:
    """The elements of a constant; of a tensor that is filled with a number, one of them."""
    match item:
        case Constant(data):
            return data
        case Call("full") if not isinstance(item.attr("value"), Size):
            return np.array(item.attr("value")).astype(to_numpy(item.dtype))
        case Call("zeros" | "ones"):
            return np.array(item.op == "ones").astype(to_numpy(item.dtype))
        case _:  # other nodes: not known
            return None


def is_filled(data: np.ndarray, number: float) -> bool:
    """Whether all elements are, to the bit, a number in the dtype of `data`, which must have it."""
    dtype = data.dtype.name
    if isinstance(number, bool) != (dtype == "bool") or not fits(number, dtype):
        return False
    with np.errstate(all="ignore"):
        bits = np.array(number).astype(data.dtype).reshape(1).view(f"u{data.dtype.itemsize}")
    flat = data.reshape(-1).view(bits.dtype)
    return bool((flat[:1] == bits).all() and (flat == bits).all())
