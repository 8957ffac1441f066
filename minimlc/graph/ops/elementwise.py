"""Operators of one tensor, element by element: arithmetic, functions, activations, cast."""

from typing import Any

import numpy as np

from minimlc.dtypes import DTYPES, to_numpy
from minimlc.graph.nodes import TensorType
from minimlc.graph.ops.loops import pointwise
from minimlc.graph.ops.record import ALL, FLOATS, NUMBERS, REQUIRED, Op, refuse
from minimlc.tir.intrinsics import INTRINSICS
from minimlc.tir.nodes import Expr, binary, const, intrin, select, unary


def _same(x: TensorType, **_: object) -> TensorType:
    return x


def _function(name: str, formula: str, dtypes: tuple[str, ...] = FLOATS) -> Op:
    """A mathematical function that the loop IR has too."""
    return Op(
        name,
        ("x",),
        f"{formula}, element by element.",
        infer=_same,
        meaning=INTRINSICS[name].meaning,
        lower=pointwise(name, lambda x: intrin(name, x)),
        dtypes=dtypes,
    )


def _leaky_relu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0, x, x * x.dtype.type(alpha))


def _clip_type(x: TensorType, min: float, max: float) -> TensorType:
    for name, bound in (("min", min), ("max", max)):
        kinds = (int, float) if DTYPES[x.dtype].kind == "float" else (int,)
        if not isinstance(bound, kinds) or isinstance(bound, bool):
            refuse(f"{name}={bound!r} is no {x.dtype}", "E204")
    if not min <= max:
        refuse(f"min={min} is greater than max={max}", "E204")
    return x


def _clip(x: np.ndarray, min: float, max: float) -> np.ndarray:
    kind = x.dtype.type
    low, high = (kind(min), kind(max)) if x.dtype.kind == "f" else _representable(x, min, max)
    return np.minimum(np.maximum(x, low), high)


def _representable(x: np.ndarray, low: Any, high: Any) -> tuple[Any, Any]:
    info = np.iinfo(x.dtype)
    bounds = (sorted((info.min, b, info.max))[1] for b in (low, high))
    first, second = (x.dtype.type(b) for b in bounds)
    return first, second


def _clip_formula(x: Expr, min: float, max: float) -> Expr:
    low, high = min, max
    if DTYPES[x.dtype].kind != "float":
        low, high = _representable(np.zeros((), to_numpy(x.dtype)), min, max)
    bounds = const(low, x.dtype), const(high, x.dtype)
    return binary("min", binary("max", x, bounds[0]), bounds[1])


def _cast_type(x: TensorType, dtype: str) -> TensorType:
    return TensorType(x.shape, dtype)


OPS = (
    Op(
        "negative",
        ("x",),
        "-x, element by element; integers wrap.",
        infer=_same,
        meaning=np.negative,
        lower=pointwise("negative", lambda x: unary("-", x)),
        dtypes=NUMBERS,
    ),
    _function("abs", "|x|", NUMBERS),
    _function("exp", "e to the power of x"),
    _function("log", "The natural logarithm of x"),
    _function("sqrt", "The square root of x"),
    _function("rsqrt", "1 / sqrt(x)"),
    _function("tanh", "The hyperbolic tangent of x"),
    _function("sigmoid", "1 / (1 + exp(-x))"),
    _function("erf", "The error function of x"),
    _function("sin", "The sine of x (radians)"),
    _function("cos", "The cosine of x (radians)"),
    _function("floor", "The greatest integer <= x"),
    _function("ceil", "The least integer >= x"),
    _function("round", "The integer nearest to x; halves go to the even one"),
    Op(
        "relu",
        ("x",),
        "max(x, 0), element by element; NaN stays NaN.",
        infer=_same,
        meaning=lambda x: np.maximum(x, x.dtype.type(0)),
        lower=pointwise("relu", lambda x: binary("max", x, const(0, x.dtype))),
        dtypes=NUMBERS,
    ),
    Op(
        "leaky_relu",
        ("x",),
        "x where x > 0, else alpha * x, element by element.",
        infer=_same,
        meaning=_leaky_relu,
        lower=pointwise("leaky_relu", lambda x, alpha: select(x > 0.0, x, x * alpha), rounds=True),
        dtypes=FLOATS,
        attrs=(("alpha", 0.01),),
    ),
    _function("gelu", "x / 2 * (1 + erf(x / sqrt(2))) (Hendrycks and Gimpel 2016)"),
    Op(
        "silu",
        ("x",),
        "x * sigmoid(x), element by element.",
        infer=_same,
        meaning=lambda x: x * INTRINSICS["sigmoid"].meaning(x),
        lower=pointwise("silu", lambda x: x * intrin("sigmoid", x), rounds=True),
        dtypes=FLOATS,
    ),
    Op(
        "clip",
        ("x",),
        "min where x < min, max where x > max, else x; NaN stays NaN.",
        infer=_clip_type,
        meaning=_clip,
        lower=pointwise("clip", _clip_formula, rounds=True),
        dtypes=NUMBERS,
        attrs=(("min", REQUIRED), ("max", REQUIRED)),
    ),
    Op(
        "cast",
        ("x",),
        "x converted to `dtype`: floats to integers truncate, anything but 0 is True.",
        infer=_cast_type,
        meaning=lambda x, dtype: x.astype(to_numpy(dtype)),
        lower=pointwise("cast", lambda x, dtype: x.astype(dtype)),
        dtypes=ALL,
        attrs=(("dtype", REQUIRED),),
    ),
)
