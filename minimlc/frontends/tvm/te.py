"""`tvm.te`: formulas, and the schedules that their tensors once had.

s = te.create_schedule(C.op)
(x, y), (k,) = C.op.axis, C.op.reduce_axis
s[C].reorder(x, k, y)
mod = tvm.lower(s, [A, B, C])
"""

from collections.abc import Callable, Sequence
from typing import Any

from minimlc.frontends.tvm.absent import absent
from minimlc.frontends.tvm.schedule import LoopRV
from minimlc.frontends.tvm.schedule import Schedule as Steps
from minimlc.module import IRModule
from minimlc.schedule import Schedule as Value
from minimlc.tir import te as own
from minimlc.tir.te import create_prim_func
from minimlc.tir.tensors import Reduction, Tensor, uses_of

MORE = own


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> str:
    """The name of an axis of threads, which `bind` takes."""
    return tag or str(dom)


class Operation:
    """What computes a tensor."""

    def __init__(self, tensor: Tensor):
        self.tensor, self.name = tensor, tensor.name
        self.axis = tensor.axes
        self.reduce_axis = tensor.value.axes if isinstance(tensor.value, Reduction) else ()
        used = () if tensor.value is None else uses_of(tensor.value).tensors
        self.input_tensors = tuple(used)


class Schedule:
    """A schedule of formulas: `s[C]` has the steps on the loops that compute C."""

    def __init__(self, ops: Sequence[Operation]):
        outputs = [op.tensor for op in ops]
        stages = _stages(outputs, {})
        inputs = [tensor for tensor in stages if tensor.value is None]
        self.schedule = Steps(create_prim_func([*inputs, *outputs]))
        self.loops: dict[Any, LoopRV] = {}
        for tensor in stages:
            op = Operation(tensor)
            if tensor.value is not None:
                loops = self.schedule.get_loops(self.schedule.get_block(tensor.name))
                self.loops.update(zip((*op.axis, *op.reduce_axis), loops, strict=True))

    def __getitem__(self, tensor: Tensor | Operation) -> "Stage":
        return Stage(self, tensor if isinstance(tensor, Operation) else Operation(tensor))

    def __getattr__(self, name: str) -> Any:
        return absent(f"tvm.te.Schedule.{name}", dir(Schedule))

    def lower(self, args: Sequence[Tensor], name: str = "main") -> IRModule:
        """The scheduled function, with these parameters."""
        func = create_prim_func(args).with_attr("global_symbol", name)
        return Value.replay(func, self.schedule.trace).mod


class Stage:
    """The steps on the loops that compute one tensor: those of `Schedule`, on its axes."""

    def __init__(self, schedule: Schedule, op: Operation):
        self.loops, self.steps, self.op = schedule.loops, schedule.schedule, op

    def __getattr__(self, name: str) -> Callable[..., Any]:
        step = getattr(self.steps, name)
        return lambda *axes: step(*map(self._loop, axes))

    def _loop(self, axis: Any) -> Any:
        return self.loops.get(axis, axis)

    def split(self, parent: Any, factor: Any = None, nparts: Any = None) -> list[LoopRV]:
        """Two loops in place of one: the inner of extent `factor`, or the outer of `nparts`."""
        return self.steps.split(self._loop(parent), [nparts, factor])

    def tile(self, x_parent: Any, y_parent: Any, x_factor: int, y_factor: int) -> list[LoopRV]:
        """Four loops in place of two: over tiles, and inside one."""
        (x, x_in), (y, y_in) = self.split(x_parent, x_factor), self.split(y_parent, y_factor)
        self.steps.reorder(x, y, x_in, y_in)
        return [x, y, x_in, y_in]

    def compute_at(self, parent: "Stage", scope: Any) -> None:
        """Compute the tensor inside a loop of the stage that reads it."""
        self.steps.compute_at(self.op.name, self._loop(scope))

    def compute_inline(self) -> None:
        """Compute the tensor where it is read."""
        self.steps.compute_inline(self.op.name)


def create_schedule(ops: Operation | Sequence[Operation]) -> Schedule:
    """A schedule of the tensors that `ops` compute."""
    return Schedule([ops] if isinstance(ops, Operation) else ops)


def _stages(outputs: Sequence[Tensor], done: dict[Tensor, None]) -> dict[Tensor, None]:
    """All tensors that `outputs` need, and these: producers first."""
    for tensor in outputs:
        if tensor not in done:
            _stages(Operation(tensor).input_tensors, done)
            done[tensor] = None
    return done
