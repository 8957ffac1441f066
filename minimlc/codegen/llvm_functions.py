"""exp, log, tanh and erf in float32, from additions and multiplications: as fast as the vector is
wide, and the same in a scalar loop as in a vectorized one.

The stated bounds are in units in the last place (ULP) of the true value, over all finite inputs;
`tests/codegen/test_llvm_functions.py` measures them. float64 uses the C library.
"""

import math

from minimlc.codegen.llvm_ops import Arithmetic
from minimlc.codegen.llvm_value import Value, constant

ULP_BOUNDS = {"exp": 2, "log": 2, "tanh": 8, "erf": 8, "sigmoid": 4}

_ROUND = 12582912.0
"""1.5 * 2**23: adding it to a small float32 leaves the nearest integer in the last bits."""

# S. Moshier, Cephes (single precision): expf and logf.
_EXP = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4

# Rational approximations x * p(x**2) / q(x**2), as Eigen uses them.
_TANH = (
    (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    ),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)
_ERF = (
    (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    ),
    (
        -1.45660718464996e-05,
        -2.13374055278905e-04,
        -1.68282697438203e-03,
        -7.37332916720468e-03,
        -1.42647390514189e-02,
    ),
)
_TANH_END, _ERF_END = 7.90531110763549805, 4.0


def _f32(value: float) -> Value:
    return constant(value, "float32")


def _i32(value: int) -> Value:
    return constant(value, "int32")


class Functions(Arithmetic):
    """Each takes and gives a float32 value, uniform or vector."""

    def exp(self, x: Value) -> Value:
        """2**n * e**r with n the nearest integer to x / ln 2; NaN, infinities and underflow too."""
        x = self.select(self.apply("fcmp olt", "bool", x, _f32(-104.0)), _f32(-104.0), x)
        x = self.select(self.apply("fcmp ogt", "bool", x, _f32(89.0)), _f32(89.0), x)
        shifted = self.binary("+", self.binary("*", x, _f32(math.log2(math.e))), _f32(_ROUND))
        whole = self.apply("fsub", "float32", shifted, _f32(_ROUND))
        bits = self.convert("bitcast", shifted, "i32", "int32")
        power = self.apply("sub", "int32", bits, _i32(0x4B400000))
        rest = self.binary("-", x, self.binary("*", whole, _f32(_LN2_HIGH)))
        rest = self.binary("-", rest, self.binary("*", whole, _f32(_LN2_LOW)))
        square = self.binary("*", rest, rest)
        value = self.binary("+", self.binary("*", self._horner(_EXP, rest), square), rest)
        value = self.apply("fadd", "float32", value, _f32(1.0))
        half = self.apply("ashr", "int32", power, _i32(1))
        value = self.apply("fmul", "float32", value, self._power_of_two(half))
        other = self.apply("sub", "int32", power, half)
        return self.apply("fmul", "float32", value, self._power_of_two(other))

    def _power_of_two(self, exponent: Value) -> Value:
        biased = self.apply("add", "int32", exponent, _i32(127))
        bits = self.apply("shl", "int32", biased, _i32(23))
        return self.convert("bitcast", bits, "float", "float32")

    def _horner(self, coefficients: tuple[float, ...], x: Value) -> Value:
        value = _f32(coefficients[0])
        for coefficient in coefficients[1:]:
            value = self.binary("+", self.binary("*", value, x), _f32(coefficient))
        return value

    def log(self, x: Value) -> Value:
        """e * ln 2 + ln m with m between sqrt(1/2) and sqrt(2)."""
        tiny = self.apply("fcmp olt", "bool", x, _f32(2.0**-126))
        scaled = self.select(tiny, self.apply("fmul", "float32", x, _f32(2.0**23)), x)
        bits = self.convert("bitcast", scaled, "i32", "int32")
        exponent = self.apply("lshr", "int32", bits, _i32(23))
        bias = self.select(tiny, _i32(126 + 23), _i32(126))
        exponent = self.apply("sub", "int32", exponent, bias)
        fraction = self.apply("and", "int32", bits, _i32(0x7FFFFF))
        fraction = self.apply("or", "int32", fraction, _i32(0x3F000000))
        m = self.convert("bitcast", fraction, "float", "float32")
        low = self.apply("fcmp olt", "bool", m, _f32(math.sqrt(0.5)))
        exponent = self.apply("sub", "int32", exponent, self.select(low, _i32(1), _i32(0)))
        m = self.apply("fadd", "float32", m, self.select(low, m, _f32(0.0)))
        value = self._log_of(self.apply("fsub", "float32", m, _f32(1.0)), exponent)
        value = self.select(
            self.apply("fcmp oeq", "bool", x, _f32(math.inf)), _f32(math.inf), value
        )
        value = self.select(self.apply("fcmp oeq", "bool", x, _f32(0.0)), _f32(-math.inf), value)
        return self.select(self.apply("fcmp oge", "bool", x, _f32(0.0)), value, _f32(math.nan))

    def _log_of(self, m: Value, exponent: Value) -> Value:
        """ln(1 + m) + exponent * ln 2."""
        power = self.convert("sitofp", exponent, "float", "float32")
        square = self.binary("*", m, m)
        value = self.binary("*", self.binary("*", m, square), self._horner(_LOG, m))
        value = self.binary("+", value, self.binary("*", power, _f32(_LN2_LOW)))
        value = self.binary("-", value, self.binary("*", square, _f32(0.5)))
        value = self.apply("fadd", "float32", m, value)
        return self.binary("+", value, self.binary("*", power, _f32(_LN2_HIGH)))

    def tanh(self, x: Value) -> Value:
        """Beyond the clamp tanh is 1 to the last place."""
        return self._odd_ratio(x, 1.0, _TANH_END, *_TANH)

    def erf(self, x: Value) -> Value:
        """Beyond the clamp erf is 1 to the last place."""
        return self._odd_ratio(x, 2 / math.sqrt(math.pi), _ERF_END, *_ERF)

    def _odd_ratio(
        self,
        x: Value,
        slope: float,
        end: float,
        top: tuple[float, ...],
        bottom: tuple[float, ...],
    ) -> Value:
        """x * top(x**2) / bottom(x**2); close to 0, where that would underflow, slope * x."""
        clamped = self.select(self.apply("fcmp ogt", "bool", x, _f32(end)), _f32(end), x)
        below = self.apply("fcmp olt", "bool", clamped, _f32(-end))
        clamped = self.select(below, _f32(-end), clamped)
        square = self.binary("*", clamped, clamped)
        above = self.binary("*", clamped, self._horner(top, square))
        ratio = self.apply("fdiv", "float32", above, self._horner(bottom, square))
        tiny = self.apply("fcmp olt", "bool", self.lanewise("llvm.fabs", x), _f32(4e-4))
        return self.select(tiny, self.binary("*", x, _f32(slope)), ratio)
