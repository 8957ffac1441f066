"""The programs of the speed benchmarks as a user writes them: formulas and graphs, no schedule."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks.harness import Contender
from benchmarks.peers import into
from minimlc import te
from minimlc.script import R

ACCUMULATED = {"float32": "float32", "bfloat16": "float32", "int8": "int32"}
"""The dtype of a product's sums, by its operands'."""
NAIVE_ROUNDS = 3


def matmul(m: int, n: int, k: int, dtype: str = "float32", batch: int = 0) -> mlc.IRModule:
    """C = A @ B, or `batch` of them; sums are in a wider dtype than bfloat16."""
    leading = (batch,) if batch else ()
    a = te.placeholder((*leading, m, k), dtype, name="A")
    b = te.placeholder((*leading, k, n), dtype, name="B")
    r = te.reduce_axis((0, k), name="k")
    sums = ACCUMULATED[dtype]

    def product(x: Any, y: Any) -> Any:
        return te.sum(x * y if sums == dtype else x.astype(sums) * y.astype(sums), axis=r)

    if batch:
        c = te.compute((batch, m, n), lambda p, i, j: product(a[p, i, r], b[p, r, j]), name="C")
    else:
        c = te.compute((m, n), lambda i, j: product(a[i, r], b[r, j]), name="C")
    return mlc.IRModule.of({"main": te.create_prim_func([a, b, c])})


def formula(function: Callable[..., Any], *arrays: np.ndarray) -> mlc.IRModule:
    """One loop nest that writes `function` of the arrays' elements."""
    inputs = [
        te.placeholder(array.shape, array.dtype.name, name=f"x{at}")
        for at, array in enumerate(arrays)
    ]
    (size,) = arrays[0].shape
    out = te.compute((size,), lambda i: function(*(x[i] for x in inputs)), name="out")
    return mlc.IRModule.of({"main": te.create_prim_func([*inputs, out])})


def graph(function: Callable[..., Any], *arrays: np.ndarray) -> mlc.IRModule:
    """A graph function of tensors like the arrays, from operators in `minimlc.op`."""
    inputs = [
        mlc.Var(f"x{at}", R.Tensor(array.shape, array.dtype.name))
        for at, array in enumerate(arrays)
    ]
    bb = mlc.BlockBuilder()
    with bb.function("main", inputs):
        with bb.dataflow():
            result = bb.emit_output(function(*inputs))
        bb.emit_func_output(result)
    return bb.get()


def lowered(mod: mlc.IRModule) -> mlc.IRModule:
    """The one primitive function that a graph becomes, as "main"; scheduled."""
    made = mlc.run_passes(mod, mlc.passes.default_pipeline)
    (func,) = [func for _, func in made.entries if isinstance(func, mlc.PrimFunc)]
    return mlc.IRModule.of({"main": func})


def kernel(
    mod: mlc.IRModule,
    *arrays: np.ndarray,
    name: str = "minimlc",
    tolerance: float | None = None,
    scheduled: bool = True,
) -> Contender:
    """minimlc's contender: a primitive function, scheduled by `recipes.apply`, writes the last."""
    function = mlc.build(mlc.recipes.apply(mod) if scheduled else mod)["main"]
    made = into(name, lambda: function(*arrays), arrays[-1])
    return replace(made, tolerance=tolerance, rounds=None if scheduled else NAIVE_ROUNDS)


def model(
    mod: mlc.IRModule,
    *arrays: np.ndarray,
    name: str = "minimlc",
    target: str | mlc.Target = "llvm",
) -> Contender:
    """minimlc's contender: a graph function, which returns a fresh array."""
    function = mlc.build(mod, target)["main"]
    return Contender(name, lambda: function(*arrays))
