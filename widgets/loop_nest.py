"""The order in which a program's loops go over its buffers, step by step."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from minimlc_widgets.base import View, source
from minimlc_widgets.functions import function_of, read_back
from minimlc_widgets.grids import grid_of, shape_text
from minimlc_widgets.lexer import script_tokens
from minimlc_widgets.static import script_html
from traitlets import Dict, Int, List, Unicode

from minimlc.loops.ir.nodes import Buffer, For, PrimFunc, Store
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import span_of
from minimlc.machine.record import Execution, Record, Touch, record
from minimlc.services.net.shrink import STRENGTHS, smaller

MOST_STEPS = 20_000
TOUCHES = 32  # accesses to follow for each step that can be shown
NUMBERS = 90_000  # in all steps together: about 400 KB of a page
SPELLED = 6  # steps in words
SHOWN = 16  # rows and columns of the order in numbers


class Program(NamedTuple):
    """A script and its run, as shown. `touches` and `steps` are the result of `_encoded` for
    the run, or for its beginning.
    """

    script: str
    record: Record
    touches: list[list[int]]
    steps: list[list[int]]

    @property
    def is_whole(self) -> bool:
        return self.record.complete and len(self.steps) == len(self.record.steps)


class LoopNest(View):
    """The loops of a function at work: which elements each step reads and writes, in order.

    Play it, step through it with the arrow keys, or drag the slider: the line that runs and the
    values of its loops are marked in the script, the elements in the buffers, with those
    of earlier steps fading behind. Lanes of a vectorized loop light up together, and so do
    `threads` threads of a parallel loop. A program of more than `steps` steps is shown at smaller
    sizes, or its beginning only, with a note. `CompileError` for anything that is no such function.
    """

    _esm = source("prelude.js", "grid.js", "loop_nest.js")
    _css = source("base.css", "grid.css", "loop_nest.css")
    title = Unicode().tag(sync=True)
    note = Unicode().tag(sync=True)
    lines = List(List(Unicode())).tag(sync=True)
    buffers = List(Dict()).tag(sync=True)
    loops = List(Dict()).tag(sync=True)
    stores = List(Dict()).tag(sync=True)
    touches = List(List(Int())).tag(sync=True)
    steps = List(List(Int())).tag(sync=True)
    step = Int().tag(sync=True)

    def __init__(
        self, mod: Any, name: str | None = None, threads: int = 2, steps: int = 6000, step: int = 0
    ) -> None:
        if not 1 <= steps <= MOST_STEPS:
            raise CompileError(f"steps must be within 1 ... {MOST_STEPS}, got {steps}")
        if threads < 1:
            raise CompileError(f"threads must be >= 1, got {threads}")
        found, func = function_of(mod, name)
        self.program, note = _fitting(found, func, threads, steps)
        made = self.program.record
        if not made.steps:
            raise CompileError(f"{found} stores nothing: there are no steps to show")
        loops, stores = _places(made)
        super().__init__(
            title=found,
            note=note,
            lines=[list(line) for line in script_tokens(self.program.script)],
            buffers=[_buffer_state(buffer) for buffer in made.buffers],
            loops=loops,
            stores=stores,
            touches=self.program.touches,
            steps=self.program.steps,
            step=max(0, min(step, len(self.program.steps) - 1)),
        )

    def static_html(self) -> str:
        made = self.program.record
        parts = [script_html(self.program.script), f"<p>{escape(self._summary())}</p>"]
        items = "".join(f"<li>{escape(line)}</li>" for line in _words(made))
        parts.append(f'<ol start="0">{items}</ol>')
        for number, buffer in enumerate(made.buffers):
            label = f"{buffer.name}: the step in which each element is first touched"
            order = "\n".join(_order(made, number, len(self.steps)))
            body = f"<summary>{escape(label)}</summary><pre>{escape(order)}\n</pre>"
            parts.append(f"<details>{body}</details>")
        return "\n".join(parts)

    def text(self) -> str:
        lines = [f"{number:3}  {line}" for number, line in enumerate(_words(self.program.record))]
        return "\n".join([self.program.script, "", self._summary(), *lines])

    def _summary(self) -> str:
        count = f"{len(self.steps):,} steps" if len(self.steps) > 1 else "1 step"
        return f"{count} of {self.title}" + (f"; {self.note}" if self.note else "")


def _fitting(name: str, func: PrimFunc, threads: int, steps: int) -> tuple[Program, str]:
    """The function with its run; at smaller sizes if it is too long, and a note about that."""
    full = _program(name, func, threads, steps)
    if full.is_whole:
        return full, ""
    for strength in STRENGTHS:
        small = smaller(func, strength)
        if small is None:
            continue
        shrunk = _program(name, small, threads, steps)
        if shrunk.is_whole:
            return shrunk, f"at smaller sizes: {_sizes(func, small)}"
    return full, "the beginning of a longer run"


def _program(name: str, func: PrimFunc, threads: int, steps: int) -> Program:
    script, read = read_back(name, func)
    made = record(read, limit=TOUCHES * steps, threads=threads)
    stores = {store: number for number, store in enumerate(made.loops)}
    return Program(script, made, *_encoded(made.steps[:steps], stores))


def _sizes(func: PrimFunc, small: PrimFunc) -> str:
    """ "A 8 × 8 for 64 × 64, ..." for every parameter that shrank."""
    pairs = zip(func.params, small.params, strict=True)
    changed = [(a, b) for a, b in pairs if a.shape != b.shape]
    return ", ".join(
        f"{a.name} {shape_text(b.shape)} for {shape_text(a.shape)}" for a, b in changed
    )


def _places(made: Record) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The loops and stores with their lines, counted from 0; a store names its loops by number."""
    numbers: dict[Any, int] = {}
    for around in made.loops.values():
        for loop in around:
            numbers.setdefault(loop, len(numbers))
    loops = [
        {"name": loop.var.name, "kind": loop.kind, "line": _line(loop), "extent": _extent(loop)}
        for loop in numbers
    ]
    stores = [
        {"line": _line(store), "loops": [numbers[loop] for loop in around]}
        for store, around in made.loops.items()
    ]
    return loops, stores


