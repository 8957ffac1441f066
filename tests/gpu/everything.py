"""All kernels by NVRTC: `python -m tests.gpu.everything [ARCHITECTURE ...]`.

Those of the tests' programs, of tile programs and recipes, and all that chapters 07 and 08 simulate
are compiled for each architecture. A line for each has their number, what took how long, the
most registers of a thread, and how many bytes are spilled; the exit status is 1 if any is.
"""

import json
import linecache
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import minimlc as mlc
from minimlc import recipes
from minimlc.gpusim import build as simulator
from minimlc.targets.gpu.cuda import CUDA
from minimlc.targets.gpu.emit import emit
from tests.gpu import programs
from tests.gpu.nvrtc import ARCHITECTURES, compiled, spills
from tests.gpu.test_agreement import WRITTEN
from tests.recipes import test_gpu as scheduled
from tests.tile.kernels import CASES

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CHAPTERS = "07_gpu", "08_special_hardware"
NOT_75 = "mma.m16n8k16.bf16"
"""An instruction that sm_75 lacks; it is in the text."""


def of_chapter(name: str) -> Iterator[str]:
    """The kernels that a chapter simulates, its cells run one after the other."""
    functions = []

    def recorded(name, func, *args, **options):
        functions.append((name, func))
        return kernels(name, func, *args, **options)

    kernels, simulator.kernels = simulator.kernels, recorded
    scope = {"__name__": "__main__", "display": print}
    try:
        cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))["cells"]
        for number, cell in enumerate(cell for cell in cells if cell["cell_type"] == "code"):
            text, file = "".join(cell["source"]), f"<{name} {number}>"
            linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
            exec(compile(text, file, "exec"), scope)
    finally:
        simulator.kernels = kernels
    for name, func in functions:
        yield emit({name: func}, CUDA).text


def modules() -> Iterator[mlc.IRModule]:
    """Those of the tests: written with threads, scheduled by hand, and by recipes."""
    yield from WRITTEN.values()
    yield from (case().mod for case in programs.PROGRAMS)
    yield from (programs.warps(kind, check=False).mod for kind in programs.UNITS)
    plain = [program() for program in scheduled.PROGRAMS.values()]
    plain += [mlc.IRModule({"main": case.func}) for case in CASES.values()]
    plain += [scheduled.dense(size, size, size, "float16") for size in (1000, 4096)]
    plain += [scheduled.main_only(scheduled.matmul(2048, 2048, 2048))]
    yield from (recipes.apply(module, "gpusim") for module in plain)


def texts() -> list[str]:
    """Each text once."""
    of_tests = (mlc.build(module, target="python").source("cuda") for module in modules())
    of_chapters = (text for name in CHAPTERS for text in of_chapter(name))
    return list(dict.fromkeys([*of_chapters, *of_tests]))


def main() -> int:
    listed, whole, spilled = texts(), 0.0, 0
    for architecture in sys.argv[1:] or ARCHITECTURES:
        chosen = [each for each in listed if architecture != "sm_75" or NOT_75 not in each]
        start = time.process_time()
        logs = [compiled(each, architecture) for each in chosen]
        seconds = time.process_time() - start
        registers = max(int(n) for log in logs for n in re.findall(r"Used (\d+) registers", log))
        count, bytes_ = sum(log.count("Used ") for log in logs), sum(map(spills, logs))
        whole, spilled = whole + seconds, spilled + bytes_
        print(
            f"{architecture}: {count} kernels in {len(logs)} texts, {seconds:.1f} s, "
            f"at most {registers} registers, {bytes_} bytes spilled",
            flush=True,
        )
    print(f"in all {whole:.1f} s of a processor, {spilled} bytes spilled")
    return 1 if spilled else 0


if __name__ == "__main__":
    raise SystemExit(main())
