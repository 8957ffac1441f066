"""Kinds of functions that a module may hold besides primitive ones, and the operations on each."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from minimlc.loops.values.module import IRModule
from minimlc.loops.values.parts import Hook

if TYPE_CHECKING:
    from minimlc.loops.ir.arguments import Parameter
    from minimlc.loops.ir.printer import TirPrinter


class Kind(NamedTuple):
    """A kind of function: the test for it; the check of one in a module, by its name; the printer
    of one under a name, with an option of its decorator; the parameters of a call; and the call.
    """

    holds: Callable[[object], bool]
    check: Callable[[IRModule, str, Any], None]
    write: Callable[["TirPrinter", Any, str, str], None]
    parameters: Callable[[Any], list["Parameter"]]
    call: Callable[[IRModule, str, Any, Sequence[Any]], Any]


KINDS = Hook[Kind]("kinds of functions")


def kind_of(func: object) -> Kind | None:
    """The kind of a function; None for a primitive function, and for anything else."""
    return next((kind for kind in KINDS if kind.holds(func)), None)
