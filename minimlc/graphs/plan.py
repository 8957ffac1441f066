"""A graph function as a straight list of kernel calls, with its memory planned.

Every value is a slot: a parameter, a constant, a result, or a place in the arena. A place is used
again once its value is dead, never while it lives; results and parameters are never shared.

Places are found by the greedy methods that Pisarchyk and Lee compare ("Efficient Memory Management
for Deep Neural Net Inference", arXiv:2001.03288, section 5): one place after the other goes into
the smallest gap that fits between those that live at the same time. Which order is best depends on
the graph, so some are tried, until one needs no more than is alive at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np

from minimlc.graphs.execute import execute
from minimlc.graphs.ir import nodes as ir
from minimlc.graphs.run import flatten, nest
from minimlc.loops.ir.arguments import Parameter
from minimlc.loops.ir.nodes import Buffer
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import BuildError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.node import span_of
from minimlc.loops.values.parts import Hook

ALIGNMENT = 64
SlotKind = Literal["input", "constant", "output", "arena"]


@dataclass(eq=False)
class Slot:
    """Where a tensor lives: the `number`-th of its kind, or at byte `number` of the arena."""

    type: ir.TensorType
    kind: SlotKind
    number: int = -1
    reuses: "Slot | None" = None
    """The slot whose place this one takes over, while its own value is computed, or which it is a
    part of, from byte `start` on.
    """
    start: int | None = None

    @property
    def size(self) -> int:
        """Bytes, rounded up to whole cache lines."""
        return max(ALIGNMENT, -(-nbytes(self.type) // ALIGNMENT) * ALIGNMENT)


def nbytes(kind: ir.TensorType | Buffer | Parameter) -> int:
    """The bytes of the elements of a tensor, or of a buffer."""
    return prod(kind.shape) * to_numpy(kind.dtype).itemsize


Slots: TypeAlias = "Slot | tuple[Slots, ...]"


@dataclass(frozen=True)
class PlannedCall:
    """Call `callee` ("call_tir" or "call_dps_packed") with inputs, then outputs; or a condition or
    loop, which is the `call` itself.
    """

    op: str
    callee: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    scratch: tuple[Slot, ...] = ()
    """Memory that the step needs for itself."""
    call: ir.Call | None = None
    inner: "tuple[Inner, ...]" = ()
    """The functions of a condition or loop that is native code, as it is called."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The slots that the step reads and writes."""
        return (*self.inputs, *self.outputs, *self.scratch)


@dataclass
class Plan:
    """The steps of a graph function. `results` are the tensors of its value, in order.

    `outputs` are the fresh arrays that the steps write; a result that is a parameter, a constant
    or an output once more is copied by the caller.
    """

    inputs: list[Slot] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    steps: list[PlannedCall] = field(default_factory=list)
    outputs: list[Slot] = field(default_factory=list)
    results: tuple[Slot, ...] = ()
    arena_bytes: int = 0

    @property
    def in_place(self) -> set[str]:
        """The functions that write a result over an input."""
        return {
            step.callee
            for step in self.steps
            if any(s.reuses and s.start is None for s in step.outputs)
        }

    @property
    def native(self) -> bool:
        """Whether every step is compiled code."""
        return all(step.op == "call_tir" or step.inner for step in self.steps)


@dataclass(frozen=True)
class Inner:
    """A graph function in a condition or loop: its name, its plan, and where its constants begin
    among the caller's.
    """

    name: str
    plan: Plan
    table: int


SHARING = Hook[Callable[[Plan, IRModule], None]]("sharing of memory")
"""Functions that let steps of compiled code take over the memory of other steps."""


def plan(mod: IRModule, name: str, *, in_place: bool = False) -> Plan:
    """The plan of the graph function `name`; graph functions it calls become part of it.

    With `in_place`, a compiled element-wise step may write over an input that nothing reads later,
    and conditions and loops of compiled functions are steps of compiled code.
    """
    func = mod[name]
    assert isinstance(func, ir.Function)
    types = [kind for param in func.params for kind in ir.tensor_types(param.type)]
    result = Plan([Slot(kind, "input", number) for number, kind in enumerate(types)])
    inputs = iter(result.inputs)
    places = [nest(param.type, inputs) for param in func.params]
    place = _Planner(mod, result, in_place).function(name, func, places)
    result.results = tuple(flatten([place]))
    _name_outputs(result)
    if in_place and result.native:
        for shared in SHARING:
            shared(result, mod)
    _place_temporaries(result)
    return result


