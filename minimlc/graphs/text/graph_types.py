"""Types and constants of the graph language, in scripts and in plain Python."""

from collections.abc import Container
from typing import Any, NamedTuple

import numpy as np

from minimlc.graphs.ir.nodes import Constant, TensorType, TupleType, Type, constant
from minimlc.loops.values.errors import CompileError, shown
from minimlc.loops.values.literals import decode
from minimlc.loops.values.names import UniqueNames

MOST_AXES = 32
"""The most axes of a tensor whose shape a script leaves out."""


class AnyShape(NamedTuple):
    """The type of a tensor without its shape, `R.Tensor(ndim=2)`; None stands for any."""

    ndim: int | None = None
    dtype: str | None = None


def fits(declared: Any, kind: Type) -> bool:
    """Whether a type is the one that is declared, maybe without a shape."""
    if not isinstance(declared, AnyShape) or isinstance(kind, TupleType):
        return not isinstance(declared, AnyShape) and as_type(declared) == kind
    return declared.ndim in (None, kind.ndim) and declared.dtype in (None, kind.dtype)


def param_type(declared: Any, name: str, taken: Container[str]) -> Type:
    """The type of the parameter `name`; sizes that it leaves out are known at the call."""
    if not isinstance(declared, AnyShape):
        return as_type(declared)
    if declared.ndim is None:
        why, hint = f"{name} may have any number of axes", f"{name}: R.Tensor(ndim=2)"
        raise CompileError(why, code="E126", hint=hint)
    names = [f"{name}_{axis}" for axis in range(declared.ndim)]
    unique = UniqueNames(filter(taken.__contains__, names))
    sizes: Any = tuple(map(unique.take, names))
    return TensorType(sizes, declared.dtype or "float32")


def tensor_type(shape: Any = None, dtype: str | None = None, ndim: Any = -1) -> Any:
    """The type of a tensor, with its shape or without."""
    kind = None if shape is None else TensorType(shape, dtype or "float32")
    known = range(-1, MOST_AXES + 1) if kind is None else (-1, kind.ndim)
    if type(ndim) is not int or ndim not in known:
        raise CompileError(f"ndim is a number of axes, got {shown(ndim)}", code="E126")
    return kind or AnyShape(None if ndim == -1 else ndim, dtype)


def as_type(value: Any) -> Type:
    """A type, or several as a tuple's."""
    if isinstance(value, TensorType | TupleType):
        return value
    if isinstance(value, list | tuple):
        return TupleType(tuple(map(as_type, value)))
    raise CompileError(
        f"expected a type, got {value!r:.60}", code="E126", hint='R.Tensor((1, 784), "float32")'
    )


def out_type(out: Any, dtype: str | None = None) -> Type:
    """A call's result type, from a type, several, or (in older scripts) a shape and a dtype."""
    if dtype is None:
        return as_type(out)
    shape = (out,) if isinstance(out, int) else tuple(out)
    return TensorType(shape, dtype)


def const_data(content: str, shape: tuple[int, ...], dtype: str) -> Constant:
    """A constant from the base64 text of its bytes."""
    if not isinstance(content, str):
        why = "this constant's content was left out for display"
        raise CompileError(why, code="E123", hint="mod.script() has everything")
    try:
        return constant(decode(content, shape, dtype))
    except ValueError as error:
        why = f"this is not a {dtype} array of shape {shape}: {error}"
        raise CompileError(why, code="E123") from None


def const(value: Any, dtype: Any = None) -> Constant:
    """A constant tensor: the numbers of `value`; Python's floats are float32."""
    try:
        if dtype is None and not hasattr(value, "dtype") and np.array(value).dtype == np.float64:
            dtype = "float32"
        return constant(value, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise CompileError(f"no constant of these values: {error}", code="E123") from None
