"""Transforms of whole modules: functions IRModule -> IRModule, in the order they usually run."""

from minimlc.passes.bind_params import bind_params
from minimlc.passes.eliminate_common_subexpr import eliminate_common_subexpr
from minimlc.passes.fold_constants import fold_constants
from minimlc.passes.fuse_ops import fuse_ops
from minimlc.passes.fuse_tir import fuse_tir
from minimlc.passes.legalize import legalize
from minimlc.passes.pack_constants import pack_constants
from minimlc.passes.remove_unused import remove_unused
from minimlc.rooms import room

recipes = room("recipes")
scheduling = (recipes.apply,) if recipes else ()
"""What schedules primitive functions, where it is there."""

default_pipeline = (
    fold_constants,
    eliminate_common_subexpr,
    remove_unused,
    legalize,
    fuse_ops,
    fuse_tir,
    remove_unused,
    *scheduling,
    pack_constants,
    remove_unused,
)
"""What `build` does to graph functions: operators become few primitive functions, scheduled."""

__all__ = [
    "bind_params",
    "default_pipeline",
    "eliminate_common_subexpr",
    "fold_constants",
    "fuse_ops",
    "fuse_tir",
    "legalize",
    "pack_constants",
    "remove_unused",
]
