"""The mathematical functions in float32, as straight-line programs in the loop IR.

Every compiled target writes these few lines out: LLVM code for as many lanes as its vectors have,
so that a vectorized loop calls nothing, C code as a function. All work is additions,
multiplications, selections and the bits of numbers; no result depends on how wide the vector is.

A `muladd` may round once or twice; the bounds hold either way. `ULP_BOUNDS` are in units in the
last place (ULP) of the true value, over all inputs; `tests/codegen/test_mathematics.py` measures
them. Zeros keep their signs, infinities and NaN are numpy's, subnormal numbers count as any other;
gelu of -inf is its limit, -0.0.

Unless stated otherwise, coefficients are minimax for the stated interval and weight, found by
Lawson's reweighted least squares (C. Lawson 1961) in float64 on 600 or 800 Chebyshev points, with
values from 40 digits; each was rounded to float32, and the higher powers then fitted anew.
"""

import math
from functools import cache, partial

from minimlc.loops.ir.nodes import Expr, as_expr, binary, intrin, select, unary
from minimlc.loops.math import float_steps as steps
from minimlc.loops.math.float_steps import with_sign

ULP_BOUNDS = {
    "exp": 1.5,
    "log": 1.5,
    "log2": 2.5,
    "log10": 3.0,
    "tanh": 2.5,
    "erf": 2.5,
    "sigmoid": 2.5,
    "gelu": 2.5,
    "sin": 2.5,
    "cos": 2.5,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "pow": 2.5,
}

LOG10_E = math.log10(math.e)
LOG10_2_HIGH = 0.301025390625
LOG10_2_LOW = math.log10(2) - LOG10_2_HIGH
"""log10 2; 12 bits, so that products with exponents are exact, and the rest."""

# (e**r - 1 - r) / r**2, |r| <= ln(2) / 2, relative to e**r - 1: 1.4e-8.
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
# With Phi the normal distribution: (Phi(x) - 1/2) / x in x**2, |x| < 0.6, relative to Phi(-|x|)
# if times x: 1.2e-8; and t * Phi(-t) * e**(t**2 / 2) in (t - 3/2) / (t + 3), relative: 2e-8.
_GELU_NEAR = (0.3989422, -0.06648773, 0.009948254, -0.0010955756)
_GELU_FAR = (
    *(0.308671, 0.3166818, -0.44251058, 0.2965256, -0.062516764),
    *(-0.03638702, 0.013522485, 0.010169515, -0.0052262153),
)
_GELU_BEND, _GELU_END_BITS = 0.6, 0x41666666
"""From 14.4 on, gelu is zero or x."""
# (2 - s - 2 * e**(-s / 2)) / s**2.
_GELU_EXP = tuple(-0.5 * (-0.5) ** n * coefficient for n, coefficient in enumerate(steps.EXP))
# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, |r| <= pi/4: 4e-9, 1.2e-10.
_SIN = (-0.166666552, 0.00833218731, -0.000195178945)
_COS = (0.0416666456, -0.00138873095, 2.44323292e-05)
_HALF_PI = (1.57080078125, -4.453584551811218e-06, -8.706138032721356e-10, 6.223371969669989e-14)
"""pi / 2: three parts of 12 bits, whose products with up to 2**12 are exact, and the rest."""
_LARGEST = float.fromhex("0x1.fffffep127")
"""The largest finite float32."""
_REDUCED = 4096 * math.pi / 2
"""Larger arguments of sin and cos are rare, and left to the C library."""


def _exp(write: steps.Writer, x: Expr) -> Expr:
    """2**n * e**r with n the whole number nearest to x / ln 2."""
    return write.exponential(write.between("clamped", x, -104.0, 89.0))


def _log(write: steps.Writer, x: Expr) -> Expr:
    """e * ln 2 + ln m, where x is 2**e * m."""
    e, m = write.split(x)
    f = write.let("f", m - 1.0)
    low = write.let("low", steps.muladd(f * f, steps.horner(_LOG, f), e * steps.LN2_LOW))
    return _logarithm(write, x, steps.muladd(e, steps.LN2_HIGH, f + low))


def _log2(write: steps.Writer, x: Expr) -> Expr:
    """e + log2 m, where x is 2**e * m: exact for m = 1."""
    e, m = write.split(x)
    f = write.let("f", m - 1.0)
    tail = write.let("tail", f * f * steps.horner(_LOG, f))
    rest = write.let("rest", steps.muladd(tail, steps.LOG2_E, f * (steps.LOG2_E - 1.0)))
    return _logarithm(write, x, e + f + rest)


