"""Transforms of whole modules: functions IRModule -> IRModule, in the order they usually run."""

from collections.abc import Iterable
from functools import partial
from inspect import signature
from typing import Any

from minimlc.module import Pass, pass_list
from minimlc.parts import Hook
from minimlc.passes.fold_constants import fold_constants
from minimlc.passes.fuse_ops import fuse_ops
from minimlc.passes.fuse_tir import fuse_tir
from minimlc.passes.legalize import legalize
from minimlc.passes.outline import outline
from minimlc.passes.remove_unused import remove_unused
from minimlc.target import Target

MORE = {each.__name__: each for each in Hook[Any]("passes")}
globals().update(MORE)
scheduling = tuple(Hook[Any]("scheduling"))
"""What schedules primitive functions, where it is there."""

default_pipeline = tuple(Hook[Any]("pipeline"))
"""What `build` does to graph functions: operators become few primitive functions, scheduled."""


def for_target(
    target: str | Target | None = None, pipeline: Iterable[Pass] = default_pipeline
) -> tuple[Pass, ...]:
    """A pipeline with what depends on the target, such as recipes, for that one instead of for this
    machine.
    """
    chosen, known = Target.of(target), (*scheduling, *default_pipeline)
    depend = [each for each in known if "target" in signature(each).parameters]
    steps: list[Any] = pass_list(pipeline)
    return tuple(partial(each, target=chosen) if each in depend else each for each in steps)


def __getattr__(name: str) -> Any:  # for type checkers: other names were entered above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "default_pipeline",
    "fold_constants",
    "for_target",
    "fuse_ops",
    "fuse_tir",
    "legalize",
    "outline",
    "remove_unused",
]
__all__ += MORE
