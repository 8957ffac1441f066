"""Tensor expressions, run: by the interpreter and by LLVM, which give the same bits."""

from typing import Any

import numpy as np

import minimlc as mlc
from minimlc import te
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.module import IRModule
from tests.helpers import copies


def whole_numbers(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers whose products and sums are exact in any order, so that rounding hides nothing."""
    low = 0 if dtype in ("bool", "uint8") else -6
    return rng.integers(low, 2 if dtype == "bool" else 7, shape).astype(to_numpy(dtype))


def run(*tensors: Any, exact: bool = True, seed: int = 0) -> list[np.ndarray]:
    """The arguments after a run of the function that computes `tensors`.

    Its script reads back as the same. `exact=False` for mathematical functions, which the
    interpreter takes from numpy.
    """
    mod = mlc.verify(IRModule.from_expr(te.create_prim_func(tensors)))
    assert mlc.structural_equal(mlc.parse(mod.script()), mod)
    rng = np.random.default_rng(seed)
    args = [whole_numbers(param.shape, param.dtype, rng) for param in mod["main"].params]
    again = copies(args)
    mlc.interpret(mod, "main", *args)
    mlc.build(mod)["main"](*again)
    for mine, other in zip(args, again, strict=True):
        if exact or not is_float(mine.dtype.name):
            assert mine.tobytes() == other.tobytes()
        np.testing.assert_allclose(mine.astype(float), other.astype(float), rtol=1e-5, atol=1e-6)
    return args
