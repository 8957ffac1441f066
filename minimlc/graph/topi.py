"""The operators over tensor expressions: `topi.add(A, B)` is a tensor of `te`.

    A = te.placeholder((8, 16), "float32", name="A")
    func = te.create_prim_func([A, topi.nn.relu(A)])
    y = bb.emit_te(topi.nn.softmax, x, -1)

Each is an operator of the graph, its loops written out: same names, same checks, same errors. Those
whose arguments TVM orders in another way here have that order here, too.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from minimlc.errors import OpError, did_you_mean
from minimlc.graph.nodes import Constant, Expr, TensorType, Tuple, Var
from minimlc.graph.op import documentation
from minimlc.graph.ops import ALIASES, OPS
from minimlc.graph.ops.checks import ALL, NUMBERS
from minimlc.graph.ops.create import full
from minimlc.graph.ops.linear import matmul
from minimlc.graph.ops.record import Op, composite
from minimlc.graph.ops.shape import flatten, permute_dims
from minimlc.graph.ops.values import Values
from minimlc.tir import te
from minimlc.tir.nodes import const

Function = Callable[..., Any]
_PLACEHOLDER = 'A = te.placeholder((8, 16), "float32", name="A")'


def _applied(record: Op, args: Iterable[Any], options: Mapping[str, Any]) -> Any:
    """The operator's call on variables that stand for the tensors, lowered to those."""
    tensors: dict[Expr, te.Tensor] = {}

    def variable(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(map(variable, value))
        if isinstance(value, Expr):
            why = f"topi.{record.name} takes tensor expressions, got a value of the graph"
            raise OpError(why, code="E201", hint=f"bb.emit_te(topi.{record.name}, ...)")
        if not isinstance(value, te.Tensor):
            return value
        var = Var(value.name, TensorType(value.shape, value.dtype))
        tensors[var] = value
        return var

    def operand(value: Expr) -> Any:
        if isinstance(value, Tuple):
            return tuple(map(operand, value.fields))
        if isinstance(value, Constant):
            return _number(record, value)
        return tensors[value]

    values = tuple(map(variable, args))
    named = {key: variable(value) for key, value in options.items()}
    if record.params and not tensors:
        why = f"topi.{record.name} takes tensor expressions, got none"
        raise OpError(why, code="E201", hint=_PLACEHOLDER)
    call = record.call(values, named)
    return record.lower(*map(operand, call.args), **dict(call.attrs))


def _number(record: Op, value: Constant) -> Values:
    """A number beside tensors, as the tensor without axes that it is."""
    if value.shape:
        why = f"topi.{record.name} takes tensor expressions, got an array"
        raise OpError(why, code="E201", hint=_PLACEHOLDER)
    return Values((), value.dtype, lambda: const(value.data[()].item(), value.dtype))


@cache
def _function(record: Op) -> Function:
    def apply(*args: Any, **options: Any) -> Any:
        return _applied(record, args, options)

    apply.__name__ = apply.__qualname__ = record.name
    apply.__doc__ = documentation(record)
    apply.__signature__ = record.signature  # type: ignore[attr-defined]
    return apply


class _Names:
    """`topi` or `topi.nn`: the operators, and before them those that are called in another way."""

    def __init__(self, name: str, own: Mapping[str, Op]):
        self._name, self._own = name, own

    def __getattr__(self, name: str) -> Function:
        record = self._own.get(name) or OPS.get(ALIASES.get(name, name))
        if record is None:
            hint = did_you_mean(name, dir(self))
            raise AttributeError(f'{self._name} has no "{name}"; {hint}')
        return _function(record)

    def __dir__(self) -> list[str]:
        return sorted({*OPS, *ALIASES, *self._own, *vars(self)} - {"_name", "_own"})


def _turned(x: Values, yes: bool) -> Values:
    """`x` with its last two axes exchanged, if so wanted."""
    order = list(range(x.ndim))
    return permute_dims(x, axes=(*order[:-2], *order[:-3:-1])) if yes else x


def _full(*, shape: Any, dtype: str, fill_value: float) -> Values:
    """A tensor of `shape` that is `fill_value` everywhere."""
    return full.formula(shape=shape, value=fill_value, dtype=dtype)


def _matmul(a: Values, b: Values, *, transp_a: bool = False, transp_b: bool = False) -> Values:
    """The matrix product of a and b, each with its last two axes exchanged first if so wanted."""
    return matmul(_turned(a, transp_a), _turned(b, transp_b))


def _batch_matmul(
    x: Values, y: Values, *, transpose_a: bool = False, transpose_b: bool = True
) -> Values:
    """The products of two batches of matrices, those of y transposed unless it says otherwise."""
    return matmul(_turned(x, transpose_a), _turned(y, transpose_b))


def _flatten(x: Values) -> Values:
    """All axes but the first as one."""
    return flatten(x, start_axis=1)


_OWN: dict[str, Op] = {}
_OWN_NN: dict[str, Op] = {}
"""Operators that TVM calls in another way in `topi` than in a graph."""
composite("full", _full, dtypes=ALL, rounds=False, table=_OWN)
composite("matmul", _matmul, dtypes=NUMBERS, rounds=False, table=_OWN)
composite("batch_matmul", _batch_matmul, dtypes=NUMBERS, rounds=False, table=_OWN_NN)
composite("flatten", _flatten, dtypes=ALL, rounds=False, table=_OWN_NN)

topi: Any = _Names("topi", _OWN)
topi.nn = _Names("topi.nn", _OWN_NN)
