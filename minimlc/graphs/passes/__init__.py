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

MORE = {each.__name__: each for each in Hook[Any]("passes")}
globals().update(MORE)
if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


scheduling = tuple(Hook[Any]("scheduling"))
"""What schedules primitive functions, where it is there."""

default_pipeline = tuple(Hook[Any]("pipeline"))
"""What `build` does to graph functions: operators become few primitive functions, scheduled."""


TARGETED = [
    each for each in (*scheduling, *default_pipeline) if "target" in signature(each).parameters
]
"""What depends on the target."""


def for_target(
    target: str | Target | None = None, pipeline: Iterable[Pass] = default_pipeline
) -> tuple[Pass, ...]:
    """A pipeline with what depends on the target, such as recipes, for that one instead of for this
    machine.
    """
    steps: list[Any] = pass_list(pipeline)
    chosen = Target.of(target)
    return tuple(partial(each, target=chosen) if each in TARGETED else each for each in steps)


__all__ = [
    "default_pipeline",
    "for_target",
    "fuse_ops",
    "fuse_tir",
    "legalize",
    "remove_unused",
]
__all__ += MORE
