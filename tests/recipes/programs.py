"""Unscheduled programs that recipes are tried on, and how a result is judged."""

from dataclasses import replace

import numpy as np

import minimlc as mlc
from minimlc import te
from minimlc.loops.values.dtypes import to_numpy

SMALL_CACHES = {"l1": 1024, "l2": 4096, "l3": 8192}
"""Caches so small that a program which runs in an instant has several blocks of each kind."""


USUAL = {"l1": 32 * 1024, "l2": 512 * 1024, "l3": 32 * 1024 * 1024, "cores": 2}
WIDE_ONLY = ("avx512", "avx10", "amx", "vnni")


def target(vector_bits: int = 256, **sizes: int) -> mlc.Target:
    """This machine as seen by a recipe: with such vectors and usual sizes."""
    host = mlc.Target.host()
    features = ",".join(
        # Left out, a feature would come back by the CPU's name.
        f"-{part[1:]}" if vector_bits <= 256 and any(w in part for w in WIDE_ONLY) else part
        for part in host.features.split(",")
    )
    return replace(host, vector_bits=vector_bits, features=features, **{**USUAL, **sizes})


def matmul(m, n, k, *, turned=(False, False), dtype="float32", batch=()) -> mlc.IRModule:
    """C[..., i, j] += A[..., i, k] * B[..., k, j]; `turned` stores A or B transposed."""
    left = (*batch, k, m) if turned[0] else (*batch, m, k)
    right = (*batch, n, k) if turned[1] else (*batch, k, n)
    a, b = te.placeholder(left, dtype, name="A"), te.placeholder(right, dtype, name="B")
    r = te.reduce_axis((0, k), name="k")

    def element(*indices):
        *outer, i, j = indices
        x = a[(*outer, r, i)] if turned[0] else a[(*outer, i, r)]
        y = b[(*outer, j, r)] if turned[1] else b[(*outer, r, j)]
        return te.sum(x * y, axis=r)

    c = te.compute((*batch, m, n), element, name="C")
    return mlc.IRModule.of({"mm": te.create_prim_func([a, b, c])})


def conv2d(n, c, h, w, o, kernel=3, stride=1, dtype="float32") -> mlc.IRModule:
    """out[n, o, i, j] += image[n, c, i*s + p, j*s + q] * weights[o, c, p, q], without borders.

    16-bit floats are added up in float32.
    """
    image = te.placeholder((n, c, h, w), dtype, name="image")
    weights = te.placeholder((o, c, kernel, kernel), dtype, name="weights")
    r = te.reduce_axis((0, c), name="c")
    p, q = (te.reduce_axis((0, kernel), name=name) for name in "pq")
    shape = (n, o, (h - kernel) // stride + 1, (w - kernel) // stride + 1)

    def element(b, f, i, j):
        pixel, weight = image[b, r, i * stride + p, j * stride + q], weights[f, r, p, q]
        wide = "float32" if dtype in ("float16", "bfloat16") else dtype
        return te.sum(pixel.astype(wide) * weight.astype(wide), axis=[r, p, q])

    out = te.compute(shape, element, name="out")
    return mlc.IRModule.of({"conv": te.create_prim_func([image, weights, out])})


def arguments(mod: mlc.IRModule, seed: int = 0) -> list[np.ndarray]:
    """Random inputs, and an output full of NaN, for a module's only function."""
    (func,) = mod.functions.values()
    rng = np.random.default_rng(seed)
    *inputs, out = func.params
    arrays = [rng.standard_normal(p.shape).astype(to_numpy(p.dtype)) for p in inputs]
    return [*arrays, np.full(out.shape, np.nan, out.dtype)]


def run(mod: mlc.IRModule, arrays: list[np.ndarray], target="llvm") -> np.ndarray:
    """The last argument after a call of a module's only function."""
    (name,) = mod.functions
    out = arrays[-1].copy()
    mlc.build(mod, target=target, cache=False)[name](*arrays[:-1], out)
    return out


def interpreted(mod: mlc.IRModule, arrays: list[np.ndarray]) -> np.ndarray:
    """The same by the reference interpreter."""
    (name,) = mod.functions
    out = arrays[-1].copy()
    mlc.interpret(mod, name, *arrays[:-1], out)
    return out
