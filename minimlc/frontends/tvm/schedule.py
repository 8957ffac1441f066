"""`tvm.tir.Schedule`: a schedule that changes, around one that does not.

    sch = tvm.tir.Schedule(mod)
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, factors=[None, 4])      # here: sch = sch.split("j", [None, 4])
    sch.reorder(i, j0, k, j1)                     #       sch = sch.reorder("i", "j_0", "k", "j_1")

A handle is the name of a loop or a block. Each step is one primitive of `mlc.Schedule`, which
proves it or refuses.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from minimlc.errors import ScheduleError, did_you_mean
from minimlc.frontends.tvm.absent import absent
from minimlc.module import IRModule
from minimlc.node import nodes_of
from minimlc.schedule import Schedule as Value
from minimlc.schedule import Trace
from minimlc.schedule.primitive import PRIMITIVES
from minimlc.tir.nodes import Block, For, Load, PrimFunc, Store


class Handle(str):
    """The name of a loop or a block; `func` is the function that it is in."""

    func: str = ""


class LoopRV(Handle):
    """A loop."""


class BlockRV(Handle):
    """A block."""


class Step(NamedTuple):
    """A step as TVM knows it: what it calls the primitive's arguments, in order; and the handles
    that it gives: to the new loops or blocks, all of them or the one at `pick`.
    """

    names: str
    kind: type[Handle] | None = None
    pick: int | None = 0


STEPS: Mapping[str, Step] = {
    "add_unit_loop": Step("block_or_loop", LoopRV),
    "annotate": Step("block_or_loop ann_key ann_val"),
    "bind": Step("loop thread_axis"),
    "blockize": Step("target", BlockRV),
    "cache_inplace": Step("block read_buffer_index storage_scope", BlockRV, None),
    "cache_read": Step("block read_buffer_index storage_scope", BlockRV),
    "cache_write": Step("block write_buffer_index storage_scope", BlockRV),
    "compute_at": Step("block loop"),
    "compute_inline": Step("block"),
    "decompose_padding": Step("block loop", BlockRV),
    "decompose_reduction": Step("block loop", BlockRV),
    "fuse": Step("*loops", LoopRV),
    "merge": Step("*loops", LoopRV),
    "pad_einsum": Step("block padding"),
    "parallel": Step("loop"),
    "reindex": Step("block buffer", BlockRV),
    "reindex_cache_read": Step("block read_buffer_index storage_scope index_map", BlockRV),
    "reindex_cache_write": Step("block write_buffer_index storage_scope index_map", BlockRV),
    "reorder": Step("*loops"),
    "reorder_block_iter_var": Step("block new_order"),
    "reverse_compute_at": Step("block loop"),
    "reverse_compute_inline": Step("block"),
    "rfactor": Step("loop factor_axis", BlockRV),
    "rolling_buffer": Step("block write_buffer_index"),
    "set_scope": Step("block buffer_index storage_scope"),
    "split": Step("loop factors", LoopRV, None),
    "storage_align": Step("block buffer_index axis factor offset"),
    "tensorize": Step("block_or_loop tensor_intrin"),
    "transform_block_layout": Step("block index_map"),
    "transform_layout": Step("block buffer index_map pad_value"),
    "unannotate": Step("block_or_loop ann_key"),
    "unroll": Step("loop"),
    "unsafe_set_dtype": Step("block buffer_index dtype"),
    "vectorize": Step("loop"),
}
"""The steps of TVM's schedules that are primitives here."""

IGNORED = {
    *("preserve_unit_iters", "preserve_unit_loops", "disable_predication", "consumer_blocks"),
    *("assume_injective_transform", "index"),
}
"""Arguments that TVM has besides: they choose between programs of one meaning."""


