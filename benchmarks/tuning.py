"""Results of searches: programs beside the default recipes' and other libraries', and their cost.

Each search starts from nothing: its workers compile and measure on this machine while the benchmark
waits. Its best is then timed anew, in turns with the default and the peers.

`python -m tests.fuzz.kills --count 200` kills a database's writers, `python -m tests.fuzz.spaces`
compares programs of the spaces with the interpreter; hostile candidates are tests (`tests/tune`).

Defaults learn what searches find, which the ratio of the two does not show: the operators are timed
beside the programs that were the default when there was no search, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks import kits, models, networks, peers, programs
from benchmarks.before import BEFORE, Earlier, earlier
from benchmarks.contest import OURS, Contest, Result, contest, geometric_mean
from benchmarks.harness import Contender
from benchmarks.installed import module
from benchmarks.matmul_facts import operands
from benchmarks.report import Claim, Report
from benchmarks.tuned_shapes import SHAPES, Shape
from minimlc import tune
from minimlc.deploy.work import flops
from minimlc.tune import model as cost_model
from minimlc.tune import spaces
from minimlc.tune.search import Search

SIZE, TRIALS, EARLY, SEEDS = 1024, 64, 16, 5
WORKERS = 2
SECONDS = 60.0
"""Seconds that the search for a product may take."""
AHEAD = 13
"""Of the 16 shapes, as many as the best of torch and onnxruntime at least."""
MODELS = ("4 transformer blocks", "ResNet-18")
MODEL_SECONDS = 600.0
DEFAULT, EARLIER = f"{OURS}, by default", f"{OURS}, after {EARLY} trials"
SCORED, RATED = 2000, 10


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """The targets of automatic optimization; `repeat` also limits the seeds."""
    with contest("tuning", thread_count, repeat) as found:
        seeds = range(min(SEEDS, repeat or SEEDS))
        with tune.Runner(workers=WORKERS) as runner:
            products(found, SIZE, seeds, runner)
            shapes(found, SHAPES, runner)
            rates(found.report, SIZE)
            whole(found, {n: m for n, m in networks.MODELS.items() if n in MODELS}, runner)
        found.report.notes.append(f"{WORKERS} workers compile; one candidate is timed at a time.")
    return found.report


def here(found: Contest) -> mlc.Target:
    """This machine with as many cores as the contest has threads."""
    return replace(mlc.Target.host(), cores=found.threads)


def products(found: Contest, size: int, seeds: Sequence[int], runner: Any) -> None:
    """A square product from an empty database with several seeds: one of them may miss."""
    runs = [product(found, size, seed, runner) for seed in seeds]
    miss = int(len(runs) >= SEEDS)
    rows: list[tuple[str, str, float, str]] = [
        ("by the best library", ">=", 1.0, "×"),
        (f"after {EARLY} trials, by the best library", ">=", 0.9, "×"),
        ("by the default", ">=", 1.0, "×"),
        ("seconds", "<=", SECONDS, "s"),
    ]
    for (text, relation, limit, unit), values in zip(rows, zip(*runs, strict=True), strict=True):
        ranked = sorted(values, reverse=relation == "<=")
        value = ranked[0 if text == "by the default" else miss]
        claim = Claim(f"tuned product {size}³, {text}", value, relation, limit, unit)  # type: ignore[arg-type]
        found.report.claims.append(claim)


def product(found: Contest, size: int, seed: int, runner: Any, trials: int = TRIALS) -> Sequence:
    """One search: speeds by the best library at the end and early, by the default; its seconds."""
    mod, target = programs.matmul(size, size, size), here(found)
    with TemporaryDirectory() as folder:
        database = tune.Database(Path(folder) / "database")
        options: dict[str, Any] = {"runner": runner, "database": database, "trials": trials}
        start = perf_counter()
        tuned = tune.search(mod, key=seed, target=target, **options)
        seconds = perf_counter() - start
    early = min(tuned.records[:EARLY], key=lambda trial: trial.score)
    a, b, c = operands((size, size, size))

    def contender(name: str, trial: tune.Trial) -> Contender:
        alone = mlc.IRModule.of({"main": trial.program.schedule.func})
        function = mlc.build(alone, target)["main"]
        return peers.into(name, lambda: function(a, b, c), c)

    others = [
        contender(OURS, tuned.winner),
        contender(EARLIER, early),
        contender(DEFAULT, tuned.records[0]),
        peers.into("numpy", lambda: np.matmul(a, b, out=c), c),
        *peers.torch(lambda x, y, z: module("torch").matmul(x, y, out=z), a, b, c),
    ]
    title = f"tuned product {size}³, seed {seed}"
    expected = a.astype(float) @ b.astype(float)
    result = found.run(title, others, expected, operations=2.0 * size**3)
    found.report.notes.append(f"{title}: {len(tuned.records)} trials, ended by {tuned.stopped}.")
    times = result.seconds
    ahead = result.ratio(*result.others)
    least = 1.0 if tuned.winner.number == 0 else times[DEFAULT] / times[OURS]
    return ahead, ahead * times[OURS] / times[EARLIER], least, seconds


def shapes(found: Contest, every: Mapping[str, Shape], runner: Any, trials: int = TRIALS) -> None:
    """The operators, each alone."""
    with earlier(found.threads) as before:
        rows = [shape(found, name, one, runner, trials, before) for name, one in every.items()]
    gains, since, ahead = zip(*rows, strict=True)
    text = "tuned operators by the default"
    claims = [
        Claim(f"{text}, the least", min(gains), ">=", 1.0, "×"),
        Claim(f"{text}, on average", geometric_mean(gains), ">=", 1.15, "×"),
    ]
    if all(ratio == ratio for ratio in since):
        mean = geometric_mean(since)
        claims.append(Claim(f"{text} before searches, on average", mean, ">=", 1.15, "×"))
    else:
        found.report.notes.append("No clone with its history: defaults before searches left out.")
    known = [ratio for ratio in ahead if ratio == ratio]
    if known:
        count = float(sum(ratio >= 1 for ratio in known))
        claims.append(Claim("tuned operators ahead of torch and onnxruntime", count, ">=", AHEAD))
    found.report.claims += claims


def shape(
    found: Contest,
    name: str,
    one: Shape,
    runner: Any,
    trials: int = TRIALS,
    before: Earlier = lambda mod, arrays: [],
) -> tuple[float, float, float]:
    """One operator: its speed by the default, by the earlier default, and by the best peer."""
    arrays = one.arrays()
    mod, target = programs.graph(one.ours, *arrays), here(found)
    tuned = tune.search_model(mod, runner=runner, trials=trials, target=target)
    wide = [array.astype(float) for array in arrays]
    exact = np.asarray(mlc.interpret(programs.graph(one.ours, *wide), "main", *wide))
    feed = {f"x{at}": array for at, array in enumerate(arrays)}
    others = [
        *before(mod, arrays),
        *peers.torch(one.torch, *arrays),
        *peers.onnx(lambda: one.onnx(exact.shape), found.threads, **feed),
    ]
    work = {
        "operations": float(sum(task.calls * (flops(task.func) or 0) for task, _ in tuned.tasks)),
        "moved": float(sum(array.nbytes for array in arrays) + 4 * exact.size),
    }
    result = beside(found, name, mod, tuned, arrays, others, exact, **work)
    return gain(tuned, result), result.ratio(BEFORE), result.ratio()


def beside(
    found: Contest,
    name: str,
    mod: mlc.IRModule,
    tuned: tune.TunedModel,
    arrays: Sequence[np.ndarray],
    others: Sequence[Contender],
    exact: np.ndarray,
    **work: Any,
) -> Result:
    """The tuned program, the default one and the peers; the differing decisions as a note."""
    target = here(found)
    ours = [
        programs.model(version, *arrays, name=label, target=target)
        for label, version in ((OURS, tuned.mod), (DEFAULT, mod))
    ]
    for task, best in tuned.tasks:
        found.report.notes += [
            f"{name}: {task.names[0]} {text}" for text in different(best) if best.winner.number
        ]
    return found.run(f"tuned {name}", [*ours, *others], exact, tolerance=1e-4, **work)


def different(tuned: tune.Tuned) -> list[str]:
    """The decisions by which the best program differs from the default one."""
    usual = tuned.records[0].program.decisions
    best = tuned.winner.program.decisions
    names = [name for name in best if best[name] != usual.get(name)]
    changed = ", ".join(f"{name} {usual.get(name, '-')} → {best[name]}" for name in names)
    return [f"({tuned.speedup:.2f} × in its search): {changed}"] if changed else []


def gain(tuned: tune.TunedModel, result: Result) -> float:
    """A tuned program's speed by the default's; 1 where it is the same program."""
    if all(best.winner.number == 0 for _, best in tuned.tasks):
        return 1.0
    return result.seconds[DEFAULT] / result.seconds[OURS]


def whole(
    found: Contest,
    every: Mapping[str, networks.Model],
    runner: Any,
    seconds: float = MODEL_SECONDS,
    trials: int = 4096,
) -> None:
    """Whole models, each tuned for so many seconds."""
    for name, model in every.items():
        arrays = kits.inputs_of(model)
        exact = models.reference(model, arrays)
        mod, weights = kits.ours(model)
        tuned = tune.search_model(
            mod, runner=runner, trials=trials, target=here(found), seconds=seconds
        )
        others = models.contenders(model, arrays, weights.arrays, exact.shape, found.threads)
        result = beside(found, name, mod, tuned, arrays, others, exact)
        found.report.claims += result.claim(1.0, "onnxruntime")
        if "onnxruntime" in result.seconds:
            behind = result.seconds[DEFAULT] > result.seconds["onnxruntime"]
            why = "" if behind else "the default is ahead of onnxruntime"
            text = f"tuned {name} by the default"
            claim = Claim(text, gain(tuned, result), ">=", 1.1, "×", unless=why)
            found.report.claims.append(claim)


def rates(report: Report, size: int, count: int = 12) -> None:
    """Costs of the parts of a trial, in seconds of processor time; a worker's start on the clock.

    A candidate here is made as a search makes it, in a family, proved legal, and its features read.
    """
    mod, target = programs.matmul(size, size, size), replace(mlc.Target.host(), cores=1)
    state = Search(mod, "main", target, spaces.usual(target), key=0)
    start = process_time()
    state.prepare(count)
    points = [point for _, point in state.pool]
    made = len(points) / (process_time() - start)
    alone = [
        mlc.IRModule.of({"main": point.schedule.func}) for point in points[:: len(points) // RATED]
    ]
    start = process_time()
    for program in alone:
        mlc.build(program, target, cache=False)
    built = len(alone) / (process_time() - start)
    rows = np.array([point.features for point in points])
    predict = cost_model.learned(rows, rows[:, cost_model.CYCLES] * 0.9)
    asked = np.resize(rows, (SCORED, rows.shape[1]))
    start = process_time()
    predict(asked)
    scored = SCORED / (process_time() - start)
    report.claims += [
        Claim("candidates made, proved and described in a second", made, ">=", 100),
        Claim("candidates compiled in a second", built, ">=", 6),
        Claim("candidates scored in a second", scored, ">=", 2000),
        Claim("a worker's first answer", first_answer(), "<=", 0.5, "s"),
    ]


def first_answer(rounds: int = 5) -> float:
    """Seconds from the start of a worker until it has refused an empty program."""
    nothing = tune.Candidate("", "main", "[]", "llvm")
    times = []
    for _ in range(rounds):
        start = perf_counter()
        with tune.Runner() as runner:
            list(runner.submit([nothing]))
            times.append(perf_counter() - start)
    return median(times) if times else inf
