"""minimlc: a machine-learning compiler that fits in a head.

The public names, in reading order. What acts on programs (`minimlc.compiler`) is imported when one
of its names is first used, so that `import minimlc` stays quick.
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
from minimlc.explain import explain
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
    from minimlc import datasets, homework
    from minimlc.compiler import (
        BlockBuilder,
        Mutator,
        Peaks,
        Schedule,
        Target,
        TensorIntrin,
        Timing,
        Trace,
        build,
        cache_dir,
        interpret,
        machine_peaks,
        num_threads,
        op,
        passes,
        recipes,
        register_intrin,
        schedule,
        set_num_threads,
        te,
        time,
    )

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """A name that only the compiler has loads the compiler; some parts come by themselves."""
    if name in ("datasets", "homework"):
        return import_module(f"minimlc.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'minimlc' has no attribute {name!r}")
    compiler = import_module("minimlc.compiler")
    globals().update({part: getattr(compiler, part) for part in compiler.__all__})
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
    "Function",
    "History",
    "IRModule",
    "Mutator",
    "OpError",
    "Peaks",
    "PrimFunc",
    "Schedule",
    "ScheduleError",
    "ScriptError",
    "Step",
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
    "explain",
    "homework",
    "interpret",
    "machine_peaks",
    "num_threads",
    "op",
    "parse",
    "passes",
    "printer",
    "recipes",
    "register_func",
    "register_intrin",
    "run_passes",
    "schedule",
    "set_num_threads",
    "structural_equal",
    "structural_hash",
    "te",
    "time",
    "verify",
]
