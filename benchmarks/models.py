"""Whole models as users write them, on one thread by default: no schedules, no tuning.

Every model is checked against float64 first: minimlc's error is at most twice torch's. Their
builds, which are timed in separate processes, are cold, from the cache, and with one layer
changed after that.
"""

from collections.abc import Sequence
from time import process_time
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks import compile as builds
from benchmarks import kits, peers
from benchmarks.contest import OURS, Contest, Result, contest, geometric_mean
from benchmarks.harness import Contender, Measured
from benchmarks.networks import MODELS, Model
from benchmarks.report import Claim, Report, Table

RATIOS = {"MLP 784-128-10, batch 1": 1.2}
"""The least ratio to the best peer; 1 for the others."""
COLD = {"ResNet-18": 2.0, "GPT decode step": 2.0, "MLP": 0.3}
"""Seconds of a cold build, by how the model's name begins."""
TOLERANCE = 1e-4
"""Of peers' results, and of ours where torch is not there to compare with."""
BUILDS = 3
SIZES = (0, 1, 2, 7, 64, 1000)
"""Batches that one library serves."""
GROWING = {"GPT decode step": (255, 256, 257, 258), "MLP 784-128-10, batch 64": (64, 65, 96, 97)}
"""Sizes of calls; each one compiles the kernels that depend on it: a growing cache, a batch."""
FURTHER = {"GPT decode step": 1 / 3}
"""The most of the first size's CPU time that a further one takes."""


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: each model as fast as the best peer, 1.15 times in the geometric mean on one thread;
    a cold build 2 s, 0.3 s for an MLP, from the cache 0.1 s, with one layer changed 0.3 s; memory
    at most 1.05 times what is alive at once, and a call's in fact at most 4 MiB more.
    """
    with contest("models", thread_count, repeat) as found:
        ratios = [ratio(found, name, model) for name, model in MODELS.items()]
        known = [value for value in ratios if value == value]
        if known and thread_count == 1:
            text = "geometric mean of the models"
            found.report.claims.append(Claim(text, geometric_mean(known), ">=", 1.15, "×"))
        found.report.notes += [
            "Inputs and weights are random; the latter are constants, for torch and jax arguments.",
            "ResNet-18 and MobileNet keep their normalizations: nobody was given folded weights.",
        ]
        name, *_ = [key for key in MODELS if key.endswith("batch 64")]
        symbolic(found, name, MODELS[name], SIZES)
        for name, sizes in GROWING.items():
            instances(found.report, name, MODELS[name], sizes)
    for name in MODELS:
        build(found.report, name, BUILDS)
    return found.report


def ratio(found: Contest, name: str, model: Model) -> float:
    """One contest; minimlc's speed times that of the best peer."""
    result = race(found, name, model)
    resident(found.report, name)
    found.report.claims += result.claim(RATIOS.get(name, 1.0))
    return result.ratio()


def race(found: Contest, name: str, model: Model) -> Result:
    """minimlc and the peers; the memory plan as a note."""
    arrays = kits.inputs_of(model)
    exact = reference(model, arrays)
    mod, weights = kits.ours(model)
    function = mlc.build(mod)["main"]
    others = contenders(model, arrays, weights.arrays, exact.shape, found.threads)
    limit = 2 * min((error(peer, exact) for peer in others if peer.name == "torch"), default=1.0)
    ours = Contender(OURS, lambda: function(*arrays), tolerance=min(limit, TOLERANCE))
    memory(found.report, name, mod)
    return found.run(name, [ours, *others], exact, tolerance=TOLERANCE)


def symbolic(found: Contest, name: str, model: Model, sizes: Sequence[int]) -> None:
    """One library for all batches beside that for one: right for each of the sizes, and at the
    model's own as fast.
    """
    ((batch, *rest),) = model.inputs
    batches: Any = ("n", *rest)
    every = mlc.build(kits.ours(model._replace(inputs=(batches,)))[0])["main"]
    for size in sizes:
        part = model._replace(inputs=((size, *rest),))
        (array,) = kits.inputs_of(part)
        np.testing.assert_allclose(every(array), reference(part, [array]), rtol=0, atol=TOLERANCE)
    arrays = kits.inputs_of(model)
    one = mlc.build(kits.ours(model)[0])["main"]
    title = f"{name}: one library for all sizes"
    contenders = [
        Contender(f"{OURS}, any batch", lambda: every(*arrays), tolerance=TOLERANCE),
        Contender(f"{OURS}, this batch", lambda: one(*arrays), tolerance=TOLERANCE),
    ]
    result = found.run(title, contenders, reference(model, arrays), tolerance=TOLERANCE, close=True)
    any_batch, this_batch = (result.seconds[contender.name] for contender in contenders)
    text = f"{title}, by the time at {batch} alone"
    found.report.claims.append(Claim(text, any_batch / this_batch, "<=", 1.15, "×"))


