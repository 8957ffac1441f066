"""The cost of a schedule's steps with the net off: each primitive's own legality check.

The programs have up to a hundred statements: a chain of blocks each in its own loops, the same in
one pair of loops, and transformer layers. The steps are random ones, drawn as the fuzz draws them.
"""

import random
import statistics
from collections import defaultdict
from time import process_time

import minimlc as mlc
from benchmarks.harness import Measured, collector_off
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table
from tests.fuzz.draw import random_step

STATEMENTS = 100
MOST = 110
"""A schedule ends when steps have made so many blocks of them."""
STEPS = 8
SCHEDULES = 40
P95 = 0.020
THIRTY = 0.3
MANY = 2000
GROWTH = 2.0

Samples = dict[str, list[float]]


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: 95 % of the steps within 20 ms; thirty steps of a matmul within 0.3 s; the last of
    2 000 steps at most twice as slow as the first.
    """
    report = Report("schedule", thread_count, describe())
    programs = {
        f"{STATEMENTS} blocks, each in its loops": chain(STATEMENTS),
        f"{STATEMENTS} blocks in one nest": one_nest(STATEMENTS),
        f"{STATEMENTS} blocks, all in parallel loops": in_parallel(chain(STATEMENTS)),
        f"transformer layers, {len(mlc.Schedule(layers()).blocks())} blocks": layers(),
    }
    with collector_off():
        for title, mod in programs.items():
            samples = random_steps(mod, repeat or SCHEDULES)
            rows = [Measured(name, tuple(found)) for name, found in sorted(samples.items())]
            report.tables.append(Table(title, rows))
            every = [seconds for found in samples.values() for seconds in found]
            claim = Claim(f"{title}: p95 of a step", 1e3 * p95(every), "<=", 1e3 * P95, "ms")
            report.claims.append(claim)
        _add_matmul(report, repeat or 20)
        _add_many(report)
    report.notes.append(
        "Seconds of processor time, with check=False. Refusals count as steps: they cost as much."
    )
    return report


def p95(samples: list[float]) -> float:
    """The 95th percentile of the samples."""
    return sorted(samples)[int(0.95 * (len(samples) - 1))]


def random_steps(mod: mlc.IRModule, count: int) -> Samples:
    """Seconds of each step of `count` random schedules, by primitive."""
    samples: Samples = defaultdict(list)
    for seed in range(count):
        rng = random.Random(seed)
        sch = mlc.Schedule(mod, check=False)
        for _ in range(STEPS):
            if len(sch.blocks()) > MOST:
                break
            step = random_step(sch, rng)
            start = process_time()
            try:
                sch = step.apply(sch)
            except mlc.ScheduleError:
                pass
            finally:
                samples[step.name].append(process_time() - start)
    return samples


def _add_matmul(report: Report, rounds: int) -> None:
    times = []
    for _ in range(rounds):
        start = process_time()
        steps = len(thirty_steps(matmul()).trace)
        times.append(process_time() - start)
    report.tables.append(
        Table("matmul", [Measured(f"{steps} steps, from the start", tuple(times))])
    )
    text = f"{steps} steps of the 1024³ matmul"
    report.claims.append(Claim(text, statistics.median(times), "<=", THIRTY, "s"))


def _add_many(report: Report) -> None:
    sch = mlc.Schedule(matmul(), check=False)
    times = []
    for _ in range(MANY // 2):
        start = process_time()
        sch = sch.split("i", [None, 4], names=["a", "b"]).fuse("a", "b", name="i")
        times.append((process_time() - start) / 2)
    tenth = len(times) // 10
    first, last = times[:tenth], times[-tenth:]
    rows = [Measured("the first tenth", tuple(first)), Measured("the last tenth", tuple(last))]
    report.tables.append(Table(f"{MANY} steps, one after the other", rows))
    growth = statistics.median(last) / statistics.median(first)
    report.claims.append(Claim(f"the last of {MANY} steps, times the first", growth, "<=", GROWTH))


# Programs


def chain(count: int) -> mlc.IRModule:
    """`count` elementwise blocks, each in loops of its own."""
    body = []
    for number in range(count):
        i, j = f"i{number}", f"j{number}"
        body.append(f"for {i}, {j} in T.grid(32, 32):")
        body += [f"    {line}" for line in _elementwise(number, count, i, j)]
    return _module(count, body)


def one_nest(count: int) -> mlc.IRModule:
    """`count` elementwise blocks in one pair of loops."""
    body = ["for i, j in T.grid(32, 32):"]
    for number in range(count):
        body += [f"    {line}" for line in _elementwise(number, count, "i", "j")]
    return _module(count, body)


def _elementwise(number: int, count: int, i: str, j: str) -> list[str]:
    source = f"X{number - 1}" if number else "A"
    target = f"X{number}" if number < count - 1 else "C"
    return [
        f'with T.block("{target}"):',
        f'    vi, vj = T.axis.remap("SS", [{i}, {j}])',
        f"    {target}[vi, vj] = {source}[vi, vj] + T.float32({number})",
    ]


def _module(count: int, body: list[str]) -> mlc.IRModule:
    shape = '(32, 32), "float32"'
    lines = ["@T.prim_func", f"def main(A: T.Buffer({shape}), C: T.Buffer({shape})):"]
    lines += [f"    X{number} = T.alloc_buffer({shape})" for number in range(count - 1)]
    return mlc.parse("\n".join([*lines, *(f"    {line}" for line in body), ""]))


def in_parallel(mod: mlc.IRModule) -> mlc.IRModule:
    """The module with the outermost loop of each block parallel."""
    sch = mlc.Schedule(mod, check=False)
    for block in sch.blocks():
        sch = sch.parallel(sch.loops(block)[0])
    return sch.mod


TOKENS, WIDTH, HIDDEN = 16, 32, 64
LAYERS = 6


def layers() -> mlc.IRModule:
    """Transformer layers as one function: attention of one head, norms, a network of two layers."""
    shapes: dict[str, tuple[int, ...]] = {"X": (TOKENS, WIDTH)}
    weights = {
        **dict.fromkeys(("Wq", "Wk", "Wv", "Wo"), (WIDTH, WIDTH)),
        "Wu": (WIDTH, HIDDEN),
        "Wd": (HIDDEN, WIDTH),
    }
    lines: list[str] = []
    source = "X"
    for number in range(LAYERS):
        source = _layer(lines, shapes, source, f"{number}_")
    params = [
        f"{n}: T.Buffer({s}, 'float32')" for n, s in ({"X": shapes.pop("X")} | weights).items()
    ]
    params.append(f"OUT: T.Buffer({shapes.pop(source)}, 'float32')")
    head = ["@T.prim_func", f"def main({', '.join(params)}):"]
    head += [f"    {name} = T.alloc_buffer({shape}, 'float32')" for name, shape in shapes.items()]
    text = "\n".join([*head, *(f"    {line}" for line in lines), ""])
    return mlc.parse(text.replace(source, "OUT"))


def _layer(lines: list[str], shapes: dict[str, tuple[int, ...]], x: str, tag: str) -> str:
    """Add the blocks of one layer on `x`; the name of its result."""

    def spatial(name: str, shape: tuple[int, ...], value: str) -> str:
        return _nest(lines, shapes, tag + name, shape, 0, "", value)

    def reduced(name: str, shape: tuple[int, ...], length: int, start: str, value: str) -> str:
        return _nest(lines, shapes, tag + name, shape, length, start, value)

    full, square = (TOKENS, WIDTH), (TOKENS, TOKENS)
    q, k, v = (
        reduced(n, full, WIDTH, "0", f"@ + {x}[v0, vk] * W{n}[vk, v1]") for n in ("q", "k", "v")
    )
    logits = reduced("l", square, WIDTH, "0", f"@ + {q}[v0, vk] * {k}[v1, vk]")
    most = reduced("m", (TOKENS,), TOKENS, "-1e30", f"T.max(@, {logits}[v0, vk])")
    raised = spatial("e", square, f"T.exp({logits}[v0, v1] - {most}[v0])")
    total = reduced("s", (TOKENS,), TOKENS, "0", f"@ + {raised}[v0, vk]")
    share = spatial("p", square, f"{raised}[v0, v1] / {total}[v0]")
    mixed = reduced("a", full, TOKENS, "0", f"@ + {share}[v0, vk] * {v}[vk, v1]")
    out = reduced("o", full, WIDTH, "0", f"@ + {mixed}[v0, vk] * Wo[vk, v1]")
    added = spatial("r", full, f"{out}[v0, v1] + {x}[v0, v1]")
    mean = reduced("n", (TOKENS,), WIDTH, "0", f"@ + {added}[v0, vk]")
    normed = spatial("c", full, f"{added}[v0, v1] - {mean}[v0] / T.float32({WIDTH})")
    up = reduced("u", (TOKENS, HIDDEN), WIDTH, "0", f"@ + {normed}[v0, vk] * Wu[vk, v1]")
    active = spatial("g", (TOKENS, HIDDEN), f"T.max({up}[v0, v1], T.float32(0))")
    down = reduced("d", full, HIDDEN, "0", f"@ + {active}[v0, vk] * Wd[vk, v1]")
    return spatial("y", full, f"{down}[v0, v1] + {added}[v0, v1]")


def _nest(
    lines: list[str],
    shapes: dict[str, tuple[int, ...]],
    tag: str,
    shape: tuple[int, ...],
    length: int,
    start: str,
    value: str,
) -> str:
    """Add one block in its loops: elementwise, or with `length` a reduction that begins at
    `start`; `@` in `value` stands for its target.
    """
    name = f"B{tag}"
    shapes[name] = shape
    loops = [f"i{dim}_{name}" for dim in range(len(shape))] + [f"k_{name}"] * bool(length)
    iters = [f"v{dim}" for dim in range(len(shape))] + ["vk"] * bool(length)
    sizes = [*shape, length] if length else [*shape]
    target = f"{name}[{', '.join(iters[: len(shape)])}]"
    for depth, (loop, size) in enumerate(zip(loops, sizes, strict=True)):
        lines.append(f"{'    ' * depth}for {loop} in range({size}):")
    pad = "    " * len(loops)
    lines.append(f"{pad}with T.block('{name}'):")
    for it, loop, size in zip(iters, loops, sizes, strict=True):
        kind = "reduce" if it == "vk" else "spatial"
        lines.append(f"{pad}    {it} = T.axis.{kind}({size}, {loop})")
    if length:
        lines += [f"{pad}    with T.init():", f"{pad}        {target} = T.float32({start})"]
    lines.append(f"{pad}    {target} = {value.replace('@', target)}")
    return name


def matmul() -> mlc.IRModule:
    """1024³, with a bias and a ReLU after it."""
    square = 'T.Buffer((1024, 1024), "float32")'
    return mlc.parse(f"""@T.prim_func