def _line(item: For | Store) -> int:
    span = span_of(item)
    return span.line - 1 if span is not None else -1


def _extent(loop: For) -> int:
    return int(constant_value(loop.extent) or 0)


def _encoded(
    steps: Sequence[Execution], stores: dict[Store, int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Touches, each once: [buffer, written, first, count, first, count, ...]; and as many steps as
    there is room for: [store, lanes, threads, the loops' values ..., touches by number ...].
    """
    table: dict[tuple[int, ...], int] = {}
    encoded: list[list[int]] = []
    room = NUMBERS
    for step in steps:
        touched = list(_neighbours(step.touches))
        room -= sum(len(touch) for touch in touched if touch not in table)
        numbers = [table.setdefault(touch, len(table)) for touch in touched]
        encoded.append([stores[step.store], step.lanes, step.threads, *step.values, *numbers])
        room -= len(encoded[-1])
        if room < 0:
            break
    return [list(touch) for touch in table], encoded


def _neighbours(touches: Sequence[Touch]) -> Iterator[tuple[int, ...]]:
    """The elements of each buffer that are read, and written, as runs of neighbours."""
    groups: dict[tuple[int, bool], set[int]] = {}
    for buffer, element, write in touches:
        groups.setdefault((buffer, write), set()).add(element)
    for (buffer, write), elements in groups.items():
        runs: list[int] = []
        for element in sorted(elements):
            if runs and runs[-2] + runs[-1] == element:
                runs[-1] += 1
            else:
                runs += [element, 1]
        yield (buffer, int(write), *runs)


def _buffer_state(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "dtype": buffer.dtype,
        "shape": list(buffer.shape),
        "grid": list(grid_of(buffer)),
    }


def _words(made: Record) -> list[str]:
    """The first steps in words: "i = 0, k = 0: reads A[0, 0]; writes C[0, 0]"."""
    lines = []
    for step in made.steps[:SPELLED]:
        loops = made.loops[step.store]
        at = ", ".join(f"{loop.var.name} = {v}" for loop, v in zip(loops, step.values, strict=True))
        parts = [
            f"{word} {', '.join(dict.fromkeys(_elements(made, step, write)))}"
            for word, write in (("reads", False), ("writes", True))
            if any(touch.write is write for touch in step.touches)
        ]
        lines.append(f"{at}: {'; '.join(parts)}" if at else "; ".join(parts))
    return lines


def _elements(made: Record, step: Execution, write: bool) -> Iterator[str]:
    for number, flag, *runs in _neighbours(step.touches):
        if bool(flag) is write:
            buffer = made.buffers[number]
            for first, count in zip(runs[::2], runs[1::2], strict=True):
                yield _range_text(buffer, first, first + count - 1)


def _range_text(buffer: Buffer, first: int, last: int) -> str:
    """Neighbouring elements: "C[3, 0]", "C[3, 0…7]", or from the first to the last."""
    begin, end = _index(buffer, first), _index(buffer, last)
    if begin[:-1] == end[:-1] and begin != end:
        return f"{buffer.name}[{', '.join(map(str, [*begin[:-1], f'{begin[-1]}…{end[-1]}']))}]"
    texts = [f"{buffer.name}[{', '.join(map(str, index))}]" for index in (begin, end)]
    return " … ".join(dict.fromkeys(texts))


def _index(buffer: Buffer, element: int) -> list[int]:
    index: list[int] = []
    for size in reversed(buffer.shape):
        element, at = divmod(element, size)
        index.insert(0, at)
    return index


def _order(made: Record, number: int, steps: int) -> Iterator[str]:
    """The corner of a buffer's grid as numbers: when each element is first touched."""
    buffer = made.buffers[number]
    grid = grid_of(buffer)
    first: dict[int, int] = {}
    for at, step in enumerate(made.steps[:steps]):
        for touch in step.touches:
            if touch.buffer == number:
                first.setdefault(touch.element, at)
    rows, columns = min(grid.rows, SHOWN), min(grid.columns, SHOWN)
    wide = len(str(max(first.values(), default=0)))
    for row in range(rows):
        cells = (first.get(row * grid.columns + c) for c in range(columns))
        line = " ".join(("·" if c is None else str(c)).rjust(wide) for c in cells)
        yield line + (" …" if columns < grid.columns else "")
    if rows < grid.rows:
        yield "…"
