"""`tvm.te`: formulas, and the schedules that their tensors once had.

s = te.create_schedule(C.op)
(x, y), (k,) = C.op.axis, C.op.reduce_axis
s[C].reorder(x, k, y)
mod = tvm.lower(s, [A, B, C])
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from minimlc.frontends.tvm.absent import absent
from minimlc.frontends.tvm.schedule import BlockRV, LoopRV, operands, written
from minimlc.frontends.tvm.schedule import Schedule as Steps
from minimlc.loops.ir.nodes import BlockIter, PrimFunc, Substitute, Var
from minimlc.loops.schedule import Schedule as Value
from minimlc.loops.te import te as own
from minimlc.loops.te.tensors import Reduction, Tensor, create_prim_func, uses_of
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.module import IRModule
from minimlc.loops.values.names import UniqueNames
from minimlc.loops.values.node import nodes_of, replace

MORE = own


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> str:
    """The name of an axis of threads, which `bind` takes."""
    return tag or str(dom)


class Operation:
    """The operation that computes a tensor, over its axes and reduction axes; it also stands for a
    tensor that a schedule made.
    """

    def __init__(self, tensor: Tensor, axis: Any = None, reduce_axis: Any = None):
        self.tensor, self.name, self.op = tensor, tensor.name, self
        reduced = tensor.value.axes if isinstance(tensor.value, Reduction) else ()
        self.axis: Any = tensor.axes if axis is None else axis
        self.reduce_axis = reduced if reduce_axis is None else reduce_axis
        self.order = (*self.axis, *self.reduce_axis)
        used = () if tensor.value is None else uses_of(tensor.value).tensors
        self.input_tensors = tuple(used)


class Schedule:
    """A schedule of formulas: `s[C]` has the steps on the loops that compute C."""

    def __init__(self, ops: Sequence[Operation]):
        self.outputs = [op.tensor for op in ops]
        self.known = _named_apart(_stages(self.outputs, {}))
        inputs = [tensor for tensor in self.known if tensor.value is None]
        func = create_prim_func([self.known[tensor] for tensor in (*inputs, *self.outputs)])
        self.schedule = Steps(func)
        self.waiting: list[tuple[Stage, LoopRV]] = []
        self.ops: dict[Tensor, Operation] = {}
        self.blocks: dict[Tensor, BlockRV] = {}
        self.loops: dict[tuple[Tensor, Any], LoopRV] = {}
        blocks = written(func) if isinstance(func, PrimFunc) else {}
        for tensor in (it for it in self.known if self.known[it].name in blocks):
            self.enter(Operation(tensor), self.schedule.get_block(blocks[self.known[tensor].name]))

    def enter(self, op: Operation, block: BlockRV, outside: Sequence[LoopRV] = ()) -> Operation:
        """Note which block computes a tensor, and which of its loops, but those outside, runs
        over each axis.
        """
        self.ops[op.tensor], self.blocks[op.tensor] = op, block
        self.loops = {key: loop for key, loop in self.loops.items() if key[0] is not op.tensor}
        inner = [loop for loop in self.schedule.get_loops(block) if loop not in outside]
        for axis, it in zip(op.order, self.iters(block), strict=False):
            names = {var.name for var in nodes_of(it.value, Var)}
            for loop in filter(names.__contains__, inner):
                self.loops[op.tensor, axis] = loop
        return op

    def iters(self, block: BlockRV) -> list[BlockIter]:
        """The axes of a block, reduction axes last."""
        return sorted(self.schedule.get(block).iters, key=lambda it: it.kind != "S")

    def made(self, block: BlockRV, like: Tensor) -> Operation:
        """The tensor that a new block computes; its axes are the block's."""
        axes = [[it for it in self.iters(block) if it.kind == kind] for kind in "SR"]
        return self.enter(Operation(replace(like, name=str(block)), *axes), block)

    def __getitem__(self, tensor: Any) -> "Stage":
        item = getattr(tensor, "tensor", tensor)
        if item not in self.ops and item not in self.known:
            raise ScheduleError(f"this schedule has no {tensor!r:.60}", code="E105")
        return Stage(self, item)

    def __getattr__(self, name: str) -> Any:
        return absent(f"tvm.te.Schedule.{name}", dir(Schedule))

    def cache_write(self, tensor: Tensor | Operation, scope: str) -> Operation:
        """The tensor as it is computed in another scope; the rest of `tensor` copies that."""
        op, block = self[tensor].op, self[tensor].block
        self.enter(op, copy := self.schedule.cache_write(block, 0, scope))
        return self.enter(Operation(replace(op.tensor, name=str(copy))), block)

    def cache_read(self, tensor: Any, scope: str, readers: Sequence[Any]) -> Operation:
        """The copy of a tensor in another scope that a reader of it takes."""
        if len(readers) != 1:
            raise ScheduleError("cache_read makes a copy for one reader: [B]", code="E118")
        source, reader = self[tensor], self[readers[0]]
        buffer = self.known[source.tensor].name if source.tensor in self.known else ""
        if source.tensor in self.blocks:
            buffer = operands(self.schedule.get(source.block), "write")[0]
        return self.made(self.schedule.cache_read(reader.block, buffer, scope), source.tensor)

    def rfactor(self, tensor: Tensor, axis: Any, factor_axis: int = 0) -> Operation:
        """The partial results of a reduction, one for each iteration of an axis."""
        op, block, loop = self[tensor].op, self[tensor].block, self[tensor].loop(axis)
        partial = self.made(self.schedule.rfactor(loop, factor_axis), op.tensor)
        factored = partial.axis.pop()
        partial.axis.insert(factor_axis % (len(op.axis) + 1), factored)
        rest = self.iters(block)[len(op.axis) :]
        self.enter(Operation(op.tensor, op.axis, rest), block)
        return partial

    def settle(self) -> None:
        """Move the stages that can be moved by now; others wait for their readers."""
        for stage, loop in self.waiting * len(self.waiting):
            if (stage, loop) in self.waiting:
                with suppress(ScheduleError):
                    stage.move(loop)
                    self.waiting.remove((stage, loop))

    def lower(self, args: Sequence[Any], name: str = "main") -> IRModule:
        """The scheduled function, with these parameters, and results that are not among them."""
        self.settle()
        for stage, loop in self.waiting:
            stage.move(loop)  # refused: this raises the reason
        params = dict.fromkeys((*args, *self.outputs))
        func = create_prim_func([self.known.get(param, param) for param in params])
        mod = IRModule({name: func.with_attr("global_symbol", name)})
        return Value.replay(mod, self.schedule.trace).mod if self.schedule.trace else mod


