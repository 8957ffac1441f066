"""On a real GPU: the kernels of the tests, of tile programs and recipes, and whole models compute
what LLVM's code computes on the CPU.
"""

import numpy as np
import pytest

import minimlc as mlc
from benchmarks import kits, networks
from tests.gpu.everything import modules
from tests.helpers import TOLERANCE, random_args

pytestmark = pytest.mark.requires("cuda")

LARGEST = 1 << 21
"""Elements of a parameter; what is larger takes a CPU minutes, and is the benchmark's."""
MODELS = {**{f"small {name}": each for name, each in networks.TINY.items()}, **networks.MODELS}


@pytest.fixture
def cp():
    return pytest.importorskip("cupy")


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


def agree(cp, expected, results):
    """Differences are relative to the largest number."""
    for exact, result in zip(expected, map(cp.asnumpy, results), strict=True):
        assert (result.shape, result.dtype) == (exact.shape, exact.dtype)
        limit = TOLERANCE.get(exact.dtype.name, 0)
        exact, result = exact.astype(float), result.astype(float)
        largest = np.abs(exact[np.isfinite(exact)]).max(initial=1)
        np.testing.assert_allclose(result, exact, rtol=0, atol=limit * largest)


def test_kernels(cp):
    count = 0
    for number, mod in enumerate(modules()):
        (name,) = mod.functions
        if max(np.prod(p.shape) for p in mod[name].params) <= LARGEST:
            args = random_args(mod[name], np.random.default_rng(number))
            there = [cp.asarray(array) for array in args]
            mlc.build(mod)[name](*args)
            mlc.build(mod, target="cuda")[name](*there)
            agree(cp, args, there)
            count += 1
    assert count >= 59


@pytest.mark.parametrize("name", MODELS)
def test_models(cp, name):
    """The later calls launch CUDA graphs."""
    mod, _ = kits.ours(MODELS[name])
    arrays = kits.inputs_of(MODELS[name])
    expected = flat(mlc.build(mod)["main"](*arrays))
    function, there = mlc.build(mod, target="cuda")["main"], list(map(cp.asarray, arrays))
    for _ in range(4):
        agree(cp, expected, flat(function(*there)))
