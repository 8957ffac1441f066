"""Memory left behind by builds in their process: `python -m tests.runtime.memory --count 10000`.

Different programs are built, called and dropped. Printed is how much the process has grown since
the first tenth of them. `--kind graph` builds graph functions, `--kind cached` what the cache has.
"""

import argparse
import ctypes
import functools
import gc
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import minimlc as mlc
from minimlc.loops.proofs import dependence, wellformed
from minimlc.loops.schedule import trace

LOOPS = """
@T.prim_func
def main(x: T.Buffer(({rows}, 16), "float32"), y: T.Buffer(({rows}, 16), "float32")):
    for i, j in T.grid({rows}, 16):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = x[vi, vj] * T.float32({number}) + T.float32(1)
"""

GRAPH = """
@R.function
def main(
    x: R.Tensor((4, {rows}), "float32"), w: R.Tensor(({rows}, 16), "float32")
) -> R.Tensor((4, 16), "float32"):
    y = R.matmul(x, w)
    z = R.multiply(y, R.const({number}.0, "float32"))
    return R.relu(z)
"""


def loops(number: int, target: str, cache: bool) -> None:
    rows = 8 + number % 64
    library = mlc.build(mlc.parse(LOOPS.format(rows=rows, number=number)), target, cache=cache)
    x, y = np.ones((rows, 16), np.float32), np.zeros((rows, 16), np.float32)
    library["main"](x, y)
    assert (y == number + 1).all()


def graph(number: int, target: str, cache: bool) -> None:
    rows = 8 + number % 64
    library = mlc.build(mlc.parse(GRAPH.format(rows=rows, number=number)), target, cache=cache)
    z = library["main"](np.ones((4, rows), np.float32), np.ones((rows, 16), np.float32))
    assert (z == number * rows).all()


class Held(NamedTuple):
    """Memory of a process: KiB in all, KiB of malloc's (0 if unknown), mappings, Python blocks."""

    resident: float
    native: float
    mappings: int
    blocks: int


class _Malloc(ctypes.Structure):
    """glibc's struct mallinfo2: the fifth is bytes in mappings, the eighth in use: mallinfo(3)."""

    _fields_ = [(f"field{number}", ctypes.c_size_t) for number in range(10)]


def held(*, forget: bool) -> Held:
    """`forget` empties the compiler's memos first: they are bounded, and filled by any program."""
    if forget:
        gc.unfreeze()  # what pytest's processes froze is not listed
        for item in gc.get_objects():
            is_memo = isinstance(item, functools._lru_cache_wrapper)
            if is_memo and item.cache_info().maxsize and item.__module__.startswith("minimlc"):
                item.cache_clear()
        dependence._SYSTEMS.clear()
        wellformed._RIGHT_KINDS.clear()
        trace._DONE.clear()
    gc.collect()
    process, native = ctypes.CDLL(None), 0.0
    if hasattr(process, "mallinfo2"):
        process.malloc_trim(0)
        process.mallinfo2.restype = _Malloc
        info = process.mallinfo2()
        native = (info.field4 + info.field7) / 1024
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    mappings = Path("/proc/self/maps").read_text().count("\n")
    kib = pages * os.sysconf("SC_PAGESIZE") / 1024
    return Held(kib, native, mappings, sys.getallocatedblocks())


def left_behind(
    one: Callable[[int, str, bool], None], target: str, cache: bool, numbers: Sequence[int]
) -> Held:
    """The memory that a build leaves behind, after the first third of these: the lesser of the
    means of the second and of the last. A table that grows once is in one of them, a leak in both.
    """
    count = len(numbers) // 3
    seen = []
    for start in range(0, 3 * count, count):
        for number in numbers[start : start + count]:
            one(number, target, cache)
        seen.append(held(forget=True))
    first, second = (
        [(late - early) / count for early, late in zip(before, after, strict=True)]
        for before, after in itertools.pairwise(seen)
    )
    return Held(*map(min, first, second))


def main() -> int:
    """Build, and print what the process held at each tenth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--kind", choices=("loops", "graph"), default="loops")
    parser.add_argument("--target", choices=("llvm", "c", "python"), default="llvm")
    parser.add_argument("--cache", action="store_true")
    given = parser.parse_args()
    one = {"loops": loops, "graph": graph}[given.kind]
    start, first = time.perf_counter(), None
    for number in range(given.count + 1):
        one(number, given.target, given.cache)
        if number == min(100, given.count // 10):
            first = held(forget=False)
        if first and number % max(1, given.count // 10) == 0:
            now = held(forget=False)
            print(
                f"{number:6} builds, {time.perf_counter() - start:6.0f} s: "
                f"{(now.resident - first.resident) / 1024:6.1f} MiB more, "
                f"{(now.native - first.native) / 1024:6.1f} of malloc's",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
