"""Which elements a program touches, in which order: its run, written down.

A step is one execution of a store, with all that is read for it. What the machine does at once is
one step: the lanes of a vectorized loop, and the threads of a parallel one, which take a run of
neighbouring iterations each.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np

from minimlc.dtypes import is_float, to_numpy
from minimlc.node import Node, walk
from minimlc.tir.execute import Eval, Frame, Translate
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    Buffer,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Select,
    Store,
)

LANES = 64
"""The most iterations of a vectorized loop in one step."""


Run = Callable[[Frame, range], None]
"""Runs some of a loop's iterations."""


class Touch(NamedTuple):
    """One access: the buffer's number in the record, the element's in memory, and which it is."""

    buffer: int
    element: int
    write: bool


class Step(NamedTuple):
    """What is touched by `store` in one execution of it, or in several `lanes` or `threads` at once
    (where threads come to different stores, `store` is the first one's). `values` are those of the
    loops around it, in the first lane and thread.
    """

    store: Store
    touches: list[Touch]
    values: tuple[int, ...]
    lanes: int = 1
    threads: int = 1


class Record(NamedTuple):
    """A run: the buffers by number, the loops around each store, the outermost first, the steps in
    order, and whether these are all of them.
    """

    buffers: tuple[Buffer, ...]
    loops: dict[Store, tuple[For, ...]]
    steps: list[Step]
    complete: bool


def record(func: PrimFunc, *, limit: int = 1 << 20, threads: int = 1) -> Record:
    """Run `func` on arbitrary data and note what it touches, up to `limit` accesses.

    Where data decides what runs or what is touched, floats are drawn from a fixed seed and integers
    are 0; else no value is computed. `BoundsError` for an access outside its buffer.
    """
    recorder = _Recorder(func, limit, threads)
    random = np.random.default_rng(0)
    complete = True
    with np.errstate(all="ignore"):
        try:
            recorder.run([_data(buffer, random) for buffer in func.params])
        except _Full:
            complete = False
    return Record(tuple(recorder.numbers), recorder.around, recorder.steps, complete)


def _data(buffer: Buffer, random: np.random.Generator) -> np.ndarray:
    dtype = to_numpy(buffer.dtype)
    if is_float(buffer.dtype):
        return random.standard_normal(buffer.shape, np.float32).astype(dtype)
    return np.zeros(buffer.shape, dtype)


def _depends_on_data(func: PrimFunc) -> bool:
    """Whether a value that is loaded can decide what runs, or where."""
    deciding = (part for item in walk(func.body) for part in _deciding(item))
    return any(isinstance(part, Load) for expr in deciding for part in walk(expr))


def _deciding(item: Node) -> tuple[Expr, ...]:
    """The parts of a node that decide what runs, or where."""
    match item:
        case For():
            return (item.extent,)
        case Block():
            values = tuple(it.value for it in item.iters)
            return values if item.predicate is None else (*values, item.predicate)
        case IfThenElse():
            return (item.condition,)
        case Load() | Store():
            return item.indices
        case Select() | Binary(op="and" | "or"):
            return (item,)
        case _:  # other nodes: they decide nothing
            return ()


class _Full(Exception):
    """As many accesses as wanted have been noted."""


