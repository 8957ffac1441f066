"""The vertical slice: what a schedule makes of naive loops, and a model in one native call."""

import numpy as np

import minimlc as mlc
from benchmarks import samples
from benchmarks.harness import ROUNDS, Contender, compare, threads
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table

SIZE = 1024
NAIVE_ROUNDS = 3
CHAPTER = "chapter 03's schedule"


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Both parts. Targets: schedule at least 30 × naive, the model at most 3 × onnxruntime."""
    with threads(thread_count):
        report = Report("slice", thread_count, describe(peaks=True))
        matmul(report, SIZE, repeat or ROUNDS)
        mlp(report, thread_count, repeat or 2 * ROUNDS)
    return report


def matmul(report: Report, size: int, rounds: int) -> None:
    """Naive loops, the schedule, and numpy."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), np.float32) for _ in range(2))
    c = np.empty((size, size), np.float32)
    naive = samples.matmul(size)
    tile = samples.widest_tile(mlc.Target.host())
    libraries = {
        "naive loops": mlc.build(naive),
        CHAPTER: mlc.build(samples.schedule(naive)),
        f"the same, {'x'.join(map(str, tile))} tile": mlc.build(samples.schedule(naive, tile)),
    }
    contenders = [
        Contender(
            name,
            lambda function=library["mm"]: function(a, b, c),  # type: ignore[misc]
            lambda: c,
            NAIVE_ROUNDS if name == "naive loops" else None,
        )
        for name, library in libraries.items()
    ]
    contenders.append(Contender("numpy", lambda: np.matmul(a, b, out=c)))
    rows = compare(contenders, a.astype(float) @ b.astype(float), tolerance=1e-5, rounds=rounds)
    table = Table(f"float32 matmul, {size}³", rows, "naive loops", 2 * size**3)
    report.tables.append(table)
    seconds = {row.name: row.median for row in rows}
    report.claims.append(
        Claim(
            "chapter 03's schedule, times the naive loops' speed",
            seconds["naive loops"] / seconds[CHAPTER],
            ">=",
            30,
        )
    )
    best = min(seconds[name] for name in libraries)
    report.notes += [
        f"minimlc's best is {seconds['numpy'] / best:.2f} times as fast as numpy.",
        f"The naive loops take seconds: {min(NAIVE_ROUNDS, rounds)} samples, spread over the run.",
        "Chapter 03's schedule has a tile of 2x32, and packs B.",
    ]


def mlp(report: Report, thread_count: int, rounds: int) -> None:
    """One image through the digits MLP: one native call, onnxruntime, numpy."""
    x = samples.digit()
    weights = samples.weights()
    native = mlc.build(samples.mlp(weights))["main"]
    proto = samples.mlp_onnx(weights)
    pinned = samples.onnx_session(proto, thread_count)
    default = samples.onnx_session(proto, None)
    feed = {"x": x}
    w1, b1, w2, b2 = weights
    count = f"{thread_count} thread{'s' if thread_count > 1 else ''}"
    contenders = [
        Contender("minimlc", lambda: native(x)),
        Contender(
            f"onnxruntime, {count}",
            lambda: pinned.run(None, feed),
            lambda: pinned.run(None, feed)[0],
        ),
        Contender(
            "onnxruntime, default",
            lambda: default.run(None, feed),
            lambda: default.run(None, feed)[0],
        ),
        Contender("numpy", lambda: np.maximum(x @ w1 + b1, 0) @ w2 + b2),
    ]
    rows = compare(contenders, samples.mlp_reference(weights, x), tolerance=1e-5, rounds=rounds)
    report.tables.append(Table("Digits MLP 64-128-10, batch 1", rows, "minimlc"))
    best = min(row.median for row in rows if row.name.startswith("onnxruntime"))
    report.claims.append(
        Claim(
            "the digits MLP's time, times onnxruntime's (its faster one)",
            rows[0].median / best,
            "<=",
            3,
        )
    )
