"""Steps of a plan that take over the memory of others: views, joined parts, results in place."""

from collections.abc import Container, Sequence
from dataclasses import replace

from minimlc.graphs.plan import ALIGNMENT, Plan, PlannedCall, Slot, nbytes
from minimlc.loops.ir.nodes import PrimFunc
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.module import IRModule
from minimlc.services.native.in_place import joined, may_share, views


def share(plan: Plan, mod: IRModule) -> None:
    """Leave out the steps that only move values, and let others write over unread values."""
    _without_views(plan, mod)
    _without_joins(plan, mod)
    _share_places(plan, mod)


def _without_views(plan: Plan, mod: IRModule) -> None:
    """Leave out the steps whose results are their input's memory, or parts of it; their users use
    the input.
    """
    sources: dict[Slot, Slot] = {}
    steps: list[PlannedCall] = []
    for step in plan.steps:
        inputs = tuple(sources.get(slot, slot) for slot in step.inputs)
        func = mod.functions.get(step.callee)
        known = views(func) if step.call is None and isinstance(func, PrimFunc) else ()
        found = [_part(inputs[0], *pair) for pair in zip(step.outputs, known, strict=False)]
        parts = [part for part in found if part is not None]
        if known and len(parts) == len(step.outputs):
            sources.update(zip(step.outputs, parts, strict=True))
        else:
            steps.append(replace(step, inputs=inputs))
    plan.steps = steps


def _part(source: Slot, result: Slot, start: int) -> Slot | None:
    """A result as memory of the input from an element on; None where it needs separate memory."""
    at = start * to_numpy(result.type.dtype).itemsize
    if result.kind != "arena":
        return None
    if at == 0 and nbytes(source.type) == nbytes(result.type):
        return source
    if source.kind != "arena" or at % ALIGNMENT:
        return None
    whole = source if source.start is None else source.reuses
    return Slot(result.type, "arena", reuses=whole, start=at + (source.start or 0))


def _without_joins(plan: Plan, mod: IRModule) -> None:
    """Leave out the steps that only put their inputs one behind the other; the inputs are written
    to their places at once.
    """
    written = {slot for step in plan.steps if step.call is None for slot in step.outputs}
    written -= {slot.reuses for step in plan.steps for slot in step.slots}
    steps: list[PlannedCall] = []
    for step in reversed(plan.steps):
        func = mod.functions.get(step.callee)
        starts = joined(func) if step.call is None and isinstance(func, PrimFunc) else ()
        if not starts or not _fit(step, starts, written):
            steps.append(step)
            continue
        (result,) = step.outputs
        size = to_numpy(result.type.dtype).itemsize
        for slot, start in zip(step.inputs, starts, strict=True):
            slot.kind, slot.number = result.kind, result.number
            slot.reuses, slot.start = result, start * size
        written.discard(result)  # it may be in parts, too
    plan.steps = steps[::-1]


def _fit(step: PlannedCall, starts: Sequence[int], free: Container[Slot]) -> bool:
    """Whether inputs may be parts of the result: each of them has a separate place."""
    size = to_numpy(step.outputs[0].type.dtype).itemsize
    fits = all(slot.kind == "arena" and slot.start is None and slot in free for slot in step.inputs)
    apart = len(set(step.inputs)) == len(step.inputs) and step.outputs[0].start is None
    return fits and apart and not any(start * size % ALIGNMENT for start in starts)


def _share_places(plan: Plan, mod: IRModule) -> None:
    """Let results of element-wise steps take over the places of inputs that die there."""
    last = {slot: number for number, step in enumerate(plan.steps) for slot in step.slots}
    parts = [slot for slot in last if slot.start is not None]
    shared = {*parts, *(slot.reuses for slot in parts)}
    for number, step in enumerate(plan.steps):
        func = mod.functions.get(step.callee)
        if step.call is not None or not isinstance(func, PrimFunc):
            continue
        dying = {s for s in step.inputs if s.kind == "arena" and last[s] == number} - shared
        for at, result in enumerate(step.outputs, len(step.inputs)):
            for slot in [source for source in dict.fromkeys(step.inputs) if source in dying]:
                uses = [n for n, source in enumerate(step.inputs) if source is slot]
                free = result.kind == "arena" and result not in shared
                if free and all(may_share(func, n, at) for n in uses):
                    result.reuses = slot
                    dying.remove(slot)
                    break
