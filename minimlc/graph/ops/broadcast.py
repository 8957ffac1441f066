"""Operators of several tensors, element by element, with numpy's broadcasting."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.loops import pointwise
from minimlc.graph.ops.record import ALL, FLOATS, NUMBERS, Op, broadcast_shapes, refuse
from minimlc.tir.intrinsics import INTRINSICS
from minimlc.tir.nodes import binary, intrin, select, unary

BOOL = ("bool",)


def _shape(*types: TensorType) -> tuple[int, ...]:
    shapes = [t.shape for t in types]
    try:
        return broadcast_shapes(*shapes)
    except ValueError as error:
        axis = error.args[0]
        sizes = " and ".join(str(s[axis]) for s in shapes if len(s) >= -axis)
        listed = ", ".join(map(str, shapes))
        refuse(
            f"the shapes {listed} do not broadcast: axis {axis} has sizes {sizes}",
            hint="along each axis, counted from the last, sizes must be equal or 1",
        )


def _same(*types: TensorType) -> TensorType:
    return TensorType(_shape(*types), types[0].dtype)


def _bool(*types: TensorType) -> TensorType:
    return TensorType(_shape(*types), "bool")


def _binary(
    name: str,
    symbol: str,
    doc: str,
    meaning: Callable[..., Any],
    dtypes: tuple[str, ...] = NUMBERS,
    infer: Callable[..., TensorType] = _same,
) -> Op:
    """An operator that is one binary operation of the loop IR."""
    return Op(
        name,
        ("x", "y"),
        f"{doc}, element by element, with broadcasting.",
        infer=infer,
        meaning=meaning,
        lower=pointwise(name, lambda x, y: binary(symbol, x, y)),
        dtypes=dtypes,
    )


def _where_type(condition: TensorType, x: TensorType, y: TensorType) -> TensorType:
    return TensorType(_shape(condition, x, y), x.dtype)


OPS = (
    _binary("add", "+", "x + y", np.add),
    _binary("subtract", "-", "x - y", np.subtract),
    _binary("multiply", "*", "x * y", np.multiply),
    _binary("divide", "/", "x / y", np.divide, FLOATS),
    _binary("maximum", "max", "The greater of x and y; NaN if one is NaN", np.maximum),
    _binary("minimum", "min", "The lesser of x and y; NaN if one is NaN", np.minimum),
    Op(
        "power",
        ("x", "y"),
        "x to the power of y, element by element, with broadcasting.",
        infer=_same,
        meaning=INTRINSICS["pow"].meaning,
        lower=pointwise("power", lambda x, y: intrin("pow", x, y)),
        dtypes=FLOATS,
    ),
    Op(
        "ewise_fma",
        ("x", "y", "z"),
        "x * y + z, element by element, with broadcasting.",
        infer=_same,
        meaning=lambda x, y, z: x * y + z,
        lower=pointwise("ewise_fma", lambda x, y, z: x * y + z, rounds=True),
        dtypes=NUMBERS,
    ),
    _binary("equal", "==", "Whether x == y", np.equal, ALL, _bool),
    _binary("not_equal", "!=", "Whether x != y", np.not_equal, ALL, _bool),
    _binary("less", "<", "Whether x < y", np.less, NUMBERS, _bool),
    _binary("less_equal", "<=", "Whether x <= y", np.less_equal, NUMBERS, _bool),
    _binary("greater", ">", "Whether x > y", np.greater, NUMBERS, _bool),
    _binary("greater_equal", ">=", "Whether x >= y", np.greater_equal, NUMBERS, _bool),
    _binary("logical_and", "and", "Whether both hold", np.logical_and, BOOL),
    _binary("logical_or", "or", "Whether x or y holds", np.logical_or, BOOL),
    Op(
        "logical_not",
        ("x",),
        "Whether x does not hold, element by element.",
        infer=_same,
        meaning=np.logical_not,
        lower=pointwise("logical_not", lambda x: unary("not", x)),
        dtypes=BOOL,
    ),
    Op(
        "where",
        ("condition", "x", "y"),
        "x where the condition holds, else y, element by element, with broadcasting.",
        infer=_where_type,
        meaning=np.where,
        lower=pointwise("where", select),
        dtypes=ALL,
        param_dtypes=(("condition", BOOL),),
    ),
)
