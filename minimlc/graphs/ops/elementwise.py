"""Operators of one tensor, element by element: arithmetic, functions, activations, cast."""

from math import inf
from typing import Any

import numpy as np

from minimlc.graphs.ops.broadcast import maximum, minimum, where
from minimlc.graphs.ops.checks import ALL, BOOL, FLOATS, INTEGERS, NUMBERS, refuse
from minimlc.graphs.ops.record import Op, composite, primitive
from minimlc.graphs.ops.values import Values, along, named, pointwise
from minimlc.loops.ir.intrinsics import INTRINSICS
from minimlc.loops.ir.nodes import intrin, unary
from minimlc.loops.ir.values import converted
from minimlc.loops.values.dtypes import is_float, whole_range
from minimlc.loops.values.literals import Symbol


def _function(name: str, formula: str, dtypes: tuple[str, ...] = FLOATS) -> Op:
    """A mathematical function that the loop IR has too."""

    def apply(x: Values) -> Values:
        return pointwise(lambda e: intrin(name, e), x)

    return primitive(name, dtypes, INTRINSICS[name].meaning, f"{formula}, element by element.")(
        apply
    )


@primitive("negative", NUMBERS, np.negative)
def negative(x: Values) -> Values:
    """-x, element by element; integers wrap."""
    return pointwise(lambda e: unary("-", e), x)


@primitive("logical_not", BOOL, np.logical_not)
def logical_not(x: Values) -> Values:
    """Whether x does not hold, element by element."""
    return pointwise(lambda e: unary("not", e), x)


@primitive("bitwise_not", INTEGERS, np.invert)
def bitwise_not(x: Values) -> Values:
    """The bits that x has not, element by element."""
    return pointwise(lambda e: unary("~", e), x)


@primitive("cast", ALL, converted)
def cast(x: Values, *, dtype: str) -> Values:
    """x converted to `dtype`: floats to integers truncate, those out of range give the nearest
    integer and NaN gives 0; integers wrap; anything but 0 is True.
    """
    return pointwise(lambda e: e.astype(dtype), x, gives=dtype)


absolute = _function("abs", "|x|", NUMBERS)
exp = _function("exp", "e to the power of x")
log = _function("log", "The natural logarithm of x")
log2 = _function("log2", "The logarithm of x to the base 2, exact for its powers")
log10 = _function("log10", "The logarithm of x to the base 10, exact for its powers")
sqrt = _function("sqrt", "The square root of x")
rsqrt = _function("rsqrt", "1 / sqrt(x)")
tanh = _function("tanh", "The hyperbolic tangent of x")
sigmoid = _function("sigmoid", "1 / (1 + exp(-x))")
erf = _function("erf", "The error function of x")
sin = _function("sin", "The sine of x (radians)")
cos = _function("cos", "The cosine of x (radians)")
floor = _function("floor", "The greatest integer <= x")
ceil = _function("ceil", "The least integer >= x")
trunc = _function("trunc", "x without its fraction")
nearest = _function("round", "The integer nearest to x; halves go to the even one")
gelu = _function("gelu", "x / 2 * (1 + erf(x / sqrt(2))) (Hendrycks and Gimpel 2016)")

silu = composite("silu", lambda x: x * sigmoid(x), "x * sigmoid(x), element by element.")
relu = composite(
    "relu",
    lambda x: maximum(x, 0),
    "max(x, 0), element by element; NaN stays NaN.",
    NUMBERS,
    rounds=False,
)


def _leaky_relu(x: Any, *, alpha: float = 0.01) -> Any:
    """x where x > 0, else alpha * x, element by element."""
    return where(x > 0.0, x, x * alpha)


def _clip(x: Any, *, min: float, max: float) -> Any:
    """min where x < min, max where x > max, else x; max for all where min > max. NaN stays NaN."""
    dtype = x.native.dtype if isinstance(x, Values) else x.dtype.name
    for name, bound in (("min", min), ("max", max)):
        kinds = (int, float) if is_float(dtype) else (int,)
        if not isinstance(bound, (*kinds, Symbol)) or isinstance(bound, bool):
            refuse(f"{name}={bound!r} is not a value of {dtype}", "E204")
    if min != min or max != max:
        refuse(f"min={min} and max={max} are numbers, not NaN", "E204")
    lowest, highest = whole_range(dtype) or (min, max)
    low, high = (sorted((lowest, bound, highest))[1] for bound in (min, max))
    return minimum(maximum(x, low), high)


leaky_relu = composite("leaky_relu", _leaky_relu)
clip = composite("clip", _clip, dtypes=NUMBERS)


@primitive("isnan", FLOATS, np.isnan)
def isnan(x: Values) -> Values:
    """Whether x is not a number, element by element."""
    return pointwise(lambda e: intrin("isnan", e), x, gives="bool")


def _sign(x: Any) -> Any:
    """1 where x > 0, -1 where x < 0, else x."""
    if not is_float(str(x.dtype)):
        return clip(x, min=-1, max=1)
    return where(x > 0, 1, where(x < 0, -1, x))


def _expm1(x: Any) -> Any:
    """exp(x) - 1; near 0 it is 2 t / (1 - t) with t = tanh(x / 2), which loses nothing."""
    t = named(tanh(x * 0.5), "expm1_tanh")
    return where(absolute(x) < 1.0, 2.0 * t / (1.0 - t), exp(x) - 1.0)


def _log1p(x: Any) -> Any:
    """log(1 + x); near 0 what 1 + x lost is given back (Kahan)."""
    sum_ = x + 1.0
    near = where(sum_ == 1.0, x, log(sum_) * (x / (sum_ - 1.0)))
    return where(absolute(x) < 0.5, near, log(sum_))


def _softplus(x: Any) -> Any:
    """log(1 + exp(x)), without an overflow where x is great."""
    return maximum(x, 0.0) + log1p(named(exp(-absolute(x)), "softplus_exp"))


def _selu(x: Any) -> Any:
    """A scaled x where x >= 0, else a scaled exp(x) - 1 (Klambauer et al. 2017)."""
    return where(x >= 0.0, x, expm1(minimum(x, 0.0)) * SELU_ALPHA) * SELU_SCALE


def _gelu_tanh(x: Any) -> Any:
    """gelu by a tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""
    return x * 0.5 * (tanh((x * x * x * 0.044715 + x) * GELU_TANH) + 1.0)


def _prelu(x: Any, alpha: Any, *, axis: int = 1) -> Any:
    """x where x > 0, else alpha * x, with an alpha for each place along `axis`."""
    return where(x > 0.0, x, x * along(alpha, axis, x))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
GELU_TANH = 0.7978845608028654  # sqrt(2 / pi)
square = composite("square", lambda x: x * x, "x * x, element by element.", NUMBERS, rounds=False)
sign = composite("sign", _sign, dtypes=NUMBERS, rounds=False)
isinf = composite("isinf", lambda x: absolute(x) == inf, "Whether x is infinite.", rounds=False)
isfinite = composite(
    "isfinite", lambda x: absolute(x) < inf, "Whether x is a finite number.", rounds=False
)
relu6 = composite(
    "relu6", lambda x: minimum(maximum(x, 0), 6), "x between 0 and 6.", NUMBERS, rounds=False
)
expm1 = composite("expm1", _expm1)
log1p = composite("log1p", _log1p)
softplus = composite("softplus", _softplus)
selu = composite("selu", _selu)
gelu_tanh = composite("gelu_tanh", _gelu_tanh)
prelu = composite("prelu", _prelu)