def main(A: {square}, B: {square}, D: T.Buffer((1024,), "float32"), C: {square}):
    Y = T.alloc_buffer((1024, 1024), "float32")
    for i, j, k in T.grid(1024, 1024, 1024):
        with T.block("Y"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Y[vi, vj] = T.float32(0)
            Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
    for i2, j2 in T.grid(1024, 1024):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i2, j2])
            C[vi, vj] = T.max(Y[vi, vj] + D[vj], T.float32(0))
""")


def thirty_steps(mod: mlc.IRModule) -> mlc.Schedule:
    """Blocked for three caches, packed, its epilogue fused, vectorized and parallel."""
    sch = (
        mlc.Schedule(mod, check=False)
        .split("i", [None, 4, 8], names=["i0", "i1", "i2_"])
        .split("j", [None, 4, 32], names=["j0", "j1", "j2_"])
        .split("k", [None, 64], names=["k0", "k1"])
        .reorder("i0", "j0", "k0", "i1", "j1", "k1", "i2_", "j2_")
        .cache_read("Y", "A")
        .cache_read("Y", "B")
        .compute_at("B_local", "k0")
        .compute_at("A_local", "k0")
        .reverse_compute_at("C", "j0")
        .decompose_reduction("Y", at="k0")
    )
    for block in ("A_local", "B_local", "Y_init", "C"):
        *_, row, column = sch.loops(block)
        sch = sch.split(column, [None, 8], names=[f"{block}_o", f"{block}_v"])
        sch = sch.vectorize(f"{block}_v").unroll(f"{block}_o").annotate(row, "rows", block)
    return (
        sch.vectorize("j2_")
        .unroll("i2_")
        .split("k1", [None, 4], names=["k1_o", "k1_u"])
        .unroll("k1_u")
        .fuse("i0", "j0", name="tile")
        .parallel("tile")
    )
