"""The mathematical functions of the loop IR, one record each.

Functions of 16-bit floats are computed in float32 and rounded once.
"""

import math
from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.values.dtypes import DTYPES

FLOAT = ("float",)
WHOLE = ("int", "uint")
INTEGERS = tuple(name for name, record in DTYPES.items() if record.kind in WHOLE)
NUMBER = (*FLOAT, *WHOLE)


class Intrinsic(NamedTuple):
    """`meaning` is the numpy function that defines the values; `kinds` the dtype kinds taken.

    `gives` is the dtype of the result where that is not the arguments'. A function that no
    target provides has a `formula`, which makes an expression of the arguments and is its meaning.
    """

    name: str
    arity: int
    kinds: tuple[str, ...]
    meaning: Callable[..., Any]
    gives: str = ""
    formula: Callable[..., Any] | None = None

    @property
    def predicate(self) -> bool:
        return self.gives == "bool"

    @property
    def usage(self) -> str:
        """The call in a script, such as `T.exp(x)`."""
        names: Iterable[str] = ("x",) if self.arity == 1 else ("a", "b")
        names = signature(self.formula).parameters if self.formula else names
        return f"T.{self.name}({', '.join(names)})"

    def result(self, dtype: str) -> str:
        return self.gives or dtype


def _erf(x: np.ndarray) -> np.ndarray:
    wide = np.vectorize(math.erf, otypes=[np.float64])(np.asarray(x, np.float64))
    return wide.astype(np.asarray(x).dtype)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), by way of exp(-|x|), which never overflows."""
    one = np.asarray(1, np.asarray(x).dtype)
    grown = np.exp(-np.abs(x))
    return np.where(np.asarray(x) < 0, grown, one) / (one + grown)


def _pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """numpy's power of arrays, element by element: one exponent of 0.5 for all would be taken for a
    square root, which is another number at -0.0 and -inf.
    """
    x, y = np.broadcast_arrays(np.asarray(x)[None], np.asarray(y)[None])
    return np.power(x, y.copy())[0]


GELU_END, GELU_SCALE = -40.0, -math.sqrt(0.5)
"""Below its end gelu is -0.0, the limit, in float64 too; its scale leads to arguments of erfc."""


def _gelu(x: np.ndarray) -> np.ndarray:
    """x / 2 * (1 + erf(x / sqrt(2))), by erfc: no cancellation far below 0."""

    def of(value: float) -> float:
        kept = max(value, GELU_END)
        return 0.5 * kept * math.erfc(kept * GELU_SCALE)

    wide = np.vectorize(of, otypes=[np.float64])(np.asarray(x, np.float64))
    return wide.astype(np.asarray(x).dtype)


def _rsqrt(x: np.ndarray) -> np.ndarray:
    return np.asarray(1, np.asarray(x).dtype) / np.sqrt(x)


def to_odd_float32(x: np.ndarray) -> np.ndarray:
    """x in float32; between two of its numbers the one whose last bit is 1. Rounded again, to at
    most 22 bits, it gives what x itself gives (Boldo and Melquiond 2008).
    """
    x = np.asarray(x)
    near = x.astype(np.float32)
    back = _back_from_float32(near, x.dtype)
    beyond = np.where(x < 0, back < x, back > x)
    odd = (near.view(np.int32) - beyond.astype(np.int32) | 1).view(np.float32)
    return np.where((back == x) | (x != x), near, odd)


def _back_from_float32(near: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Float32 numbers back in `dtype`; beyond an integer dtype's greatest value, that value."""
    if dtype.kind == "f":
        return near.astype(dtype)
    last = np.iinfo(dtype).max
    inside = near < float(last)
    return np.where(inside, np.where(inside, near, np.float32(0)).astype(dtype), dtype.type(last))


_RECORDS = (
    Intrinsic("exp", 1, FLOAT, np.exp),
    Intrinsic("log", 1, FLOAT, np.log),
    Intrinsic("log2", 1, FLOAT, np.log2),
    Intrinsic("log10", 1, FLOAT, np.log10),
    Intrinsic("sqrt", 1, FLOAT, np.sqrt),
    Intrinsic("rsqrt", 1, FLOAT, _rsqrt),
    Intrinsic("tanh", 1, FLOAT, np.tanh),
    Intrinsic("erf", 1, FLOAT, _erf),
    Intrinsic("sigmoid", 1, FLOAT, _sigmoid),
    Intrinsic("gelu", 1, FLOAT, _gelu),
    Intrinsic("sin", 1, FLOAT, np.sin),
    Intrinsic("cos", 1, FLOAT, np.cos),
    Intrinsic("floor", 1, FLOAT, np.floor),
    Intrinsic("ceil", 1, FLOAT, np.ceil),
    Intrinsic("round", 1, FLOAT, np.rint),
    Intrinsic("trunc", 1, FLOAT, np.trunc),
    Intrinsic("abs", 1, NUMBER, np.abs),
    Intrinsic("pow", 2, FLOAT, _pow),
    Intrinsic("isnan", 1, FLOAT, np.isnan, "bool"),
)
INTRINSICS = {record.name: record for record in _RECORDS}

_PARTS = (
    Intrinsic("muladd", 3, FLOAT, lambda a, b, c: a * b + c),
    Intrinsic("ldexp", 2, FLOAT, np.ldexp),
    Intrinsic("quotient", 2, WHOLE, lambda a, b: (a - np.fmod(a, b)) // b),
    Intrinsic("remainder", 2, WHOLE, np.fmod),
    Intrinsic("shift_left", 2, WHOLE, np.left_shift),
    Intrinsic("shift_right", 2, WHOLE, np.right_shift),
    *(Intrinsic(f"truncate_{dtype}", 1, FLOAT, np.trunc, dtype) for dtype in INTEGERS),
    Intrinsic("odd_float32", 1, NUMBER, to_odd_float32, "float32"),
    Intrinsic("fmod", 2, FLOAT, np.fmod),
    Intrinsic("copysign", 2, FLOAT, np.copysign),
    Intrinsic("erfc", 1, FLOAT, np.vectorize(math.erfc)),
    Intrinsic("bits", 1, FLOAT, lambda x: np.asarray(x, np.float32).view(np.int32), "int32"),
    Intrinsic("number", 1, ("int",), lambda x: np.asarray(x, np.int32).view(np.float32), "float32"),
)
RECORDS = {**INTRINSICS, **{record.name: record for record in _PARTS}}
"""`INTRINSICS`, and functions that only the programs of `minimlc.loops.math` use, never scripts.
`quotient` and `remainder` drop the fraction, and divide by neither 0 nor -1; shifts have counts
within the type's bits, and `truncate_int8` values within the type's range; the second argument of
`ldexp` is an int32."""


def is_formula(name: str) -> bool:
    """Whether a function was entered as a formula over others."""
    return name in INTRINSICS and INTRINSICS[name].formula is not None
