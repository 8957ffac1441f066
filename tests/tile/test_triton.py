"""Tile programs agree with the same in Triton, run by its interpreter."""

from importlib import import_module

import numpy as np
import pytest

import minimlc as mlc
from tests.helpers import random_args
from tests.tile.kernels import CASES


@pytest.mark.requires("triton")
@pytest.mark.parametrize("name", CASES)
def test_kernels(name, monkeypatch):
    """Bit by bit where nothing is rounded twice; else each is within a tolerance of the exact
    result, whatever the order of its sums, so they are within two of each other.
    """
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    case = CASES[name]
    args = random_args(case.func, np.random.default_rng(1))
    args = [np.abs(a) % 60 if a.dtype == np.int32 else a for a in args]
    theirs = [a.copy() for a in args]
    mlc.build(mlc.IRModule({"main": case.func}))["main"](*args)
    import_module("tests.tile.triton_kernels").launch(name, theirs)
    bound = 2 * case.tolerance
    np.testing.assert_allclose(args[-1], theirs[-1], rtol=bound, atol=bound)
