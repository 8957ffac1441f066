"""Schedules for whole functions, written with the public primitives alone.

NB: this is a first, general recipe; recipes per operator come on top of it.
"""

from typing import Any

from minimlc.errors import ScheduleError
from minimlc.module import IRModule
from minimlc.node import replace
from minimlc.schedule import Schedule
from minimlc.schedule.shape import loops_feeding
from minimlc.schedule.tree import find_block
from minimlc.tir.nodes import Block, For, PrimFunc, Var
from minimlc.tir.wellformed import loops_in

SCHEDULED = "scheduled"


def apply(mod: IRModule) -> IRModule:
    """`mod` with `rows` applied to every primitive function that has no schedule yet.

    A function counts as scheduled when one of its loops is not serial, or when this pass has been
    at it; the attribute "scheduled" says so.
    """
    functions = {
        name: _schedule(name, func)
        if isinstance(func, PrimFunc) and not _is_scheduled(func)
        else func
        for name, func in mod.entries
    }
    unchanged = all(functions[name] is func for name, func in mod.entries)
    return mod if unchanged else IRModule.of(functions)


def _schedule(name: str, func: PrimFunc) -> PrimFunc:
    # In a module of its own: each step of a schedule makes a new module.
    made = rows(Schedule.trusting(IRModule.of({name: func}), name)).func
    return replace(made, attrs=(*made.attrs, (SCHEDULED, True)))


def _is_scheduled(func: PrimFunc) -> bool:
    marked = (SCHEDULED, True) in func.attrs
    return marked or any(loop.kind != "serial" for loop in loops_in(func.body))


def rows(sch: Schedule) -> Schedule:
    """Work along rows: in each block the loop over the output's last axis goes inside and becomes
    vector lanes; a reduction keeps a whole row of sums and adds to it.
    """
    for name in sch.blocks():
        sch = _row_wise(sch, name)
    return sch


def _row_wise(sch: Schedule, name: str) -> Schedule:
    block = find_block(sch.func, name)
    assert isinstance(block.stmt, Block)
    lane = _last_axis(block.stmt, block.loops)
    if lane is None or any(loop.kind != "serial" for loop in block.loops):
        return sch
    reduces = [it for it in block.stmt.iters if it.kind == "R"]
    inner = [loop.var.name for loop in loops_feeding(reduces, block.loops)]
    if not inner:
        return attempt(sch, "vectorize", lane)
    moved = attempt(sch, "reorder", *inner, lane)
    if moved is sch:
        return sch
    ready = attempt(moved, "decompose_reduction", name, at=inner[0])
    if ready is moved:
        return sch
    for each in (lane, f"{lane}_init"):
        ready = attempt(ready, "vectorize", each)
    return ready


def _last_axis(block: Block, loops: tuple[For, ...]) -> str | None:
    """The loop that alone is the last spatial iter's value."""
    spatial = [it for it in block.iters if it.kind == "S"]
    if not spatial or not isinstance(spatial[-1].value, Var):
        return None
    names = [loop.var.name for loop in loops if loop.var is spatial[-1].value]
    return names[0] if names else None


def attempt(sch: Schedule, primitive: str, *args: Any, **options: Any) -> Schedule:
    """Apply a primitive where it is legal; where it refuses, leave the schedule as it is."""
    try:
        return sch.apply(primitive, *args, **options)
    except ScheduleError:
        return sch
