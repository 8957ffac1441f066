"""The time spent waiting for the compiler: its import, a cold build, a build from the cache.

Every sample is a separate process; a cold one has an empty cache folder.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.harness import Measured
from benchmarks.machine import describe
from benchmarks.report import Claim, Report, Table

ROUNDS = 20
ROOT = Path(__file__).parent.parent
PROGRAMS = ("mlp", "matmul", "recipe")
IMPORTS = ("numpy", "minimlc")


def run(thread_count: int = 1, repeat: int | None = None) -> Report:
    """Targets: import 0.3 s, cold build of the MLP 0.5 s, warm from the cache 0.05 s.

    The 1024³ matmul's recipe and build, cold: 0.4 s.
    """
    report = Report("compile", thread_count, describe())
    rounds = repeat or ROUNDS
    import_seconds("minimlc")  # writes the compiled Python files
    imports = {name: [import_seconds(name) for _ in range(rounds)] for name in IMPORTS}
    builds: dict[str, list[float]] = {f"{p}, {way}": [] for p in PROGRAMS for way in WAYS}
    for _ in range(rounds):
        for program in PROGRAMS:
            for way, taken in build_seconds(program).items():
                builds[f"{program}, {way}"].append(taken)
    report.tables += [Table("Import", _rows(imports)), Table("Build", _rows(builds))]
    seconds = {row.name: row.median for table in report.tables for row in table.rows}
    report.claims += [
        Claim("import minimlc", seconds["minimlc"], "<=", 0.3, "s"),
        Claim("cold build of the digits MLP", seconds["mlp, cold"], "<=", 0.5, "s"),
        Claim("warm build of the digits MLP", 1e3 * seconds["mlp, warm"], "<=", 50, "ms"),
        Claim(
            "the 1024³ matmul recipe, IR to callable, cold", seconds["recipe, cold"], "<=", 0.4, "s"
        ),
    ]
    report.notes += [
        f"Every sample is a fresh process; {rounds} of each, in turns. Compiled Python files are "
        "in place.",
        "minimlc's import includes numpy's; times are python -X importtime's.",
        "mlp: the digits MLP, from graph function to one native call. matmul: the scheduled "
        "1024³ matmul, without the time to schedule it. recipe: the unscheduled 1024³ matmul, with "
        "the time that recipes.apply takes.",
        "cold: the first build of a process, LLVM's import included, with an empty cache. "
        "new process: the same in another process, the cache filled, LLVM's import included. "
        "again: a second build in that process.",
        "warm: the first build of a third process in which LLVM and the compiler are loaded "
        "(minimlc.services.build and llvmlite.binding imported before the clock starts); the code "
        "comes from the cache on disk.",
    ]
    return report


WAYS = ("cold", "new process", "again", "warm")


def _rows(samples: dict[str, list[float]]) -> list[Measured]:
    return [Measured(name, tuple(taken)) for name, taken in samples.items()]


def import_seconds(module: str) -> float:
    """Seconds that `import module` takes in a fresh process."""
    text = _python("-X", "importtime", "-c", f"import {module}").stderr
    return parse_import_time(text, module)


def parse_import_time(text: str, module: str) -> float:
    """The cumulative seconds of `module` in what python -X importtime prints."""
    for line in text.splitlines():
        fields = line.removeprefix("import time:").split("|")
        if len(fields) == 3 and fields[2].strip() == module:
            return int(fields[1]) / 1e6
    raise ValueError(f"no import of {module} in:\n{text}")


def build_seconds(program: str) -> dict[str, float]:
    """Seconds of a cold build, and of builds from the cache, by the names in `WAYS`."""
    with tempfile.TemporaryDirectory() as folder:
        cold, cached = (_build_in_process(program, folder) for _ in range(2))
        loaded = _build_in_process(program, folder, ("minimlc.services.build", "llvmlite.binding"))
    return dict(zip(WAYS, (cold[0], cached[0], cached[1], loaded[0]), strict=True))


def _build_in_process(program: str, folder: str, loaded: Sequence[str] = ()) -> Sequence[float]:
    """Seconds of two builds in a fresh process that has imported the modules `loaded`."""
    code = f"from benchmarks.compile import child; child({program!r}, {tuple(loaded)!r})"
    done = _python("-c", code, MINIMLC_CACHE_DIR=folder)
    return json.loads(done.stdout)


MODEL_WAYS = ("cold", "from the cache", "one layer changed")
LOADED = ("minimlc.services.build", "llvmlite.binding")


def model_seconds(name: str) -> dict[str, float]:
    """Seconds of a whole model's builds, by the names in `MODEL_WAYS`."""
    code = f"from benchmarks.compile import model_child; model_child({name!r})"
    with tempfile.TemporaryDirectory() as folder:
        cold = json.loads(_python("-c", code, MINIMLC_CACHE_DIR=folder).stdout)
        cached = json.loads(_python("-c", code, "again", MINIMLC_CACHE_DIR=folder).stdout)
    return dict(zip(MODEL_WAYS, (*cold, *cached), strict=True))


def model_child(name: str) -> None:
    """In the fresh process: build, and where a process has built it before, build it changed."""
    import minimlc as mlc
    from benchmarks import kits, networks

    again = sys.argv[-1] == "again"
    for module in LOADED:
        import_module(module)
    mods = [kits.ours(networks.MODELS[name], changed=changed)[0] for changed in (False, True)]
    times = []
    for mod in mods if again else mods[:1]:
        start = perf_counter()
        mlc.build(mod)
        times.append(perf_counter() - start)
    print(json.dumps(times))


def resident_growth(name: str) -> tuple[int, int]:
    """Bytes by which a whole model's first call makes a process larger, and the bytes of its
    memory plan; Linux only.
    """
    code = f"from benchmarks.compile import resident_child; resident_child({name!r})"
    grown, planned = json.loads(_python("-c", code).stdout)
    return grown, planned


def resident_child(name: str) -> None:
    """In the fresh process: build, give back what the heap has free, and call once."""
    import minimlc as mlc
    from benchmarks import kits, networks

    model = networks.MODELS[name]
    program, arrays = mlc.build(kits.ours(model)[0]), kits.inputs_of(model)
    function, planned = program["main"], program.plan("main").planned
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # resets the highest mark
    before = _status("VmRSS")
    result = function(*arrays)
    print(json.dumps([_status("VmHWM") - before - result.nbytes, planned]))


def _status(key: str) -> int:
    """Bytes of this process in /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def _python(*arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )


def child(program: str, loaded: Sequence[str] = ()) -> None:
    """In the fresh process: import the modules `loaded`, build twice, print the seconds."""
    import minimlc as mlc
    from benchmarks import samples

    modules: dict[str, Any] = {
        "mlp": lambda: samples.mlp(samples.weights()),
        "matmul": lambda: samples.schedule(samples.matmul(1024)),
        "recipe": lambda: samples.matmul(1024),
    }
    prepare = mlc.recipes.apply if program == "recipe" else lambda mod: mod
    mod = modules[program]()
    for name in loaded:
        import_module(name)
    times = []
    for _ in range(2):
        start = perf_counter()
        mlc.build(prepare(mod))
        times.append(perf_counter() - start)
    print(json.dumps(times))
