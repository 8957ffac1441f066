"""Element-wise chains: gelu in the cache, and a chain of five that memory limits."""

import math

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import Contest, contest
from benchmarks.installed import module
from benchmarks.peers import prange
from benchmarks.report import Report
from minimlc.script import T

LARGE = 16 * 1024 * 1024
SIDE = 1024
CHAIN = "chain of 5 on 16 M float32"


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: the chain and gelu as fast as the best peer."""
    with contest("elementwise", thread_count, repeat) as found:
        chain(found, LARGE)
        gelu(found, SIDE)
    return found.report


def five(x, y, maximum):
    """Multiply, add, maximum, multiply, subtract: the same in every library."""
    return maximum(x * 2.0 + y, 0.0) * y - x


def five_loops(x, y, out):
    for i in prange(x.size):
        out[i] = max(x[i] * np.float32(2) + y[i], np.float32(0)) * y[i] - x[i]


def chain(found: Contest, size: int) -> None:
    """Five operators in a row, into an array that is there: all that counts is memory traffic."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(size, np.float32) for _ in range(2))
    out = np.empty_like(x)

    def into(a, b, c):
        return c.copy_(five(a, b, module("torch").clamp_min))

    contenders = [
        programs.kernel(programs.formula(lambda a, b: five(a, b, T.max), x, y), x, y, out),
        peers.into("numpy", lambda: np.copyto(out, five(x, y, np.maximum)), out),
        *peers.torch(into, x, y, out),
        *peers.torch(into, x, y, out, compiled=True),
        *peers.numba(five_loops, x, y, out, threads=found.threads),
        *peers.jax(lambda a, b: five(a, b, module("jax").numpy.maximum), x, y),
    ]
    expected = five(x.astype(float), y.astype(float), np.maximum)
    result = found.run(CHAIN, contenders, expected, moved=3 * x.nbytes)
    found.report.claims += result.claim(1.0, "torch.compile", "numba")
    found.report.notes.append(
        "The chain writes into an array that is there, except jax's; gelu returns a fresh one."
    )


def gelu_loops(x, out):
    half, root = np.float32(0.5), np.float32(math.sqrt(0.5))
    for i in prange(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = half * x[i, j] * (np.float32(1) + math.erf(x[i, j] * root))


def gelu(found: Contest, side: int) -> None:
    """The exact gelu, with the error function, into a fresh array."""
    x = np.random.default_rng(0).standard_normal((side, side), np.float32)
    out = np.empty_like(x)
    expected = x * 0.5 * (1 + np.vectorize(math.erf)(x.astype(float) * math.sqrt(0.5)))
    contenders = [
        programs.model(programs.graph(mlc.op.gelu, x), x),
        *peers.torch_and_compiled(lambda a: module("torch").nn.functional.gelu(a), x),
        *peers.numba(gelu_loops, x, out, threads=found.threads, fresh=True),
        *peers.jax(lambda a: module("jax").nn.gelu(a, approximate=False), x),
    ]
    title = f"gelu, {side}×{side} float32"
    result = found.run(title, contenders, expected, moved=2 * x.nbytes, close=True)
    found.report.claims += result.claim(1.0, "torch", "torch.compile", "numba", "jax")
