"""Straight-line programs in float32, while they are being written: the steps functions share.

The functions, and how their coefficients were found, are in `minimlc.loops.math.functions`.
"""

import math
from collections.abc import Callable, Iterable
from inspect import signature
from typing import NamedTuple

from minimlc.loops.ir.nodes import Expr, Intrin, Select, Var, as_expr, binary, select


class Program(NamedTuple):
    """`steps` name values in order, for use in later ones and in the `result`.

    Where `rare` holds, the C library's function is the answer instead. `note` is for readers.
    """

    params: tuple[Var, ...]
    steps: tuple[tuple[Var, Expr], ...]
    result: Expr
    rare: Expr | None = None
    note: str = ""

    def cases(self) -> tuple[list[tuple[Expr, Expr]], Expr]:
        """The result by cases, where there are several: conditions, values, and the last value."""
        cases: list[tuple[Expr, Expr]] = []
        rest = self.result
        while isinstance(rest, Select) and (cases or isinstance(rest.b, Select)):
            cases.append((rest.condition, rest.a))
            rest = rest.b
        return cases, rest


ROUND = 12582912.0
"""1.5 * 2**23: adding it to a small float32 leaves the nearest integer in the last bits."""
ROUND_BITS = 0x4B400000
SIGN = -(2**31)
LOG2_E = math.log2(math.e)
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2; 9 bits, so that products with exponents are exact, and the rest (as in Cephes)."""

# (e**r - 1 - r) / r**2, |r| <= ln(2) / 2, relative to e**r: 3.1e-9.
EXP = (0.49999994, 0.166665211, 0.0416682586, 0.00836866628, 0.0013821196)


class Writer:
    """A program while it is being written; one for machines that have `ldexp` if it `scales`."""

    def __init__(self, params: Iterable[str], dtype: str, scales: bool = False):
        self.scales = scales
        self.params = tuple(Var(name, dtype) for name in params)
        self.steps: list[tuple[Var, Expr]] = []
        self.rare: Expr | None = None

    def let(self, name: str, value: Expr) -> Var:
        """Name a value."""
        var = Var(name, value.dtype)
        self.steps.append((var, value))
        return var

    def program(self, result: Expr, note: str = "") -> Program:
        """The finished program."""
        return Program(self.params, tuple(self.steps), result, self.rare, note)

    def between(self, name: str, value: Expr, low: float, high: float) -> Var:
        """`value`, at least `low` and at most `high`; NaN stays."""
        least = self.let(f"{name}_least", at_least(value, low))
        return self.let(name, at_most(least, high))

    def nearest(self, name: str, value: Expr) -> tuple[Var, Expr]:
        """A small float32 plus `ROUND` as its nearest whole number, in float32 and in int32."""
        shifted = self.let(f"{name}_shifted", value)
        return self.let(name, shifted - ROUND), bits_of(shifted) - ROUND_BITS

    def paired(self, coefficients: tuple[float, ...], x: Var) -> Expr:
        """`horner`, two terms at a time: half as many steps wait for each other."""
        square = self.let(f"{x.name}_square", x * x)
        start = (len(coefficients) - 2) // 2 * 2
        value = horner(coefficients[start:], x)
        for at in range(start - 2, -1, -2):
            value = muladd(value, square, horner(coefficients[at : at + 2], x))
        return value

    def times_power(self, value: Expr, power: Expr) -> Expr:
        """value * 2**power, rounded once; two factors, as one would leave float32's range where
        this does not.
        """
        if self.scales:
            return Intrin("ldexp", (value, power))
        whole = self.let("power", power)
        half = self.let("half", binary(">>", whole, 1))
        return value * power_of_two(half) * power_of_two(whole - half)

    def reduced(self, x: Expr, times: float = 1.0) -> tuple[Var, Expr]:
        """r and n, where e**(times * x) is 2**n * e**r; `times` is a power of two."""
        whole, power = self.nearest("n", muladd(x, times * LOG2_E, ROUND))
        rest = self.let("rest", muladd(whole, -LN2_HIGH, x if times == 1.0 else x * times))
        return self.let("r", muladd(whole, -LN2_LOW, rest)), power

    def exponential(self, x: Expr, times: float = 1.0) -> Expr:
        """e**(times * x) where that is no more than float32 holds; subnormal at the end."""
        r, power = self.reduced(x, times)
        tail = self.let("tail", muladd(r * r, horner(EXP, r), r))
        return self.times_power(self.let("value", tail + 1.0), power)

    def split(self, x: Expr) -> tuple[Var, Var]:
        """e and m, where x is 2**e * m and m is between 2/3 and 4/3, for a positive finite x."""
        tiny = self.let("tiny", x < 2.0**-126)
        bits = self.let("bits", bits_of(select(tiny, x * 2.0**23, x)))
        above = self.let("above", binary(">>", bits - 0x3F2AAAAB, 23))
        m = self.let("m", number_of(bits - binary("<<", above, 23)))
        return self.let("e", above.astype("float32") - select(tiny, 23.0, f32(0.0))), m


Define = Callable[..., Expr]
"""A function of a writer and of operands, which gives the result; its docstring is for readers."""


def written(define: Define, dtype: str, scales: bool = False) -> Program:
    """The program that a definition writes for operands of a dtype."""
    _, *params = signature(define).parameters
    write = Writer(params, dtype, scales)
    return write.program(define(write, *write.params), define.__doc__ or "")


def f32(value: float) -> Expr:
    return as_expr(value, "float32")


def muladd(a: Expr, b: Expr | float, c: Expr | float) -> Expr:
    """a * b + c, rounded once where the machine does that as fast, else twice."""
    return Intrin("muladd", (a, as_expr(b, a.dtype), as_expr(c, a.dtype)))


def bits_of(x: Expr) -> Expr:
    return Intrin("bits", (x,))


def number_of(bits: Expr) -> Expr:
    return Intrin("number", (bits,))


def with_sign(magnitude: Expr, x: Expr) -> Expr:
    sign = binary("&", bits_of(x), SIGN)
    return number_of(binary("|", binary("&", bits_of(magnitude), ~SIGN), sign))


def power_of_two(exponent: Expr) -> Expr:
    return number_of(binary("<<", exponent + 127, 23))


def horner(coefficients: tuple[float, ...], x: Expr) -> Expr:
    """The polynomial with these coefficients, the constant one first."""
    value = as_expr(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        value = muladd(value, x, coefficient)
    return value


def at_most(x: Expr, limit: float) -> Expr:
    return select(x > limit, limit, x)


def at_least(x: Expr, limit: float) -> Expr:
    return select(x < limit, limit, x)
