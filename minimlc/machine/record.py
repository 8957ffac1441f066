"""Recorded runs: the elements that a program touches, in order.

A step is one execution of a store, with all that is read for it. What the machine does at once is
one step: the lanes of a vectorized loop, and the threads of a parallel one, each of which takes a
run of neighbouring iterations.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, zip_longest
from typing import Any, NamedTuple

import numpy as np

from minimlc.loops.interpreter.execute import Eval, Frame, Translate
from minimlc.loops.ir.nodes import (
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
    While,
)
from minimlc.loops.ir.walks import buffers_in
from minimlc.loops.values.dtypes import is_float, to_numpy
from minimlc.loops.values.node import Node, walk

LANES = 64
"""The most iterations of a vectorized loop in one step."""


class Touch(NamedTuple):
    """One access: the buffer's number in the record, the element's in memory, read or write."""

    buffer: int
    element: int
    write: bool


class Execution(NamedTuple):
    """The elements touched by one execution of `store`, or by several `lanes` or `threads` at once
    (where threads come to different stores, `store` is the first one's). `values` are those of
    the loops around it, in the first lane and thread.
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
    steps: list[Execution]
    complete: bool


Runs = Sequence[list[Execution]]
"""The steps of each lane, or of each thread."""

Merge = Callable[[Runs], Iterator[Execution]]


def record(func: PrimFunc, *, limit: int = 1 << 20, threads: int = 1) -> Record:
    """Run `func` on arbitrary data and log what it touches, up to `limit` accesses.

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
    return Record(tuple(recorder.numbers), recorder.around, recorder.log.steps, complete)


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
        case IfThenElse() | While():
            return (item.condition,)
        case Load() | Store():
            return item.indices
        case Select() | Binary(op="and" | "or"):
            return (item,)
        case _:  # other nodes: they decide nothing
            return ()


class _Full(Exception):
    """As many accesses as allowed have been noted."""


class _Log:
    """The steps so far, the accesses of the next one, and how many may still be noted."""

    def __init__(self, limit: int):
        self.left = limit
        self.steps: list[Execution] = []
        self.touches: list[Touch] = []

    def end_step(self, store: Store, values: tuple[int, ...]) -> None:
        self.left -= len(self.touches)
        self.steps.append(Execution(store, self.touches, values))
        self.touches = []
        if self.left <= 0:
            raise _Full

    def together(self, run: Callable[[range], None], parts: Sequence[range], merge: Merge) -> None:
        """Run parts of a loop side by side. Each may note an equal share of the accesses that are
        left; `merge` makes one list of their steps.
        """
        outer, left, runs, complete = self.steps, self.left, [], True
        share = max(1, left // len(parts))
        for numbers in parts:
            self.steps, self.left = [], share
            try:
                run(numbers)
            except _Full:
                complete = False
            left -= share - self.left
            runs.append(self.steps)
        self.steps, self.left = outer, left
        self.steps += merge(runs)
        if not complete:
            raise _Full


class _Recorder(Translate):
    """Runs a function as the interpreter does, and logs what it touches."""

    def __init__(self, func: PrimFunc, limit: int, threads: int):
        buffers = dict.fromkeys((*func.params, *func.allocs, *buffers_in(func.body)))
        self.numbers = {buffer: number for number, buffer in enumerate(buffers)}
        self.with_values = _depends_on_data(func)
        self.threads = threads
        self.around: dict[Store, tuple[For, ...]] = {}
        self.loops: tuple[For, ...] = ()
        self.log = _Log(limit)
        super().__init__(func)

    def element(self, item: Load | Store) -> tuple[int, Eval]:
        """The slot of a buffer's array in the frame, and the element's place in it, logged when it
        is computed.
        """
        slot, place = self.place(item.buffer), self.indices(item.buffer, item.indices)
        number, shape, write = self.numbers[item.buffer], item.buffer.shape, isinstance(item, Store)
        log, known = self.log, dict[tuple[int, ...], Touch]()

        def logged(frame: Frame) -> tuple[int, ...]:
            indices = place(frame)
            touch = known.get(indices)
            if touch is None:
                flat = 0
                for size, value in zip(shape, indices, strict=True):
                    flat = flat * size + value
                touch = known[indices] = Touch(number, flat, write)
            log.touches.append(touch)
            return indices

        return slot, logged

    def load(self, item: Load) -> Eval:
        slot, place = self.element(item)
        if is_float(item.dtype):
            return lambda frame: frame[slot][place(frame)]
        return lambda frame: frame[slot].item(place(frame))

    def store(self, item: Store) -> Eval:
        act = self.computing(item) if self.with_values else self.touching(item)
        self.around[item] = self.loops
        loops, log = [self.slot(loop.var) for loop in self.loops], self.log

        def store(frame: Frame) -> None:
            act(frame)
            log.end_step(item, tuple([frame[n] for n in loops]))

        return store

    def computing(self, item: Store) -> Eval:
        value, (slot, place) = self.expr(item.value), self.element(item)

        def compute(frame: Frame) -> None:
            result = value(frame)
            frame[slot][place(frame)] = result

        return compute

    def touching(self, item: Store) -> Eval:
        """The reads and the write of a store, in that order, without the values."""
        loads = [part for part in walk(item.value) if isinstance(part, Load)]
        parts: list[Load | Store] = [*loads, item]
        places = [place for _, place in map(self.element, parts)]

        def touch(frame: Frame) -> None:
            for place in places:
                place(frame)

        return touch

    def loop(self, item: For) -> Eval:
        extent, slot, log = self.expr(item.extent), self.slot(item.var), self.log
        outer, self.loops = self.loops, (*self.loops, item)
        body = self.stmt(item.body)
        self.loops = outer

        def run(frame: Frame, numbers: range) -> None:
            for value in numbers:
                frame[slot] = value
                body(frame)

        batches: Callable[[int], Iterator[list[range]]] = _lanes
        merge: Merge = _side_by_side
        if item.kind == "parallel" and self.threads > 1:
            batches, merge = partial(_shares, threads=self.threads), _at_one_pace
        elif item.kind != "vectorized":
            return lambda frame: run(frame, range(extent(frame)))

        def batched(frame: Frame) -> None:
            for parts in batches(extent(frame)):
                log.together(partial(run, frame), parts, merge)

        return batched


def _lanes(extent: int) -> Iterator[list[range]]:
    """A loop's iterations one by one, up to `LANES` of them together."""
    for start in range(0, extent, LANES):
        yield [range(n, n + 1) for n in range(start, min(start + LANES, extent))]


def _shares(extent: int, threads: int) -> Iterator[list[range]]:
    """A run of neighbouring iterations for each thread."""
    count = max(1, min(threads, extent))
    cuts = [extent * n // count for n in range(count + 1)]
    yield [range(start, end) for start, end in pairwise(cuts)]


def _side_by_side(lanes: Runs) -> Iterator[Execution]:
    """The steps of all lanes at once, if they take the same way, or else lane after lane."""
    stores = [[step.store for step in steps] for steps in lanes]
    if all(order == stores[0] for order in stores):
        return map(_at_once, zip(*lanes, strict=True))
    return chain.from_iterable(lanes)


def _at_once(steps: Sequence[Execution]) -> Execution:
    """One step of many lanes: each access of all lanes before the next, each element once."""
    columns = zip_longest(*(step.touches for step in steps))
    touches = [touch for column in columns for touch in dict.fromkeys(column) if touch is not None]
    return steps[0]._replace(touches=touches, lanes=len(steps))


def _at_one_pace(threads: Runs) -> Iterator[Execution]:
    """One step of many threads: the first of each, then the second of each, ..."""
    for steps in zip_longest(*threads):
        here: list[Any] = [step for step in steps if step is not None]
        touches = [touch for step in here for touch in step.touches]
        yield here[0]._replace(touches=touches, threads=len(here))
