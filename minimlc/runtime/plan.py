"""A graph function as a straight list of kernel calls, with its memory planned.

Every value is a slot: a parameter, a constant, a result, or a place in the arena. A place is used
again once its value is dead, never while it lives; results and parameters are never shared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from minimlc.dtypes import to_numpy
from minimlc.errors import BuildError
from minimlc.graph.execute import execute
from minimlc.graph.nodes import JOINTS, Call, Constant, Function, TensorType, tensor_types
from minimlc.module import IRModule
from minimlc.node import span_of
from minimlc.run import flatten, nest

ALIGNMENT = 64
SlotKind = Literal["input", "constant", "output", "arena"]


@dataclass(eq=False)
class Slot:
    """Where a tensor lives: the `number`-th of its kind, or at byte `number` of the arena."""

    type: TensorType
    kind: SlotKind
    number: int = -1

    @property
    def size(self) -> int:
        """Bytes, rounded up to whole cache lines."""
        count = prod(self.type.shape) * to_numpy(self.type.dtype).itemsize
        return max(ALIGNMENT, -(-count // ALIGNMENT) * ALIGNMENT)


Slots: TypeAlias = "Slot | tuple[Slots, ...]"


@dataclass(frozen=True)
class PlannedCall:
    """Call `callee` ("call_tir" or "call_dps_packed") with inputs, then outputs."""

    op: str
    callee: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What the callee's parameters are."""
        return (*self.inputs, *self.outputs)


@dataclass
class Plan:
    """What a graph function does. `results` are its value's tensors, in order.

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
    def native(self) -> bool:
        """Whether every step is compiled code."""
        return all(step.op == "call_tir" for step in self.steps)


def plan(mod: IRModule, name: str) -> Plan:
    """The plan of the graph function `name`; graph functions it calls become part of it."""
    func = mod[name]
    assert isinstance(func, Function)
    types = [kind for param in func.params for kind in tensor_types(param.type)]
    result = Plan([Slot(kind, "input", number) for number, kind in enumerate(types)])
    inputs = iter(result.inputs)
    places = [nest(param.type, inputs) for param in func.params]
    place = _Planner(mod, result).function(name, func, places)
    result.results = tuple(flatten([place]))
    _name_outputs(result)
    _place_temporaries(result)
    return result


class _Planner:
    def __init__(self, mod: IRModule, plan: Plan):
        self.mod = mod
        self.plan = plan
        self.constants: dict[int, Slot] = {}
        self.open: list[str] = []

    def function(self, name: str, func: Function, arguments: Sequence[Slots]) -> Slots:
        if name in self.open:
            raise BuildError(f'graph function "{name}" calls itself', code="E227")
        self.open.append(name)
        place: Slots = execute(func, arguments, self.constant, self.call)
        self.open.pop()
        return place

    def constant(self, item: Constant) -> Slot:
        key = id(item.data)
        if key not in self.constants:
            self.constants[key] = Slot(item.type, "constant", len(self.plan.constants))
            self.plan.constants.append(item.data)
        return self.constants[key]

    def call(self, call: Call, arguments: list[Slots]) -> Slots:
        if call.op == "call":
            callee = self.mod[call.callee]
            assert isinstance(callee, Function)
            return self.function(call.callee, callee, arguments)
        if call.op not in JOINTS:
            why = f'operator "{call.op}" has not been lowered to loops'
            hint = "put mlc.passes.legalize into the pipeline"
            raise BuildError(why, code="E503", span=span_of(call), hint=hint)
        outputs = tuple(Slot(t, "arena") for t in tensor_types(call.type))
        self.plan.steps.append(
            PlannedCall(call.op, call.callee, tuple(flatten(arguments)), outputs)
        )
        place: Slots = nest(call.type, iter(outputs))
        return place


def _name_outputs(plan: Plan) -> None:
    """Computed results move from the arena to arrays of their own."""
    for slot in plan.results:
        if slot.kind == "arena":
            slot.kind, slot.number = "output", len(plan.outputs)
            plan.outputs.append(slot)


def _place_temporaries(plan: Plan) -> None:
    """Give each arena slot an offset: the first gap that is free while it lives."""
    steps = list(enumerate(plan.steps))
    last = {slot: number for number, step in steps for slot in step.slots}
    live: list[Slot] = []
    for number, step in steps:
        for slot in step.outputs:
            if slot.kind == "arena":
                slot.number = _first_gap(live, slot.size)
                live.append(slot)
                live.sort(key=lambda s: s.number)
                plan.arena_bytes = max(plan.arena_bytes, slot.number + slot.size)
        live = [slot for slot in live if last[slot] > number]


def _first_gap(live: list[Slot], size: int) -> int:
    at = 0
    for slot in live:
        if slot.number - at >= size:
            return at
        at = slot.number + slot.size
    return at
