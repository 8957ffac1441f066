"""The mathematical functions in float32, as straight-line programs in the loop IR.

Every compiled target writes these few lines out: LLVM code for as many lanes as its vectors have,
so that a vectorized loop calls nothing, C code as a function. All work is additions,
multiplications, selections and the bits of numbers; no result depends on how wide the vector is.

A `muladd` may round once or twice; the bounds hold either way. `ULP_BOUNDS` are in units in the
last place (ULP) of the true value, over all inputs; `tests/codegen/test_mathematics.py` measures
them. Zeros keep their signs, infinities and NaN are numpy's, subnormal numbers count as any other.

Where not said otherwise, coefficients are minimax for the stated interval and weight, found by
Lawson's reweighted least squares (C. Lawson 1961) in float64 on 600 or 800 Chebyshev points, with
values from 40 digits; each was rounded to float32 and those of higher powers then fitted anew.
"""

import math
from typing import NamedTuple

from minimlc.tir.nodes import Expr, Intrin, Var, as_expr, binary, intrin, select, unary

ULP_BOUNDS = {
    "exp": 1.5,
    "log": 1.5,
    "tanh": 2.5,
    "erf": 2.5,
    "sigmoid": 2.5,
    "sin": 2.5,
    "cos": 2.5,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "pow": 2.5,
}


class Program(NamedTuple):
    """`steps` name values in order, for use in later ones and in the `result`.

    Where `rare` holds, the C library's function is the answer instead.
    """

    params: tuple[Var, ...]
    steps: tuple[tuple[Var, Expr], ...]
    result: Expr
    rare: Expr | None = None


_ROUND = 12582912.0
"""1.5 * 2**23: adding it to a small float32 leaves the nearest integer in the last bits."""
_ROUND_BITS = 0x4B400000
_SIGN = -(2**31)
_LOG2_E = math.log2(math.e)
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2; 9 bits, so that products with exponents are exact, and the rest (as in Cephes)."""

# (e**r - 1 - r) / r**2, |r| <= ln(2) / 2, relative to e**r: 3.1e-9.
_EXP = (0.49999994, 0.166665211, 0.0416682586, 0.00836866628, 0.0013821196)
# The same relative to e**r - 1: 1.4e-8.
_EXPM1 = (0.49999997, 0.166665465, 0.041667439, 0.00836625602, 0.0013870321)
# (2**r - 1) / r, |r| <= 1/2, relative to 2**r: 3e-9; and one term less: 9.3e-8.
_EXP2 = (0.693147182, 0.240226477, 0.0555035993, 0.00961850584, 0.00133908121, 0.000153264962)
_EXP2_SHORT = (0.693147004, 0.240222469, 0.055507116, 0.00967130065, 0.00132692745)
# (ln(1 + f) - f) / f**2, |f| <= 1/3, relative to ln(1 + f): 3.7e-8 (the first is exact).
_LOG = (
    -0.5,
    0.333332658,
    -0.250042379,
    0.200079307,
    -0.164723247,
    0.140421674,
    -0.151221856,
    0.138207778,
)
# log2(m) / s with s = (m - 1) / (m + 1), in s**2, 2/3 <= m <= 4/3: 2e-11 relative, in float64.
_LOG2 = (
    2.8853900818359928,
    0.96179662173921032,
    0.57709235167645456,
    0.411205793974048,
    0.34840265500436218,
)
# erf(x) / x - 1 in x**2, |x| < 0.95, relative to erf(x) / x: 2.7e-8.
_ERF = (0.128379136, -0.376124114, 0.112810135, -0.0267394874, 0.00495586265, -0.000581142725)
# log2(1 - erf(x)), 0.95 <= x <= 4, for an error of 2.1e-8 relative to erf(x).
_ERFC = (-0.00316782785, -1.61448097, -0.941056788, -0.129957333, 0.0219900869, -0.00174369931)
_ERF_BEND, _ERF_END = 0.95, 4.0
# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, |r| <= pi/4: 4e-9, 1.2e-10.
_SIN = (-0.166666552, 0.00833218731, -0.000195178945)
_COS = (0.0416666456, -0.00138873095, 2.44323292e-05)
_HALF_PI = (1.57080078125, -4.453584551811218e-06, -8.706138032721356e-10, 6.223371969669989e-14)
"""pi / 2: three parts of 12 bits, whose products with up to 2**12 are exact, and the rest."""
_LARGEST = float.fromhex("0x1.fffffep127")
"""The largest finite float32."""
_REDUCED = 4096 * math.pi / 2
"""Larger arguments of sin and cos are rare, and left to the C library."""


class _Writer:
    """A program while it is being written."""

    def __init__(self, *params: str):
        self.params = tuple(Var(name, "float32") for name in params)
        self.steps: list[tuple[Var, Expr]] = []

    def let(self, name: str, value: Expr) -> Var:
        """Name a value."""
        var = Var(name, value.dtype)
        self.steps.append((var, value))
        return var

    def program(self, result: Expr, rare: Expr | None = None) -> Program:
        """The finished program."""
        return Program(self.params, tuple(self.steps), result, rare)

    def between(self, name: str, value: Expr, low: float, high: float) -> Var:
        """`value`, at least `low` and at most `high`; NaN stays."""
        least = self.let(f"{name}_least", _at_least(value, low))
        return self.let(name, _at_most(least, high))

    def nearest(self, name: str, value: Expr) -> tuple[Var, Expr]:
        """A small float32 plus `_ROUND` as its nearest whole number, in float32 and in int32."""
        shifted = self.let(f"{name}_shifted", value)
        return self.let(name, shifted - _ROUND), _bits(shifted) - _ROUND_BITS

    def times_power(self, value: Expr, power: Expr) -> Expr:
        """value * 2**power; two factors, as one would leave float32's range where this does not."""
        whole = self.let("power", power)
        half = self.let("half", binary(">>", whole, 1))
        return value * _power_of_two(half) * _power_of_two(whole - half)

    def reduced(self, x: Expr, times: float = 1.0) -> tuple[Var, Expr]:
        """r and n, where e**(times * x) is 2**n * e**r; `times` is a power of two."""
        whole, power = self.nearest("n", muladd(x, times * _LOG2_E, _ROUND))
        rest = self.let("rest", muladd(whole, -_LN2_HIGH, x if times == 1.0 else x * times))
        return self.let("r", muladd(whole, -_LN2_LOW, rest)), power

    def exponential(self, x: Expr, times: float = 1.0) -> Expr:
        """e**(times * x) where that is no more than float32 holds; subnormal at the end."""
        r, power = self.reduced(x, times)
        tail = self.let("tail", muladd(r * r, _horner(_EXP, r), r))
        return self.times_power(self.let("value", tail + 1.0), power)

    def split(self, x: Expr) -> tuple[Var, Var]:
        """e and m, where x is 2**e * m and m is between 2/3 and 4/3, for a positive finite x."""
        tiny = self.let("tiny", x < 2.0**-126)
        bits = self.let("bits", _bits(select(tiny, x * 2.0**23, x)))
        above = self.let("above", binary(">>", bits - 0x3F2AAAAB, 23))
        m = self.let("m", _number(bits - binary("<<", above, 23)))
        return self.let("e", above.astype("float32") - select(tiny, 23.0, _f32(0.0))), m


