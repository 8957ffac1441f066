"""minimlc: a machine-learning compiler that fits in a head.

The public names, in reading order. What builds and transforms is imported when it is first used,
so that `import minimlc` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from minimlc import printer
from minimlc.errors import (
    BoundsError,
    BuildError,
    CallError,
    CompileError,
    OpError,
    ScheduleError,
    ScriptError,
    VerifyError,
)
from minimlc.graph.nodes import (
    Call,
    Constant,
    Function,
    Tuple,
    TupleGetItem,
    Var,
    call_function,
    constant,
)
from minimlc.module import History, IRModule, Step, run_passes
from minimlc.node import Visitor, structural_equal, structural_hash
from minimlc.registry import register_func
from minimlc.script import parse
from minimlc.tir.nodes import Buffer, PrimFunc
from minimlc.verify import verify

if TYPE_CHECKING:
    from minimlc import datasets, passes, recipes, schedule
    from minimlc.graph import op
    from minimlc.graph.builder import BlockBuilder
    from minimlc.graph.mutator import Mutator
    from minimlc.run import interpret
    from minimlc.runtime.build import build
    from minimlc.runtime.cache import cache_dir
    from minimlc.runtime.parallel import num_threads, set_num_threads
    from minimlc.runtime.target import Target
    from minimlc.runtime.timing import Timing, time
    from minimlc.schedule import Schedule, Trace
    from minimlc.tir import te

__version__ = "0.1.0"

_MODULES = ("datasets", "passes", "recipes", "schedule")
_LATER = {
    "te": "minimlc.tir",
    "op": "minimlc.graph",
    "BlockBuilder": "minimlc.graph.builder",
    "Mutator": "minimlc.graph.mutator",
    "interpret": "minimlc.run",
    "Schedule": "minimlc.schedule",
    "Trace": "minimlc.schedule",
    "build": "minimlc.runtime.build",
    "Target": "minimlc.runtime.target",
    "Timing": "minimlc.runtime.timing",
    "time": "minimlc.runtime.timing",
    "num_threads": "minimlc.runtime.parallel",
    "set_num_threads": "minimlc.runtime.parallel",
    "cache_dir": "minimlc.runtime.cache",
}
"""Where a name that is imported on first use comes from."""


def __getattr__(name: str) -> Any:
    """A public name on its first use."""
    if name in _MODULES:
        return import_module(f"minimlc.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'minimlc' has no attribute {name!r}")
    home = import_module(_LATER[name])
    value = getattr(home, name, None) or import_module(f"{_LATER[name]}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "BlockBuilder",
    "BoundsError",
    "Buffer",
    "BuildError",
    "Call",
    "CallError",
    "CompileError",
    "Constant",
    "Function",
    "History",
    "IRModule",
    "Mutator",
    "OpError",
    "PrimFunc",
    "Schedule",
    "ScheduleError",
    "ScriptError",
    "Step",
    "Target",
    "Timing",
    "Trace",
    "Tuple",
    "TupleGetItem",
    "Var",
    "VerifyError",
    "Visitor",
    "build",
    "cache_dir",
    "call_function",
    "constant",
    "datasets",
    "interpret",
    "num_threads",
    "op",
    "parse",
    "passes",
    "printer",
    "recipes",
    "register_func",
    "run_passes",
    "schedule",
    "set_num_threads",
    "structural_equal",
    "structural_hash",
    "te",
    "time",
    "verify",
]