class Stage:
    """The steps of `Schedule` on the loops that compute one tensor, by its axes."""

    def __init__(self, schedule: Schedule, tensor: Tensor):
        self.schedule, self.steps, self.tensor = schedule, schedule.schedule, tensor
        self.op = schedule.ops.get(tensor) or Operation(tensor)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        step = getattr(self.steps, name)
        return lambda *axes: step(*map(self.loop, axes))

    def loop(self, axis: Any) -> Any:
        """The loop that runs over an axis now; anything else as it is."""
        return self.schedule.loops.get((self.tensor, axis), axis)

    block = property(lambda self: self.schedule.blocks.get(self.tensor, self.op.name))
    """The block that computes the tensor."""

    def split(self, parent: Any, factor: Any = None, nparts: Any = None) -> list[LoopRV]:
        """Two loops in place of one: the inner of extent `factor`, or the outer of `nparts`."""
        return self.steps.split(self.loop(parent), [nparts, factor])

    def tile(self, x_parent: Any, y_parent: Any, x_factor: int, y_factor: int) -> list[LoopRV]:
        """Four loops in place of two: over tiles, and inside one."""
        (x, x_in), (y, y_in) = self.split(x_parent, x_factor), self.split(y_parent, y_factor)
        self.steps.reorder(x, y, x_in, y_in)
        return [x, y, x_in, y_in]

    def pragma(self, axis: Any, pragma_type: str, value: Any = 1) -> None:
        """Note something on a loop."""
        self.steps.annotate(self.loop(axis), f"pragma_{pragma_type}", value)

    def compute_at(self, parent: "Stage", scope: Any) -> None:
        """Compute the tensor inside a loop of the stage that reads it."""
        self.schedule.waiting.append((self, parent.loop(scope)))
        self.schedule.settle()

    def move(self, loop: LoopRV) -> None:
        """Compute the tensor inside a loop; its axes are over the loops there from now on."""
        self.steps.compute_at(self.block, loop)
        loops = self.steps.get_loops(self.block)
        self.schedule.enter(self.op, self.block, loops[: loops.index(loop) + 1])

    def compute_inline(self) -> None:
        """Compute the tensor where it is read."""
        self.steps.compute_inline(self.block)


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


class _Reads(Substitute):
    """Substitutes the tensors that a value reads."""

    visit_Tensor = Substitute.visit_Buffer


def _named_apart(tensors: Iterable[Tensor]) -> dict[Tensor, Tensor]:
    """Tensors, producers first, each with its copy under a unique name."""
    names = UniqueNames(reserved=(), spell=str)
    known: dict[Any, Any] = {}
    values: dict[Any, Any] = {None: None}
    for tensor in tensors:
        if tensor.value not in values:
            values[tensor.value] = _Reads(known).visit(tensor.value)
        name = names.take(tensor.name)
        known[tensor] = replace(tensor, name=name, value=values[tensor.value])
    return known