class _Recorder(Translate):
    """Runs a function as the interpreter does, and keeps what it touches."""

    def __init__(self, func: PrimFunc, limit: int, threads: int):
        self.left = limit
        self.with_values = _depends_on_data(func)
        self.threads = max(1, threads)
        self.numbers: dict[Buffer, int] = {}
        self.around: dict[Store, tuple[For, ...]] = {}
        self.loops: list[For] = []
        self.pending: list[Touch] = []
        self.steps: list[Step] = []
        for buffer in (*func.params, *func.allocs):
            self.number(buffer)
        super().__init__(func)

    def number(self, buffer: Buffer) -> int:
        return self.numbers.setdefault(buffer, len(self.numbers))

    def alloc(self, item: Alloc) -> Eval:
        self.number(item.buffer)
        return super().alloc(item)

    def noting(self, item: Load | Store) -> Eval:
        """The element's place, noted as touched."""
        place, number = self.indices(item.buffer, item.indices), self.number(item.buffer)
        shape, write = item.buffer.shape, isinstance(item, Store)
        known: dict[tuple[int, ...], Touch] = {}

        def noted(frame: Frame) -> tuple[int, ...]:
            indices = place(frame)
            touch = known.get(indices)
            if touch is None:
                flat = 0
                for size, value in zip(shape, indices, strict=True):
                    flat = flat * size + value
                touch = known[indices] = Touch(number, flat, write)
            self.pending.append(touch)
            return indices

        return noted

    def load(self, item: Load) -> Eval:
        slot, place = self.place(item.buffer), self.noting(item)
        if is_float(item.dtype):
            return lambda frame: frame[slot][place(frame)]
        return lambda frame: frame[slot].item(place(frame))

    def store(self, item: Store) -> Eval:
        act = self.computing(item) if self.with_values else self.touching(item)
        self.around[item] = tuple(self.loops)
        loops = [self.slot(loop.var) for loop in self.loops]

        def store(frame: Frame) -> None:
            act(frame)
            self.left -= len(self.pending)
            self.steps.append(Step(item, self.pending, tuple([frame[n] for n in loops])))
            self.pending = []
            if self.left <= 0:
                raise _Full

        return store

    def computing(self, item: Store) -> Eval:
        slot, value, place = self.place(item.buffer), self.expr(item.value), self.noting(item)

        def compute(frame: Frame) -> None:
            result = value(frame)
            frame[slot][place(frame)] = result

        return compute

    def touching(self, item: Store) -> Eval:
        """What a store reads and writes, in that order, without the values."""
        loads = [part for part in walk(item.value) if isinstance(part, Load)]
        places = [*map(self.noting, loads), self.noting(item)]

        def touch(frame: Frame) -> None:
            for place in places:
                place(frame)

        return touch

    def loop(self, item: For) -> Eval:
        extent, slot = self.expr(item.extent), self.slot(item.var)
        self.loops.append(item)
        body = self.stmt(item.body)
        self.loops.pop()

        def run(frame: Frame, numbers: range) -> None:
            for value in numbers:
                frame[slot] = value
                body(frame)

        if item.kind == "vectorized":
            return lambda frame: self.lanes(frame, extent(frame), run)
        if item.kind == "parallel" and self.threads > 1:
            return lambda frame: self.shares(frame, extent(frame), run)
        return lambda frame: run(frame, range(extent(frame)))

    def lanes(self, frame: Frame, extent: int, run: Run) -> None:
        """Iterations side by side; one after the other where they go different ways."""
        for start in range(0, extent, LANES):
            numbers = range(start, min(start + LANES, extent))
            runs, whole = self.apart(frame, [range(n, n + 1) for n in numbers], run)
            stores = [[step.store for step in steps] for steps in runs]
            if all(order == stores[0] for order in stores):
                self.steps += map(_side_by_side, zip(*runs, strict=True))
            else:
                self.steps += [step for steps in runs for step in steps]
            if not whole:
                raise _Full

    def shares(self, frame: Frame, extent: int, run: Run) -> None:
        """A run of neighbouring iterations for each thread; all go at one pace."""
        count = max(1, min(self.threads, extent))
        cuts = [extent * n // count for n in range(count + 1)]
        runs, whole = self.apart(frame, [range(a, b) for a, b in pairwise(cuts)], run)
        self.steps += _at_one_pace(runs)
        if not whole:
            raise _Full

    def apart(
        self, frame: Frame, parts: Sequence[range], run: Run
    ) -> tuple[list[list[Step]], bool]:
        """The steps of each part of a loop's iterations, and whether these are all of them: each
        part has an equal share of what is left to be noted."""
        outer, left, runs, whole = self.steps, self.left, [], True
        share = max(1, left // len(parts))
        for numbers in parts:
            self.steps, self.left = [], share
            try:
                run(frame, numbers)
            except _Full:
                whole = False
            left -= share - self.left
            runs.append(self.steps)
        self.steps, self.left = outer, left
        return runs, whole


def _side_by_side(lanes: Sequence[Step]) -> Step:
    """One step of many lanes: each access of all lanes before the next, each element once."""
    columns = zip_longest(*(step.touches for step in lanes))
    touches = [touch for column in columns for touch in dict.fromkeys(column) if touch is not None]
    return lanes[0]._replace(touches=touches, lanes=len(lanes))


def _at_one_pace(runs: Sequence[list[Step]]) -> Iterator[Step]:
    """Steps of the same time as one: the first of each run, then the second, ..."""
    for steps in zip_longest(*runs):
        here: list[Any] = [step for step in steps if step is not None]
        touches = [touch for step in here for touch in step.touches]
        yield here[0]._replace(touches=touches, threads=len(here))