class _Planner:
    def __init__(self, mod: IRModule, plan: Plan, compiled: bool):
        self.mod = mod
        self.plan = plan
        self.compiled = compiled
        self.constants: dict[int, Slot] = {}
        self.open: list[str] = []

    def function(self, name: str, func: ir.Function, arguments: Sequence[Slots]) -> Slots:
        if name in self.open:
            raise BuildError(f'graph function "{name}" calls itself', code="E227")
        self.open.append(name)
        place: Slots = execute(func, arguments, self.constant, self.call)
        self.open.pop()
        return place

    def constant(self, item: ir.Constant) -> Slot:
        key = id(item.data)
        if key not in self.constants:
            self.constants[key] = Slot(item.type, "constant", len(self.plan.constants))
            self.plan.constants.append(item.data)
        return self.constants[key]

    def call(self, call: ir.Call, arguments: list[Slots]) -> Slots:
        if call.op == "call":
            callee = self.mod[call.callee]
            assert isinstance(callee, ir.Function)
            return self.function(call.callee, callee, arguments)
        if call.op not in ir.JOINTS:
            why = f'operator "{call.op}" has not been lowered to loops'
            hint = "put mlc.passes.legalize into the pipeline"
            raise BuildError(why, code="E503", span=span_of(call), hint=hint)
        outputs = tuple(Slot(t, "arena") for t in ir.tensor_types(call.type))
        inputs = tuple(flatten(arguments))
        step = PlannedCall(call.op, call.callee, inputs, outputs)
        if call.op in ir.CONTROL:
            step = self.inside(call, replace(step, callee=call.op, call=call))
        self.plan.steps.append(step)
        place: Slots = nest(call.type, iter(outputs))
        return place

    def inside(self, call: ir.Call, step: PlannedCall) -> PlannedCall:
        """A condition or loop, as compiled code if all functions in it are."""
        names = [name for _, name in ir.called(call)] if self.compiled else []
        plans = [plan(self.mod, name, in_place=True) for name in names]
        if not plans or not all(part.native for part in plans):
            return step
        inner = []
        for name, part in zip(names, plans, strict=True):
            inner.append(Inner(name, part, len(self.plan.constants)))
            self.plan.constants += part.constants
        most = max(1, *[part.arena_bytes for part in plans])
        state = ir.tensor_types(call.args[0].type) if call.op != "cond" else ()
        kinds = [ir.TensorType((most,), "uint8"), ir.TensorType((), "int64"), *state]
        scratch = tuple([Slot(kind, "arena") for kind in kinds])
        return replace(step, inner=tuple(inner), scratch=scratch)


def _name_outputs(plan: Plan) -> None:
    """Move computed results from the arena to separate arrays."""
    for slot in plan.results:
        if slot.kind == "arena":
            slot.kind, slot.number = "output", len(plan.outputs)
            plan.outputs.append(slot)


@dataclass(eq=False)
class Place:
    """A piece of the arena, and the first and the last step that use it. `slots` are the values in
    it, one after the other, and their parts.
    """

    slots: list[Slot]
    first: int
    last: int

    @cached_property
    def size(self) -> int:
        """Bytes; asked for when all slots are there."""
        return max(slot.size for slot in self.slots)


def places_of(plan: Plan) -> list[Place]:
    """The places that the arena has to hold, in the order of their first steps."""
    found: dict[Slot | None, Place] = {}
    for number, step in enumerate(plan.steps):
        for slot in step.slots:
            if slot.kind != "arena":
                continue
            whole = slot.reuses if slot.start is not None else None
            for item in (whole, slot) if whole is not None else (slot,):
                if item not in found:
                    found[item] = found.get(item.reuses) or Place([], number, number)
                    found[item].slots.append(item)
            found[slot].last = number
    return list(dict.fromkeys(found.values()))


def live_bytes(places: Iterable[Place], steps: int) -> list[int]:
    """The bytes alive during each of `steps` steps; no arena is smaller than their maximum."""
    live = [0] * steps
    for place in places:
        for number in range(place.first, place.last + 1):
            live[number] += place.size
    return live


ORDERS: tuple[Callable[[Place, Sequence[int]], Any], ...] = (
    lambda place, live: place.first,
    lambda place, live: -place.size,
    lambda place, live: (-max(live[place.first : place.last + 1]), -place.size),
    lambda place, live: -place.size * (place.last - place.first + 1),
)
"""Sort keys, of a place and the bytes alive at each step: first the places that are used first,
that are large, that live when most is alive ("breadth"), that are large and live long.
"""


def _place_temporaries(plan: Plan) -> None:
    """Give each arena slot an offset."""
    places = places_of(plan)
    live = live_bytes(places, len(plan.steps))
    best: Mapping[Place, int] = {}
    for order in ORDERS:
        starts = _packed(sorted(places, key=lambda place: order(place, live)))
        if not best or _end(starts) < _end(best):
            best = starts
        if _end(best) == max(live, default=0):
            break
    plan.arena_bytes = _end(best)
    for place, start in best.items():
        for slot in place.slots:
            slot.number = start + (slot.start or 0)


def _end(starts: Mapping[Place, int]) -> int:
    return max((start + place.size for place, start in starts.items()), default=0)


def _packed(places: Iterable[Place]) -> dict[Place, int]:
    """Where each place begins, found for one after the other."""
    starts: dict[Place, int] = {}
    used: dict[int, list[Place]] = {}
    for place in places:
        steps = [used.setdefault(number, []) for number in range(place.first, place.last + 1)]
        meeting = {other for step in steps for other in step}
        taken = sorted((starts[other], other.size) for other in meeting)
        starts[place] = _smallest_gap(taken, place.size)
        for step in steps:
            step.append(place)
    return starts


def _smallest_gap(taken: Iterable[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap of `size` bytes between `taken` ranges; behind all, if none."""
    end, best = 0, (0, -1)
    for start, length in taken:
        gap = start - end
        if gap >= size and (best[1] < 0 or gap < best[1]):
            best = (end, gap)
        end = max(end, start + length)
    return end if best[1] < 0 else best[0]
