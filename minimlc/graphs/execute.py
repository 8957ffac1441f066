"""The result of a graph function over values of any kind: arrays, places in memory, buffers."""

from collections.abc import Callable, Iterable
from typing import Any

from minimlc.graphs.ir.nodes import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from minimlc.loops.values.errors import CompileError


def execute(
    func: Function,
    arguments: Iterable[Any],
    constant: Callable[[Constant], Any],
    call: Callable[[Call, list[Any]], Any],
) -> Any:
    """The result of `func` for `arguments`. Python's tuples stand for tuples; `constant` gives the
    value of a constant, and `call` that of a call, from the values of its arguments.
    """
    values: dict[Var, Any] = dict(zip(func.params, arguments, strict=True))

    def value(item: Expr) -> Any:
        match item:
            case Var():
                if item not in values:
                    raise CompileError(f'"{item.name}" is not defined here')
                return values[item]
            case Constant():
                return constant(item)
            case Tuple(fields):
                return tuple(map(value, fields))
            case TupleGetItem():
                return value(item.tuple)[item.index]
            case Call():
                return call(item, list(map(value, item.args)))
            case _:
                raise CompileError(f"no meaning for {type(item).__name__} in a graph function")

    for binding in func.bindings():
        values[binding.var] = value(binding.value)
    return value(func.result)