class Schedule:
    """A module under transformation: each step changes it in place."""

    def __init__(self, mod: IRModule | PrimFunc, *, seed: Any = None, debug_mask: str = "none"):
        self.mod = mod if isinstance(mod, IRModule) else Value(mod).mod
        self.func_working_on = _usual(self.mod)
        self._values: Mapping[str, Value] = {}
        self._traces: Mapping[str, Trace] = {}
        self._renamed: Mapping[tuple[str, str], str] = {}

    def copy(self) -> "Schedule":
        """A schedule of the module as it is now, which goes its own way."""
        return copy(self)

    def work_on(self, func_name: str) -> None:
        """Name the function that `get_block` looks in."""
        self.func_working_on = func_name

    @property
    def trace(self) -> Trace:
        """The steps on the function that is worked on, as data."""
        return self._traces.get(self.func_working_on, Trace())

    def show(self) -> None:
        """Display the steps on the function that is worked on."""
        self._value(self.func_working_on).show()

    # Handles

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block of a name; "root" stands for the whole body."""
        func = func_name or self.func_working_on
        if name != "root":
            self._value(func).loops(name)
        return _handle(BlockRV, func, name)

    def get_loops(self, block: BlockRV) -> list[LoopRV]:
        """The loops around a block, outer to inner, within the block around it."""
        func, name = self._place(block)
        value = self._value(func)
        around = [outer for outer in value.blocks() if name in value.child_blocks(outer)]
        outside = value.loops(around[0]) if around else []
        return _handles(LoopRV, func, value.loops(name)[len(outside) :])

    def get_child_blocks(self, block_or_loop: Handle) -> list[BlockRV]:
        """The blocks directly inside a loop or a block."""
        func, name = self._place(block_or_loop)
        value = self._value(func)
        if name != "root":
            return _handles(BlockRV, func, value.child_blocks(name))
        inner = {child for block in value.blocks() for child in value.child_blocks(block)}
        return _handles(BlockRV, func, [block for block in value.blocks() if block not in inner])

    def get_output_blocks(self, scope_block: BlockRV) -> list[BlockRV]:
        """The blocks that write a parameter of the function."""
        func, _ = self._place(scope_block)
        return _handles(BlockRV, func, self._value(func).output_blocks())

    def get(self, handle: Handle) -> Block | For:
        """The block or the loop itself, as it is now."""
        func, name = self._place(handle)
        return _found(type(handle), self._value(func), name)

    def _place(self, handle: str) -> tuple[str, str]:
        """The function that a handle (or a name) is in, and what it is called there by now."""
        func, name = getattr(handle, "func", "") or self.func_working_on, str(handle)
        while (func, name) in self._renamed:
            name = self._renamed[func, name]
        return func, name

    def _value(self, func: str) -> Value:
        """The schedule of a function, as other functions' steps left the module."""
        value = self._values.get(func)
        if value is None or value.mod is not self.mod:
            value = Value(self.mod, func or None)
            self._values = {**self._values, func: value}
        return value

    # Steps

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("get_producers", "get_consumers"):
            return partial(self._neighbours, name.removeprefix("get_"))
        if name in PRIMITIVES:
            return partial(self._step, name)
        return absent(f"tvm.tir.Schedule.{name}", [*PRIMITIVES, *vars(Schedule)])

    def _neighbours(self, which: str, block: BlockRV) -> list[BlockRV]:
        """The blocks that write what a block reads, or that read what it writes."""
        func, name = self._place(block)
        return _handles(BlockRV, func, getattr(self._value(func), which)(name))

    def _step(self, name: str, *args: Any, **options: Any) -> Any:
        """Apply a primitive; handles to what is new, as TVM gives them."""
        step = STEPS.get(name, Step(""))
        options = {key: value for key, value in options.items() if key not in IGNORED}
        handles = [part for part in (*args, *options.values()) if isinstance(part, Handle)]
        func = handles[0].func if handles else self.func_working_on
        before = self._value(func)
        after = before.apply(name, *self._arguments(func, step, args, options), **options)
        self.mod = after.mod
        self._values = {**self._values, func: after}
        done = self._traces.get(func, Trace())
        self._traces = {**self._traces, func: Trace((*done, after.trace[-1]))}
        self._renamed = {**self._renamed, **_renamed(func, before, after)}
        if step.kind is None:
            return None
        new = _handles(step.kind, func, _new(step.kind, before, after))
        return new if step.pick is None else new[step.pick]

    def _arguments(
        self, func: str, step: Step, args: Sequence[Any], options: dict[str, Any]
    ) -> list[Any]:
        """The primitive's arguments, in order; those found by TVM's names leave `options`."""
        names = [] if step.names.startswith("*") else step.names.split()
        more = list(takewhile(options.__contains__, names[len(args) :]))
        values = [*args, *map(options.pop, more)]
        values = [self._place(v)[1] if isinstance(v, Handle) else v for v in values]
        for at, name in enumerate(names[: len(values)]):
            if "buffer" in name:
                values[at] = self._buffer(func, values[0], name, values[at])
        return values

    def _buffer(self, func: str, block: str, name: str, which: Any) -> str:
        """The name of a buffer: given by number, as ("read", 0), by name, or itself."""
        role = "read" if name.startswith("read") else "write"
        if isinstance(which, tuple):
            role, which = which
        if not isinstance(which, int):
            return str(getattr(which, "name", which))
        known = _operands(_found(BlockRV, self._value(func), block), role)
        if not 0 <= which < len(known):
            why = f'block "{block}" has no buffer {which} to {role}; it has {", ".join(known)}'
            raise ScheduleError(why, code="E105")
        return known[which]


def _usual(mod: IRModule) -> str:
    """The function that is meant where none is named: "main", or the only one."""
    names = [name for name, func in mod.entries if isinstance(func, PrimFunc)]
    return "main" if "main" in names or len(names) != 1 else names[0]


def _handle(kind: type[Handle], func: str, name: str) -> Any:
    handle = kind(name)
    handle.func = func
    return handle


def _handles(kind: type[Handle], func: str, names: Iterable[str]) -> list[Any]:
    return [_handle(kind, func, name) for name in names]


def _stmts(kind: type[Handle], value: Value) -> Mapping[str, Any]:
    """The loops or blocks of a function by name, in program order."""
    if kind is LoopRV:
        return {loop.var.name: loop for loop in nodes_of(value.func.body, For)}
    return {block.name: block for block in nodes_of(value.func.body, Block)}


def _found(kind: type[Handle], value: Value, name: str) -> Any:
    """The loop or block of a name; `ScheduleError` where there is none, by now or at all."""
    known = _stmts(kind, value)
    if name not in known:
        why = f'there is no {"loop" if kind is LoopRV else "block"} "{name}"'
        raise ScheduleError(why, code="E105", hint=did_you_mean(name, known))
    return known[name]


def _new(kind: type[Handle], before: Value, after: Value) -> list[str]:
    """The names of the loops or blocks that a step brought, in program order."""
    old = _stmts(kind, before)
    return [name for name in _stmts(kind, after) if name not in old]


def _renamed(func: str, before: Value, after: Value) -> dict[tuple[str, str], str]:
    """Blocks that are gone after a step, each with the last new one: what it goes on as."""
    new = _new(BlockRV, before, after)
    return {(func, block): new[-1] for block in _new(BlockRV, after, before) if new}


def _operands(block: Block, role: str) -> list[str]:
    """The buffers that a block reads or writes, in order; a reduction does not read its result."""
    written = list(dict.fromkeys(store.buffer.name for store in nodes_of(block, Store)))
    read = dict.fromkeys(load.buffer.name for load in nodes_of(block, Load))
    inputs = [name for name in read if block.init is None or name not in written]
    return written if role == "write" else inputs
