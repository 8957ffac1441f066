"""The reference interpreter: what a program means. Every backend is compared with it."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from minimlc.dtypes import dtype_name, to_numpy
from minimlc.errors import CallError, CompileError, Span, fitting_array, source_line
from minimlc.graph import nodes as graph
from minimlc.graph.ops import evaluate
from minimlc.module import IRModule, not_a_module
from minimlc.node import Node, walk
from minimlc.registry import get_function
from minimlc.tir.execute import execute, poison
from minimlc.tir.nodes import Buffer, PrimFunc, Store


def interpret(mod: IRModule, name: str, *args: np.ndarray) -> Any:
    """Run the function `name` of `mod` on numpy arrays.

    A primitive function writes its results into its arguments (destination passing) and gives
    None; a graph function gives its result, a tuple for a tuple. `CallError` names the argument
    that does not fit; `BoundsError` an access outside its buffer; `CompileError` E131 an element of
    its own buffers that was never written, where something depends on it.
    """
    if not isinstance(mod, IRModule):
        raise not_a_module(mod, "mlc.interpret", "a module")
    return _call(mod, name, args)


def _call(mod: IRModule, name: str, args: Sequence[Any]) -> Any:
    func = mod[name]
    if isinstance(func, PrimFunc):
        execute(func, check_arguments(func, name, args))
        return None
    if isinstance(func, graph.Function):
        return _run_graph(mod, func, check_arguments(func, name, args))
    raise CompileError(f'"{name}" is a {type(func).__name__}, not a function')


# Arguments


def check_arguments(
    func: PrimFunc | graph.Function, name: str, args: Sequence[Any], named: Iterable[str] = ()
) -> list[Any]:
    """The arguments, as plain arrays; `CallError` says which one `func` cannot take, and why."""
    signature = f"{name}({', '.join(p.name for p in func.params)})"
    if named:
        raise by_position(name, named, signature)
    if len(args) != len(func.params):
        raise CallError(
            f"{name} takes {len(func.params)} argument(s), got {len(args)}",
            code="E601",
            hint=signature,
        )
    params: Sequence[Any] = func.params
    plain = [
        _check_value(
            f'{name}: argument "{param.name}"',
            param if isinstance(param, Buffer) else param.type,
            arg,
        )
        for param, arg in zip(params, args, strict=True)
    ]
    if isinstance(func, PrimFunc):
        _check_written(func, name, plain)
    return plain


def by_position(name: str, named: Iterable[str], signature: str) -> CallError:
    """The error for arguments given by name."""
    given = ", ".join(f"{each}=" for each in named)
    why = f"{name} takes its arguments by position, got {given}"
    return CallError(why, code="E601", hint=signature)


def plain_array(what: str, name: str, array: np.ndarray) -> np.ndarray:
    """The memory of an array of any class: what a subclass adds is no part of a program.

    `CallError` where that would change what the elements are: masked ones.
    """
    if type(array) is np.ndarray:
        return array
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise CallError(
            f"{what} has masked elements, and a program knows no masks",
            code="E602",
            hint=f"{name}.filled(0)",
        )
    return np.ndarray.view(array, np.ndarray)


def _check_value(what: str, wanted: Buffer | graph.Type, arg: Any) -> Any:
    if isinstance(wanted, graph.TupleType):
        if not isinstance(arg, tuple | list) or len(arg) != len(wanted.fields):
            raise CallError(f"{what} must be a tuple of {len(wanted.fields)}", code="E602")
        return tuple(
            _check_value(f"{what}[{number}]", field, part)
            for number, (field, part) in enumerate(zip(wanted.fields, arg, strict=True))
        )
    if not isinstance(arg, np.ndarray):
        raise CallError(
            f"{what} must be a numpy array, got {type(arg).__name__}",
            code="E602",
            hint=f'np.asarray(value, "{wanted.dtype}")',
        )
    arg = plain_array(what, _name(what), arg)
    if arg.dtype != to_numpy(wanted.dtype):
        raise CallError(
            f"{what} must be {wanted.dtype}, got {arg.dtype}",
            code="E603",
            hint=f'{_name(what)}.astype("{wanted.dtype}")',
        )
    if arg.ndim != len(wanted.shape):
        raise CallError(
            f"{what} must have {len(wanted.shape)} axes, got {arg.ndim}",
            code="E604",
            example=f"the shape wanted is {wanted.shape}, this one's is {arg.shape}",
            hint=fitting_array(_name(what), wanted.shape, arg.shape, wanted.dtype),
        )
    for axis, (size, got) in enumerate(zip(wanted.shape, arg.shape, strict=True)):
        if size != got:
            raise CallError(
                f"{what} must have size {size} along axis {axis}, got {got}",
                code="E604",
                example=f"the shape wanted is {wanted.shape}, this one's is {arg.shape}",
                hint=fitting_array(_name(what), wanted.shape, arg.shape, wanted.dtype),
            )
    return arg


def _name(what: str) -> str:
    """The parameter that a text such as `main: argument "A"` speaks of."""
    return what.split('"')[1]


def written(func: PrimFunc) -> tuple[Buffer, ...]:
    """The parameters that `func` stores to."""
    stored = {item.buffer for item in walk(func.body) if isinstance(item, Store)}
    return tuple(param for param in func.params if param in stored)


def _check_written(func: PrimFunc, name: str, args: Sequence[np.ndarray]) -> None:
    results = written(func)
    for number, param in enumerate(func.params):
        if param not in results:
            continue
        if not args[number].flags.writeable:
            raise CallError(
                f'{name}: argument "{param.name}" is written, but the array is read-only',
                code="E607",
                hint="give it a copy: array.copy()",
            )
        if args[number].size and _meets_itself(args[number]):
            raise CallError(
                f'{name}: argument "{param.name}" is written, but elements of it share memory: '
                f"its strides are {args[number].strides} bytes",
                code="E605",
                hint="give it a copy: array.copy()",
            )
        for other, arg in enumerate(args):
            if other != number and _share_memory(args[number], arg):
                raise CallError(
                    f'{name}: argument "{param.name}" is written, '
                    f'but shares memory with "{func.params[other].name}"',
                    code="E608",
                    hint="give it an array of its own",
                )


def _share_memory(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays may have an element in common: odd strides make that a hard question."""
    try:
        return np.shares_memory(one, other, MOST_WORK)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _meets_itself(array: np.ndarray) -> bool:
    """Whether two elements may be one: no if each axis steps over all that smaller ones reach."""
    reach = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for step, size in sorted(axis for axis in axes if axis[1] > 1):
        if step < reach:
            return True
        reach += step * (size - 1)
    return False


