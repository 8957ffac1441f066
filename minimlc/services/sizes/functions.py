"""Functions over operators whose results have data-dependent sizes, or that declare sizes."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from minimlc.graphs.ir.dimensions import size_of
from minimlc.graphs.ir.nodes import Call, Expr, TensorType, Tuple, TupleGetItem
from minimlc.graphs.ops import call_op
from minimlc.graphs.ops.checks import refuse
from minimlc.loops.values.errors import shown
from minimlc.loops.values.literals import Symbol


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with an error that names it where arguments do not fit its signature."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        known = signature(function)
        try:
            known.bind(*args, **options)
        except TypeError as error:
            refuse(f"{function.__name__}: {error}", "E201", f"{function.__name__}{known}")
        return function(*args, **options)

    return call


@_checked
def first(x: Any, count: Any = None, *, size: Any) -> Call:
    """The first `size` elements of x along axis 0: a number (then `count` is unused), or the
    name of a size, which is the scalar `count` (int64) when the function runs. Any dtype.
    """
    return call_op("first", x, count, size=size_of(size))


@_checked
def nonzero(x: Any, *, size: str = "k") -> Call:
    """The indices of the elements of x that are not 0 or False, in order, one per row: int64 of
    shape (`size`, axes of x), where `size` names their data-dependent number.

    Any dtype; x has an axis. `padded_nonzero` has them without that. NB: as in numpy's argwhere
    and PyTorch; in ONNX and TVM they are columns.
    """
    indices, count = _fields(call_op("padded_nonzero", x))
    return first(indices, count, size=_named(size))


@_checked
def unique(x: Any, *, size: str = "k") -> Expr:
    """The distinct values of x, sorted, NaN once and last; for each, the first place in the flat
    x and how often it is there; for each element, the number of its value. A tuple: values,
    indices, inverse, counts, where `size` names the data-dependent number of values.

    Floats and integers. `padded_unique` has them without that. NB: as in ONNX; TVM gives the
    values alone.
    """
    values, indices, inverse, counts, number = _fields(call_op("padded_unique", x))
    cut = [first(part, number, size=_named(size)) for part in (values, indices, counts)]
    return Tuple((cut[0], cut[1], inverse, cut[2]))


@_checked
def match_cast(x: Any, shape: Any) -> Call:
    """x, which has `shape`, a shape or a tensor's type: the call checks it where sizes are known
    only then. So sizes that are equal are called the same: `match_cast(y, ("n", 4))`. Any dtype.
    """
    dtype = getattr(shape, "dtype", x.dtype)
    if dtype != x.dtype:
        refuse(f"match_cast: x is {x.dtype}, declared {dtype}", "E202", f'op.cast(x, "{dtype}")')
    return call_op("match_cast", x, shape=TensorType(getattr(shape, "shape", shape), dtype).shape)


def _fields(call: Call) -> list[Any]:
    return [TupleGetItem(call, number) for number in range(len(call.type.fields))]  # type: ignore[union-attr]


def _named(size: Any) -> Any:
    if not isinstance(size_of(size), Symbol):
        refuse(f"size is the name of a size, got {shown(size)}", "E204", 'size="k"')
    return size
