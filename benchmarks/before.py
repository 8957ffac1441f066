"""Programs that an earlier commit builds by default, timed beside today's in one process."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import minimlc as mlc
from benchmarks.contest import OURS
from benchmarks.harness import Contender

COMMIT = "8fc737f8"
"""The last one without searches: its default programs learned from none."""
BEFORE = f"{OURS}, before searches"
ROOT = Path(__file__).parents[1]

Earlier = Callable[[mlc.IRModule, list[np.ndarray]], list[Contender]]


@contextmanager
def earlier(threads: int, commit: str = COMMIT) -> Iterator[Earlier]:
    """What makes a contender of a module: the commit's compiler reads its text and builds it as it
    did then. It makes none where this is no clone, or one without that commit.
    """
    command = ["git", "-C", str(ROOT), "archive", commit, "minimlc"]
    try:
        packed = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        yield lambda mod, arrays: []
        return
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        yield lambda mod, arrays: [contender(folder, mod, arrays, threads)]


def contender(folder: str, mod: mlc.IRModule, arrays: list[np.ndarray], threads: int) -> Contender:
    """Called once before today's package is back: what a first call imports is of the same one."""
    text = mod.script()
    with imported(folder) as package:
        package.set_num_threads(threads)
        target = replace(package.Target.host(), cores=threads)
        function = package.build(package.parse(text), target, cache=False)["main"]
        function(*arrays)
    return Contender(BEFORE, lambda: function(*arrays))


@contextmanager
def imported(folder: str) -> Iterator[Any]:
    """The package in that folder; until the end, it is what `import minimlc` means."""
    today = _taken_out()
    sys.path.insert(0, folder)
    try:
        yield import_module(OURS)
    finally:
        sys.path.remove(folder)
        _taken_out()
        sys.modules.update(today)


def _taken_out() -> dict[str, Any]:
    names = [name for name in sys.modules if name.split(".")[0] == OURS]
    return {name: sys.modules.pop(name) for name in names}
