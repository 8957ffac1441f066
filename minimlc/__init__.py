"""minimlc: a machine-learning compiler that fits in a head.

The public names, in reading order. What acts on programs is imported when one of its names is first
used, so that `import minimlc` stays quick.
"""

from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from minimlc import composition, printer  # noqa: F401 (first: it hands the parts)
from minimlc.errors import (
    BoundsError,
    BuildError,
    CallError,
    CompileError,
    DroppedResult,
    ManySizes,
    OpError,
    RaceError,
    RaceWarning,
    ScheduleError,
    ScriptError,
    SizeError,
    VerifyError,
)
from minimlc.module import History, IRModule, Step, run_passes
from minimlc.node import Visitor, structural_equal, structural_hash
from minimlc.parts import room
from minimlc.printer import named_constants
from minimlc.script import parse
from minimlc.tir.nodes import Buffer, PrimFunc, SymbolicFunc
from minimlc.verify import verify

if TYPE_CHECKING:
    from minimlc import datasets, exercise, homework, passes, recipes, schedule, tune
    from minimlc.deploy.load import load
    from minimlc.explain import explain
    from minimlc.graph import op
    from minimlc.graph.builder import BlockBuilder
    from minimlc.graph.mutator import Mutator
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
    from minimlc.graph.topi import topi
    from minimlc.machine.peaks import Peaks, machine_peaks
    from minimlc.passes.dispatch import dispatch
    from minimlc.passes.pattern import p as pattern
    from minimlc.registry import register_func
    from minimlc.run import interpret
    from minimlc.runtime.build import build
    from minimlc.runtime.cache import cache_dir
    from minimlc.runtime.parallel import num_threads, set_num_threads
    from minimlc.runtime.timing import Timing, time
    from minimlc.schedule import Schedule, Trace
    from minimlc.schedule.tensor import TensorIntrin, register_intrin
    from minimlc.specialize import specialize
    from minimlc.target import Target
    from minimlc.tir import te

__version__ = "0.1.0"


NOW = {
    "graph.nodes": (
        *("Call", "Constant", "Function", "Tuple", "TupleGetItem", "Var"),
        *("call_function", "constant"),
    ),
    "registry": ("register_func",),
    "explain": ("explain",),
}
"""Names of other parts than the loops that are imported at once."""
for _place, _names in NOW.items():
    if _part := room(_place):
        globals().update({name: getattr(_part, name) for name in _names})
del _place, _names, _part

LATER = {
    **{name: name for name in ("passes", "recipes", "schedule")},
    "op": "graph.op",
    "BlockBuilder": "graph.builder:BlockBuilder",
    "Mutator": "graph.mutator:Mutator",
    "Peaks": "machine.peaks:Peaks",
    "machine_peaks": "machine.peaks:machine_peaks",
    "interpret": "run:interpret",
    "build": "runtime.build:build",
    "cache_dir": "runtime.cache:cache_dir",
    "num_threads": "runtime.parallel:num_threads",
    "set_num_threads": "runtime.parallel:set_num_threads",
    "Timing": "runtime.timing:Timing",
    "time": "runtime.timing:time",
    "Schedule": "schedule:Schedule",
    "Trace": "schedule:Trace",
    "TensorIntrin": "schedule.tensor:TensorIntrin",
    "register_intrin": "schedule.tensor:register_intrin",
    "Target": "target:Target",
    "specialize": "specialize:specialize",
    "te": "tir.te",
    "topi": "graph.topi:topi",
    "pattern": "passes.pattern:p",
}
"""Names that are imported when the first of them is used, and where they are."""


def __getattr__(name: str) -> Any:
    if name in ("datasets", "exercise", "homework", "tune"):
        return import_module(f"minimlc.{name}")
    if name == "load" and room("deploy.load"):  # and nothing else: it needs no compiler
        return resolve_name("minimlc.deploy.load:load")
    if name == "dispatch" and room("passes.dispatch"):  # its functions are registered then
        return resolve_name("minimlc.passes.dispatch:dispatch")
    if name in LATER:
        there = {n: at for n, at in LATER.items() if room(at.partition(":")[0])}
        globals().update({n: resolve_name(f"minimlc.{at}") for n, at in there.items()})
    if name not in globals():
        raise AttributeError(f"module 'minimlc' has no attribute {name!r}")
    return globals()[name]


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
    "DroppedResult",
    "Function",
    "History",
    "IRModule",
    "ManySizes",
    "Mutator",
    "OpError",
    "Peaks",
    "PrimFunc",
    "RaceError",
    "RaceWarning",
    "Schedule",
    "ScheduleError",
    "ScriptError",
    "SizeError",
    "Step",
    "SymbolicFunc",
    "Target",
    "TensorIntrin",
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
    "dispatch",
    "exercise",
    "explain",
    "homework",
    "interpret",
    "load",
    "machine_peaks",
    "named_constants",
    "num_threads",
    "op",
    "parse",
    "passes",
    "pattern",
    "printer",
    "recipes",
    "register_func",
    "register_intrin",
    "run_passes",
    "schedule",
    "set_num_threads",
    "specialize",
    "structural_equal",
    "structural_hash",
    "te",
    "time",
    "topi",
    "tune",
    "verify",
]
