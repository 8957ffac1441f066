"""The reference interpreter: what a program means. Every backend is compared with it."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from inspect import unwrap
from types import TracebackType
from typing import Any

import numpy as np

from minimlc.arguments import Arguments, parameters_of, view_of
from minimlc.errors import CallError, CompileError, Span, source_line
from minimlc.graph import control
from minimlc.graph import nodes as graph
from minimlc.graph.execute import execute as execute_graph
from minimlc.graph.ops import evaluate
from minimlc.graph.sized import is_symbolic
from minimlc.graph.symbolic import halves, labelled
from minimlc.memory import shape_of
from minimlc.module import IRModule, not_a_module
from minimlc.registry import get_function
from minimlc.specialize import check_told, instance_for
from minimlc.tir.execute import execute, poison
from minimlc.tir.nodes import Buffer, PrimFunc, SymbolicFunc
from minimlc.tir.symbolic import instance, instance_of_call
from minimlc.verify import warn_of_races


def interpret(mod: IRModule, name: str, *args: np.ndarray) -> Any:
    """Run the function `name` of `mod` on numpy arrays.

    A primitive function writes its results into its arguments (destination passing) and gives
    None; a graph function gives its result, a tuple for a tuple. `CallError` names the argument
    that does not fit; `BoundsError` an access outside its buffer; `CompileError` E131 an element of
    its own buffers that was never written, where something depends on it.
    """
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "mlc.interpret", "a module")
    if is_symbolic(mod[name]):
        check_told(mod, name)
    warn_of_races(mod, stacklevel=2)
    return owned(_call(mod, name, args))


def owned(result: Any) -> Any:
    """Arrays, in tuples or alone, of the caller's own."""
    if isinstance(result, tuple | list):
        return tuple(map(owned, result))
    if result is None or hasattr(result, "copy"):
        return None if result is None else result.copy()
    return view_of(result).copy()


def _call(mod: IRModule, name: str, args: Sequence[Any]) -> Any:
    func: Any = mod[name]
    if isinstance(func, SymbolicFunc):
        sizes, args = instance_of_call(func, name, args)
        func = instance(func, sizes)
    if isinstance(func, PrimFunc):
        execute(func, check_arguments(func, name, args))
        return None
    if is_symbolic(func):
        mod = instance_for(mod, name, func, types_of(func, args))
        func = mod[name]
    if isinstance(func, graph.Function):
        arrays = check_arguments(func, name, args)
        parts = halves(mod, name)
        whole = parts.head if parts else func
        result = execute_graph(whole, arrays, lambda item: item.data, partial(_graph_call, mod))
        if not parts:
            return result
        return _call(parts.rest, name, parts.arguments(name, arrays, result))
    raise CompileError(f'"{name}" is a {type(func).__name__}, not a function')


def check_arguments(
    func: PrimFunc | graph.Function, name: str, args: Sequence[Any], named: Iterable[str] = ()
) -> list[Any]:
    """The arguments, as plain arrays; `CallError` says which one `func` cannot take, and why."""
    arguments = Arguments(name, parameters_of(func))
    params: Sequence[Any] = func.params
    kinds = [p if isinstance(p, Buffer) else p.type for p in params]
    if named or len(args) != len(kinds):
        raise arguments.miscounted(len(args), len(kinds), named)
    leaves: list[Any] = []
    for param, kind, arg in zip(params, kinds, args, strict=True):
        leaves += _leaves(name, param.name, kind, arg)
    plain = iter(arguments.check_strided(leaves))
    return [nest(kind, plain) for kind in kinds]


def _leaves(function: str, label: str, kind: Buffer | graph.Type, arg: Any) -> list[Any]:
    """What an argument has where its type has tensors; `CallError` for other tuples than those."""
    if not isinstance(kind, graph.TupleType):
        return [arg]
    if not isinstance(arg, tuple | list) or len(arg) != len(kind.fields):
        why = f'argument "{label}" of {function} must be a tuple of {len(kind.fields)}'
        raise CallError(why, code="E602")
    fields = enumerate(zip(kind.fields, arg, strict=True))
    return [leaf for at, pair in fields for leaf in _leaves(function, f"{label}[{at}]", *pair)]


def _graph_call(mod: IRModule, call: graph.Call, args: list[Any]) -> Any:
    if call.op == "call":
        return _call(mod, call.callee, args)
    if call.op in graph.CONTROL:
        functions = {key: partial(_called, mod, name) for key, name in graph.called(call)}
        return control.run(call, args, functions, lambda kind: poison(kind.shape, kind.dtype))
    if call.op in graph.JOINTS:
        types = graph.tensor_types(call.type)
        outs = [poison(t.shape, t.dtype) for t in types]
        if call.op == "call_tir":
            _call(mod, call.callee, [*flatten(args), *outs])
        else:
            call_packed(call.callee, flatten(args), outs)
        return nest(call.type, iter(outs))
    return evaluate(call, args)


def _called(mod: IRModule, name: str, *args: Any) -> Any:
    return _call(mod, name, args)


def types_of(func: graph.Function, args: Sequence[Any]) -> list[graph.Type]:
    """The types of a call's arguments as far as `func` needs them to know its sizes: their shapes.

    `CallError` for another number of them, and for what has no shape.
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
    return [graph.TensorType(shape_of(value) or (), kind.dtype) for (_, kind), value in pairs]


def call_packed(name: str, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
    """Call the registered function `name`; what it is given can be exported through DLPack.

    `CallError` if it raises, and if it returns an array of its own: then its outputs are not
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
    """What a registered function raised, where in its file, and for which arrays."""
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
    """The last line that ran in the file of the registered function, or of what it wraps."""
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
    """What nested tuples hold, in order."""
    flat: list[Any] = []
    for value in values:
        flat += flatten(value) if isinstance(value, tuple | list) else [value]
    return flat


def nest(kind: Buffer | graph.Type, values: Iterator[Any]) -> Any:
    """Values from an iterator, put into tuples as a type says."""
    if isinstance(kind, graph.TupleType):
        return tuple(nest(field, values) for field in kind.fields)
    return next(values)
