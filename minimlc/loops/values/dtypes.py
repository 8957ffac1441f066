"""The element types: one record each.

NB: index arithmetic is int64 here; in TVM it is int32 unless a shape has another dtype.
"""

from functools import cache
from math import prod
from typing import NamedTuple

import ml_dtypes
import numpy as np

from minimlc.loops.values.errors import CompileError, did_you_mean


class DType(NamedTuple):
    """A type's name, bits, kind ("float", "int", "uint" or "bool") and numpy form."""

    name: str
    bits: int
    kind: str
    numpy: np.dtype


_RECORDS = (
    DType("float64", 64, "float", np.dtype(np.float64)),
    DType("float32", 32, "float", np.dtype(np.float32)),
    DType("float16", 16, "float", np.dtype(np.float16)),
    DType("bfloat16", 16, "float", np.dtype(ml_dtypes.bfloat16)),
    DType("int64", 64, "int", np.dtype(np.int64)),
    DType("int32", 32, "int", np.dtype(np.int32)),
    DType("int16", 16, "int", np.dtype(np.int16)),
    DType("int8", 8, "int", np.dtype(np.int8)),
    DType("uint8", 8, "uint", np.dtype(np.uint8)),
    DType("uint16", 16, "uint", np.dtype(np.uint16)),
    DType("uint32", 32, "uint", np.dtype(np.uint32)),
    DType("uint64", 64, "uint", np.dtype(np.uint64)),
    DType("bool", 8, "bool", np.dtype(np.bool_)),
)
DTYPES = {record.name: record for record in _RECORDS}
INDEX = "int64"


def dtype_record(name: str) -> DType:
    """The record of a dtype's name, or of a numpy dtype; `CompileError` for an unknown one."""
    if isinstance(name, str) and name in DTYPES:
        return DTYPES[name]
    try:  # numpy takes None for float64
        known = "" if name is None else np.dtype(name).name
    except (TypeError, ValueError, SyntaxError):
        known = ""
    if known in DTYPES and not isinstance(name, str):
        return DTYPES[known]
    hint = f'"{known}"' if known in DTYPES else did_you_mean(str(name), DTYPES)
    raise CompileError(f'unknown dtype "{name}"', code="E108", hint=hint)


def dtype_name(array_dtype: object) -> str:
    """The name of a numpy dtype (or of anything `np.dtype` accepts)."""
    name = np.dtype(array_dtype).name  # type: ignore[call-overload]
    dtype_record(name)
    return name


def is_float(name: str) -> bool:
    return DTYPES[name].kind == "float"


def is_integer(name: str) -> bool:
    """Signed or unsigned, not bool."""
    return DTYPES[name].kind in ("int", "uint")


def holds(wide: str, narrow: str) -> bool:
    """Whether the dtype `wide` has every value of `narrow`; both are floats, or both integers."""
    if is_integer(wide) and is_integer(narrow):
        (low, high), (least, most) = integer_range(wide), integer_range(narrow)
        return low <= least and most <= high
    if not (is_float(wide) and is_float(narrow)):
        return wide == narrow
    first, second = (ml_dtypes.finfo(DTYPES[name].numpy) for name in (wide, narrow))
    return (
        first.nmant >= second.nmant
        and first.minexp <= second.minexp
        and (first.maxexp >= second.maxexp)
    )


def to_numpy(name: str) -> np.dtype:
    return dtype_record(name).numpy


def whole_range(name: str) -> tuple[int, int] | None:
    """The least and greatest value of an integer type or of bool; None for floats, which round."""
    if is_float(name):
        return None
    return (0, 1) if name == "bool" else integer_range(name)


@cache
def integer_range(name: str) -> tuple[int, int]:
    """The least and greatest value of an integer type."""
    info = np.iinfo(DTYPES[name].numpy)
    return int(info.min), int(info.max)


def is_size(value: object) -> bool:
    """Whether a value can be the size of an axis: an integer that every index below it has."""
    whole = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_ | np.ndarray)
    return whole and 0 <= int(value) < 2**63  # type: ignore[call-overload]


MOST_BYTES = 2**47
"""The most bytes that a program can address: x86-64 has 47 bits of addresses."""


def excess(shape: tuple[int, ...], dtype: str) -> str:
    """Why an array of that shape is larger than memory can be; "" where it is not. An axis without
    elements counts as if it had one: no product of sizes may wrap.
    """
    if prod(max(1, size) for size in shape) * to_numpy(dtype).itemsize <= MOST_BYTES:
        return ""
    sizes = " x ".join(map(str, shape))
    return f"has {sizes} elements of {dtype}: more than 2**47 bytes, all that a program can address"
