"""Integers that stand for floats: x is about (q - zero_point) * scale."""

from typing import Any

from minimlc.graphs.ops.broadcast import maximum, minimum, where
from minimlc.graphs.ops.checks import refuse
from minimlc.graphs.ops.elementwise import cast, isnan, nearest
from minimlc.graphs.ops.linear import matmul
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.reduction import greatest, least
from minimlc.graphs.ops.shape import reshape
from minimlc.graphs.ops.values import along, named
from minimlc.loops.values.dtypes import integer_range

BYTES, STORED = ("int8", "uint8"), ("int8", "uint8", "int16")


def _placed(x: Any, axis: int, other: Any) -> Any:
    """A number, or a vector along an axis."""
    return reshape(x, shape=()) if x.shape in ((), (1,)) else along(x, axis, other)


def _saturated(x: Any, dtype: str) -> Any:
    """Whole numbers as integers, those out of range as the nearest, NaN as 0."""
    if dtype not in STORED:
        refuse(f"dtype cannot be {dtype}", "E204", "one of: " + ", ".join(STORED))
    low, high = integer_range(dtype)
    inside = minimum(maximum(x, float(low)), float(high))
    return cast(where(isnan(x), 0.0, inside), dtype=dtype)


def _quantize(
    x: Any, scale: Any, zero_point: Any = None, *, axis: int = 1, dtype: str = "int8"
) -> Any:
    """x / scale, rounded to the nearest (halves to the even one), plus the zero point, in the range
    of `dtype`; scale and zero point are numbers, or vectors along `axis`.
    """
    steps = nearest(x / _placed(scale, axis, x))
    if zero_point is not None:
        steps = steps + cast(_placed(zero_point, axis, x), dtype=str(steps.dtype))
    return _saturated(steps, dtype)


def _dequantize(x: Any, scale: Any, zero_point: Any = None, *, axis: int = 1) -> Any:
    """(x - zero_point) * scale in the dtype of scale; both are numbers, or vectors along `axis`."""
    values = cast(x, dtype=str(scale.dtype))
    if zero_point is not None:
        values = values - cast(_placed(zero_point, axis, x), dtype=str(scale.dtype))
    return values * _placed(scale, axis, x)


def _fake_quantize(
    x: Any, *, scale: float, zero_point: int = 0, low: int = -128, high: int = 127
) -> Any:
    """x quantized to low ... high and back: the steps, rounded and clipped, times scale."""
    if not scale > 0 or not low <= zero_point <= high:
        refuse(f"scale={scale} is > 0, zero_point={zero_point} in {low} ... {high}", "E204")
    steps = nearest(x / float(scale)) + float(zero_point)
    return (minimum(maximum(steps, float(low)), float(high)) - float(zero_point)) * float(scale)


def _dynamic_quantize(x: Any) -> tuple[Any, Any, Any]:
    """x as uint8, with the scale and the zero point for its range, which is extended to 0."""
    most = named(maximum(greatest(x), 0.0), "dynamic_quantize_max")
    low = named(minimum(least(x), 0.0), "dynamic_quantize_min")
    span = named((most - low) / 255.0, "dynamic_quantize_scale")
    scale = named(where(span == 0.0, 1.0, span), "dynamic_quantize_step")
    zero = named(_saturated(nearest(-low / scale), "uint8"), "dynamic_quantize_zero")
    return _quantize(x, scale, zero, dtype="uint8"), scale, zero


def _matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    """(a - a_zero) @ (b - b_zero) of bytes, as int32; the zero points are numbers."""
    left, right = cast(a, dtype="int32"), cast(b, dtype="int32")
    for zero in (a_zero, b_zero):
        if zero is not None and zero.shape not in ((), (1,)):
            refuse(f"a zero point of shape {zero.shape} is no number")
    left = left if a_zero is None else left - cast(a_zero, dtype="int32")
    right = right if b_zero is None else right - cast(b_zero, dtype="int32")
    return matmul(left, right)


quantize = composite("quantize", _quantize, param_dtypes=(("zero_point", STORED),))
dequantize = composite(
    "dequantize",
    _dequantize,
    dtypes=("float16", "float32", "float64"),
    param_dtypes=(("x", STORED), ("zero_point", STORED)),
)
fake_quantize = composite("fake_quantize", _fake_quantize)
dynamic_quantize = composite("dynamic_quantize", _dynamic_quantize, dtypes=("float32",))
matmul_integer = composite(
    "matmul_integer",
    _matmul_integer,
    dtypes=BYTES,
    rounds=False,
    param_dtypes=(("b", BYTES), ("a_zero", BYTES), ("b_zero", BYTES)),
)
