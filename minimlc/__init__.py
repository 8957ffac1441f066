"""minimlc: a machine-learning compiler that fits in a head.

The public names, in reading order. Parts that act on programs are imported when one of their names
is first used, so that `import minimlc` stays quick.
"""

import sys
from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from minimlc import composition  # first: it hands the parts
from minimlc.loops import printer
from minimlc.loops.ir.nodes import Buffer, PrimFunc, SymbolicFunc
from minimlc.loops.printer import named_constants
from minimlc.loops.proofs.verify import verify
from minimlc.loops.values.errors import (
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
from minimlc.loops.values.module import History, IRModule, Step, run_passes
from minimlc.loops.values.node import Visitor, structural_equal, structural_hash
from minimlc.loops.values.parts import room
from minimlc.script import parse

if TYPE_CHECKING:
    from minimlc import datasets, exercise, homework, recipes, tune
    from minimlc.deploy.load import load
    from minimlc.graphs import op, passes
    from minimlc.graphs.builder import BlockBuilder
    from minimlc.graphs.ir.nodes import (
        Call,
        Constant,
        Function,
        Tuple,
        TupleGetItem,
        Var,
        call_function,
        constant,
    )
    from minimlc.graphs.ir.registry import register_func
    from minimlc.graphs.mutator import Mutator
    from minimlc.loops import schedule
    from minimlc.loops.interpreter.run import interpret
    from minimlc.loops.schedule import Schedule, Trace
    from minimlc.loops.te import te
    from minimlc.loops.values.target import Target
    from minimlc.machine.peaks import Peaks, machine_peaks
    from minimlc.services.build import build
    from minimlc.services.dispatch import dispatch
    from minimlc.services.explain import explain
    from minimlc.services.patterns.pattern import p as pattern
    from minimlc.services.runtime.cache import cache_dir
    from minimlc.services.runtime.timing import Timing, time
    from minimlc.services.sizes.specialize import specialize
    from minimlc.services.spellings.topi import topi
    from minimlc.services.tensor import TensorIntrin, register_intrin
    from minimlc.services.threads.parallel import num_threads, set_num_threads

__version__ = composition.VERSION


NOW = {
    "graphs.ir.nodes": (
        *("Call", "Constant", "Function", "Tuple", "TupleGetItem", "Var"),
        *("call_function", "constant"),
    ),
    "graphs.ir.registry": ("register_func",),
    "services.explain": ("explain",),
}
"""Names of other parts than the loops that are imported at once."""
for _place, _names in NOW.items():
    if _part := room(_place):
        globals().update({name: getattr(_part, name) for name in _names})
del _place, _names, _part

if _former := room("services.former"):
    sys.meta_path.insert(0, _former.Former())
del _former

LATER = {
    "passes": "graphs.passes",
    "recipes": "recipes",
    "schedule": "loops.schedule",
    "op": "graphs.op",
    "BlockBuilder": "graphs.builder:BlockBuilder",
    "Mutator": "graphs.mutator:Mutator",
    "Peaks": "machine.peaks:Peaks",
    "machine_peaks": "machine.peaks:machine_peaks",
    "interpret": "loops.interpreter.run:interpret",
    "build": "services.build:build",
    "cache_dir": "services.runtime.cache:cache_dir",
    "num_threads": "services.threads.parallel:num_threads",
    "set_num_threads": "services.threads.parallel:set_num_threads",
    "Timing": "services.runtime.timing:Timing",
    "time": "services.runtime.timing:time",
    "Schedule": "loops.schedule:Schedule",
    "Trace": "loops.schedule:Trace",
    "TensorIntrin": "services.tensor:TensorIntrin",
    "register_intrin": "services.tensor:register_intrin",
    "Target": "loops.values.target:Target",
    "specialize": "services.sizes.specialize:specialize",
    "te": "loops.te.te",
    "topi": "services.spellings.topi:topi",
    "pattern": "services.patterns.pattern:p",
}
"""Names that are imported when the first of them is used, and where they are."""


def __getattr__(name: str) -> Any:
    if name in ("datasets", "exercise", "homework", "tune"):
        return import_module(f"minimlc.{name}")
    if name == "load" and room("deploy.load"):  # and nothing else: it needs no compiler
        return resolve_name("minimlc.deploy.load:load")
    if name == "dispatch" and room("services.dispatch"):  # its functions are registered then
        return resolve_name("minimlc.services.dispatch:dispatch")
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
