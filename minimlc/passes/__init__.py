"""Transforms of whole modules: functions IRModule -> IRModule, in the order they usually run."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from minimlc.module import Pass, pass_list
from minimlc.parts import room
from minimlc.passes.bind_params import bind_params
from minimlc.passes.combine_parallel_matmul import combine_parallel_matmul
from minimlc.passes.convert_layout import convert_layout
from minimlc.passes.eliminate_common_subexpr import eliminate_common_subexpr
from minimlc.passes.fold_batch_norm import fold_batch_norm
from minimlc.passes.fold_constants import fold_constants
from minimlc.passes.fold_transposes import fold_transposes
from minimlc.passes.fuse_attention import fuse_attention
from minimlc.passes.fuse_ops import fuse_ops
from minimlc.passes.fuse_tir import fuse_tir
from minimlc.passes.inline import inline
from minimlc.passes.legalize import legalize
from minimlc.passes.outline import outline
from minimlc.passes.pack_constants import pack_constants
from minimlc.passes.partition import partition
from minimlc.passes.remove_unused import remove_unused
from minimlc.passes.remove_unused_outputs import remove_unused_outputs
from minimlc.passes.remove_unused_parameters import remove_unused_parameters
from minimlc.passes.rewrite import rewrite
from minimlc.passes.scan_by_doubling import scan_by_doubling
from minimlc.passes.simplify import simplify
from minimlc.passes.sort_long_axes import sort_long_axes
from minimlc.passes.split_to_slices import split_to_slices
from minimlc.passes.to_mixed_precision import to_mixed_precision
from minimlc.passes.unroll_recurrent import unroll_recurrent
from minimlc.target import Target

recipes = room("recipes")
scheduling = (recipes.apply,) if recipes else ()
"""What schedules primitive functions, where it is there."""

default_pipeline = (
    unroll_recurrent,
    convert_layout,
    fold_constants,
    sort_long_axes,
    scan_by_doubling,
    simplify,
    fold_transposes,
    split_to_slices,
    eliminate_common_subexpr,
    remove_unused,
    fuse_attention,
    legalize,
    fuse_ops,
    fuse_tir,
    remove_unused,
    *scheduling,
    pack_constants,
    remove_unused,
)
"""What `build` does to graph functions: operators become few primitive functions, scheduled."""


def for_target(
    target: str | Target | None = None, pipeline: Iterable[Pass] = default_pipeline
) -> tuple[Pass, ...]:
    """A pipeline with what depends on the target, such as recipes, for that one instead of for this
    machine.
    """
    chosen, depend = Target.of(target), (*scheduling, sort_long_axes, scan_by_doubling)
    steps: list[Any] = pass_list(pipeline)
    return tuple(partial(each, target=chosen) if each in depend else each for each in steps)


__all__ = [
    "bind_params",
    "combine_parallel_matmul",
    "convert_layout",
    "default_pipeline",
    "eliminate_common_subexpr",
    "fold_batch_norm",
    "fold_constants",
    "fold_transposes",
    "for_target",
    "fuse_attention",
    "fuse_ops",
    "fuse_tir",
    "inline",
    "legalize",
    "outline",
    "pack_constants",
    "partition",
    "remove_unused",
    "remove_unused_outputs",
    "remove_unused_parameters",
    "rewrite",
    "scan_by_doubling",
    "simplify",
    "sort_long_axes",
    "split_to_slices",
    "to_mixed_precision",
    "unroll_recurrent",
]
