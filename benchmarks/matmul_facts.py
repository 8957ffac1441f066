"""Matrix products beside themselves: naive loops, threads, errors, bits. See `matmul`."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np

import minimlc as mlc
from benchmarks import programs
from benchmarks.contest import Contest
from benchmarks.harness import Contender, check, measure
from benchmarks.report import Claim, Report, Table
from minimlc.machine.peaks import STEPS, fma_loop

Shape = tuple[int, int, int]
RUNS = 100
ARITHMETIC_STEPS = 25 * STEPS
FREE = 1.9
"""Of two cores, so much at least must be ours for a claim about two threads."""


def operands(shape: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and room for C, by (m, n, k), batches before."""
    *batch, m, n, k = shape
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((*batch, *s), np.float32) for s in ((m, k), (k, n)))
    return a, b, np.empty((*batch, m, n), np.float32)


def naive(found: Contest, size: int) -> None:
    """The three loops through the same compiler, and their recipe; bfloat16 with both cores."""
    a, b, c = operands((size, size, size))
    x, y = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    program = programs.matmul(size, size, size)
    tiles = programs.matmul(size, size, size, "bfloat16")
    contenders = [
        programs.kernel(program, a, b, c, name="naive loops", scheduled=False),
        programs.kernel(program, a, b, c),
        on_threads(programs.kernel(tiles, x, y, c, name="minimlc bf16", tolerance=2**-7), 2),
    ]
    result = found.run(
        f"f32 matmul {size}³ beside its naive loops",
        contenders,
        a.astype(float) @ b.astype(float),
        operations=2.0 * size**3,
    )
    seconds = result.seconds
    fastest = seconds["naive loops"] / seconds["minimlc bf16, 2 threads"]
    tiles_here = "+amx-bf16" in mlc.Target.host().features.split(",")
    found.report.claims += [
        *result.claim(100, "naive loops"),
        Claim(
            f"bf16 matmul {size}³ on two cores",
            fastest,
            ">=",
            1000,
            "×",
            "naive f32 loops",
            unless="" if tiles_here else "for want of AMX",
        ),
    ]


def on_threads(contender: Contender, count: int) -> Contender:
    """The same on so many of minimlc's threads, whatever the others use."""

    def call() -> object:
        before = mlc.num_threads()
        mlc.set_num_threads(count)
        try:
            return contender.call()
        finally:
            mlc.set_num_threads(before)

    name = f"{contender.name}, {count} thread{'s' if count > 1 else ''}"
    return Contender(name, call, contender.answer, contender.rounds, contender.tolerance)


def scaling(found: Contest, size: int) -> None:
    """Two threads against one; and, in the same rounds, how many cores the machine gives two."""
    a, b, c = operands((size, size, size))
    one = programs.kernel(programs.matmul(size, size, size), a, b, c)
    contenders = [on_threads(one, 1), on_threads(one, 2)]
    for contender in contenders:
        check(contender, a.astype(float) @ b.astype(float), 1e-5)
    with ThreadPoolExecutor(2) as pool:
        rows = measure([*contenders, *arithmetic(pool)], found.rounds)
    alone, both, arithmetic_alone, arithmetic_both = (row.median for row in rows)
    cores = 2 * arithmetic_alone / arithmetic_both
    work, peak = 2.0 * size**3, found.report.machine["peak_rates"]["operations"]
    title = f"f32 matmul {size}³ on two threads"
    table = Table(title, rows[:2], rows[0].name, work, peak=2 * peak)
    found.report.tables += [table, Table("register arithmetic, each thread as much", rows[2:])]
    rate, share = table.rate(both)
    reason = (
        "" if cores >= FREE else f"where two threads of register arithmetic got {cores:.3g} cores"
    )
    found.report.claims.append(
        Claim(title, alone / both, ">=", 1.8, "×", "one thread", rate, share, reason)
    )


def arithmetic(pool: ThreadPoolExecutor) -> list[Contender]:
    """Work that shares nothing but the cores: on one thread, and on two at once."""
    loop, _ = fma_loop()

    def both() -> None:
        list(pool.map(loop, (ARITHMETIC_STEPS,) * 2))

    return [
        Contender("arithmetic, 1 thread", lambda: loop(ARITHMETIC_STEPS)),
        Contender("arithmetic, 2 threads", both),
    ]


def errors(report: Report, shapes: Sequence[Shape]) -> None:
    """Componentwise error over u·|A||B|: minimlc's largest, and how it compares with numpy's.

    Sums of numbers of one sign grow, and round more: there, only numpy is a measure.
    """
    most = max(k for _, _, k in shapes)
    for kind, turn in (("normal numbers", np.asarray), ("numbers of one sign", np.abs)):
        largest, times = 0.0, 0.0
        for shape in shapes:
            a, b, c = operands(shape, seed=1)
            a, b = turn(a), turn(b)
            programs.kernel(programs.matmul(*shape), a, b, c).call()
            ours = componentwise(c, a, b)
            largest, times = max(largest, ours), max(times, ours / componentwise(a @ b, a, b))
        text = f"f32 matmul, K ≤ {most}, {kind}: largest |err| / (u·|A||B|)"
        if turn is np.asarray:
            report.claims.append(Claim(text, largest, "<=", 4))
        report.claims.append(Claim(text, times, "<=", 2, "×", "numpy"))


def componentwise(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The largest |C - AB| / (u |A||B|), u being half of float32's spacing at 1."""
    exact, bound = a.astype(float) @ b.astype(float), np.abs(a).astype(float) @ np.abs(b)
    return float(np.max(np.abs(c - exact) / bound)) / 2**-24


def same_bits(report: Report, size: int) -> None:
    """How many different results a hundred runs give on one thread and on two."""
    a, b, c = operands((size, size, size))
    once = programs.kernel(programs.matmul(size, size, size), a, b, c)
    found = set()
    for count in (1, 2):
        contender = on_threads(once, count)
        for _ in range(RUNS):
            c.fill(0)
            contender.call()
            found.add(c.tobytes())
    text = f"f32 matmul {size}³: different results of {RUNS} runs each on 1 and 2 threads"
    report.claims.append(Claim(text, len(found), "<=", 1))
