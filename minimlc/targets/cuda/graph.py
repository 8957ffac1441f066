"""Graph functions on a GPU: their values never leave it, and calls become CUDA graphs."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import finalize

from minimlc.graphs.ir.nodes import Function, TensorType
from minimlc.graphs.plan import Plan, Slot
from minimlc.graphs.run import call_packed, flatten, nest
from minimlc.loops.ir.nodes import Buffer
from minimlc.services.runtime.executable import GraphFunction, decided
from minimlc.targets.cuda.arrays import exported, is_on_gpu
from minimlc.targets.gpu.host import Driver, Entry

MOST_GRAPHS = 16
"""Captured calls that are kept, one for each choice of addresses."""

Memory = Mapping[str, Sequence[Any]]
"""Arrays on the GPU by the kind of their slots; the arena is one array of bytes."""


class DeviceGraph(GraphFunction):
    """A graph function whose tensors are all on one GPU: the arena too, which is planned once, with
    room at its end for the workspace of one kernel after the other.

    The host decides conditions and loops, and waits for what they are decided by; functions in them
    are called with arrays on the GPU. Other calls whose arrays lie at the addresses of an
    earlier call are captured as CUDA graphs, and replayed.
    """

    def __init__(
        self, driver: Driver, name: str, func: Function, plan: Plan, kernels: Mapping[str, Any]
    ):
        super().__init__(name, func, plan)
        self._kernels = kernels
        called = [(step, kernels[step.callee]) for step in plan.steps if step.callee in kernels]
        self._own = {k: _slots(k.workspace, plan.arena_bytes) for _, k in called}
        ends = [slot.number + slot.size for slots in self._own.values() for slot in slots]
        self._arena = TensorType((max(ends, default=plan.arena_bytes),), "uint8")
        starts = [1] * len(plan.inputs)
        for step, k in called:
            for slot, size in zip(step.slots, k.entry.starts, strict=True):
                if slot.kind == "input":
                    starts[slot.number] = max(size, starts[slot.number])
        self._entry = Entry(driver, self._arguments, starts)
        self._at_once = driver.at_once(self._entry)
        fixed = plan.native and all(step.call is None for step in plan.steps)
        self._captures = fixed and sum(len(k.launches) for _, k in called) > 1
        self._constants: dict[int, list[Any]] = {}
        self._graphs: dict[tuple[int, ...], Any] = {}
        self._recent: deque[tuple[int, ...]] = deque(maxlen=MOST_GRAPHS)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        flat = arguments if self._flat else flatten(arguments)
        device = None if named else self._at_once(flat)
        if device is not None:
            return self._run(device, flat, flat[0])
        with self._entry.opened(flat, named) as (device, ready):
            like = next(filter(is_on_gpu, flat), None)
            return self._run(device, [item.memory for item in ready], like)

    def _run(self, device: Any, inputs: Sequence[Any], like: Any) -> Any:
        size = self._arena.shape[0]  # an allocation of nothing takes microseconds, too
        memory = {
            "input": inputs,
            "constant": self._constants_on(device),
            "output": [device.empty(slot.type) for slot in self.plan.outputs],
            "arena": [device.empty(self._arena)] if size else [],
        }
        (self._replay if self._captures else self._launch)(device, memory)
        return nest(self._result, self._results(device, memory, like))

    def _constants_on(self, device: Any) -> list[Any]:
        """The constants on a device: there before any stream reads them, and as long as it does."""
        if device.number not in self._constants:
            constants = [device.filled(array) for array in self.plan.constants]
            device.finish()
            finalize(self, device.finish, constants).atexit = False
            self._constants[device.number] = constants
        return self._constants[device.number]

    def _replay(self, device: Any, memory: Memory) -> None:
        """Replay a captured call, which knows addresses alone; capture, or launch, any other."""
        places = [array.data.ptr for kind in memory.values() for array in kind]
        key = device.number, *places
        graph = self._graphs.get(key)
        if graph is None and key in self._recent:
            if len(self._graphs) >= MOST_GRAPHS:
                self._graphs.pop(next(iter(self._graphs)), None)
            graph = self._graphs[key] = device.captured(partial(self._launch, device, memory))
        if graph is not None:
            graph.launch()
        else:
            self._recent.append(key)
            self._launch(device, memory)

    def _launch(self, device: Any, memory: Memory) -> None:
        array_at = partial(_array, device, memory)
        for step in self.plan.steps:
            inputs, outputs = (list(map(array_at, slots)) for slots in (step.inputs, step.outputs))
            if step.op == "call_dps_packed":
                results = [array.get() for array in outputs]
                call_packed(step.callee, [array.get() for array in inputs], results)
                for array, result in zip(outputs, results, strict=True):
                    array.set(result)
            elif step.call is not None:
                values = decided(self._kernels, step.call, inputs, device.empty)
                for array, value in zip(outputs, values, strict=True):
                    array[...] = value if is_on_gpu(value) else device.filled(value)
            else:
                kernel = self._kernels[step.callee]
                kernel.launch(device, (*inputs, *outputs, *map(array_at, self._own[kernel])))

    def _results(self, device: Any, memory: Memory, like: Any) -> Iterator[Any]:
        """Arrays of numpy; where an argument is on the GPU, of that argument's library."""
        for slot, copied in zip(self.plan.results, self._copied, strict=True):
            array = _array(device, memory, slot)
            if like is None:
                yield array.get()
            else:
                yield exported(array.copy() if copied else array, like)


def _array(device: Any, memory: Memory, slot: Slot) -> Any:
    if slot.kind != "arena":
        return memory[slot.kind][slot.number]
    return device.part(memory["arena"][0], slot.number, slot.type)


def _slots(buffers: Sequence[Buffer], start: int) -> list[Slot]:
    """Places for buffers, one after the other."""
    slots: list[Slot] = []
    for buffer in buffers:
        slots.append(Slot(TensorType(buffer.shape, buffer.dtype), "arena", start))
        start += slots[-1].size
    return slots
