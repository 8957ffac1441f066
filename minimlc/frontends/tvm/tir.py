"""`tvm.tir`: loops on buffers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from minimlc.frontends.tvm import schedule
from minimlc.frontends.tvm.schedule import BlockRV, LoopRV, Schedule
from minimlc.frontends.tvm.table import rows
from minimlc.loops.ir import nodes
from minimlc.loops.ir.functions import FUNCTIONS
from minimlc.loops.te import te
from minimlc.loops.values.errors import ScheduleError
from minimlc.services.tensor import register_intrin

_NAMED = {name: getattr(nodes, node) for name, node in rows(__file__).items()}
"""The nodes of the loop IR, by TVM's names."""

MORE = SimpleNamespace(**{**FUNCTIONS, **_NAMED, "all": te.all, "any": te.any})


class IndexMap:
    """A map of indices: here the function itself, or its text."""

    @staticmethod
    def from_func(mapping_function: Callable[..., Any], **_: Any) -> Callable[..., Any]:
        """The function, which `sch.transform_layout` takes."""
        return mapping_function


class TensorIntrin:
    """The computation of one unit of hardware."""

    @staticmethod
    def register(name: str, desc: Any, impl: Any, override: bool = False) -> Any:
        """Enter an intrinsic under a name, for `sch.tensorize`."""
        return register_intrin(name, desc, impl)
