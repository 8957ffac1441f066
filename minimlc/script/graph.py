"""The script language of the graph IR: `R` and `@R.function`.

In plain Python, R's names build types, constants and calls for a `BlockBuilder`.
"""

from collections import ChainMap
from functools import partial
from typing import Any

import numpy as np

from minimlc.dtypes import dtype_name
from minimlc.graph.nodes import Call, Constant, Expr, TensorType, TupleType, constant
from minimlc.graph.op import FUNCTIONS
from minimlc.script.constructs import Marker, Namespace, in_annotation
from minimlc.script.graph_body import LANGUAGE, parse_function
from minimlc.script.graph_forms import as_type, const_data, make_const, out_type
from minimlc.script.tir import decorator


@in_annotation
def tensor_type(shape: Any, dtype: Any = "float32") -> TensorType:
    """`R.Tensor(shape, dtype)`: the type of a tensor."""
    return TensorType(shape, dtype if isinstance(dtype, str) else dtype_name(dtype))


@in_annotation
def tuple_type(*fields: Any) -> TupleType:
    """`R.Tuple(type, ...)`: the type of a tuple."""
    items = fields[0] if len(fields) == 1 and isinstance(fields[0], list | tuple) else fields
    return TupleType(tuple(map(as_type, items)))


def _joint(
    op: str,
    callee: str,
    args: Any,
    out: Any = None,
    *,
    out_sinfo: Any = None,
    dtype: str | None = None,
    attrs: dict[str, object] | None = None,
) -> Call:
    several = (args,) if isinstance(args, Expr | np.ndarray) else args
    values = tuple(a if isinstance(a, Expr) else constant(a) for a in several)
    kind = out_type(out_sinfo if out is None else out, dtype)
    return Call(op, values, (("callee", callee), *(attrs or {}).items()), kind)


call_tir = partial(_joint, "call_tir")
call_dps_packed = partial(_joint, "call_dps_packed")
call = partial(_joint, "call")


def const(value: Any, dtype: str | None = None) -> Constant:
    """A constant tensor, such as `R.const([1, 2], "float32")`."""
    return make_const(value, dtype)


function = decorator(parse_function)

_VALUES = {
    "function": function,
    "Tensor": tensor_type,
    "Tuple": tuple_type,
    "const": const,
    "const_data": const_data,
    "call_tir": call_tir,
    "call_dps_packed": call_dps_packed,
    "call": call,
}

_ALONE = (*LANGUAGE.forms["with"], *LANGUAGE.forms["action"])
_MARKERS = {name[2:]: Marker(name, False) for name in _ALONE}
_NAMES: list[Any] = [{"nn": Namespace("R.nn", FUNCTIONS)}, _VALUES, _MARKERS, FUNCTIONS]

R: Any = Namespace("R", ChainMap(*_NAMES))
"""The graph language. In plain Python, `R.add(x, y)` is the call that `bb.emit` takes."""
