"""Elementwise mathematical functions and remainders, composed of other operators.

A value needed more than once is stored by a separate loop nest (`named`), so formulas stay small.
"""

from math import log as log_of
from math import pi
from math import tan as tan_of
from typing import Any

from minimlc.graphs.ops.broadcast import (
    floor_divide,
    logical_and,
    maximum,
    minimum,
    mod,
    power,
    where,
)
from minimlc.graphs.ops.checks import ALL, NUMBERS
from minimlc.graphs.ops.create import full_like
from minimlc.graphs.ops.elementwise import absolute, cos, exp, log, log1p, sin, sqrt, tanh, trunc
from minimlc.graphs.ops.record import composite
from minimlc.graphs.ops.values import named
from minimlc.loops.values.dtypes import DTYPES

LOG_2, FAR = log_of(2), 1e9
"""Beyond `FAR`, 1 + x * x is x * x in float64 too."""


def _either(condition: Any, yes: float, no: float, like: Any) -> Any:
    """One of two numbers for each element, in the dtype of `like`."""
    return where(condition, full_like(like, value=yes), no)


def _signed(size: Any, x: Any) -> Any:
    """`size`, which is not negative, with the sign of x; it is written once."""
    return size * _either(signbit(x), -1.0, 1.0, x)


def _copysign(x: Any, y: Any) -> Any:
    """x with the sign of y, element by element; that of NaN counts as +."""
    return where(signbit(y), -absolute(x), absolute(x))


signbit = composite(
    "signbit",
    lambda x: minimum(x, 1.0 / x) < 0.0,
    "Whether x is negative, -0.0 among them; False for NaN.",
    rounds=False,
)
copysign = composite("copysign", _copysign, rounds=False)
reciprocal = composite("reciprocal", lambda x: 1.0 / x, "1 / x, element by element.", rounds=False)
identity = composite("identity", lambda x: x, "x itself.", ALL, rounds=False)


# Remainders


def _trunc_divide(x: Any, y: Any) -> Any:
    """x / y, rounded towards 0, element by element; 0 where an integer y is 0."""
    if DTYPES[str(x.dtype)].kind == "float":
        return trunc(x / y)
    below = floor_divide(x, y)
    up = logical_and(mod(x, y) != 0, (x < 0) != (y < 0))
    return where(up, below + 1, below)


def _fmod(x: Any, y: Any) -> Any:
    """x - y * (x / y, rounded towards 0), element by element; 0 where an integer y is 0."""
    if DTYPES[str(x.dtype)].kind == "float":
        return copysign(mod(absolute(x), absolute(y)), x)
    rest = mod(x, y)
    return where(logical_and(rest != 0, (x < 0) != (y < 0)), rest - y, rest)


trunc_divide = composite("trunc_divide", _trunc_divide, dtypes=NUMBERS)
fmod = composite("fmod", _fmod, dtypes=NUMBERS)


# Exponentials and logarithms


