"""A host that hides features of its CPU, as virtual machines do: `MINIMLC_TEST_HOST` names it.

LLVM is asked in one place for the CPU's name and features, C compilers by `CC`: both answer what
the mask leaves. Python imports this file when it starts, as its folder is in PYTHONPATH, so the
processes that tests start are masked, too; those that run apart from it get both variables.
"""

import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class Mask(NamedTuple):
    """A CPU's name, which of the machine's features are left, and how a C compiler is limited."""

    cpu: str
    keeps: Callable[[str], bool]
    cc: str


V2 = "64bit cmov crc32 cx16 cx8 fxsr mmx popcnt sahf sse sse2 sse3 sse4.1 sse4.2 ssse3"
MASKS = {
    # The name of this CPU promises what the features deny: where code forgets to deny a feature,
    # the name brings it back, on whatever machine the tests run.
    "no-avx512": Mask(
        "znver4", lambda name: not name.startswith(("avx512", "avx10", "amx")), "-mno-avx512f"
    ),
    "x86-64-v2": Mask(
        "x86-64-v2", V2.split().__contains__, "-mno-avx -mno-bmi -mno-bmi2 -mno-lzcnt -mno-movbe"
    ),
}
SWITCH = "MINIMLC_TEST_HOST"
HERE = str(Path(__file__).parent)


def masked(features: str, mask: Mask) -> str:
    """The features with a sign each, "-" for those that the mask hides."""
    parts = features.split(",")
    return ",".join(part if mask.keeps(part[1:]) else f"-{part[1:]}" for part in parts)


def _hide(llvm: ModuleType) -> None:
    """LLVM's answers become the mask's."""
    mask, features = MASKS[os.environ[SWITCH]], llvm.get_host_cpu_features().flatten()

    class Features:
        def flatten(self) -> str:
            return masked(features, mask)

    llvm.get_host_cpu_name = lambda: mask.cpu  # type: ignore[attr-defined]
    llvm.get_host_cpu_features = Features  # type: ignore[attr-defined]


def _pass_on(workers: ModuleType) -> None:
    """Processes with an environment of their own are masked, too."""
    usual = workers.Worker._environment

    def environment(self: Any) -> dict[str, str]:
        kept = usual(self)
        path = os.pathsep.join([HERE, kept["PYTHONPATH"]])
        return {**kept, "PYTHONPATH": path, **{k: os.environ[k] for k in (SWITCH, "CC")}}

    workers.Worker._environment = environment  # type: ignore[attr-defined]


CHANGES = {"llvmlite.binding": _hide, "minimlc.apart.worker": _pass_on}


class _MaskFinder:
    """Finds the modules that are changed once they are loaded."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path, target) if name in CHANGES else None
        if found is None or found.loader is None:
            return None
        load = found.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            CHANGES[name](module)

        found.loader.exec_module = exec_module  # type: ignore[method-assign]
        return found


def apply() -> None:
    """Mask this process and those that it starts; for an unknown host, end it.

    Python goes on after any other error of this file, on a host that hides nothing.
    """
    name = os.environ[SWITCH]
    if name not in MASKS or platform.machine().lower() not in ("x86_64", "amd64"):
        raise SystemExit(f"{SWITCH}={name}: known on x86-64 are {', '.join(MASKS)}")
    if any(getattr(finder, "__name__", "") == _MaskFinder.__name__ for finder in sys.meta_path):
        return  # this process was started by a masked one
    if early := [module for module in CHANGES if module in sys.modules]:
        raise SystemExit(f"{SWITCH} comes too late: {', '.join(early)} is imported")
    sys.meta_path.insert(0, _MaskFinder)  # type: ignore[arg-type]
    os.environ.setdefault("CC", f"{shutil.which('cc') or 'cc'} {MASKS[name].cc}")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([HERE, *filter(None, paths)]))


if os.environ.get(SWITCH):
    apply()
