"""The mathematical functions of the loop IR, one record each.

Functions of 16-bit floats are computed in float32 and rounded once.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

FLOAT = ("float",)
NUMBER = ("float", "int", "uint")


class Intrinsic(NamedTuple):
    """`meaning` is the numpy function that defines the values; `kinds` the dtype kinds taken.

    `predicate` functions give bool.
    """

    name: str
    arity: int
    kinds: tuple[str, ...]
    meaning: Callable[..., np.ndarray]
    predicate: bool = False

    def result(self, dtype: str) -> str:
        return "bool" if self.predicate else dtype


def _erf(x: np.ndarray) -> np.ndarray:
    wide = np.vectorize(math.erf, otypes=[np.float64])(np.asarray(x, np.float64))
    return wide.astype(np.asarray(x).dtype)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    one = np.asarray(1, np.asarray(x).dtype)
    return one / (one + np.exp(-x))


def _rsqrt(x: np.ndarray) -> np.ndarray:
    return np.asarray(1, np.asarray(x).dtype) / np.sqrt(x)


_RECORDS = (
    Intrinsic("exp", 1, FLOAT, np.exp),
    Intrinsic("log", 1, FLOAT, np.log),
    Intrinsic("sqrt", 1, FLOAT, np.sqrt),
    Intrinsic("rsqrt", 1, FLOAT, _rsqrt),
    Intrinsic("tanh", 1, FLOAT, np.tanh),
    Intrinsic("erf", 1, FLOAT, _erf),
    Intrinsic("sigmoid", 1, FLOAT, _sigmoid),
    Intrinsic("sin", 1, FLOAT, np.sin),
    Intrinsic("cos", 1, FLOAT, np.cos),
    Intrinsic("floor", 1, FLOAT, np.floor),
    Intrinsic("ceil", 1, FLOAT, np.ceil),
    Intrinsic("round", 1, FLOAT, np.rint),
    Intrinsic("trunc", 1, FLOAT, np.trunc),
    Intrinsic("abs", 1, NUMBER, np.abs),
    Intrinsic("pow", 2, FLOAT, np.power),
    Intrinsic("isnan", 1, FLOAT, np.isnan, predicate=True),
)
INTRINSICS = {record.name: record for record in _RECORDS}
