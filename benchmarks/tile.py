"""Tile programs beside our own recipes for the same work; both write into an array."""
# mypy: disable-error-code="valid-type"

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks import programs
from benchmarks.contest import Contest, Result, contest
from benchmarks.layernorm import EPSILON
from benchmarks.layernorm import formula as normalized
from benchmarks.report import Report
from minimlc.script import T, tile

RECIPE = "recipe"
"""The peer: the operator, or the formula, as the recipes schedule it."""
SIDE = 128
"""Of a product's blocks."""
WORK: dict[str, tuple[tuple[int, ...], ...]] = {
    "add": ((1 << 22,), ((1 << 22) - 3,)),
    "softmax": ((1024, 1024), (1024, 1000)),
    "layer norm": ((1024, 1024), (1024, 1000)),
    "product": ((512, 512, 512), (500, 500, 500)),
}
"""The sizes of each; the second ones are no whole tiles and need masks: no claim is about them."""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Target: 0.8 of the recipes' speed."""
    with contest("tile", thread_count, repeat) as found:
        for name, sizes in WORK.items():
            results = [compared(found, name, size) for size in sizes]
            found.report.claims += results[0].claim(0.8, RECIPE)
    return found.report


def compared(found: Contest, name: str, size: tuple[int, ...]) -> Result:
    """One contest."""
    rng = np.random.default_rng(0)
    func = KERNELS[name](*size)
    *inputs, out = (rng.standard_normal(p.shape, np.float32) for p in func.params)
    contenders = [
        programs.kernel(mlc.IRModule.of({"main": func}), *inputs, out),
        programs.kernel(RECIPES[name](*inputs), *inputs, np.empty_like(out), name=RECIPE),
    ]
    exact = EXACT[name](*(array.astype(float) for array in inputs))
    work: dict[str, float] = {"moved": sum(array.nbytes for array in (*inputs, out))}
    if name == "product":
        work = {"operations": 2.0 * np.prod(size)}
    title = f"tile program: {name}, {'×'.join(map(str, size))} float32"
    return found.run(title, contenders, exact, tolerance=1e-4, close=True, **work)


def _add(n: int) -> mlc.PrimFunc:
    @tile.kernel(grid=tile.cdiv(n, 1024))
    def add(A: T.Buffer((n,)), B: T.Buffer((n,)), C: T.Buffer((n,))):
        at = tile.program_id(0) * 1024 + tile.arange(0, 1024)
        inside = at < n
        tile.store(C[at], tile.load(A[at], inside) + tile.load(B[at], inside), inside)

    return add


def _softmax(rows: int, n: int) -> mlc.PrimFunc:
    @tile.kernel(grid=rows)
    def softmax(A: T.Buffer((rows, n)), C: T.Buffer((rows, n))):
        row, columns = tile.program_id(0), tile.arange(0, 1024)
        inside = columns < n
        x = tile.load(A[row, columns], inside, float("-inf"))
        e = tile.exp(x - tile.max(x, axis=0))
        tile.store(C[row, columns], e / tile.sum(e, axis=0), inside)

    return softmax


def _layer_norm(rows: int, n: int) -> mlc.PrimFunc:
    @tile.kernel(grid=rows)
    def layer_norm(
        A: T.Buffer((rows, n)), W: T.Buffer((n,)), B: T.Buffer((n,)), C: T.Buffer((rows, n))
    ):
        row, columns = tile.program_id(0), tile.arange(0, 1024)
        inside = columns < n
        x = tile.load(A[row, columns], inside)
        mean = tile.sum(x, axis=0) / float(n)
        centred = tile.where(inside, x - mean, 0.0)
        variance = tile.sum(centred * centred, axis=0) / float(n)
        scale = tile.rsqrt(variance + EPSILON) * tile.load(W[columns], inside)
        tile.store(C[row, columns], centred * scale + tile.load(B[columns], inside), inside)

    return layer_norm


def _product(m: int, n: int, k: int) -> mlc.PrimFunc:
    @tile.kernel(grid=(ceil(m / SIDE), ceil(n / SIDE)))
    def product(A: T.Buffer((m, k)), B: T.Buffer((k, n)), C: T.Buffer((m, n))):
        rows = (tile.program_id(0) * SIDE + tile.arange(0, SIDE))[:, None]
        columns = (tile.program_id(1) * SIDE + tile.arange(0, SIDE))[None, :]
        acc = tile.zeros((SIDE, SIDE), "float32")
        for start in range(0, k, SIDE):
            along = start + tile.arange(0, SIDE)
            a = tile.load(A[rows, along[None, :]], (rows < m) & (along[None, :] < k))
            b = tile.load(B[along[:, None], columns], (along[:, None] < k) & (columns < n))
            acc += tile.dot(a, b)
        tile.store(C[rows, columns], acc, (rows < m) & (columns < n))

    return product


def _softmax_of(a: Any) -> mlc.IRModule:
    return programs.lowered(programs.graph(lambda x: mlc.op.softmax(x, axis=-1), a))


def _layer_norm_of(*arrays: Any) -> mlc.IRModule:
    graph = programs.graph(
        lambda x, w, b: mlc.op.layer_norm(x, w, b, axes=-1, epsilon=EPSILON), *arrays
    )
    return programs.lowered(graph)


def _exact_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


KERNELS: dict[str, Callable[..., mlc.PrimFunc]] = {
    "add": _add,
    "softmax": _softmax,
    "layer norm": _layer_norm,
    "product": _product,
}
RECIPES: dict[str, Callable[..., mlc.IRModule]] = {
    "add": lambda a, b: programs.formula(lambda x, y: x + y, a, b),
    "softmax": _softmax_of,
    "layer norm": _layer_norm_of,
    "product": lambda a, b: programs.matmul(a.shape[0], b.shape[1], b.shape[0]),
}
EXACT: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "softmax": _exact_softmax,
    "layer norm": normalized,
    "product": np.matmul,
}
