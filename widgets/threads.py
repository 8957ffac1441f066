"""The elements of buffers that each thread of a GPU touches, statement by statement."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from math import prod
from typing import Any, NamedTuple

import numpy as np
from minimlc_widgets.base import View, source
from minimlc_widgets.functions import function_of
from minimlc_widgets.grids import Grid, element_text, grid_of, shape_text
from traitlets import Dict, Int, List, Unicode

from minimlc.gpusim.active import WARP, Active
from minimlc.gpusim.counters import statement_text
from minimlc.gpusim.execute import Watch
from minimlc.gpusim.launch import launch
from minimlc.gpusim.memory import Memory, space_of
from minimlc.gpusim.values import Value
from minimlc.loops.ir.arguments import Arguments, parameters_of
from minimlc.loops.ir.nodes import Buffer, Load, Stmt, Store
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import CompileError, did_you_mean
from minimlc.loops.values.node import span_of
from minimlc.services.checks.threads import SHARED
from minimlc.targets.gpu.kernels import Barrier, Kernel, Launches, kernels
from minimlc.targets.gpu.launch import launch_text

MOST_BLOCKS = 16
MOST_STEPS = 400
MOST_STATEMENTS = 10 * MOST_STEPS  # followed; the ones that access memory are steps
NUMBERS = 60_000  # in all steps together: about 300 KB of a page
SIDE = 64  # rows and columns of a buffer that are drawn
SPELLED = 6  # steps in words
SHOWN = 8, 16  # rows and columns in numbers


class Touch(NamedTuple):
    """An access of the threads of the first blocks at once: an element for each thread of a block,
    -1 for one that does not run.
    """

    buffer: Buffer
    written: bool
    elements: np.ndarray


class Moment(NamedTuple):
    """A statement that all threads run together, and its accesses to memory."""

    kernel: Kernel
    stmt: Stmt
    touches: list[Touch]


class _Enough(Exception):
    """All that is shown has been recorded."""


class Recorder(Watch):
    """Records what the first blocks of a kernel do to the buffers that are looked at. `is_last`
    is true if no kernel comes after this one, so that the run may end early.
    """

    def __init__(self, kernel: Kernel, names: Sequence[str], moments: list[Moment], is_last: bool):
        self.kernel, self.names, self.moments, self.is_last = kernel, names, moments, is_last
        self.is_first = True

    def begin(self, blocks: range) -> None:
        self.is_first = blocks.start == 0
        if self.is_last and not self.is_first:
            raise _Enough

    def statement(self, item: Stmt, active: Active) -> None:
        if self.is_first and len(self.moments) <= MOST_STATEMENTS:
            self.moments.append(Moment(self.kernel, item, []))
        elif self.is_last:
            raise _Enough

    def access(self, item: Load | Store, memory: Memory, element: Value, active: Active) -> None:
        seen = item.buffer.name in self.names and space_of(item.buffer, self.kernel)
        if not (seen and self.is_first and len(self.moments) <= MOST_STATEMENTS):
            return
        mask = True if active.mask is None else active.mask
        elements = np.broadcast_to(np.where(mask, element, -1), active.shape)
        part = elements[:MOST_BLOCKS, : prod(self.kernel.block)]
        self.moments[-1].touches.append(Touch(item.buffer, isinstance(item, Store), part))


class Threads(View):
    """The elements of global and shared memory that each thread touches, over time and by block.

    `Threads(sch)`, `Threads(mod, "main", "C", a, b, c)`: a module, function, schedule or library
    whose loops are bound to threads. All threads take a statement together, as the simulator runs
    them: drag the sliders over the steps and the blocks, point at an element or at a thread.
    `buffer` names one buffer or several, None means all; without `arrays` the arguments are zeros.
    Of a large program the first blocks and steps are shown, and a part of each buffer, with a
    note. `CompileError` for an unknown name, or where nothing is accessed.
    """

    _esm = source("prelude.js", "grid.js", "gpu.js", "threads.js")
    _css = source("base.css", "grid.css", "gpu.css")
    title = Unicode().tag(sync=True)
    note = Unicode().tag(sync=True)
    kernels = List(Dict()).tag(sync=True)
    buffers = List(Dict()).tag(sync=True)
    statements = List(Unicode()).tag(sync=True)
    patterns = List(List(Int())).tag(sync=True)
    steps = List(List(Int())).tag(sync=True)
    step = Int().tag(sync=True)
    block = Int().tag(sync=True)

    def __init__(
        self,
        mod: Any,
        func: str | None = None,
        buffer: str | Sequence[str] | None = None,
        *arrays: Any,
        step: int = 0,
        block: int = 0,
    ) -> None:
        name, found = function_of(mod, func)
        launches = kernels(name, found)
        self.shown = _chosen(launches, buffer)
        followed = _record(name, launches, [b.name for b in self.shown], arrays)
        is_shared = any(b.scope.startswith(SHARED) for b in self.shown)
        kept = Barrier if is_shared else ()  # a barrier does not concern other buffers
        moments = [m for m in followed if m.touches or isinstance(m.stmt, kept)]
        coder = _Coder(launches.kernels, self.shown)
        steps = coder.steps(moments)
        self.moments = moments[: len(steps)]
        cut = len(steps) < len(moments) or len(followed) > MOST_STATEMENTS
        super().__init__(
            title=name,
            note="; ".join(_notes(launches.kernels, self.shown, len(steps) if cut else 0)),
            kernels=[_kernel_state(kernel) for kernel in launches.kernels],
            buffers=[_buffer_state(b) for b in self.shown],
            statements=list(coder.statements),
            patterns=[_spans(pattern) for pattern in coder.patterns],
            steps=steps,
            step=max(0, min(step, len(steps) - 1)),
            block=max(0, min(block, MOST_BLOCKS - 1)),
        )

    def static_html(self) -> str:
        items = "".join(f"<li>{escape(line)}</li>" for line in self._spelled())
        parts = [f"<p>{escape(self._summary())}</p>", f'<ol start="0">{items}</ol>']
        for buffer in self.shown:
            label, rows = _owners(buffer, self.moments)
            body = "\n".join([f"<summary>{escape(label)}</summary><pre>", *rows, "</pre>"])
            parts.append(f"<details>{body}</details>")
        return "\n".join(parts)

    def text(self) -> str:
        lines = [f"{number:3}  {line}" for number, line in enumerate(self._spelled())]
        return "\n".join([self._summary(), *lines])

    def _summary(self) -> str:
        launched = "; ".join(f"{kernel['name']}: {kernel['launch']}" for kernel in self.kernels)
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return "; ".join([f"{launched}; {steps}", *filter(None, [self.note])])

    def _spelled(self) -> list[str]:
        shown = self.moments[:SPELLED]
        before = [None, *(moment.stmt for moment in shown)]
        words = [_words(moment, was) for moment, was in zip(shown, before, strict=False)]
        return [*words, "…"] if len(self.moments) > SPELLED else words


def _chosen(launches: Launches, wanted: str | Sequence[str] | None) -> list[Buffer]:
    """The buffers to show: all in global and shared memory, or some of them by name."""
    known: dict[str, Buffer] = {}
    for kernel in launches.kernels:
        for buffer in (*kernel.params, *kernel.shared):
            if space_of(buffer, kernel):
                known.setdefault(buffer.name, buffer)
    names = list(known) if wanted is None else [wanted] if isinstance(wanted, str) else wanted
    for name in names:
        if name not in known:
            why = f'no buffer in global or shared memory is called "{name}"'
            raise CompileError(why, code="E105", hint=did_you_mean(str(name), known))
    return [known[name] for name in names]


def _record(
    name: str, launches: Launches, names: Sequence[str], arrays: Sequence[Any]
) -> list[Moment]:
    """The statements of a run, and their accesses to some buffers."""
    params = launches.func.params
    passed = list(arrays) or [np.zeros(p.shape, to_numpy(p.dtype)) for p in params]
    shared, _ = Arguments(name, parameters_of(launches.func)).check(passed, {})
    moments: list[Moment] = []
    last = launches.kernels[-1]
    with suppress(_Enough):
        copies = [array.copy() for array in shared]
        launch(launches, copies, lambda kernel: Recorder(kernel, names, moments, kernel is last))
    if not any(moment.touches for moment in moments):
        raise CompileError(f"no thread of {name} accesses {' or '.join(names) or 'memory'}")
    return moments


class _Coder:
    """Moments as numbers. A step is its kernel and statement, then for each touch its buffer,
    whether it writes, and how many blocks follow: each the number of a pattern (the elements of its
    threads, from the lowest on; -1: no thread runs) and that lowest element.
    """

    def __init__(self, kernels: Sequence[Kernel], buffers: Sequence[Buffer]):
        self.kernels = {kernel.name: number for number, kernel in enumerate(kernels)}
        self.buffers = {buffer.name: number for number, buffer in enumerate(buffers)}
        self.statements: dict[str, int] = {}
        self.patterns: dict[tuple[int, ...], int] = {}
        self.count = 0

    def steps(self, moments: Sequence[Moment]) -> list[list[int]]:
        """As many of the steps as fit."""
        steps: list[list[int]] = []
        for moment in moments[:MOST_STEPS]:
            step = self._step(moment)
            self.count += len(step)
            if steps and self.count > NUMBERS:
                break
            steps.append(step)
        return steps

    def _step(self, moment: Moment) -> list[int]:
        text = self.statements.setdefault(_statement_line(moment.stmt), len(self.statements))
        parts = [self._touch(touch) for touch in moment.touches]
        return [self.kernels[moment.kernel.name], text, *(n for part in parts for n in part)]

    def _touch(self, touch: Touch) -> list[int]:
        blocks = [n for row in touch.elements.tolist() for n in self._pattern(row)]
        return [self.buffers[touch.buffer.name], int(touch.written), len(touch.elements), *blocks]

    def _pattern(self, elements: list[int]) -> tuple[int, int]:
        lowest = min((e for e in elements if e >= 0), default=None)
        if lowest is None:
            return -1, 0
        pattern = tuple(e - lowest if e >= 0 else -1 for e in elements)
        if pattern not in self.patterns:
            self.patterns[pattern] = len(self.patterns)
            self.count += len(_spans(pattern))
        return self.patterns[pattern], lowest


def _spans(values: Sequence[int]) -> list[int]:
    """Numbers as count, first, step, count, first, step, ...: most are evenly apart."""
    spans: list[int] = []
    for value in values:
        if spans and spans[-3] == 1:
            spans[-3:] = [2, spans[-2], value - spans[-2]]
        elif spans and value == spans[-2] + spans[-3] * spans[-1]:
            spans[-3] += 1
        else:
            spans += [1, value, 0]
    return spans


def _statement_line(stmt: Stmt) -> str:
    span = span_of(stmt)
    text = statement_text(stmt)
    return text if span is None or isinstance(stmt, Barrier) else f"line {span.line}: {text}"


def _notes(kernels: Sequence[Kernel], buffers: Sequence[Buffer], steps: int) -> Iterator[str]:
    """The parts left out, in words."""
    if steps:
        yield f"the first {steps} steps of more"
    most = max(prod(kernel.grid) for kernel in kernels)
    if most > MOST_BLOCKS:
        yield f"the first {MOST_BLOCKS} of {most:,} blocks"
    for buffer in buffers:
        rows, columns, *_ = _grid(buffer)
        if max(rows, columns) > SIDE:
            part = shape_text((min(rows, SIDE), min(columns, SIDE)))
            yield f"of {buffer.name} {part} elements at once"


def _grid(buffer: Buffer) -> Grid:
    """A cell for each element; a vector's rows are as long as a warp, others folded if they fit."""
    grid, size = grid_of(buffer), prod(buffer.shape)
    fits = grid.columns > SIDE and size <= SIDE * SIDE
    columns = min(size, WARP) if buffer.ndim <= 1 else SIDE if fits else grid.columns
    return Grid(max(1, -(-size // max(1, columns))), max(1, columns))


def _kernel_state(kernel: Kernel) -> dict[str, Any]:
    grid, block = list(kernel.grid), list(kernel.block)
    return {
        "name": kernel.name,
        "launch": launch_text(kernel.grid, kernel.block),
        "grid": grid,
        "block": block,
    }


def _buffer_state(buffer: Buffer) -> dict[str, Any]:
    grid = _grid(buffer)
    return {
        "name": buffer.name,
        "dtype": buffer.dtype,
        "scope": buffer.scope,
        "shape": list(buffer.shape),
        "grid": list(grid),
        "corner": [min(grid.rows, SIDE), min(grid.columns, SIDE)],
    }


def _words(moment: Moment, before: Stmt | None) -> str:
    """A step of the first block in words, with the statement of the step before."""
    parts = list(dict.fromkeys(map(_touch_words, moment.touches)))
    text = "again" if moment.stmt is before else _statement_line(moment.stmt)
    return f"{text} (block 0: {', '.join(parts)})" if parts else text


def _touch_words(touch: Touch) -> str:
    elements = touch.elements[0][touch.elements[0] >= 0]
    verb = "store" if touch.written else "load"
    if not elements.size:
        return f"no threads {verb} {touch.buffer.name}"
    ends = dict.fromkeys(element_text(touch.buffer, e) for e in (elements.min(), elements.max()))
    return f"{len(elements)} threads {verb} {len(np.unique(elements))} of {' … '.join(ends)}"


def _owners(buffer: Buffer, moments: Sequence[Moment]) -> tuple[str, list[str]]:
    """A corner of a buffer: the thread of block 0 that first touches each element, in numbers."""
    grid = _grid(buffer)
    owner = np.full(grid.rows * grid.columns, -1)
    touches = [t for m in moments for t in m.touches if t.buffer.name == buffer.name]
    for touch in reversed(touches):
        elements = touch.elements[0][::-1]
        threads = np.arange(len(elements))[::-1]
        owner[elements[elements >= 0]] = threads[elements >= 0]
    rows, columns = (min(*pair) for pair in zip(SHOWN, grid.cells, strict=True))
    corner = owner.reshape(grid.rows, grid.columns)[:rows, :columns]
    label = f"{buffer.name}: the thread of block 0 that first touches each element"
    part = "" if corner.size == owner.size else f", its first {shape_text(corner.shape)}"
    return label + part, [" ".join(f"{n:4}" if n >= 0 else "   ." for n in row) for row in corner]
