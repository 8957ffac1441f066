"""Orders of a vocabulary and of rows, the first few of many, places in an order."""

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
    """Targets: as fast as the better one of numpy and torch."""
    with contest("sort", thread_count, repeat) as found:
        order(found, (WORDS,))
        order(found, ROWS)
        first(found, WORDS, FEW)
        places(found, WORDS)
        found.report.notes.append("Everybody returns a fresh array; orders are stable.")
    return found.report


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def order(found: Contest, shape: tuple[int, ...]) -> None:
    """The order along the last axis."""
    x = numbers(shape)
    others = [
        *peers.torch(lambda a: module("torch").argsort(a, stable=True), x),
        *peers.jax(lambda a: module("jax").numpy.argsort(a), x),
        Contender("numpy", lambda: np.argsort(x, kind="stable")),
    ]
    title = f"order of {'×'.join(map(str, shape))} float32"
    against(found, title, mlc.op.argsort, others, np.argsort(x, kind="stable"), x)


def first(found: Contest, size: int, few: int) -> None:
    """The places of the greatest elements."""
    x = numbers((size,))
    expected = np.argsort(x)[: -few - 1 : -1]
    others = [
        *peers.torch(lambda a: module("torch").topk(a, few).indices, x),
        Contender("numpy", lambda: np.argsort(x)[: -few - 1 : -1]),
    ]
    title = f"top {few} of {size} float32"
    against(found, title, lambda a: mlc.op.topk(a, k=few)[1], others, expected, x)


def places(found: Contest, size: int) -> None:
    """The place of each element among all in order."""
    x = numbers((size,))
    ordered = np.sort(x)
    others = [
        *peers.torch(lambda a, b: module("torch").searchsorted(a, b), ordered, x),
        Contender("numpy", lambda: np.searchsorted(ordered, x)),
    ]
    title = f"places of {size} float32 in as many"
    expected = np.searchsorted(ordered, x)
    against(found, title, mlc.op.searchsorted, others, expected, ordered, x)


def against(
    found: Contest,
    title: str,
    ours: Callable[..., Any],
    others: list[Contender],
    expected: np.ndarray,
    *arrays: np.ndarray,
) -> None:
    """One contest."""
    contender = programs.model(programs.graph(ours, *arrays), *arrays)
    result = found.run(title, [contender, *others], expected.astype(float), tolerance=0.0)
    found.report.claims += result.claim(1.0, "torch", "numpy")
