"""Transposes: nothing but memory traffic, so a copy of as many bytes is the limit."""

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import COPY, Contest, contest
from benchmarks.installed import module
from benchmarks.peers import prange
from benchmarks.report import Report

MOVES = (((2048, 2048), (1, 0)), ((1000, 3000), (1, 0)), ((8, 64, 56, 56), (0, 2, 3, 1)))
"""Shapes and the order of their axes; the last moves an image's channels to the end."""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """No target; beside numpy, torch, the compilers, and a copy."""
    with contest("transpose", thread_count, repeat) as found:
        for shape, order in MOVES:
            transpose(found, shape, order)
        found.report.notes.append("All write into an array that is there, except jax.")
    return found.report


def transpose_loops(x, out):
    for i in prange(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[j, i]


def transpose(found: Contest, shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    """One contest."""
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    moved = x.transpose(order)
    ready = np.ascontiguousarray(moved)
    out = np.empty_like(ready)
    mod = programs.graph(lambda a: mlc.op.permute_dims(a, order), x)

    def into(a, b):
        return b.copy_(a.permute(order))

    contenders = [
        programs.kernel(programs.lowered(mod), x, out),
        peers.into("numpy", lambda: np.copyto(out, moved), out),
        *peers.torch_and_compiled(into, x, out),
        *(peers.numba(transpose_loops, x, out, threads=found.threads) if x.ndim == 2 else []),
        *peers.jax(lambda a: module("jax").numpy.transpose(a, order), x),
        peers.into(COPY, lambda: np.copyto(out, ready), out),
    ]
    title = f"transpose {'×'.join(map(str, shape))} float32, axes {order}"
    found.run(title, contenders, moved.astype(float), tolerance=0.0, moved=2 * x.nbytes)