def _logaddexp(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), element by element, without an overflow."""
    far = log1p(named(exp(-absolute(x - y)), "logaddexp_ratio"))
    return maximum(x, y) + where(x == y, LOG_2, far)


exp2 = composite("exp2", lambda x: power(full_like(x, value=2.0), x), "2 to the power of x.")
logaddexp = composite("logaddexp", _logaddexp)


# Hyperbolic functions


def _sinh(x: Any) -> Any:
    """The hyperbolic sine of x; near 0 it is 2 t / (1 - t * t) with t = tanh(x / 2)."""
    half, t = named(exp(x * 0.5), "sinh_exp"), named(tanh(x * 0.5), "sinh_tanh")
    return where(absolute(x) < 1.0, 2.0 * t / (1.0 - t * t), half * 0.5 * half - 0.5 / half / half)


def _cosh(x: Any) -> Any:
    """The hyperbolic cosine of x."""
    half = named(exp(x * 0.5), "cosh_exp")
    return half * 0.5 * half + 0.5 / half / half


def _asinh(x: Any) -> Any:
    """The inverse of sinh: log(|x| + sqrt(x * x + 1)) with the sign of x."""
    size = absolute(x)
    square = minimum(size, FAR) * minimum(size, FAR)
    near = log1p(named(size + square / (1.0 + sqrt(square + 1.0)), "asinh_part"))
    return _signed(where(size > FAR, log(size) + LOG_2, near), x)


def _acosh(x: Any) -> Any:
    """The inverse of cosh: log(x + sqrt(x * x - 1)); NaN below 1."""
    near = minimum(x, FAR)
    part = named(near - 1.0 + sqrt(near - 1.0) * sqrt(near + 1.0), "acosh_part")
    return where(x > FAR, log(x) + LOG_2, log1p(part))


def _atanh(x: Any) -> Any:
    """The inverse of tanh: log((1 + x) / (1 - x)) / 2; NaN beyond 1."""
    size = absolute(x)
    return _signed(log1p(named(2.0 * size / (1.0 - size), "atanh_part")) * 0.5, x)


sinh = composite("sinh", _sinh)
cosh = composite("cosh", _cosh)
asinh = composite("asinh", _asinh)
acosh = composite("acosh", _acosh)
atanh = composite("atanh", _atanh)


# Angles

TERMS, EIGHTH = 22, tan_of(pi / 8)
"""Terms of the series of atan, which leave less than 1e-17 up to the tangent of pi / 8."""


def _atan(x: Any) -> Any:
    """The angle whose tangent is x, by the series at 0 of the reduced argument (Euler)."""
    size = absolute(x)
    folded = where(size > 1.0, 1.0 / size, size)
    least = where(folded > EIGHTH, (folded - 1.0) / (folded + 1.0), folded)
    part = named(least, "atan_part")
    squared, series = part * part, full_like(part, value=1 / (2 * TERMS + 1))
    for n in reversed(range(TERMS)):
        series = 1 / (2 * n + 1) - squared * series
    angle = part * series + _either(folded > EIGHTH, pi / 4, 0.0, size)
    angle = angle * _either(size > 1.0, -1.0, 1.0, size) + _either(size > 1.0, pi / 2, 0.0, size)
    return _signed(angle, x)


def _asin(x: Any) -> Any:
    """The angle between -pi / 2 and pi / 2 whose sine is x; NaN beyond 1."""
    half = named(x / (1.0 + sqrt((1.0 - x) * (1.0 + x))), "asin_part")
    return atan(half) * 2.0


def _acos(x: Any) -> Any:
    """The angle between 0 and pi whose cosine is x; NaN beyond 1."""
    return atan(named(sqrt((1.0 - x) / (1.0 + x)), "acos_part")) * 2.0


def _atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from -pi to pi, with the signs of zeros as in C's atan2."""
    big, small = maximum(absolute(y), absolute(x)), minimum(absolute(y), absolute(x))
    ratio = where(big == 0.0, big, where(small == big, 1.0, small / big))
    angle = atan(named(ratio, "atan2_ratio"))
    steep = absolute(y) > absolute(x)
    angle = angle * _either(steep, -1.0, 1.0, ratio) + _either(steep, pi / 2, 0.0, ratio)
    angle = angle * _either(signbit(x), -1.0, 1.0, x) + _either(signbit(x), pi, 0.0, x)
    return _signed(angle, y)


tan = composite("tan", lambda x: sin(x) / cos(x), "The tangent of x (radians).")
atan = composite("atan", _atan)
asin = composite("asin", _asin)
acos = composite("acos", _acos)
atan2 = composite("atan2", _atan2)


# Filling


def _masked_fill(x: Any, mask: Any, *, value: float) -> Any:
    """x with `value` where the mask holds, with broadcasting."""
    return where(mask, full_like(x, value=value), x)


masked_fill = composite(
    "masked_fill", _masked_fill, dtypes=ALL, rounds=False, param_dtypes=(("mask", ("bool",)),)
)