def _f32(value: float) -> Expr:
    return as_expr(value, "float32")


def muladd(a: Expr, b: Expr | float, c: Expr | float) -> Expr:
    """a * b + c, rounded once where the machine does that as fast, else twice."""
    return Intrin("muladd", (a, as_expr(b, a.dtype), as_expr(c, a.dtype)))


def _bits(x: Expr) -> Expr:
    return Intrin("bits", (x,))


def _number(bits: Expr) -> Expr:
    return Intrin("number", (bits,))


def _with_sign(magnitude: Expr, x: Expr) -> Expr:
    sign = binary("&", _bits(x), _SIGN)
    return _number(binary("|", binary("&", _bits(magnitude), ~_SIGN), sign))


def _power_of_two(exponent: Expr) -> Expr:
    return _number(binary("<<", exponent + 127, 23))


def _horner(coefficients: tuple[float, ...], x: Expr) -> Expr:
    """The polynomial with these coefficients, the constant one first."""
    value = as_expr(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        value = muladd(value, x, coefficient)
    return value


def _at_most(x: Expr, limit: float) -> Expr:
    return select(x > limit, limit, x)


def _at_least(x: Expr, limit: float) -> Expr:
    return select(x < limit, limit, x)


def _exp() -> Program:
    """2**n * e**r with n the whole number nearest to x / ln 2."""
    write = _Writer("x")
    (x,) = write.params
    return write.program(write.exponential(write.between("clamped", x, -104.0, 89.0)))


def _log() -> Program:
    """e * ln 2 + ln m, where x is 2**e * m."""
    write = _Writer("x")
    (x,) = write.params
    e, m = write.split(x)
    f = write.let("f", m - 1.0)
    low = write.let("low", muladd(f * f, _horner(_LOG, f), e * _LN2_LOW))
    value = write.let("value", muladd(e, _LN2_HIGH, f + low))
    value = write.let("finite", select(x < math.inf, value, x))
    outside = select(x.equal(0.0), -math.inf, _f32(math.nan))
    return write.program(select(x <= 0.0, outside, value))


def _sigmoid() -> Program:
    """1 / (1 + g) or g / (1 + g) with g = e**-|x|, whichever is true to the last places."""
    write = _Writer("x")
    (x,) = write.params
    below = write.let("below", _at_least(-intrin("abs", x), -104.0))
    g = write.let("g", write.exponential(below))
    return write.program(select(x < 0.0, g, _f32(1.0)) / (g + 1.0))


def _tanh() -> Program:
    """-g / (g + 2) with g = e**(-2 * |x|) - 1, which is 2**n * (e**r - 1) + (2**n - 1).

    Towards 1, where it counts most, what g + 2 was off by is made good.
    """
    write = _Writer("x")
    (x,) = write.params
    clamped = write.let("clamped", _at_most(intrin("abs", x), 10.0))
    r, power = write.reduced(clamped, -2.0)
    part = write.let("part", muladd(r * r, _horner(_EXPM1, r), r))
    scale = write.let("scale", _power_of_two(power))
    g = write.let("g", muladd(scale, part, scale - 1.0))
    divisor = write.let("divisor", g + 2.0)
    ratio = write.let("ratio", g / divisor)
    return write.program(_with_sign(muladd(ratio, divisor - 2.0 - g, ratio), x))


def _erf() -> Program:
    """x + x * p(x**2) close to 0, else 1 - 2**q(|x|)."""
    write = _Writer("x")
    (x,) = write.params
    near = write.let("near", muladd(x, _horner(_ERF, write.let("square", x * x)), x))
    size = write.let("size", intrin("abs", x))
    y = write.let("y", _horner(_ERFC, write.let("clamped", _at_most(size, _ERF_END))))
    whole, power = write.nearest("n", y + _ROUND)
    f = write.let("f", y - whole)
    part = write.let("part", muladd(f, _horner(_EXP2_SHORT, f), 1.0))
    far = write.let("far", 1.0 - _number(_bits(part) + binary("<<", power, 23)))
    return write.program(select(size >= _ERF_BEND, _with_sign(far, x), near))


def _sine(shift: int) -> Program:
    """sin(|x| + shift * pi / 2): sine or cosine, by the quadrant, of the rest to its middle."""
    write = _Writer("x")
    (x,) = write.params
    size = write.let("size", intrin("abs", x))
    whole, power = write.nearest("n", muladd(size, 2 / math.pi, _ROUND))
    quadrant = write.let("quadrant", power + shift if shift else power)
    r = size
    for number, part in enumerate(_HALF_PI):
        r = write.let(f"r{number}", muladd(whole, -part, r))
    square = write.let("square", r * r)
    sine = write.let("sine", muladd(r * square, _horner(_SIN, square), r))
    cosine = write.let("cosine", muladd(_horner((-0.5, *_COS), square), square, 1.0))
    odd = binary("&", quadrant, 1).equal(1)
    value = write.let("value", select(odd, cosine, sine))
    flip = binary("<<", binary("&", quadrant, 2), 30)
    sign = flip if shift else binary("^", flip, binary("&", _bits(x), _SIGN))
    return write.program(_number(binary("^", _bits(value), sign)), size > _REDUCED)


def _pow() -> Program:
    """2**(y * log2|x|), the product in float64; then the sign, and where there is no answer."""
    write = _Writer("x", "y")
    x, y = write.params
    size = write.let("size", intrin("abs", x))
    e, m = write.split(size)
    e = write.let("e_finite", select(size < math.inf, e, size))
    e = write.let("e_any", select(size.equal(0.0), -math.inf, e))
    wide = write.let("wide", m.astype("float64"))
    s = write.let("s", (wide - 1.0) / (wide + 1.0))
    square = write.let("square", s * s)
    logarithm = write.let("logarithm", muladd(s, _horner(_LOG2, square), e.astype("float64")))
    finite = write.between("y_finite", y, -_LARGEST, _LARGEST)
    product = write.let("product", finite.astype("float64") * logarithm)
    t = write.between("t", product, -200.0, 200.0)
    whole, power = write.nearest("n", t.astype("float32") + _ROUND)
    f = write.let("f", (t - whole.astype("float64")).astype("float32"))
    part = write.let("part", muladd(f, _horner(_EXP2, f), 1.0))
    value = write.let("value", write.times_power(part, power))
    return write.program(_with_signs_of_pow(write, x, y, value))


def _with_signs_of_pow(write: _Writer, x: Expr, y: Expr, value: Expr) -> Expr:
    whole = write.let("whole", intrin("floor", y).equal(y))
    half = write.let("half_y", y * 0.5)
    odd = binary("and", whole, binary("!=", intrin("floor", half), half))
    sign = select(odd, binary("&", _bits(x), _SIGN), as_expr(0, "int32"))
    with_sign = write.let("with_sign", _number(binary("|", _bits(value), sign)))
    negative = binary("and", x < 0.0, x > -math.inf)
    real = write.let("real", binary("or", whole, unary("not", negative)))
    answer = write.let("answer", select(real, with_sign, _f32(math.nan)))
    return select(binary("or", y.equal(0.0), x.equal(1.0)), _f32(1.0), answer)


PROGRAMS = {
    "exp": _exp(),
    "log": _log(),
    "tanh": _tanh(),
    "erf": _erf(),
    "sigmoid": _sigmoid(),
    "sin": _sine(0),
    "cos": _sine(1),
    "pow": _pow(),
}
"""The functions that are written so; of the others a machine has instructions."""
