"""Attention: softmax(Q Kᵀ / √d) V for every head."""

import math

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import Contest, contest
from benchmarks.installed import module
from benchmarks.report import Report

SHAPES = ((1, 8, 512, 64), (4, 12, 128, 64))
"""Batches, heads, positions, and a head's width."""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """No target; beside torch's own operator, and what compilers make of the formula."""
    with contest("attention", thread_count, repeat) as found:
        for shape in SHAPES:
            attention(found, shape)
    return found.report


def attention(found: Contest, shape: tuple[int, int, int, int]) -> None:
    """One contest; its operations are the two products'."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape, np.float32) for _ in range(3))
    scale = 1 / math.sqrt(shape[-1])

    def program(a, b, c):
        scores = mlc.op.matmul(a, mlc.op.permute_dims(b, (0, 1, 3, 2)))
        return mlc.op.matmul(mlc.op.softmax(mlc.op.multiply(scores, scale), axis=-1), c)

    def by_torch(a, b, c):
        return module("torch").nn.functional.scaled_dot_product_attention(a, b, c)

    def spelled_out(a, b, c):
        return module("torch").softmax(a @ b.transpose(-1, -2) * scale, -1) @ c

    def by_jax(a, b, c):
        return module("jax").nn.softmax(a @ b.swapaxes(-1, -2) * scale) @ c

    contenders = [
        programs.model(programs.graph(program, q, k, v), q, k, v),
        *peers.torch(by_torch, q, k, v),
        *peers.torch(spelled_out, q, k, v, compiled=True),
        *peers.jax(by_jax, q, k, v),
    ]
    exact = reference(q.astype(float), k.astype(float), v.astype(float), scale)
    title = "attention, {} × {} heads, {} positions, width {}".format(*shape)
    found.run(title, contenders, exact, operations=4.0 * q.size * shape[2])


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    """The formula."""
    scores = q @ k.swapaxes(-1, -2) * scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v
