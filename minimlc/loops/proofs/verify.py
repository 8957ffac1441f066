"""Well-formedness of whole modules, and warnings of programs without a certain meaning."""

import warnings
from collections.abc import Callable
from typing import Any

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.values.constants import unwritable
from minimlc.loops.values.errors import RaceWarning, VerifyError
from minimlc.loops.values.kinds import kind_of
from minimlc.loops.values.module import IRModule, not_a_module
from minimlc.loops.values.names import misnamed
from minimlc.loops.values.parts import Hook

RACES = Hook[Callable[[PrimFunc], Any]]("races")
"""The function that finds programs of a grid that race."""


def verify(mod: Any) -> Any:
    """`mod`, a module or a function, itself if it is well-formed; else a `VerifyError` that shows
    the first fault.
    """
    if not isinstance(mod, IRModule):
        if not isinstance(mod, PrimFunc) and kind_of(mod) is None:
            raise not_a_module(mod, "verify")
        return verify(IRModule.of({"main": mod}))["main"]
    if unwritable(mod.attrs):
        raise VerifyError(unwritable(mod.attrs), code="E101")
    for name, func in mod.entries:
        if misnamed("function", name):
            raise VerifyError(misnamed("function", name), code="E132")
        if isinstance(func, PrimFunc):
            check_prim_func(name, func)
        elif kind := kind_of(func):
            kind.check(mod, name, func)
        else:
            why = f"{name}: a module holds functions, not {type(func).__name__}"
            raise VerifyError(why, code="E132")
    return mod


def warn_of_races(mod: IRModule, stacklevel: int) -> None:
    """A `RaceWarning` for each function whose programs are seen to race."""
    for name, func in mod.entries:
        races = [race_of(func) for race_of in RACES if isinstance(func, PrimFunc)]
        for race in filter(None, races):
            why = f"E618: programs of {name} race: {race.explain()}, in no order that is certain"
            hint = "try: elements of its own for each program, or tile.atomic_add(C[at], value)"
            warnings.warn(f"{why}\n{hint}", RaceWarning, stacklevel=stacklevel + 1)
