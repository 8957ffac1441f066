"""Tile programs compute what numpy does: interpreted, and built by LLVM."""

import numpy as np
import pytest

import minimlc as mlc
from tests.helpers import random_args
from tests.tile.kernels import CASES


@pytest.mark.parametrize("name", CASES)
def test_kernels(name):
    case = CASES[name]
    mod = mlc.IRModule({"main": case.func})
    mlc.verify(mod)
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    args = random_args(case.func, np.random.default_rng(0))
    args = [np.abs(a) % 60 if a.dtype == np.int32 else a for a in args]
    native = [a.copy() for a in args]
    expected = case.expected(*args[:-1])
    mlc.interpret(mod, "main", *args)
    mlc.build(mod)["main"](*native)
    close = {"rtol": case.tolerance, "atol": case.tolerance}
    for found in (args[-1], native[-1]):
        np.testing.assert_allclose(found, expected, **close)
