"""The stated bounds of the functions computed in float32, measured against the C library's."""

import math

import numpy as np
import pytest

from minimlc.codegen.llvm_functions import ULP_BOUNDS
from minimlc.runtime.build import build
from minimlc.tir.nodes import Buffer, For, PrimFunc, Var, index, intrin, store
from tests.codegen.machines import MACHINES

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1e-39, 3.4e38, -3.4e38, 1.0, -1.0]
TRUE = {
    "exp": lambda x: math.inf if x > 700 else math.exp(x),
    "log": lambda x: math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda x: 0.0 if x < -88.7228 else 1 / (1 + math.exp(-x)),
}


def inputs() -> np.ndarray:
    """All exponents with both signs, the ranges where the functions bend, and special values."""
    rng = np.random.default_rng(0)
    spread = rng.integers(0, 2**32, 30000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [rng.uniform(-r, r, 10000) for r in (1e-3, 1, 10, 100)]
    return np.concatenate([np.float32(SPECIAL), spread, *near], dtype=np.float32)


@pytest.mark.parametrize("name", ULP_BOUNDS)
@pytest.mark.parametrize("target", MACHINES, ids=lambda t: t.cpu)
def test_bounds(name, target):
    x = inputs()
    a, b = Buffer("a", x.shape, "float32"), Buffer("b", x.shape, "float32")
    i, got = Var("i"), np.zeros_like(x)
    body = For(i, index(len(x)), "vectorized", store(b, (i,), intrin(name, a[i])))
    build(PrimFunc((a, b), (), body), target, cache=False)["main"](x, got)
    with np.errstate(all="ignore"):
        exact = np.array([TRUE[name](float(v)) for v in x])
        want = exact.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
        finite = np.isfinite(want)
        unit = np.spacing(np.abs(want[finite])).astype(np.float64)
        errors = np.abs(got[finite].astype(np.float64) - exact[finite]) / unit
    worst = np.argmax(errors)
    assert errors[worst] <= ULP_BOUNDS[name], (x[finite][worst], errors[worst])


@pytest.mark.parametrize("name", ULP_BOUNDS)
def test_scalar_and_vector_code_agree(name):
    x = inputs()[:1000]
    a, b = Buffer("a", x.shape, "float32"), Buffer("b", x.shape, "float32")
    results = []
    for kind in ("serial", "vectorized"):
        i, got = Var("i"), np.zeros_like(x)
        body = For(i, index(len(x)), kind, store(b, (i,), intrin(name, a[i])))
        build(PrimFunc((a, b), (), body), cache=False)["main"](x, got)
        results.append(got)
    np.testing.assert_array_equal(*results)
