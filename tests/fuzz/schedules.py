"""Random schedules: `python -m tests.fuzz.schedules --count N --seed S`.

Each takes a program through random primitives with random arguments, the safety net off, and
compares what comes out, by interpreter and by LLVM, with the original.
"""

import argparse
import random
import time
from typing import Any, NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.node import Mutator, replace
from minimlc.run import interpret
from minimlc.tir.nodes import For, substitute
from minimlc.tir.wellformed import loops_in
from tests.fuzz.programs import PROGRAMS
from tests.helpers import assert_close, copies, random_args


class Counts(NamedTuple):
    """How the steps of all schedules ended. `failures` are readable reproducers."""

    right: int
    refused: int
    failures: tuple[str, ...]
    slowest: float


def random_step(sch: mlc.Schedule, rng: random.Random) -> tuple[str, list[Any], dict[str, Any]]:
    """A primitive with arguments that exist, if not always sensible."""
    loops = [loop.var.name for loop in loops_in(sch.func.body)]
    blocks = sch.blocks()
    buffers = [b.name for b in (*sch.func.params, *sch.func.allocs)]
    block = rng.choice(blocks)
    around = sch.loops(block) or loops
    loop = rng.choice(around)
    name = rng.choice(list(mlc.schedule.PRIMITIVES))
    match name:
        case "split":
            inner = rng.choice([2, 3, 4])
            return name, [loop], {"factors": rng.choice([[None, inner], [inner, None]])}
        case "fuse" | "reorder":
            count = rng.randint(2, max(2, len(around)))
            chosen = rng.sample(around, min(count, len(around)))
            ordered = sorted(chosen, key=around.index) if name == "fuse" else chosen
            return name, ordered, {}
        case "compute_at" | "reverse_compute_at":
            return name, [block, rng.choice(loops)], {}
        case "compute_inline" | "reverse_compute_inline":
            return name, [block], {}
        case "decompose_reduction":
            return name, [block], {"at": loop}
        case "cache_read" | "cache_write":
            return name, [block, rng.choice(buffers)], {"scope": "local"}
        case "annotate":
            return name, [loop, "note", 1], {}
    return name, [loop], {}


def run_one(program: str, seed: int, steps: int = 8, native: bool = True) -> Counts:
    """One random schedule of one program."""
    rng = random.Random(f"{program} {seed}")
    original = PROGRAMS[program]
    sch = mlc.Schedule(original, check=False)
    args = random_args(sch.func, np.random.default_rng(seed))
    expected = copies(args)
    interpret(original, "main", *expected)
    right = refused = 0
    slowest = 0.0
    failures: list[str] = []
    for _ in range(steps):
        name, positional, named = random_step(sch, rng)
        start = time.perf_counter()
        try:
            new = sch.apply(name, *positional, **named)
        except mlc.ScheduleError:
            refused += 1
            continue
        finally:
            slowest = max(slowest, time.perf_counter() - start)
        why = difference(new, args, expected, native=False)
        if why:
            failures.append(f"{program} seed {seed}: {why}\n{new.trace!r}")
            break
        sch, right = new, right + 1
    if native and not failures:
        why = difference(sch, args, expected, native=True)
        if why:
            failures.append(f"{program} seed {seed}: {why}\n{sch.trace!r}")
    return Counts(right, refused, tuple(failures), slowest)


class _Backwards(Mutator):
    """Concurrent loops taken from their end: another of the orders they may run in."""

    def visit_For(self, item: For) -> For:
        item = self.visit_children(item)
        if item.kind in ("serial", "unrolled"):
            return item
        last = substitute(item.body, {item.var: item.extent - 1 - item.var})
        return replace(item, kind="serial", body=last)


def difference(sch: mlc.Schedule, args: list[Any], expected: list[Any], native: bool) -> str:
    """What is wrong with a scheduled program; '' if nothing."""
    got = copies(args)
    try:
        mlc.verify(sch.mod)
        if native:
            mlc.build(sch.mod, cache=False)["main"](*got)
        else:
            interpret(sch.mod, "main", *got)
            backwards = sch.mod.with_function("main", _Backwards().visit(sch.func))
            again = copies(args)
            interpret(backwards, "main", *again)
            got, expected = [*got, *again], [*expected, *expected]
        for a, b in zip(got, expected, strict=True):
            assert_close(a, b)
    except Exception as error:
        return f"{'LLVM' if native else 'interpreter'}: {type(error).__name__}: {error}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="schedules in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-native", action="store_true", help="interpreter only")
    options = parser.parse_args()
    right = refused = 0
    failures: list[str] = []
    times = []
    names = list(PROGRAMS)
    for number in range(options.count):
        counts = run_one(
            names[number % len(names)],
            options.seed + number // len(names),
            native=not options.no_native,
        )
        right, refused = right + counts.right, refused + counts.refused
        failures += counts.failures
        times.append(counts.slowest)
    for failure in failures[:10]:
        print(failure, "\n")
    rate = right / max(1, right + refused)
    p95 = sorted(times)[int(0.95 * (len(times) - 1))] * 1e3
    print(
        f"{options.count} schedules: {right} steps right, {refused} refused, "
        f"{len(failures)} wrong; accepted {rate:.0%}; p95 of the slowest step {p95:.0f} ms"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
