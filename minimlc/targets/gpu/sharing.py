"""Checks of the memory that threads of a block share."""

from minimlc.loops.ir.nodes import SHARED, THREAD, For, PrimFunc
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.legality import carried_dependence
from minimlc.services.checks.threads import axis_conflict
from minimlc.targets.gpu.refusal import refused


def check_axes(func: PrimFunc) -> PrimFunc:
    """`func`, refused where an axis is bound inside itself unless its threads do the same there:
    `bind` checks that for its steps, but not for a program that is written so.
    """
    conflict = axis_conflict(func)
    if conflict is not None:
        raise refused(conflict[1], "bind the loop to another axis, or leave it serial")
    return func


def check_shared(func: PrimFunc) -> None:
    """Refuse threads that use one element of shared memory, each for itself. `bind` lets them where
    each iteration owns the buffer, as serial loops do; but a block has it once.
    """
    items = [item for item in accesses(func) if item.buffer.scope.startswith(SHARED)]
    for loop in dict.fromkeys(lp for item in items for lp in item.loops):
        if not loop.thread.startswith(THREAD):
            continue
        mine = [item for item in items if loop in item.loops and not _is_together(loop, item)]
        carried = carried_dependence(loop, mine)
        if carried is not None:
            one = carried.first if carried.first.is_write else carried.second
            name, block = one.buffer.name, getattr(one.block, "name", "...")
            hint = f'sch.set_scope("{block}", "{name}", "local"), for one in each thread, or one '
            hint += "copy outside of the loops over threads, with loops of its own bound to them"
            raise refused(f"threads of a block share {name}, and {carried.explain()}", hint)


def _is_together(loop: For, item: Access) -> bool:
    """Whether the threads of a loop reach an access in a nest that they run together."""
    around = [outer.thread for outer in item.loops]
    return any(
        inner.thread in around[: item.loops.index(inner)] for inner in _bound_below(loop, item)
    )


def _bound_below(loop: For, item: Access) -> list[For]:
    return [inner for inner in item.below(loop) if inner.thread.startswith(THREAD)]
