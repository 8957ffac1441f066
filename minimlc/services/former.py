"""Names that modules had before the rings: `minimlc.tir.nodes` is `minimlc.loops.ir.nodes`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

from minimlc.loops.values.parts import is_there

TOP = (
    *("arguments", "constants", "contents", "depth", "display", "dtypes", "errors", "files"),
    *("explain", "kinds", "literals", "memory", "module", "names", "node", "parts", "printer"),
    *("polynomials", "registry", "run", "sizes", "specialize", "target", "verify"),
)
"""Modules of the package itself that have moved."""

PLACES = {
    "": "loops.values loops.ir loops loops.proofs loops.interpreter graphs.ir services.runtime "
    "services.sizes services",
    "tir": "loops.ir loops.te loops.interpreter loops.proofs",
    "tir.analysis": "loops.proofs services.checks services.layouts services.runtime",
    "tir.equivalence": "services.equivalence",
    "tir.math": "loops.math",
    "graph": "graphs.ir graphs services.control services.spellings",
    "graph.ops": "graphs.ops services.arrays services.networks",
    "schedule": "loops.schedule services.layouts services.checks services",
    "schedule.more": "services.primitives",
    "schedule.net": "services.net",
    "schedule.tensor": "services.tensor",
    "passes": "graphs.passes services.patterns services.passes services.control services",
    "codegen": "loops.lower targets",
    "codegen.llvm": "loops.llvm services.llvm services.native",
    "runtime": "services.runtime services.threads services.native services.caches services graphs",
}
"""Where the modules of a package went; the first place is what the package itself is now."""


def new_name(name: str) -> str | None:
    """The current name of a module that has moved; None for any other name."""
    old = name.removeprefix("minimlc.")
    package, _, last = old.rpartition(".")
    if old in PLACES:
        return f"minimlc.{PLACES[old].split()[0]}"
    if package not in PLACES:  # below a package that has moved as a whole
        above = new_name(f"minimlc.{package}")
        return f"{above}.{last}" if above else None
    places = PLACES[package].split() if package or last in TOP else []
    names = [f"{place}.{last}" for place in places]
    return next((f"minimlc.{found}" for found in names if is_there(found)), None)


class Package(ModuleType):
    """A package whose public names stay what they are when a module of that former name is
    imported.
    """

    def __setattr__(self, name: str, value: object) -> None:
        space = self.__dict__
        is_there = callable(space.get(name)) or (
            name not in space and name in space.get("__all__", ())
        )
        if not (is_there and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


class Former:
    """A finder and loader of modules by their former names: the module itself is imported.

    It derives from nothing: `importlib.abc` imports more than the library does.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = name.startswith("minimlc.") and new_name(name)
        return ModuleSpec(name, self) if known else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """The default: an empty module, for `exec_module` to put another in its place."""

    def exec_module(self, module: ModuleType) -> None:
        name = new_name(module.__name__)
        assert name is not None
        sys.modules[module.__name__] = import_module(name)
        parent = sys.modules[module.__name__.rpartition(".")[0]]
        if type(parent) is ModuleType:
            parent.__class__ = Package  # it is about to get the module as an attribute
