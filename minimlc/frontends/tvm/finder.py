"""`import tvm` finds the names here, from `install()` until `uninstall()`."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from minimlc.frontends.tvm.absent import Absent, UnknownModule, absent, shown
from minimlc.frontends.tvm.table import rows
from minimlc.loops.values.errors import CompileError

_PACKAGE = __name__.rpartition(".")[0]
_ALSO = rows(__file__)
"""Modules that TVM has under two names, or had under another."""


class _Finder:
    """Finds modules of TVM that are not here: stand-ins, whose use raises an error."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not shown(name).startswith("tvm."):
            return None
        absent(shown(name), dir(sys.modules.get(name.rpartition(".")[0])), UnknownModule)
        return ModuleSpec(name, _Finder, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> Absent:
        return Absent(shown(spec.name))

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """There is nothing to run."""


def install() -> None:
    """Let `import tvm` find these names. `CompileError` where TVM itself is imported already."""
    ours = sys.modules[_PACKAGE]
    if sys.modules.get("tvm", ours) is not ours:
        why = "TVM itself is imported already under the name tvm"
        raise CompileError(why, code="E615", hint="import minimlc.frontends.tvm as mt  # beside it")
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    sys.modules.update(modules())


def modules() -> dict[str, ModuleType]:
    """The modules here, by TVM's names."""
    inside = {n: m for n, m in sys.modules.items() if f"{n}.".startswith(f"{_PACKAGE}.")}
    here = {shown(name): module for name, module in inside.items()}
    return here | {f"tvm.{name}": here[f"tvm.{ours}"] for name, ours in _ALSO.items()}


def uninstall() -> None:
    """Undo `install()`: nothing of it is left."""
    if _Finder not in sys.meta_path:
        return
    sys.meta_path.remove(_Finder)  # type: ignore[arg-type]
    for name in [name for name in sys.modules if f"{name}.".startswith("tvm.")]:
        module: Any = sys.modules.pop(name)
        for key in [key for key, value in vars(module).items() if isinstance(value, Absent)]:
            delattr(module, key)
