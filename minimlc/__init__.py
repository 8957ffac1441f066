"""minimlc: a machine-learning compiler that fits in a head.

The public names, in reading order.
"""

from importlib import import_module
from types import ModuleType

from minimlc import passes, printer, recipes, schedule
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
from minimlc.module import History, IRModule, Step, run_passes
from minimlc.node import Visitor, structural_equal, structural_hash
from minimlc.registry import register_func
from minimlc.run import interpret
from minimlc.runtime.build import build
from minimlc.runtime.cache import cache_dir
from minimlc.runtime.parallel import num_threads, set_num_threads
from minimlc.runtime.target import Target
from minimlc.runtime.timing import Timing, time
from minimlc.schedule import Schedule, Trace
from minimlc.script import parse
from minimlc.tir import te
from minimlc.tir.nodes import Buffer, PrimFunc
from minimlc.verify import verify

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    """`datasets` on first use: the only part that knows the network's libraries."""
    if name == "datasets":
        return import_module("minimlc.datasets")
    raise AttributeError(f"module 'minimlc' has no attribute {name!r}")


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
