"""Whether time grows with the program: graph functions of 200 and 2 000 operators, stage by stage.

The operators are drawn at random (the same ones in every run): layers, elementwise chains that
branch and join, reductions, reshapes, constants, unused and repeated values. The garbage collector
stays on, as it is for users.
"""

import random
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks.harness import Measured
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table
from benchmarks.samples import tensor
from minimlc import op

SMALL, LARGE = 200, 2000
LIMIT = 14
ROUNDS = 7
WIDTH = 32
RECENT = 12

Stage = tuple[str, float]


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Target: no stage takes more than 14 times as long for ten times the operators."""
    report = Report("scale", thread_count, describe())
    for _ in stages(SMALL // 4):
        pass
    times: dict[int, dict[str, list[float]]] = {SMALL: {}, LARGE: {}}
    for _ in range(repeat or ROUNDS):
        for count, number in ((SMALL, 5), (LARGE, 1)):
            for _ in range(number):
                for name, seconds in stages(count):
                    times[count].setdefault(name, []).append(seconds)
    for count, found in times.items():
        rows = [Measured(name, tuple(taken)) for name, taken in found.items()]
        report.tables.append(Table(f"{count} operators", rows))
    medians = [{row.name: row.median for row in table.rows} for table in report.tables]
    for name, small in medians[0].items():
        text = f"{name}: {LARGE} operators, times {SMALL}"
        report.claims.append(Claim(text, medians[1][name] / small, "<=", LIMIT))
    total = sum(medians[1].values()) / sum(medians[0].values())
    report.claims.append(Claim("all stages together", total, "<=", LIMIT))
    rounds = repeat or ROUNDS
    report.notes += [
        "Seconds of processor time, with the garbage collector on as it is for users.",
        f"A pass through all stages takes seconds: {rounds} of {LARGE} operators, before each "
        f"five of {SMALL}.",
    ]
    return report


def stages(count: int) -> Iterator[Stage]:
    """Every stage on a graph function of `count` operators, with its seconds."""
    mod, seconds = timed(random_graph, count)
    yield "build with a BlockBuilder", seconds
    text, seconds = timed(lambda m: m.script(), mod)
    yield "print", seconds
    parsed, seconds = timed(mlc.parse, text)
    yield "parse", seconds
    same, seconds = timed(mlc.structural_equal, mod, parsed)
    assert same
    yield "structural_equal", seconds
    yield "structural_hash", timed(mlc.structural_hash, parsed)[1]
    yield "verify", timed(mlc.verify, parsed)[1]
    yield from pipeline(mod)


def pipeline(mod: mlc.IRModule) -> Iterator[Stage]:
    """Every pass of the default pipeline in turn, the recipes, and the stages on what results."""
    names: dict[str, int] = {}
    done = list(mlc.passes.default_pipeline)
    for transform in [*done, *([] if mlc.recipes.apply in done else [mlc.recipes.apply])]:
        mod, seconds = timed(transform, mod)
        name = getattr(transform, "__name__", type(transform).__name__)
        name = "recipes.apply" if transform is mlc.recipes.apply else name
        names[name] = names.get(name, 0) + 1
        yield name + (f" ({names[name]})" if names[name] > 1 else ""), seconds
    yield "verify, lowered", timed(mlc.verify, mod)[1]
    text, seconds = timed(lambda m: m.script(), mod)
    yield "print, lowered", seconds
    parsed, seconds = timed(mlc.parse, text)
    yield "parse, lowered", seconds
    same, seconds = timed(mlc.structural_equal, mod, parsed)
    assert same
    yield "structural_equal, lowered", seconds


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """The function's value and its seconds."""
    start = process_time()
    value = function(*arguments)
    return value, process_time() - start


UNARY = (op.relu, op.tanh, op.sigmoid, op.exp, op.negative, op.abs)
BINARY = (op.add, op.multiply, op.maximum, op.subtract)


def random_graph(count: int) -> mlc.IRModule:
    """A graph function of `count` operators on tensors of 4x32, each fed by the one before it."""
    rng = random.Random(count)
    x, w = mlc.Var("x", tensor((4, WIDTH))), mlc.Var("w", tensor((WIDTH, WIDTH)))
    bb = mlc.BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            recent: list[mlc.Var] = [x]
            for number in range(count):
                emit = bb.emit if number < count - 1 else bb.emit_output
                recent = [*recent[-RECENT:], emit(random_call(rng, recent, w))]
        bb.emit_func_output(recent[-1])
    return bb.get()


def random_call(rng: random.Random, recent: list[mlc.Var], w: mlc.Var) -> Any:
    """One operator on the last value, and maybe on an earlier one or on constants."""
    last, other = recent[-1], rng.choice(recent)
    row = mlc.constant(np.full(WIDTH, rng.randrange(8), np.float32))
    kinds: dict[str, tuple[int, Callable[[], Any]]] = {
        "unary": (35, lambda: rng.choice(UNARY)(last)),
        "binary": (30, lambda: rng.choice(BINARY)(last, other)),
        "with a constant": (15, lambda: rng.choice(BINARY)(last, row)),
        "matmul": (8, lambda: op.matmul(last, w)),
        "softmax": (4, lambda: op.softmax(last)),
        "transposed": (4, lambda: op.permute_dims(last, (0, 1))),
        "unused": (2, lambda: op.add(other, row)),
        "again": (2, lambda: op.tanh(recent[0])),
    }
    weights = [weight for weight, _ in kinds.values()]
    return rng.choices([make for _, make in kinds.values()], weights)[0]()
