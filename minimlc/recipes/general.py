"""The schedule of a function that no other recipe fits, and what all recipes share."""

from typing import Any

from minimlc.loops.ir.nodes import Block, For, Load, Store, Var
from minimlc.loops.ir.walks import blocks_in
from minimlc.loops.proofs.arith import variables
from minimlc.loops.schedule.shape import loops_feeding
from minimlc.loops.schedule.tree import find_block, find_loop
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.errors import ScheduleError
from minimlc.recipes.views import S, carefully, check_schedule

NO_SUCH_NAME = "E105"
"""The code of errors about loops, blocks, buffers and primitives that do not exist."""


def rows(sch: S) -> S:
    """Work along rows: in each block the loop over the output's last axis goes inside and becomes
    vector lanes; a reduction keeps a whole row of sums and adds to it.
    """
    check_schedule(sch)
    for name in sch.blocks():
        sch = row_wise(sch, name)
    return sch


def row_wise(sch: S, name: str) -> S:
    """One block with the loop over its output's last axis inside, as vector lanes."""
    block = find_block(sch.func, name)
    lane = _last_axis(block.stmt, block.loops)
    if lane is None or any(loop.kind != "serial" for loop in block.loops):
        return sch
    if blocks_in(find_loop(sch.func, lane).stmt) != [block.stmt]:
        return sch
    reduces = [it for it in block.stmt.iters if it.kind == "R"]
    inner = [loop.var.name for loop in loops_feeding(reduces, block.loops)]
    if lane in inner:
        return sch
    if not inner:
        return sch if collects_narrow(block.stmt) else attempt(sch, "vectorize", lane)
    moved = attempt(sch, "reorder", *inner, lane)
    if moved is sch:
        return sch
    if block.stmt.init is None:
        return attempt(moved, "vectorize", lane)
    ready = attempt(moved, "decompose_reduction", name, at=inner[0])
    if ready is moved:
        return sch
    for vector in (lane, f"{lane}_init"):
        ready = attempt(ready, "vectorize", vector)
    return ready


def _last_axis(block: Block, loops: tuple[For, ...]) -> str | None:
    """The loop that alone is the last spatial iter's value."""
    spatial = [it for it in block.iters if it.kind == "S"]
    if not spatial or not isinstance(spatial[-1].value, Var):
        return None
    names = [loop.var.name for loop in loops if loop.var is spatial[-1].value]
    return names[0] if names else None


def collects_narrow(block: Block) -> bool:
    """Whether a block only gathers elements of less than four bytes: assembling a vector of them
    takes longer than moving each.
    """
    if not (block.iters and isinstance(block.body, Store) and isinstance(block.body.value, Load)):
        return False
    read, place = block.body.value, block.iters[-1].var
    straight = read.indices[-1:] == (place,)
    moving = any(place in variables(at) for at in (read.indices[:-1] if straight else read.indices))
    return moving and DTYPES[read.buffer.dtype].bits < 32


def attempt(sch: S, primitive: str, *args: Any, **options: Any) -> S:
    """Apply a primitive where it is legal; where it refuses, leave the schedule as it is.

    A name that does not exist is an error as anywhere.
    """
    check_schedule(sch)
    try:
        return carefully(sch, lambda sch: sch.apply(primitive, *args, **options))
    except ScheduleError as error:
        if error.code == NO_SUCH_NAME:
            raise
        return sch
