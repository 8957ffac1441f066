"""Names that modules had before the rings: `minimlc.tir.nodes` is `minimlc.loops.ir.nodes`."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec, spec_from_loader
from types import ModuleType

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
    """What a module that has moved is called now; None for any other name."""
    old = name.removeprefix("minimlc.")
    if old in PLACES:
        return f"minimlc.{PLACES[old].split()[0]}"
    package, _, last = old.rpartition(".")
    if not package and PathFinder.find_spec(name, sys.modules["minimlc"].__path__):
        return None
    names = [f"minimlc.{place}.{last}" for place in PLACES.get(package, "").split()]
    return next(filter(find_spec, names), None)


class Former(Loader, MetaPathFinder):
    """Finds modules by their former names: what is imported is the module itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = name.startswith("minimlc.") and new_name(name)
        return spec_from_loader(name, self) if known else None

    def exec_module(self, module: ModuleType) -> None:
        name = new_name(module.__name__)
        assert name is not None
        sys.modules[module.__name__] = import_module(name)
