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
    """A maker of contenders from modules: the commit's compiler reads a module's text and builds it
    as it did then. It makes none where this is no clone, or one without that commit.
    """
    command = ["git", "-C", str(ROOT), "archive", commit, "minimlc"]
    try:
        packed = subprocess.run(command, capture_output=True).stdout
    except OSError:  # no git
        packed = b""
    if not packed:
        yield lambda mod, arrays: []
        return
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        package = Package(folder)
        yield lambda mod, arrays: [package.contender(mod, arrays, threads)]


class Package:
    """The package in a folder, beside today's: its modules are in place while it builds."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._modules: dict[str, Any] = {}

    @contextmanager
    def imported(self) -> Iterator[Any]:
        """A context in which `import minimlc` gives this package."""
        today = _taken_out()
        sys.modules.update(self._modules)
        sys.path.insert(0, self._folder)
        try:
            yield import_module(OURS)
        finally:
            sys.path.remove(self._folder)
            self._modules = _taken_out()
            sys.modules.update(today)

    def contender(self, mod: mlc.IRModule, arrays: list[np.ndarray], threads: int) -> Contender:
        """Called once while its modules are in place: a first call may import some."""
        text = mod.script()
        with self.imported() as package:
            package.set_num_threads(threads)
            target = replace(package.Target.host(), cores=threads)
            function = package.build(package.parse(text), target, cache=False)["main"]
            function(*arrays)
        return Contender(BEFORE, lambda: function(*arrays))


def _taken_out() -> dict[str, Any]:
    names = [name for name in sys.modules if name.split(".")[0] == OURS]
    return {name: sys.modules.pop(name) for name in names}