def _log10(write: steps.Writer, x: Expr) -> Expr:
    """e * log10 2 + log10 m, where x is 2**e * m: exact for the powers of ten."""
    e, m = write.split(x)
    f = write.let("f", m - 1.0)
    tail = write.let("tail", f * f * steps.horner(_LOG, f))
    rest = write.let("rest", steps.muladd(f, LOG10_E, steps.muladd(tail, LOG10_E, e * LOG10_2_LOW)))
    return _logarithm(write, x, steps.muladd(e, LOG10_2_HIGH, rest))


def _logarithm(write: steps.Writer, x: Expr, value: Expr) -> Expr:
    """A logarithm of x, where it is not infinite or NaN."""
    value = write.let("value", value)
    value = write.let("finite", select(x < math.inf, value, x))
    outside = select(x.equal(0.0), -math.inf, steps.f32(math.nan))
    return select(x <= 0.0, outside, value)


def _sigmoid(write: steps.Writer, x: Expr) -> Expr:
    """1 / (1 + g) or g / (1 + g) with g = e**-|x|, whichever is true to the last places."""
    below = write.let("below", steps.at_least(-intrin("abs", x), -104.0))
    g = write.let("g", write.exponential(below))
    return select(x < 0.0, g, steps.f32(1.0)) / (g + 1.0)


def _tanh(write: steps.Writer, x: Expr) -> Expr:
    """-g / (g + 2) with g = e**(-2 * |x|) - 1, which is 2**n * (e**r - 1) + (2**n - 1).

    Towards 1, where it counts most, what g + 2 was off by is made good.
    """
    clamped = write.let("clamped", steps.at_most(intrin("abs", x), 10.0))
    r, power = write.reduced(clamped, -2.0)
    part = write.let("part", steps.muladd(r * r, steps.horner(_EXPM1, r), r))
    scale = write.let("scale", steps.power_of_two(power))
    g = write.let("g", steps.muladd(scale, part, scale - 1.0))
    divisor = write.let("divisor", g + 2.0)
    ratio = write.let("ratio", g / divisor)
    return with_sign(steps.muladd(ratio, divisor - 2.0 - g, ratio), x)


def _erf(write: steps.Writer, x: Expr) -> Expr:
    """x + x * p(x**2) close to 0, else 1 - 2**q(|x|)."""
    near = write.let("near", steps.muladd(x, steps.horner(_ERF, write.let("square", x * x)), x))
    size = write.let("size", intrin("abs", x))
    y = write.let("y", steps.horner(_ERFC, write.let("clamped", steps.at_most(size, _ERF_END))))
    whole, power = write.nearest("n", y + steps.ROUND)
    f = write.let("f", y - whole)
    part = write.let("part", steps.muladd(f, steps.horner(_EXP2_SHORT, f), 1.0))
    far = write.let("far", 1.0 - steps.number_of(steps.bits_of(part) + binary("<<", power, 23)))
    return select(size >= _ERF_BEND, with_sign(far, x), near)


def _gelu(write: steps.Writer, x: Expr) -> Expr:
    """x * Phi(x): x / 2 + x**2 * p(x**2) close to 0, else -h or x - h with h = |x| * Phi(-|x|).

    h is e**(-t**2 / 2) times what changes little. t**2 is needed to more places than a float32 has:
    that of the leading 12 bits of t is exact, `less` has the rest; both less 2 * n * ln 2.
    """
    t = write.let(
        "t", steps.number_of(binary("min", steps.bits_of(intrin("abs", x)), _GELU_END_BITS))
    )
    square = write.let("square", t * t)
    q = write.let("q", (t - 1.5) / (t + 3.0))
    high = write.let("high", steps.number_of(binary("&", steps.bits_of(t), -(2**12))))
    biased = write.let("biased", steps.muladd(square, 0.5 * steps.LOG2_E, steps.ROUND - 64))
    whole = write.let("n", biased - (steps.ROUND - 64))
    rest = write.let("rest", steps.muladd(whole, -2 * steps.LN2_HIGH, high * high))
    less = write.let("less", steps.muladd(whole, -2 * steps.LN2_LOW, (t - high) * (t + high)))
    s = write.let("s", rest + less)
    gone = write.let("gone", rest + steps.muladd(s * s, write.paired(_GELU_EXP, s), less))
    slope = steps.muladd(write.paired(_GELU_FAR[2:], q), q, _GELU_FAR[1])
    factor = write.let("factor", steps.muladd(slope, q, _GELU_FAR[0]))
    near = write.let("near", x * steps.muladd(x, steps.horner(_GELU_NEAR, square), 0.5))
    # Of the sum's bits, only those of n - 64 are not shifted out.
    power = binary("<<", steps.bits_of(biased), 23)
    scaled = write.let("scaled", steps.number_of(steps.bits_of(factor) - power))
    minus_h = write.let("minus_h", steps.muladd(scaled, gone, -(scaled + scaled)))
    far = write.let("far", steps.muladd(minus_h, 2.0**-65, steps.at_least(x, -0.0)))
    return select(t < _GELU_BEND, near, far)