MOST_WORK = 100_000
"""Candidates that numpy may try to tell whether two arrays meet: milliseconds."""


# Graph functions


def _run_graph(mod: IRModule, func: graph.Function, args: Sequence[Any]) -> Any:
    values: dict[Node, Any] = dict(zip(func.params, args, strict=True))
    for binding in func.bindings():
        values[binding.var] = _value(mod, binding.value, values)
    return _value(mod, func.result, values)


def _value(mod: IRModule, item: graph.Expr, values: dict[Node, Any]) -> Any:
    match item:
        case graph.Var():
            if item not in values:
                raise CompileError(f'"{item.name}" is not defined here')
            return values[item]
        case graph.Constant():
            return item.data
        case graph.Tuple():
            return tuple(_value(mod, field, values) for field in item.fields)
        case graph.TupleGetItem():
            return _value(mod, item.tuple, values)[item.index]
        case graph.Call():
            return _graph_call(mod, item, [_value(mod, arg, values) for arg in item.args])
        case _:
            raise CompileError(f"no meaning for {type(item).__name__} in a graph function")


def _graph_call(mod: IRModule, call: graph.Call, args: list[Any]) -> Any:
    if call.op == "call":
        return _call(mod, call.callee, args)
    if call.op in graph.JOINTS:
        types = graph.tensor_types(call.type)
        outs = [poison(t.shape, t.dtype) for t in types]
        if call.op == "call_tir":
            _call(mod, call.callee, [*flatten(args), *outs])
        else:
            call_packed(call.callee, flatten(args), outs)
        return nest(call.type, iter(outs))
    return evaluate(call, args)


def call_packed(name: str, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray]) -> None:
    """Call the registered function `name`; what it is given can be exported through DLPack.

    `CallError` if it raises, and if it returns an array of its own: then its outputs are not
    written.
    """
    function = get_function(name)
    given = [a if a.flags.writeable else a.copy() for a in inputs]
    try:
        result = function(*given, *outs)
    except Exception as error:
        raise _explain_packed(name, error, inputs, outs) from error
    if isinstance(result, np.ndarray) and not any(np.may_share_memory(result, o) for o in outs):
        raise CallError(
            f'the registered function "{name}" returned an array instead of writing its output',
            code="E611",
            hint="write the result into the last argument, for example out[:] = ...",
        )


def _explain_packed(
    name: str, error: Exception, inputs: Sequence[np.ndarray], outs: Sequence[np.ndarray]
) -> CallError:
    """What a registered function raised, where in its file, and what it was given."""
    message = "\n".join([type(error).__name__, *str(error).split("\n")][:4]).replace("\n", ": ", 1)
    given, filled = (", ".join(map(_array_text, arrays)) or "nothing" for arrays in (inputs, outs))
    called = error.__traceback__ and error.__traceback__.tb_next
    fits = called is not None or not isinstance(error, TypeError)
    count = len(inputs) + len(outs)
    why = "raised" if fits else f"cannot be called with {count} array(s):"
    return CallError(
        f'the registered function "{name}" {why} {message}',
        code="E613",
        span=_deepest_span(called),
        example=f"it was given {given}; to fill {filled}",
        hint="" if fits else f"take {len(inputs)} input(s), then {len(outs)} output(s) to fill",
    )


def _array_text(array: np.ndarray) -> str:
    return f"{dtype_name(array.dtype)} {array.shape}"


def _deepest_span(called: TracebackType | None) -> Span | None:
    """The last line that ran in the file of the function that was called."""
    if called is None:
        return None
    filename, line = called.tb_frame.f_code.co_filename, called.tb_lineno
    while called is not None:
        if called.tb_frame.f_code.co_filename == filename:
            line = called.tb_lineno
        called = called.tb_next
    text = source_line(filename, line)
    return Span(filename, line, len(text) - len(text.lstrip()), len(text), text)


def flatten(values: Sequence[Any]) -> list[np.ndarray]:
    """The arrays of nested tuples, in order."""
    flat: list[np.ndarray] = []
    for value in values:
        flat += flatten(value) if isinstance(value, tuple | list) else [value]
    return flat


def nest(wanted: graph.Type, arrays: Any) -> Any:
    """Arrays from an iterator, put into tuples as a type says."""
    if isinstance(wanted, graph.TensorType):
        return next(arrays)
    return tuple(nest(field, arrays) for field in wanted.fields)
