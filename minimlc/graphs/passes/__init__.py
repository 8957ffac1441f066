"""Transforms of whole modules: functions IRModule -> IRModule, in the order they usually run."""

from collections.abc import Iterable
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

from minimlc.graphs.passes.fuse_ops import fuse_ops
from minimlc.graphs.passes.fuse_tir import fuse_tir
from minimlc.graphs.passes.legalize import legalize
from minimlc.graphs.passes.remove_unused import remove_unused
from minimlc.loops.values.module import Pass, pass_list
from minimlc.loops.values.parts import Hook
from minimlc.loops.values.target import Target

MORE = {step.__name__: step for step in Hook[Any]("passes")}
globals().update(MORE)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


scheduling = tuple(Hook[Any]("scheduling"))
"""The passes that schedule primitive functions, if there are any."""

default_pipeline = tuple(Hook[Any]("pipeline"))
"""The passes of `build` for graphs: operators become few primitive functions, scheduled."""


TARGETED = [
    step for step in (*scheduling, *default_pipeline) if "target" in signature(step).parameters
]
"""The passes that depend on the target."""


def for_target(
    target: str | Target | None = None, pipeline: Iterable[Pass] = default_pipeline
) -> tuple[Pass, ...]:
    """A pipeline whose passes that depend on the target, such as recipes, are for `target` instead
    of for this machine.
    """
    steps: list[Any] = pass_list(pipeline)
    chosen = Target.of(target)
    return tuple(partial(step, target=chosen) if step in TARGETED else step for step in steps)


__all__ = [
    "default_pipeline",
    "for_target",
    "fuse_ops",
    "fuse_tir",
    "legalize",
    "remove_unused",
]
__all__ += MORE