def _sine(shift: int, write: steps.Writer, x: Expr) -> Expr:
    """sin(|x| + shift * pi / 2): sine or cosine, by the quadrant, of the rest to its middle."""
    size = write.let("size", intrin("abs", x))
    whole, power = write.nearest("n", steps.muladd(size, 2 / math.pi, steps.ROUND))
    quadrant = write.let("quadrant", power + shift if shift else power)
    r = size
    for number, part in enumerate(_HALF_PI):
        r = write.let(f"r{number}", steps.muladd(whole, -part, r))
    square = write.let("square", r * r)
    sine = write.let("sine", steps.muladd(r * square, steps.horner(_SIN, square), r))
    cosine = write.let("cosine", steps.muladd(steps.horner((-0.5, *_COS), square), square, 1.0))
    odd = binary("&", quadrant, 1).equal(1)
    value = write.let("value", select(odd, cosine, sine))
    flip = binary("<<", binary("&", quadrant, 2), 30)
    sign = flip if shift else binary("^", flip, binary("&", steps.bits_of(x), steps.SIGN))
    write.rare = size > _REDUCED
    return steps.number_of(binary("^", steps.bits_of(value), sign))


def _pow(write: steps.Writer, x: Expr, y: Expr) -> Expr:
    """2**(y * log2|x|), the product in float64; then the sign, and where there is no answer."""
    size = write.let("size", intrin("abs", x))
    e, m = write.split(size)
    e = write.let("e_finite", select(size < math.inf, e, size))
    e = write.let("e_any", select(size.equal(0.0), -math.inf, e))
    wide = write.let("wide", m.astype("float64"))
    s = write.let("s", (wide - 1.0) / (wide + 1.0))
    square = write.let("square", s * s)
    logarithm = write.let(
        "logarithm", steps.muladd(s, steps.horner(_LOG2, square), e.astype("float64"))
    )
    finite = write.between("y_finite", y, -_LARGEST, _LARGEST)
    product = write.let("product", finite.astype("float64") * logarithm)
    t = write.between("t", product, -200.0, 200.0)
    whole, power = write.nearest("n", t.astype("float32") + steps.ROUND)
    f = write.let("f", (t - whole.astype("float64")).astype("float32"))
    part = write.let("part", steps.muladd(f, steps.horner(_EXP2, f), 1.0))
    value = write.let("value", write.times_power(part, power))
    return _with_signs_of_pow(write, x, y, value)


def _with_signs_of_pow(write: steps.Writer, x: Expr, y: Expr, value: Expr) -> Expr:
    whole = write.let("whole", intrin("floor", y).equal(y))
    half = write.let("half_y", y * 0.5)
    odd = binary("and", whole, binary("!=", intrin("floor", half), half))
    sign = select(odd, binary("&", steps.bits_of(x), steps.SIGN), as_expr(0, "int32"))
    with_sign = write.let("with_sign", steps.number_of(binary("|", steps.bits_of(value), sign)))
    negative = binary("and", x < 0.0, x > -math.inf)
    real = write.let("real", binary("or", whole, unary("not", negative)))
    answer = write.let("answer", select(real, with_sign, steps.f32(math.nan)))
    return select(binary("or", y.equal(0.0), x.equal(1.0)), steps.f32(1.0), answer)


_DEFINITIONS: dict[str, steps.Define] = {
    "exp": _exp,
    "log": _log,
    "log2": _log2,
    "log10": _log10,
    "tanh": _tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
    "gelu": _gelu,
    "sin": partial(_sine, 0),
    "cos": partial(_sine, 1),
    "pow": _pow,
}
PROGRAMS = {name: steps.written(define, "float32") for name, define in _DEFINITIONS.items()}
"""The functions written as programs; for the others a machine has instructions."""


@cache
def scaling(name: str) -> steps.Program:
    """One of the programs, with the same results, for a machine that has `ldexp`."""
    return steps.written(_DEFINITIONS[name], "float32", scales=True)
