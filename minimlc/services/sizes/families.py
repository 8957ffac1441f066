"""Kinds of functions with symbolic sizes: how they are checked, printed and called."""

from collections.abc import Sequence
from typing import Any

from minimlc.graphs.ir.nodes import Function, TensorType, Type
from minimlc.graphs.ir.sized import is_symbolic
from minimlc.graphs.run import GRAPH, call_graph, check_arguments, flatten, run
from minimlc.loops.interpreter.execute import execute
from minimlc.loops.interpreter.run import check_arguments as check_arrays
from minimlc.loops.ir.nodes import SymbolicFunc
from minimlc.loops.ir.printer import TirPrinter
from minimlc.loops.proofs.wellformed import check_symbolic_func
from minimlc.loops.values.errors import CallError
from minimlc.loops.values.kinds import Kind
from minimlc.loops.values.module import IRModule
from minimlc.services.runtime.memory import shape_of
from minimlc.services.sizes.printer_symbolic import write_symbolic
from minimlc.services.sizes.specialize import check_data_sizes, instance_for
from minimlc.services.sizes.symbolic_graphs import halves, labelled
from minimlc.services.sizes.symbolic_loops import instance, instance_of_call


def is_symbolic_func(func: object) -> bool:
    """Whether `func` is a primitive function of symbolic sizes."""
    return isinstance(func, SymbolicFunc)


def _check(mod: IRModule, name: str, func: SymbolicFunc) -> None:
    check_symbolic_func(name, func)


def _write(printer: TirPrinter, func: SymbolicFunc, name: str, option: str) -> None:
    write_symbolic(printer, func, name, f"@T.prim_func{option}")


def _call(mod: IRModule, name: str, func: SymbolicFunc, args: Sequence[Any]) -> None:
    sizes, arrays = instance_of_call(func, name, args)
    chosen = instance(func, sizes)
    execute(chosen, check_arrays(chosen, name, arrays))


SYMBOLIC = Kind(is_symbolic_func, _check, _write, lambda func: [], _call)


def call_family(mod: IRModule, name: str, func: Function, args: Sequence[Any]) -> Any:
    """The result of a call of a graph function with sizes that depend on the arguments, or on data
    in it: the rest after a data-dependent size is a separate function.
    """
    check_data_sizes(mod, name)
    return _called(mod, name, func, args)


def _called(mod: IRModule, name: str, func: Function, args: Sequence[Any]) -> Any:
    if not is_symbolic(func):
        return call_graph(mod, name, func, args)
    mod = instance_for(mod, name, func, types_of(func, args))
    chosen: Any = mod[name]
    arrays = check_arguments(chosen, name, args)
    parts = halves(mod, name)
    result = run(mod, parts.head if parts else chosen, arrays)
    if parts is None:
        return result
    rest: Any = parts.rest[name]
    return _called(parts.rest, name, rest, parts.arguments(name, arrays, result))


FAMILY = GRAPH._replace(holds=is_symbolic, call=call_family)


def types_of(func: Function, args: Sequence[Any]) -> list[Type]:
    """The types of a call's arguments as far as `func` needs them to know its sizes: their shapes.

    `CallError` for another number of them, and for one without a shape.
    """
    labels, values = [*labelled(func.params)], flatten(args)
    if len(values) != len(labels):
        why = f"the function takes {len(labels)} array(s), got {len(values)}"
        raise CallError(why, code="E601")
    for (name, kind), value in zip(labels, values, strict=True):
        if not isinstance(shape_of(value), tuple):
            why = f'argument "{name}" must be an array, got {type(value).__name__}'
            hint = f'numpy.asarray(value, "{kind.dtype}")'
            raise CallError(why, code="E602", hint=hint)
    pairs = zip(labels, values, strict=True)
    return [TensorType(shape_of(value) or (), kind.dtype) for (_, kind), value in pairs]
