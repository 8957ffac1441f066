"""Conditions and loops of graph functions: their arguments, result types and values.

`R.cond(p, "then", "otherwise", (x, y))` gives then(x, y) if p holds, else otherwise(x, y).

`R.while_loop("condition", "body", (i, x), (w,))` gives (i, x) after i, x = body(i, x, w) as often
as condition(i, x, w) holds.

`R.scan("body", (h,), (x,), (w,))` runs h, y = body(h, x[t], w) for each t in order; it gives the
last h, and all y, one after the other along a new first axis (a recurrent layer is one).

The functions are graph functions of the module. A state of one value is that value, not a tuple.

NB: as in XLA and JAX, where these are `cond`, `while_loop` and `scan` on functions; TVM has `if`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from minimlc.graphs.ir.nodes import Call, TensorType, TupleType, Type
from minimlc.loops.values.errors import CompileError

Run = Callable[..., Any]
BOOL = TensorType((), "bool")


def parts(kind: Type) -> tuple[Type, ...]:
    """The fields of a tuple, or a tensor alone."""
    return kind.fields if isinstance(kind, TupleType) else (kind,)


def whole(values: Sequence[Any], tuple_of: Callable[[Any], Any] = tuple) -> Any:
    """Several values as one; one value is itself."""
    return values[0] if len(values) == 1 else tuple_of(tuple(values))


# Types


def passed(call: Call, key: str) -> list[Type]:
    """The types that a joint passes to the function that its attribute `key` names."""
    kinds = [arg.type for arg in call.args]
    match call.op:
        case "cond":
            return kinds[1:]
        case "while_loop":
            return [part for kind in kinds for part in parts(kind)]
        case "scan":
            carried, rows, rest = map(parts, kinds)
            return [*carried, *map(_row, rows), *rest]
        case _:  # "call": its arguments
            return kinds


def _row(kind: Type) -> Type:
    if not isinstance(kind, TensorType) or not kind.ndim:
        _refuse(f"scan takes tensors apart along their first axis, got {kind}")
    return TensorType(kind.shape[1:], kind.dtype)


def steps(call: Call) -> Any:
    """The number of steps of a scan: the first size of all tensors that it takes apart."""
    rows = [kind for kind in parts(call.args[1].type) if isinstance(kind, TensorType)]
    counts = [kind.shape[0] for kind in rows if kind.ndim]
    if not counts or any(count != counts[0] for count in counts):
        _refuse(f"scan takes tensors of one first size apart, got {call.args[1].type}")
    return counts[0]


def result_type(call: Call, results: Mapping[str, Type]) -> Type:
    """The type of a condition or loop, from the result types of its functions, by attribute.

    `CompileError` E228 where these do not fit each other and what is passed.
    """
    if call.op == "cond":
        if call.args[0].type != BOOL:
            _refuse(f"the condition is {BOOL}, got {call.args[0].type}")
        return _same(results["then"], results["otherwise"], "the branches give")
    state = parts(call.args[0].type)
    if call.op == "while_loop":
        if results["condition"] != BOOL:
            _refuse(f"the condition gives {BOOL}, got {results['condition']}")
        return _same(results["body"], whole(state, TupleType), "the body gives another state:")
    given, count = parts(results["body"]), steps(call)
    _same(TupleType(given[: len(state)]), TupleType(state), "the body gives another state:")
    return whole([*state, *[_stacked(kind, count) for kind in given[len(state) :]]], TupleType)


def _stacked(kind: Type, count: Any) -> Type:
    if not isinstance(kind, TensorType):
        _refuse(f"scan collects tensors, got {kind}")
    return TensorType((count, *kind.shape), kind.dtype)


def _same(one: Type, other: Type, what: str) -> Type:
    if one != other:
        _refuse(f"{what} {one} and {other}")
    return one


def _refuse(why: str) -> NoReturn:
    raise CompileError(why, code="E228")


# Values


def cond(condition: Any, then: Run, otherwise: Run, *values: Any) -> Any:
    """The result of one of two functions."""
    return (then if condition else otherwise)(*values)


def while_loop(condition: Run, body: Run, state: Any, rest: Any = ()) -> Any:
    """The first state for which the condition does not hold."""
    values, others = _as_tuple(state), _as_tuple(rest)
    while condition(*values, *others):
        values = _as_tuple(body(*values, *others))
    return whole(values)


def scan(body: Run, state: Any, rows: Any, rest: Any, collected: Sequence[np.ndarray]) -> Any:
    """The state after a step for each row, and the steps' results, in the memory `collected`."""
    values, sources, others = _as_tuple(state), _as_tuple(rows), _as_tuple(rest)
    for number in range(len(sources[0])):
        given = _as_tuple(body(*values, *[source[number, ...] for source in sources], *others))
        values = given[: len(values)]
        for memory, value in zip(collected, given[len(values) :], strict=True):
            memory[number] = value
    return whole((*values, *collected))


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def run(call: Call, values: Sequence[Any], functions: Mapping[str, Run], empty: Run) -> Any:
    """The value of a condition or loop; `empty` makes an array of a tensor's type."""
    if call.op == "cond":
        return cond(values[0], functions["then"], functions["otherwise"], *values[1:])
    if call.op == "while_loop":
        return while_loop(functions["condition"], functions["body"], *values)
    collected = parts(call.type)[len(parts(call.args[0].type)) :]
    state, rows, rest = values
    return scan(functions["body"], state, rows, rest, list(map(empty, collected)))
