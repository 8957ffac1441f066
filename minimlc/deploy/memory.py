"""A graph function's memory plan as a value to read: the arena's values, when and where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from minimlc.deploy import table
from minimlc.graphs.ir.nodes import TensorType
from minimlc.graphs.ir.sized import data_tell
from minimlc.graphs.plan import Plan, Slot, live_bytes, places_of
from minimlc.loops.values.display import display, mimebundle
from minimlc.loops.values.errors import CompileError
from minimlc.services.runtime.library import Library
from minimlc.services.sizes.kernels import HalvedGraph, SymbolicGraph, SymbolicKernel

HEAD = ("value", "type", "bytes", "first", "last", "offset", "over")


class PlannedValue(NamedTuple):
    """A value between two kernels: named by the kernel that computes it, in step `first`; step
    `last` is the last one that reads it. `bytes` are whole cache lines, `offset` is its first byte
    in the arena; `over` is the step whose value it is written over, in place (None: no such).
    """

    name: str
    type: TensorType
    bytes: int
    first: int
    last: int
    offset: int
    over: int | None


@dataclass(frozen=True)
class MemoryPlan:
    """The arena of the function `name`: its values in the order of the steps that compute them, its
    size in bytes (`planned`), and the bytes that are alive at each step.
    """

    name: str
    values: tuple[PlannedValue, ...]
    planned: int
    live: tuple[int, ...]

    @property
    def naive(self) -> int:
        """Bytes if each value had a separate place."""
        return sum(value.bytes for value in self.values)

    @property
    def least(self) -> int:
        """Bytes alive at once, at the most: no plan needs less."""
        return max(self.live, default=0)

    def _table(self) -> tuple[str, Sequence[str], list[Sequence[str]], Sequence[str]]:
        title = (
            f"{self.name}: {self.planned:,} bytes for {len(self.values)} values of {self.naive:,}; "
            f"at most {self.least:,} are alive at once"
        )
        return title, HEAD, list(map(_row, self.values)), ("value", "type")

    def __repr__(self) -> str:
        return table.text(*self._table())

    def _repr_html_(self) -> str:
        return table.html(*self._table())

    show = display
    _repr_mimebundle_ = mimebundle


def _row(value: PlannedValue) -> Sequence[str]:
    numbers = (value.bytes, value.first, value.last, value.offset)
    over = "" if value.over is None else f"{value.over}"
    return (
        value.name,
        f"{value.type.dtype}{list(value.type.shape)}",
        *map("{:,}".format, numbers),
        over,
    )


def memory_plan(library: Library, name: str, sizes: Mapping[str, int] = {}) -> MemoryPlan:
    """The plan of a library's graph function; see `Library.plan`."""
    function: Any = library[name]
    family = isinstance(function, SymbolicGraph) and data_tell(function.func)
    if family or isinstance(function, HalvedGraph):
        why = f'"{name}" has no memory plan: it has a data-dependent size'
        raise CompileError(why, code="E136", hint="library.profile(name, *arguments)")
    if isinstance(function, SymbolicGraph):
        return memory_plan(function.at(sizes), name)
    if sizes and not isinstance(function, SymbolicKernel):
        raise CompileError(f'"{name}" has no sizes known only at the call', code="E136")
    planned = getattr(function, "plan", None)
    if not isinstance(planned, Plan):
        why = f'"{name}" has no memory plan in a library for target "{library.target.name}"'
        hint = "a graph function has one, built for llvm, c, cuda or opencl"
        raise CompileError(why, hint=hint)
    names, lives = _lives(planned)
    values = tuple(
        PlannedValue(
            name, s.type, s.size, *lives[s], s.number, lives[s.reuses][0] if s.reuses else None
        )
        for s, name in names.items()
    )
    live = live_bytes(places_of(planned), len(planned.steps))
    return MemoryPlan(name, values, planned.arena_bytes, tuple(live))


def _whole(slot: Slot) -> Slot:
    """A value in the arena, or the one that it is a part of."""
    return slot if slot.start is None or slot.reuses is None else slot.reuses


def _lives(planned: Plan) -> tuple[dict[Slot, str], dict[Slot, tuple[int, int]]]:
    """The name of each value in the arena, and the first and the last step that use it."""
    names: dict[Slot, str] = {}
    lives: dict[Slot, tuple[int, int]] = {}
    for number, step in enumerate(planned.steps):
        for at, slot in enumerate(map(_whole, step.outputs)):
            name = step.callee if len(step.outputs) == 1 else f"{step.callee}[{at}]"
            names.setdefault(slot, name)
        for slot in map(_whole, step.slots):
            lives[slot] = (lives.get(slot, (number,))[0], number)
    return {slot: name for slot, name in names.items() if slot.kind == "arena"}, lives