def instances(report: Report, name: str, model: Model, sizes: Sequence[int]) -> None:
    """CPU time of the calls that build: the first size, which is the model's, then others; right
    for each of them.
    """

    def at(size: Any) -> Model:
        shapes = [tuple([size if side == sizes[0] else side for side in s]) for s in model.inputs]
        return model._replace(inputs=tuple(shapes))

    # Without the cache on disk: what is shared is in memory.
    every = mlc.build(kits.ours(at("n"))[0], cache=False)["main"]
    seconds = []
    for size in sizes:
        arrays = kits.inputs_of(at(size))
        start = process_time()
        found = every(*arrays)
        seconds.append(process_time() - start)
        np.testing.assert_allclose(found, reference(at(size), arrays), rtol=0, atol=TOLERANCE)
    rows = [Measured("first size", tuple(seconds[:1])), Measured("others", tuple(seconds[1:]))]
    report.tables.append(Table(f"{name}: CPU time of a new size", rows))
    if name in FURTHER:
        text, ratio = f"{name}: CPU time of a further size", rows[1].median / rows[0].median
        report.claims.append(Claim(text, ratio, "<=", FURTHER[name], "×"))


def reference(model: Model, arrays: Sequence[np.ndarray]) -> Any:
    """The result in float64, by numpy."""
    exact, _ = kits.ours(model, "float64")
    return mlc.interpret(exact, "main", *(array.astype(np.float64) for array in arrays))


def contenders(
    model: Model,
    arrays: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    shape: tuple[int, ...],
    thread_count: int,
) -> list[Contender]:
    """All peers that are installed and have the model's operators."""
    feed = {f"x{at}": array for at, array in enumerate(arrays)}
    flat = [*arrays, *weights]
    numpy = kits.replayed(model, kits.Numpy)
    every = [Contender("numpy", lambda: numpy(*flat))] if kits.is_numpy(model) else []
    if peers.module("torch"):
        every += peers.torch_and_compiled(kits.replayed(model, kits.Torch()), *flat)
    if peers.module("jax"):
        every += peers.jax(kits.replayed(model, kits.Jax()), *flat)
    return [*every, *peers.onnx(lambda: kits.onnx(model, shape), thread_count, **feed)]


def error(contender: Contender, exact: np.ndarray) -> float:
    """The largest error, over the largest number."""
    value = contender.answer() if contender.answer else contender.call()
    return float(np.abs(value - exact).max() / np.abs(exact).max())


def memory(report: Report, name: str, mod: mlc.IRModule) -> None:
    """The memory of the plan beside the bytes alive at once."""
    plan = mlc.build(mod).plan("main")
    report.notes.append(f"{name}: {plan.planned:,} bytes planned, {plan.least:,} alive at once.")
    if plan.least:
        ratio = plan.planned / plan.least
        report.claims.append(Claim(f"{name}: planned memory", ratio, "<=", 1.05, "×"))


def resident(report: Report, name: str) -> None:
    """The memory that a call in fact needs, beside the plan."""
    grown, planned = builds.resident_growth(name)
    report.notes.append(f"{name}: its first call makes a process {grown:,} bytes larger.")
    more = (grown - 1.05 * planned) / 2**20
    text = f"{name}: resident memory beyond 1.05 times the plan"
    report.claims.append(Claim(text, more, "<=", 4, "MiB"))


def build(report: Report, name: str, rounds: int) -> None:
    """The times of builds in separate processes."""
    samples = [builds.model_seconds(name) for _ in range(rounds)]
    rows = [Measured(way, tuple(taken[way] for taken in samples)) for way in samples[0]]
    report.tables.append(Table(f"{name}: build", rows))
    least = next((limit for start, limit in COLD.items() if name.startswith(start)), None)
    limits = {"cold": least, "from the cache": 0.1, "one layer changed": 0.3}
    for row in rows:
        limit = limits[row.name]
        if limit is not None:
            text = f"{name}: build, {row.name}"
            report.claims.append(Claim(text, row.median, "<=", limit, "s"))
