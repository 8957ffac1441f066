"""Loops bound to the axes of a GPU's grid, in a schedule."""

from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.schedule.primitive import location
from minimlc.loops.values.errors import ScheduleError
from minimlc.services.checks.threads import axis_conflict


def check_thread_axes(func: PrimFunc) -> None:
    """Refuse a function in which a GPU axis is nested in itself, or has two sizes in one nest."""
    bound = any(loop.kind == "thread_binding" for loop in loops_in(func.body))
    conflict = axis_conflict(func) if bound else None
    if conflict is not None:
        loop, why = conflict
        hint = "bind the loop to another axis, or leave it serial"
        raise ScheduleError(why, code="E141", **location(loop), hint=hint)
