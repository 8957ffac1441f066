"""Random programs of the built-in spaces against the interpreter: `python -m tests.fuzz.spaces`.

For each kind of work and number, a program drawn by that key: the interpreter, also with concurrent
loops taken backwards, and LLVM on the scheduled function against the interpreter on the unscheduled
one; the trace through JSON, with a proof after each step; and its decisions given to the space
again. `--kind product --count 1 --seed 17` does one again.
"""

import argparse
import random
import sys
import time

import minimlc as mlc
from minimlc.loops.schedule.primitive import Chance
from minimlc.tune.spaces import Program, program, usual
from tests.fuzz.subject import difference
from tests.recipes.test_fuzz import KINDS, TARGETS


def drawn(kind: str, seed: int) -> tuple[mlc.IRModule, Program | None, mlc.Target]:
    """A program of a space by its number; None where it is not legal."""
    rng = random.Random(f"{kind} {seed}")
    mod, machine = KINDS[kind](rng), rng.choice(TARGETS)
    return mod, program(usual(machine), mod, "main", machine, Chance(seed)), machine


def fault(kind: str, seed: int) -> str | None:
    """Why a program of a space is wrong; "" if it is right, None if it is not legal."""
    mod, point, machine = drawn(kind, seed)
    if point is None:
        return None
    trace = point.schedule.trace
    replayed = mlc.Schedule.replay(mod, trace.to_json(), check=False)
    if replayed.trace != trace:
        return "the trace does not replay"
    if not mlc.structural_equal(replayed.func, point.schedule.func):
        return "the steps make another program when each is proven"
    again = program(usual(machine), mod, "main", machine, Chance(None, trace.decisions))
    if again is None or again.steps != point.steps:
        return "the decisions make another program"
    return difference(mod, point.schedule.mod, "interpreter", "backwards", "llvm")


def main() -> int:
    """Try each space; print how many programs were legal, and the wrong ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*KINDS], action="append")
    options = parser.parse_args()
    wrong = 0
    for kind in options.kind or KINDS:
        start, legal, asked = time.perf_counter(), 0, options.seed
        while legal < options.count and asked - options.seed < 3 * options.count:
            why = fault(kind, asked)
            legal += why is not None
            if why:
                wrong += 1
                print(f"{kind} --seed {asked}: {why}", flush=True)
            asked += 1
        spent = time.perf_counter() - start
        print(f"{kind}: {legal} legal of {asked - options.seed}, {spent:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
