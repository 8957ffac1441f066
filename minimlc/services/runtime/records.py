"""Types, plans and parameters as JSON and back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minimlc.graphs.ir.nodes import Function, TensorType, TupleType, Type, Var
from minimlc.graphs.plan import Plan, PlannedCall, Slot
from minimlc.loops.ir.arguments import Parameter
from minimlc.loops.llvm.kernel import NativeCode
from minimlc.services.runtime.executable import Kernel, NativeGraph, SteppedGraph


def type_record(kind: Type) -> Any:
    """A tensor's type as a dictionary, a tuple's as a list."""
    if isinstance(kind, TupleType):
        return [type_record(field) for field in kind.fields]
    return {"shape": list(kind.shape), "dtype": kind.dtype}


def type_from(record: Any) -> Type:
    """The reverse of `type_record`."""
    if isinstance(record, list):
        return TupleType(tuple(map(type_from, record)))
    return TensorType(tuple(record["shape"]), record["dtype"])


def signature_record(func: Function) -> dict[str, Any]:
    """A graph function's parameters and the type of its result."""
    params = [[param.name, type_record(param.type)] for param in func.params]
    return {"params": params, "result": type_record(func.result.type)}


def signature_from(record: Mapping[str, Any]) -> Function:
    """A function with these parameters, and a variable as its result."""
    params = tuple(Var(name, type_from(kind)) for name, kind in record["params"])
    return Function(params, (), Var("result", type_from(record["result"])))


def parameter_from(record: list[Any]) -> Parameter:
    """A kernel's parameter, from the list of its fields."""
    name, shape, dtype, written, scalar = record
    return Parameter(name, tuple(shape), dtype, written, scalar)


def plan_record(plan: Plan, names: Mapping[int, str]) -> dict[str, Any]:
    """A plan with its slots by number; `names` gives a constant's name by the id of its data."""
    pairs = [(slot.reuses, slot) for step in plan.steps for slot in step.slots]
    used = [slot for pair in pairs for slot in pair if slot is not None]
    slots = dict.fromkeys([*plan.inputs, *plan.outputs, *plan.results, *used])
    number = {slot: at for at, slot in enumerate(slots)}
    return {
        "slots": [
            [type_record(s.type), s.kind, s.number, s.reuses and number[s.reuses], s.start]
            for s in slots
        ],
        "inputs": [number[slot] for slot in plan.inputs],
        "outputs": [number[slot] for slot in plan.outputs],
        "results": [number[slot] for slot in plan.results],
        "constants": [names[id(data)] for data in plan.constants],
        "steps": [
            [s.op, s.callee, *([number[i] for i in part] for part in _parts(s))] for s in plan.steps
        ],
        "arena_bytes": plan.arena_bytes,
    }


def _parts(step: PlannedCall) -> list[tuple[Slot, ...]]:
    """A step's inputs, its outputs, and its scratch memory, if any."""
    return [step.inputs, step.outputs, *([step.scratch] if step.scratch else [])]


def _step(
    slots: Sequence[Slot],
    op: str,
    callee: str,
    inputs: Sequence[int],
    outputs: Sequence[int],
    scratch: Sequence[int] = (),
) -> PlannedCall:
    def chosen(numbers: Sequence[int]) -> tuple[Slot, ...]:
        return tuple([slots[number] for number in numbers])

    return PlannedCall(op, callee, chosen(inputs), chosen(outputs), chosen(scratch))


def plan_from(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Plan:
    """The reverse of `plan_record`."""
    slots: list[Slot] = []
    for kind, place, number, *_ in record["slots"]:
        slots.append(Slot(TensorType(tuple(kind["shape"]), kind["dtype"]), place, number))
    for slot, (*_, reuses, start) in zip(slots, record["slots"], strict=True):
        slot.reuses, slot.start = None if reuses is None else slots[reuses], start
    steps = [_step(slots, *fields) for fields in record["steps"]]
    inputs, outputs, results = (
        [slots[n] for n in record[key]] for key in ("inputs", "outputs", "results")
    )
    constants = [arrays[name] for name in record["constants"]]
    return Plan(inputs, constants, steps, outputs, tuple(results), record["arena_bytes"])


def restored(
    record: Mapping[str, Any],
    native: NativeCode,
    arrays: Mapping[str, np.ndarray],
    kernels: Mapping[str, Callable[..., Any]],
) -> Callable[..., Any]:
    """The kernel, or the graph function of kernels, that a record describes."""
    name, code = record["name"], native.addresses.get(record["symbol"], 0)
    if "plan" not in record:
        parameters = list(map(parameter_from, record["parameters"]))
        return Kernel(name, parameters, code, None, native.library)
    func, steps = signature_from(record), plan_from(record["plan"], arrays)
    if code:
        return NativeGraph(name, func, steps, code, None, native.library)
    return SteppedGraph(name, func, steps, dict(kernels))
