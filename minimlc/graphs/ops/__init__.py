"""The graph operators: one record each, by family."""

from collections.abc import Iterable
from types import MappingProxyType, ModuleType
from typing import Any

from minimlc.graphs.ir.nodes import Call, Type
from minimlc.graphs.ops import broadcast, create, elementwise, linear, reduction, shape  # noqa: F401 (each enters its operators in the table)
from minimlc.graphs.ops.record import TABLE, Op
from minimlc.loops.values.errors import OpError, did_you_mean
from minimlc.loops.values.parts import Hook

MORE = [*Hook[ModuleType]("operators")]
"""Further operators: a file enters its own."""

OPS = MappingProxyType(TABLE)
"""Every operator by name."""

ALIASES = MappingProxyType(
    {
        "astype": "cast",
        "batch_matmul": "matmul",
        "concatenate": "concat",
        "leakyrelu": "leaky_relu",
        "multiply_add": "ewise_fma",
        "transpose": "permute_dims",
    }
)
"""Other names of operators."""


def find_op(name: str) -> Op:
    """The operator of a name or alias; `OpError` with near misses for an unknown one."""
    op = OPS.get(ALIASES.get(name, name))
    if op is None:
        hint = did_you_mean(name, [*OPS, *ALIASES])
        raise OpError(f'there is no operator "{name}"', code="E201", hint=hint)
    return op


def call_op(name: str, /, *args: object, **attrs: object) -> Call:
    """The operator `name` applied to tensors and attributes, its type inferred.

    Tensors may be given as graph expressions, numpy arrays, or Python numbers beside a tensor.
    `OpError` when a name, shape, dtype or attribute does not fit.
    """
    return find_op(name).call(args, attrs)


def infer_call(call: Call) -> Type:
    """The type that an operator's call must have."""
    return find_op(call.op).infer_type(tuple(a.type for a in call.args), dict(call.attrs))


def evaluate(call: Call, arrays: Iterable[Any]) -> Any:
    """The value of an operator's call: an array of its type, or a tuple of them.

    `arrays` are the values of the call's arguments; they are not changed or kept.
    """
    return find_op(call.op).evaluate(call, arrays)


def lower(call: Call, tensors: Iterable[Any]) -> Any:
    """The operator's call as tensor expressions over `tensors`, one per argument."""
    return find_op(call.op).lower(*tensors, **dict(call.attrs))
