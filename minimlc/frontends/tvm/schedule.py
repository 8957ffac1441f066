"""`tvm.tir.Schedule`: a schedule that changes, around one that does not.

    sch = tvm.tir.Schedule(mod)
    i, j, k = sch.get_loops(sch.get_block("C"))
    j0, j1 = sch.split(j, factors=[None, 4])      # here: sch = sch.split("j", [None, 4])
    sch.reorder(i, j0, k, j1)                     #       sch = sch.reorder("i", "j_0", "k", "j_1")

A handle is the name of a loop or a block. Each step is one primitive of `mlc.Schedule`, which
proves it or refuses.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from functools import partial
from itertools import takewhile
from typing import Any

from minimlc.frontends.tvm.absent import absent
from minimlc.frontends.tvm.table import rows
from minimlc.loops.ir.nodes import Block, Const, For, Load, PrimFunc, Store, SymbolicFunc
from minimlc.loops.schedule import Schedule as Value
from minimlc.loops.schedule import Trace
from minimlc.loops.schedule.primitive import PRIMITIVES, SAMPLES
from minimlc.loops.values.errors import ScheduleError, did_you_mean
from minimlc.loops.values.module import IRModule, not_a_module
from minimlc.loops.values.node import nodes_of


class Handle(str):
    """The name of a loop or a block; `func` is the function that it is in."""

    func: str = ""


class LoopRV(Handle):
    """A loop."""


class BlockRV(Handle):
    """A block."""


STEPS = rows(__file__)
"""The steps of TVM's schedules that are primitives here: its names of the arguments, in order; and
the handles that it gets: to the new loops or blocks, all of them or the first.
"""

IGNORED = STEPS.pop("ignored").split()
"""Arguments that TVM has besides: they choose between programs of one meaning."""

GIVES: Mapping[str, type[Handle]] = {"loop": LoopRV, "block": BlockRV}


class Schedule:
    """A module under transformation: each step changes it in place."""

    def __init__(self, mod: IRModule | PrimFunc, *, seed: Any = None, debug_mask: str = "none"):
        if isinstance(mod, PrimFunc | SymbolicFunc):
            mod = IRModule({"main": mod})
        if not isinstance(mod, IRModule):
            raise not_a_module(mod, "tvm.tir.Schedule")
        self.mod, self.key = mod, seed
        self.func_working_on = _usual(self.mod)
        self._values: Mapping[str, Value] = {}
        self._traces: Mapping[str, Trace] = {}
        self._renamed: Mapping[tuple[str, str], str] = {}

    @classmethod
    def of(cls, value: Value) -> "Schedule":
        """A schedule that goes on with another one."""
        sch = cls(value.mod)
        sch.func_working_on, sch._values = value.func_name, {value.func_name: value}
        sch._traces = {value.func_name: value.trace}
        return sch

    value = property(lambda self: self._value(self.func_working_on))
    """The schedule of the function that is worked on."""

    trace = property(lambda self: self._traces.get(self.func_working_on, Trace()))
    """The steps on the function that is worked on, as data."""

    def copy(self) -> "Schedule":
        """An independent schedule of the module as it is now."""
        return copy(self)

    def work_on(self, func_name: str) -> None:
        """Name the function that `get_block` looks in."""
        self.func_working_on = func_name

    def show(self) -> None:
        """Display the steps on the function that is worked on."""
        self.value.show()

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

    def get(self, handle: Handle) -> Any:
        """The block or the loop itself, as it is now."""
        func, name = self._place(handle)
        return _found(type(handle), self._value(func), name)

    def _place(self, handle: str) -> tuple[str, str]:
        """The function that a handle (or a name) is in, and its name there by now."""
        func, name = getattr(handle, "func", "") or self.func_working_on, str(handle)
        while (func, name) in self._renamed:
            name = self._renamed[func, name]
        return func, name

    def _value(self, func: str) -> Value:
        """The schedule of a function, as other functions' steps left the module."""
        value = self._values.get(func)
        if value is None or value.mod is not self.mod:
            value = Value(self.mod, func or None, key=self.key)
            self._values = {**self._values, func: value}
        return value

    # Steps

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("get_producers", "get_consumers"):
            return partial(self._neighbours, name.removeprefix("get_"))
        if "sblock" in name:
            return getattr(self, name.replace("sblock", "block"))
        if name in PRIMITIVES or name in SAMPLES:
            return partial(self._step, name)
        return absent(f"tvm.tir.Schedule.{name}", [*PRIMITIVES, *vars(Schedule)])

    def _neighbours(self, which: str, block: BlockRV) -> list[BlockRV]:
        """The blocks that write what a block reads, or that read what it writes."""
        func, name = self._place(block)
        return _handles(BlockRV, func, getattr(self._value(func), which)(name))

    def _step(self, name: str, *args: Any, **options: Any) -> Any:
        """Apply a primitive; handles to new loops or blocks, as TVM gives them."""
        names, _, gives = STEPS.get(name, "").partition(" -> ")
        options = {key: value for key, value in options.items() if key not in IGNORED}
        handles = [part for part in (*args, *options.values()) if isinstance(part, Handle)]
        func = handles[0].func if handles else self.func_working_on
        before = self._value(func)
        values, drawn = self._arguments(func, names, args, options), None
        if name in SAMPLES:
            after, drawn = getattr(before, name)(*values, **options)
        else:
            after = before.apply(name, *values, **options)
        self.mod = after.mod
        self._values = {**self._values, func: after}
        done = self._traces.get(func, Trace())
        self._traces = {**self._traces, func: Trace((*done, after.trace[-1]))}
        self._renamed = {**self._renamed, **_renamed(func, before, after)}
        if not gives:
            return list(drawn) if isinstance(drawn, tuple) else drawn
        kind = GIVES[gives.rstrip("s")]
        new = _handles(kind, func, _new(kind, before, after)) or list(args)
        return new if gives.endswith("s") else new[0]

    def _arguments(self, func: str, called: str, args: Any, options: dict[str, Any]) -> list[Any]:
        """The primitive's arguments, in order; those found by TVM's names leave `options`."""
        names = [] if called.startswith("*") else called.split()
        more = list(takewhile(options.__contains__, names[len(args) :]))
        values = [*args, *map(options.pop, more)]
        values = [self._place(v)[1] if isinstance(v, Handle) else _number(v) for v in values]
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
        known = operands(_found(BlockRV, self._value(func), block), role)
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
    """Blocks that a step removed, each with the block that takes its place: the last new one, or
    the reader that was computed in its place.
    """
    new, (step, arguments) = _new(BlockRV, before, after), after.trace[-1]
    new = [arguments["block"]] if step == "reverse_compute_inline" else new
    return {(func, block): new[-1] for block in _new(BlockRV, after, before) if new}


def _number(value: Any) -> Any:
    """An argument in which constants of expressions are the numbers that they are."""
    if isinstance(value, list | tuple):
        return type(value)(map(_number, value))
    return value.value if isinstance(value, Const) else value


def written(func: PrimFunc) -> dict[str, str]:
    """The last block that writes a buffer, by the buffer's name."""
    blocks = nodes_of(func.body, Block)
    return {name: block.name for block in blocks for name in operands(block, "write")}


def operands(block: Block, role: str) -> list[str]:
    """The buffers that a block reads or writes, in order; a reduction does not read its result."""
    written = list(dict.fromkeys(store.buffer.name for store in nodes_of(block, Store)))
    read = dict.fromkeys(load.buffer.name for load in nodes_of(block, Load))
    inputs = [name for name in read if block.init is None or name not in written]
    return written if role == "write" else inputs
