"""The value of an index expression at many points at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from minimlc.loops.ir.nodes import Binary, Cast, Const, Expr, Select, Unary, Var
from minimlc.loops.ir.operators import OPERATORS
from minimlc.loops.values.dtypes import is_float, to_numpy


def evaluate(expr: Expr, values: Mapping[Var, Any]) -> Any:
    """`expr` for many points at once: `values` holds numpy integers or arrays of one length.

    ValueError for an expression that reads a buffer, whose value is not known here, or that
    computes with floats: numpy rounds and converts arrays in ways that are not the programs'.
    """
    if not is_float(expr.dtype):
        match expr:
            # other nodes: refused below
            case Var():
                return values[expr]
            case Const(value, dtype):
                return to_numpy(dtype).type(value)
            case Binary(op, a, b):
                with np.errstate(all="ignore"):
                    return OPERATORS[op].array(evaluate(a, values), evaluate(b, values))
            case Unary("-", a):
                return -evaluate(a, values)
            case Unary("not", a):
                return np.logical_not(evaluate(a, values))
            case Select(condition, a, b):
                return np.where(*(evaluate(part, values) for part in (condition, a, b)))
            case Cast(dtype, a):
                return np.asarray(evaluate(a, values)).astype(to_numpy(dtype))
    raise ValueError(f"the value of {type(expr).__name__} is not known at compile time")
