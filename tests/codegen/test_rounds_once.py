"""Numbers that become 16-bit floats are rounded once, wherever they come from."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, Var, index, store
from minimlc.loops.ir.values import HALF, converted
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.services.build import build

TARGETS = ["interpreter", "python", "llvm", pytest.param("c", marks=pytest.mark.requires("cc"))]
SOURCES = ("float64", "float32", "int64", "int32", "uint32")


def nearest(value, dtype):
    """The nearest number of a dtype, the even one of two: in exact arithmetic."""
    if not value or not math.isfinite(value):
        return float(value)
    info, size = ml_dtypes.finfo(to_numpy(dtype)), abs(Fraction(value))
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = max(exponent - (size < Fraction(2) ** exponent), info.minexp) - info.nmant
    result = round(size / Fraction(2) ** exponent) * Fraction(2) ** exponent
    return math.copysign(math.inf if result > float(info.max) else float(result), value)


def beside_ties(source, target):
    """Numbers halfway between neighbours of a 16-bit dtype, and those beside them."""
    numbers = np.arange({"float16": 0x7C00, "bfloat16": 0x7F80}[target], dtype=np.uint16)
    numbers = numbers.view(to_numpy(target)).astype(np.float64)
    end = 2 * numbers[-1] - numbers[-2]
    ties = ((np.append(numbers[1:], end) + numbers) / 2)[np.arange(len(numbers)) % 61 < 2]
    ties = np.append(ties, (numbers[-1] + end) / 2)
    kind = to_numpy(source).type
    if is_float(source):
        ties = ties[ties.astype(kind) == ties].astype(kind)
        ties = np.concatenate([ties, np.nextafter(ties, kind(0)), np.nextafter(ties, kind(np.inf))])
        return np.concatenate([ties, -ties, np.array([0.0, -0.0, np.inf, np.nan, 5e-324], kind)])
    least, last = np.iinfo(source).min, np.iinfo(source).max
    whole = [int(tie) for tie in ties if tie == np.floor(tie) and tie < last]
    near = [tie + step for tie in whole for step in (-1, 0, 1)]
    return np.array([*near, *(-x for x in near if -x >= least), least, last, last - 1], source)


def cast_to(target, values, dtype):
    source, result = values.dtype.name, np.zeros(values.shape, to_numpy(dtype))
    a, b = Buffer("A", values.shape, source), Buffer("B", values.shape, dtype)
    i = Var("i")
    body = For(i, index(len(values)), "vectorized", store(b, (i,), a[i].astype(dtype)))
    func = PrimFunc((a, b), (), body)
    if target == "interpreter":
        interpret(IRModule({"main": func}), "main", values, result)
    else:
        build(func, target)["main"](values, result)
    return result


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("target", TARGETS)
def test_ties_and_what_is_beside_them(target, dtype, source):
    values = beside_ties(source, dtype)
    wanted = np.array([nearest(value, dtype) for value in values.tolist()])
    np.testing.assert_array_equal(cast_to(target, values, dtype).astype(np.float64), wanted)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(converted(values, dtype).astype(np.float64), wanted)
