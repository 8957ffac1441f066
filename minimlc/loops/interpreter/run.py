"""The reference interpreter: what a program means. Every backend is compared with it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from minimlc.loops.interpreter.execute import execute
from minimlc.loops.ir.arguments import Arguments, parameters_of, view_of
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.proofs.verify import warn_of_races
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.kinds import kind_of
from minimlc.loops.values.module import IRModule, not_a_module


def interpret(mod: IRModule, name: str, *args: np.ndarray) -> Any:
    """Run the function `name` of `mod` on numpy arrays.

    A primitive function writes its results into its arguments (destination passing) and gives
    None; a graph function gives its result, a tuple for a tuple. `CallError` names the argument
    that does not fit; `BoundsError` an access outside its buffer; `CompileError` E131 an element of
    its own buffers that was never written, where something depends on it.
    """
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "mlc.interpret", "a module")
    warn_of_races(mod, stacklevel=2)
    return owned(call(mod, name, args))


def owned(result: Any) -> Any:
    """Copies of arrays, in tuples or alone, which the caller owns."""
    if isinstance(result, tuple | list):
        return tuple(map(owned, result))
    if result is None or hasattr(result, "copy"):
        return None if result is None else result.copy()
    return view_of(result).copy()


def call(mod: IRModule, name: str, args: Sequence[Any]) -> Any:
    """The result of a call of the function `name` of a module."""
    func: Any = mod[name]
    if isinstance(func, PrimFunc):
        execute(func, check_arguments(func, name, args))
        return None
    kind = kind_of(func)
    if kind is None:
        raise CompileError(f'"{name}" is a {type(func).__name__}, not a function')
    return kind.call(mod, name, func, args)


def check_arguments(
    func: PrimFunc, name: str, args: Sequence[Any], named: Iterable[str] = ()
) -> list[Any]:
    """The arguments, as plain arrays; `CallError` names one that `func` cannot take, and why."""
    arguments = Arguments(name, parameters_of(func))
    if named or len(args) != len(func.params):
        raise arguments.miscounted(len(args), len(func.params), named)
    return [*arguments.check_strided(args)]
