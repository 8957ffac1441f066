"""LLVM's text of entry points: the calls of a plan, its conditions and loops."""

from collections.abc import Mapping, Sequence

from minimlc.graphs.ir.nodes import TensorType, tensor_types
from minimlc.graphs.plan import Plan, PlannedCall, Slot, nbytes
from minimlc.loops.llvm.value import symbol
from minimlc.services.control.control import steps
from minimlc.services.control.llvm import COPY, Callee, Control
from minimlc.services.native.entry import ControlCall, Pointer, emit_entry, entry_symbol


def entry_texts(entries: Mapping[str, Plan], named: Mapping[str, str], check: bool) -> str:
    """LLVM's text of the entry points; `named` are the names of the functions' code."""
    texts = [_entry_text(name, steps, named, check) for name, steps in entries.items()]
    loops = any(step.call for steps in entries.values() for step in steps.steps)
    return "\n\n".join([*([COPY] if loops else []), *texts])


def _entry_text(name: str, planned: Plan, named: Mapping[str, str], check: bool) -> str:
    calls = [
        _control(step) if step.call else (symbol(named[step.callee]), _pointers(step.slots))
        for step in planned.steps
    ]
    return emit_entry(entry_symbol(name), len(planned.inputs), len(planned.outputs), calls, check)


def _pointers(slots: Sequence[Slot]) -> tuple[Pointer, ...]:
    starts = [0 if slot.kind == "arena" else slot.start or 0 for slot in slots]
    return tuple([Pointer(s.kind, s.number, start) for s, start in zip(slots, starts, strict=True)])


def _control(step: PlannedCall) -> ControlCall:
    """A condition or loop for the entry point."""
    assert step.call is not None
    functions = tuple(
        [
            Callee(
                entry_symbol(callee.name),
                callee.table,
                tuple([(slot.kind, slot.number) for slot in callee.plan.results]),
            )
            for callee in step.inner
        ]
    )
    kinds = [tensor_types(arg.type) for arg in step.call.args]
    state, scans = kinds[0], step.op == "scan"
    rows = kinds[1] if scans else ()
    collected = tensor_types(step.call.type)[len(state) :] if scans else ()
    parts = [TensorType(kind.shape[1:], kind.dtype) for kind in (*rows, *collected)]
    item = Control(
        step.op,
        functions,
        0 if step.op == "cond" else len(state),
        len(rows),
        steps(step.call) if scans else 0,
        tuple([nbytes(slot.type) for slot in step.outputs]),
        tuple(map(nbytes, parts)),
    )
    return item, _pointers(step.inputs), _pointers(step.outputs), _pointers(step.scratch)
