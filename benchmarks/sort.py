"""Orders: of the words of a vocabulary, of rows; the first few; places in an order."""

from collections.abc import Callable
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks import peers, programs
from benchmarks.contest import Contest, contest
from benchmarks.harness import Contender
from benchmarks.installed import module
from benchmarks.report import Report

WORDS, ROWS, FEW = 50257, (1024, 128), 50


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: as fast as torch, or numpy where torch has none."""
    with contest("sort", thread_count, repeat) as found:
        rng = np.random.default_rng(0)
        words, rows = (rng.standard_normal(shape, np.float32) for shape in (WORDS, ROWS))
        ascending = np.sort(words)
        order = np.argsort(words, kind="stable")
        orders(found, f"order of {WORDS} float32", words, order)
        orders(found, f"order of rows, {ROWS[0]}×{ROWS[1]} float32", rows, np.argsort(rows, 1))
        first = order[: -FEW - 1 : -1]
        torch = peers.torch(lambda x: module("torch").topk(x, FEW).indices, words)
        numpy = Contender("numpy", lambda: np.argsort(-words, kind="stable")[:FEW])
        against(found, f"top {FEW} of {WORDS} float32", first, [words], topk, [*torch, numpy])
        places = np.searchsorted(ascending, words)
        torch = peers.torch(lambda x, v: module("torch").searchsorted(x, v), ascending, words)
        numpy = Contender("numpy", lambda: np.searchsorted(ascending, words))
        arrays = [ascending, words]
        title = f"places of {WORDS} in as many float32"
        against(found, title, places, arrays, mlc.op.searchsorted, [*torch, numpy])
        found.report.notes.append("Everybody returns a fresh array; orders are stable.")
    return found.report


def topk(x: Any) -> Any:
    """Which the greatest are."""
    return mlc.op.topk(x, k=FEW)[1]


def orders(found: Contest, title: str, x: np.ndarray, expected: np.ndarray) -> None:
    """Along the last axis."""
    others = [
        *peers.torch(lambda a: module("torch").argsort(a, stable=True), x),
        *peers.jax(lambda a: module("jax").numpy.argsort(a), x),
        Contender("numpy", lambda: np.argsort(x, kind="stable")),
    ]
    against(found, title, expected, [x], mlc.op.argsort, others)


def against(
    found: Contest,
    title: str,
    expected: np.ndarray,
    arrays: list[np.ndarray],
    ours: Callable[..., Any],
    others: list[Contender],
) -> None:
    """One contest."""
    own = programs.model(programs.graph(ours, *arrays), *arrays)
    result = found.run(title, [own, *others], expected.astype(float), tolerance=0.0)
    found.report.claims += result.claim(1.0, "torch", "numpy")
