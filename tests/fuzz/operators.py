"""Every operator on every sample in every dtype it takes: `python -m tests.fuzz.operators`.

The interpreter, LLVM, C and Python must give numpy's answers. `--count N --seed S` takes N cases
by chance. The suite itself runs each sample and each dtype of an operator at least once.
"""

import argparse
import random
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from minimlc.loops.interpreter.run import interpret
from minimlc.loops.values.module import IRModule
from minimlc.services.build import build
from tests.graph.op_cases import Case, cases

TARGETS = ("interpreter", "llvm", "c", "python")


def kernel_name(case: Case) -> str:
    return case.name.replace("-", "_")


def kernels(group: Sequence[Case]) -> IRModule:
    """The operators of `group`, each lowered to a primitive function of its `kernel_name`."""
    functions = {}
    for case in group:
        mod, name = case.module()
        functions[kernel_name(case)] = mod[name]
    return IRModule.of(functions)


def check(case: Case, run) -> None:
    """`run(*arrays)` gives numpy's answer."""
    results = case.outputs()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        run(*case.arrays, *results)
        case.check(results)


def failures(group: Sequence[Case], target: str) -> Iterator[str]:
    """A line for each case of `group` that differs from numpy."""
    mod = kernels(group)
    built = None if target == "interpreter" else build(mod, target, cache=False)
    for case in group:
        name = kernel_name(case)
        try:
            check(case, built[name] if built else lambda *a, n=name: interpret(mod, n, *a))
        except Exception as error:
            yield f"{case.name} by {target}: {type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.operators")
    parser.add_argument("--count", type=int, help="cases taken by chance (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice (0)")
    parser.add_argument("--op", help="one operator (all)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="one of them (all)")
    options = parser.parse_args()
    chosen = [case for case in cases(every=True) if options.op in (None, case.op)]
    if options.count is not None:
        chosen = random.Random(options.seed).sample(chosen, min(options.count, len(chosen)))
    groups = defaultdict(list)
    for case in chosen:
        groups[case.op].append(case)
    bad = 0
    for group in groups.values():
        for target in options.target or TARGETS:
            for line in failures(group, target):
                bad += 1
                print(line, flush=True)
    print(f"{len(chosen)} cases of {len(groups)} operators: {bad} failures")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
