"""Calls of graph functions, interpreted: their values are arrays, and tuples of them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from inspect import unwrap
from types import TracebackType
from typing import Any

import numpy as np

from minimlc.graphs.execute import execute
from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.ir.dimensions import CONTROL_FLOW
from minimlc.graphs.ir.nodes import called
from minimlc.graphs.ir.registry import get_function
from minimlc.graphs.ops import evaluate
from minimlc.graphs.wellformed import check_function
from minimlc.loops.interpreter.elements import poison
from minimlc.loops.interpreter.run import call as call_function
from minimlc.loops.ir.arguments import Arguments, Parameter
from minimlc.loops.ir.printer import TirPrinter
from minimlc.loops.values.errors import CallError, Span, source_line
from minimlc.loops.values.kinds import Kind
from minimlc.loops.values.module import IRModule


def is_graph(func: object) -> bool:
    """Whether `func` is a graph function."""
    return isinstance(func, ir.Function)


def write(printer: TirPrinter, func: ir.Function, name: str, option: str) -> None:
    """Print a graph function."""
    printer.graph_function(func, name, f"@R.function{option}")  # type: ignore[attr-defined]


def parameters(func: ir.Function) -> list[Parameter]:
    """The parameters of a call; the fields of a tuple count one by one."""
    return [part for param in func.params for part in _fields(param.name, param.type)]


def _fields(label: str, kind: ir.Type) -> Iterator[Parameter]:
    if isinstance(kind, ir.TupleType):
        for number, part in enumerate(kind.fields):
            yield from _fields(f"{label}[{number}]", part)
    else:
        yield Parameter(label, kind.shape, kind.dtype, False)


def call_graph(mod: IRModule, name: str, func: ir.Function, args: Sequence[Any]) -> Any:
    """The result of a call of a graph function."""
    return run(mod, func, check_arguments(func, name, args))


def run(mod: IRModule, func: ir.Function, arrays: Iterable[Any]) -> Any:
    """The result of a graph function, whose callees are in `mod`, for arrays that fit."""
    return execute(func, arrays, lambda item: item.data, partial(_graph_call, mod))


GRAPH = Kind(is_graph, check_function, write, parameters, call_graph)


def check_arguments(
    func: ir.Function, name: str, args: Sequence[Any], named: Iterable[str] = ()
) -> list[Any]:
    """The arguments, as plain arrays, in tuples where the function takes these; `CallError` for
    one that `func` cannot take, with the reason.
    """
    arguments = Arguments(name, parameters(func))
    if named or len(args) != len(func.params):
        raise arguments.miscounted(len(args), len(func.params), named)
    leaves: list[Any] = []
    for param, arg in zip(func.params, args, strict=True):
        leaves += _leaves(name, param.name, param.type, arg)
    plain = iter(arguments.check_strided(leaves))
    return [nest(param.type, plain) for param in func.params]


def _leaves(function: str, label: str, kind: ir.Type, arg: Any) -> list[Any]:
    """The values of an argument where its type has tensors; `CallError` for a differing tuple."""
    if not isinstance(kind, ir.TupleType):
        return [arg]
    if not isinstance(arg, tuple | list) or len(arg) != len(kind.fields):
        why = f'argument "{label}" of {function} must be a tuple of {len(kind.fields)}'
        raise CallError(why, code="E602")
    fields = enumerate(zip(kind.fields, arg, strict=True))
    return [leaf for at, pair in fields for leaf in _leaves(function, f"{label}[{at}]", *pair)]


def _graph_call(mod: IRModule, call: ir.Call, args: list[Any]) -> Any:
    if call.op == "call":
        return call_function(mod, call.callee, args)
    if control := CONTROL_FLOW.first if call.op in ir.CONTROL else None:
        functions = {key: partial(_called, mod, name) for key, name in called(call)}
        return control.run(call, args, functions, lambda kind: poison(kind.shape, kind.dtype))
    if call.op in ir.JOINTS:
        types = ir.tensor_types(call.type)
        outs = [poison(t.shape, t.dtype) for t in types]
        if call.op == "call_tir":
            call_function(mod, call.callee, [*flatten(args), *outs])
        else:
            call_packed(call.callee, flatten(args), outs)
        return nest(call.type, iter(outs))
    return evaluate(call, args)


def _called(mod: IRModule, name: str, *args: Any) -> Any:
    return call_function(mod, name, args)


def call_packed(name: str, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
    """Call the registered function `name`, with arrays that can be exported through DLPack.

    `CallError` if it raises, and if it returns a new array: then its outputs are not
    written.
    """
    function = get_function(name)
    arrays = [a if a.flags.writeable else a.copy() for a in inputs]
    try:
        result = function(*arrays, *outs)
    except Exception as error:
        raise _explain_packed(name, error, inputs, outs) from error
    if isinstance(result, np.ndarray) and not any(np.may_share_memory(result, o) for o in outs):
        why = f'the registered function "{name}" returned an array instead of writing its output'
        hint = "write the result into the last argument, for example out[:] = ..."
        raise CallError(why, code="E611", hint=hint)


def _explain_packed(
    name: str, error: Exception, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray]
) -> CallError:
    """The error for an exception of a registered function: its line, and the arrays of the call."""
    message = "\n".join([type(error).__name__, *str(error).split("\n")][:4]).replace("\n", ": ", 1)
    taken, filled = (
        ", ".join(f"{array.dtype.name} {array.shape}" for array in arrays) or "nothing"
        for arrays in (inputs, outs)
    )
    called = error.__traceback__ and error.__traceback__.tb_next
    fits = called is not None or not isinstance(error, TypeError)
    count = len(inputs) + len(outs)
    why = "raised" if fits else f"cannot be called with {count} array(s):"
    why = f'the registered function "{name}" {why} {message}'
    example = f"it was given {taken}; to fill {filled}"
    hint = "" if fits else f"take {len(inputs)} input(s), then {len(outs)} output(s) to fill"
    return CallError(why, code="E613", span=_deepest_span(called, name), example=example, hint=hint)


def _deepest_span(called: TracebackType | None, name: str) -> Span | None:
    """The last line that ran in the file of the registered function, or of the one it wraps."""
    if called is None:
        return None
    code = getattr(unwrap(get_function(name)), "__code__", called.tb_frame.f_code)
    filename, line = code.co_filename, code.co_firstlineno
    while called is not None:
        if called.tb_frame.f_code.co_filename == filename:
            line = called.tb_lineno
        called = called.tb_next
    text = source_line(filename, line)
    return Span(filename, line, len(text) - len(text.lstrip()), len(text), text)


def flatten(values: Sequence[Any]) -> list[Any]:
    """The values in nested tuples, in order."""
    flat: list[Any] = []
    for value in values:
        flat += flatten(value) if isinstance(value, tuple | list) else [value]
    return flat


def nest(kind: ir.Type, values: Iterator[Any]) -> Any:
    """Values from an iterator, put into tuples as in a type."""
    if isinstance(kind, ir.TupleType):
        return tuple(nest(field, values) for field in kind.fields)
    return next(values)
