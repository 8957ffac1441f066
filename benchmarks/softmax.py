"""Softmax of a matrix's rows: two reductions and an exponential."""

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


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Target: as fast as the best peer."""
    with contest("softmax", thread_count, repeat) as found:
        for shape in SHAPES:
            result = softmax(found, shape)
            if shape == SHAPES[0]:
                found.report.claims += result.claim(1.0, "torch", "torch.compile", "numba", "jax")
        found.report.notes.append("Everybody returns a fresh array.")
    return found.report


def softmax_loops(x, out):
    for i in prange(x.shape[0]):
        largest = x[i, 0]
        for j in range(x.shape[1]):
            largest = max(largest, x[i, j])
        total = np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - largest)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total


def softmax(found: Contest, shape: tuple[int, int]) -> Result:
    """One contest."""
    x = np.random.default_rng(0).standard_normal(shape, np.float32) * 4
    exact = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    contenders = [
        programs.model(programs.graph(lambda a: mlc.op.softmax(a, axis=-1), x), x),
        *peers.torch_and_compiled(lambda a: module("torch").softmax(a, -1), x),
        *peers.numba(softmax_loops, x, np.empty_like(x), threads=found.threads, fresh=True),
        *peers.jax(lambda a: module("jax").nn.softmax(a), x),
    ]
    title = f"softmax, {'×'.join(map(str, shape))} float32"
    # A sum of 16 384 float32 in a row loses up to some 1e-5 of the largest probability.
    return found.run(title, contenders, exact, tolerance=1e-4, moved=2 * x.nbytes)
