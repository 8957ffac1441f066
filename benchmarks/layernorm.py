"""Layer norm of a matrix's rows: mean and variance, then an affine map by column."""

import math

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import Contest, Result, contest
from benchmarks.installed import module
from benchmarks.peers import prange
from benchmarks.report import Report

SHAPES = ((1024, 1024), (16384, 64), (64, 16384))
"""The claim is about the first."""
EPSILON = 1e-5


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Target: as fast as the best peer."""
    with contest("layernorm", thread_count, repeat) as found:
        for shape in SHAPES:
            result = layer_norm(found, shape)
            if shape == SHAPES[0]:
                found.report.claims += result.claim(1.0, "torch", "torch.compile", "numba", "jax")
        found.report.notes.append("Everybody returns a fresh array.")
    return found.report


def layer_norm_loops(x, scale, shift, out):
    for i in prange(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / np.float32(x.shape[1])
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += (x[i, j] - mean) * (x[i, j] - mean)
        factor = np.float32(1 / math.sqrt(total / x.shape[1] + EPSILON))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * factor * scale[j] + shift[j]


def formula(x, scale, shift):
    """The textbook's, in numpy's or jax's arrays."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / (variance + EPSILON) ** 0.5 * scale + shift


def layer_norm(found: Contest, shape: tuple[int, int]) -> Result:
    """One contest."""
    rng = np.random.default_rng(0)
    x, scale, shift = (rng.standard_normal(s, np.float32) for s in (shape, shape[1], shape[1]))
    x += 2

    def by_torch(a, b, c):
        return module("torch").nn.functional.layer_norm(a, (shape[1],), b, c, EPSILON)

    program = programs.graph(
        lambda a, b, c: mlc.op.layer_norm(a, b, c, axes=-1, epsilon=EPSILON), x, scale, shift
    )
    contenders = [
        programs.model(program, x, scale, shift),
        *peers.torch_and_compiled(by_torch, x, scale, shift),
        *peers.numba(
            layer_norm_loops, x, scale, shift, np.empty_like(x), threads=found.threads, fresh=True
        ),
        *peers.jax(formula, x, scale, shift),
    ]
    exact = formula(*(array.astype(float) for array in (x, scale, shift)))
    title = f"layer norm, {'×'.join(map(str, shape))} float32"
    close = shape[0] == shape[1]
    return found.run(title, contenders, exact, moved=2 * x.nbytes, close=close)
