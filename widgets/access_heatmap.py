"""Hits and misses of a cache, element by element."""

from collections.abc import Sequence
from html import escape
from math import prod
from typing import Any, NamedTuple

import numpy as np
from minimlc_widgets.base import View, source
from minimlc_widgets.functions import function_of, start_of
from minimlc_widgets.grids import grid_of, runs, shape_text
from minimlc_widgets.static import table
from traitlets import Dict, Int, List, Unicode

from minimlc.loops.ir.nodes import Alloc, Buffer, For, Load, PrimFunc, Store, Var
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import walk
from minimlc.loops.values.target import Target
from minimlc.machine.cache_model import Cache, levels_of, simulate
from minimlc.machine.record import record

MOST_ACCESSES = 1 << 21
"""The longest run that is followed: a few seconds."""

REGISTERS = 2048
"""A function's own buffers up to this many bytes (32 registers of 64), all of whose indices are
constants once loops are unrolled and vectorized, are taken to be held in registers."""

SHADES = " ░▒▓█"
SMALL = 4096  # bytes: a cache that small programs overflow


class Share(NamedTuple):
    """A buffer's share: how often each element was touched, and each level missed it."""

    buffer: Buffer
    touched: np.ndarray
    missed: tuple[np.ndarray, ...]


class Run(NamedTuple):
    """One version of a program on the caches; `registers` are the buffers that need none."""

    title: str
    parts: tuple[Share, ...]
    registers: tuple[Buffer, ...]

    @property
    def accesses(self) -> int:
        return sum(int(part.touched.sum()) for part in self.parts)

    def misses(self, level: int) -> int:
        return sum(int(part.missed[level].sum()) for part in self.parts)


class AccessHeatmap(View):
    """Hits and misses of a program, or of two versions of it, in a cache that is simulated.

    `AccessHeatmap(before, after, Cache(4096))`: modules, functions or schedules; a schedule alone
    is compared with its start. `cache` is one `Cache`, several, the fastest
    first, or a target, for two of its sizes. Storage is
    placed as compiled code places it, each buffer from a line's beginning, one after the other,
    and every load and store of the program counts; what fits in registers does not. `misses` and
    `accesses` are the totals. `CompileError` for a program of more than two million accesses.
    """

    _esm = source("prelude.js", "grid.js", "access_heatmap.js")
    _css = source("base.css", "diff.css", "grid.css", "access_heatmap.css")
    versions = List(Dict()).tag(sync=True)
    levels = List(Unicode()).tag(sync=True)
    layer = Int().tag(sync=True)

    def __init__(
        self,
        before: Any,
        after: Any = None,
        cache: Cache | Sequence[Cache] | Target = Cache(SMALL, 64, 4),  # noqa: B008
        name: str | None = None,
        titles: tuple[str, str] = ("before", "after"),
    ) -> None:
        self.caches = _caches(cache)
        if after is None and (start := start_of(before)) is not None:
            before, after = start, before
        programs = [before] if after is None else [before, after]
        shown = [function_of(program, name) for program in programs]
        labels = titles if len(shown) > 1 else (shown[0][0],)
        self.runs = tuple(
            _run(title, func, self.caches) for title, (_, func) in zip(labels, shown, strict=True)
        )
        super().__init__(
            versions=[_state(run) for run in self.runs], levels=[str(c) for c in self.caches]
        )

    @property
    def accesses(self) -> tuple[int, ...]:
        """How many accesses each version makes."""
        return tuple(run.accesses for run in self.runs)

    @property
    def misses(self) -> tuple[int, ...]:
        """How many accesses of each version go to memory: every level misses them."""
        return tuple(run.misses(-1) for run in self.runs)

    def static_html(self) -> str:
        heads = ["", "accesses", *_miss_names(len(self.caches)), "miss rate"]
        parts = [f"<p>{escape(line)}</p>" for line in self._about()]
        for run in self.runs:
            parts.append(f"<p><b>{escape(run.title)}</b></p>{table(heads, _table(run))}")
            parts += [_shaded_html(part) for part in run.parts]
        return "\n".join(parts)

    def text(self) -> str:
        lines = []
        for run in self.runs:
            rows = [[run.title, "accesses", *_miss_names(len(self.caches)), ""], *_table(run)]
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            for label, *values in rows:
                cells = [value.rjust(w) for value, w in zip(values, widths[1:], strict=True)]
                lines.append("  ".join([label.ljust(widths[0]), *cells]).rstrip())
            lines.append("")
        return "\n".join([*lines, *self._about()])

    def _about(self) -> list[str]:
        names = ["cache"] if len(self.caches) == 1 else [f"L{n + 1}" for n in range(9)]
        lines = [f"{name}: {c}" for name, c in zip(names, self.caches, strict=False)]
        kept = sorted({b.name for run in self.runs for b in run.registers})
        return lines + ([f"in registers: {', '.join(kept)}"] if kept else [])


def _caches(cache: Any) -> tuple[Cache, ...]:
    if isinstance(cache, Target):
        cache = levels_of(cache)
    caches = tuple(cache) if isinstance(cache, list | tuple) else (cache,)
    if caches and all(isinstance(level, Cache) for level in caches):
        return caches
    why = f"cache= takes a Cache or several, got {cache!r}"
    raise CompileError(why, hint="AccessHeatmap(before, after, cache=Cache(4096))")


def _run(title: str, func: PrimFunc, caches: Sequence[Cache]) -> Run:
    lowered = lower(func)
    made = record(lowered, limit=MOST_ACCESSES)
    if not made.complete:
        raise CompileError(
            f"{title} makes more than {MOST_ACCESSES:,} accesses, too many to follow",
            hint="show a smaller problem with a smaller cache, for example 64 × 64 and Cache(4096)",
        )
    kept = _in_registers(lowered)
    memory = [buffer not in kept for buffer in made.buffers]
    touches = [t for step in made.steps for t in step.touches if memory[t.buffer]]
    numbers = np.array([t.buffer for t in touches], np.int64)
    elements = np.array([t.element for t in touches], np.int64)
    bases = _bases(made.buffers, memory, max(cache.line for cache in caches))
    sizes = np.array([to_numpy(buffer.dtype).itemsize for buffer in made.buffers])
    found = simulate(bases[numbers] + sizes[numbers] * elements, caches)
    parts = []
    for number, buffer in enumerate(made.buffers):
        if memory[number]:
            mine = numbers == number
            parts.append(_part(buffer, elements[mine], found[mine], len(caches)))
    return Run(title, tuple(parts), tuple(b for b in made.buffers if b in kept))


def _in_registers(func: PrimFunc) -> set[Buffer]:
    """The buffers of a lowered function that need no memory."""
    parts = list(walk(func.body))
    small = {b for b in (p.buffer for p in parts if isinstance(p, Alloc)) if _bytes(b) <= REGISTERS}
    flat = {p.var for p in parts if isinstance(p, For) and _is_flat(p)}
    for part in parts:
        if isinstance(part, Load | Store):
            names = (n for i in part.indices for n in walk(i) if isinstance(n, Var | Load))
            if not flat.issuperset(names):
                small.discard(part.buffer)
    return small


def _is_flat(loop: For) -> bool:
    """Whether the loop's variable is a constant wherever it stands in machine code."""
    return loop.kind in ("unrolled", "vectorized") or constant_value(loop.extent) == 1


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.shape) * to_numpy(buffer.dtype).itemsize


def _bases(buffers: Sequence[Buffer], counted: Sequence[bool], line: int) -> np.ndarray:
    """The address of each buffer's first element."""
    bases, at = [], 0
    for buffer, counts in zip(buffers, counted, strict=True):
        bases.append(at)
        at += -(-_bytes(buffer) // line) * line if counts else 0
    return np.array(bases, np.int64)


def _part(buffer: Buffer, elements: np.ndarray, found: np.ndarray, levels: int) -> Share:
    size = prod(buffer.shape)
    touched = np.bincount(elements, minlength=size)
    missed = (np.bincount(elements[found > n], minlength=size) for n in range(levels))
    return Share(buffer, touched, tuple(missed))


def _state(run: Run) -> dict[str, Any]:
    return {
        "title": run.title,
        "rate": _rate(run.misses(-1), run.accesses),
        "buffers": [_part_state(part) for part in run.parts],
    }


def _part_state(part: Share) -> dict[str, Any]:
    grid = grid_of(part.buffer)
    return {
        "name": part.buffer.name,
        "dtype": part.buffer.dtype,
        "shape": list(part.buffer.shape),
        "grid": list(grid),
        "rate": _rate(int(part.missed[-1].sum()), int(part.touched.sum())),
        "touched": runs(grid.sums(part.touched).ravel()),
        "missed": [runs(grid.sums(missed).ravel()) for missed in part.missed],
    }


def _miss_names(levels: int) -> list[str]:
    return ["misses"] if levels == 1 else [f"L{n + 1} misses" for n in range(levels)]


def _table(run: Run) -> list[list[str]]:
    """A row for each buffer and one for all: label, accesses, misses by level, miss rate."""
    rows = []
    for part in run.parts:
        label = f"{part.buffer.name} {part.buffer.dtype} {shape_text(part.buffer.shape)}"
        misses = [int(missed.sum()) for missed in part.missed]
        rows.append(_row(label, int(part.touched.sum()), misses))
    levels = len(run.parts[0].missed) if run.parts else 1
    total = _row("total", run.accesses, [run.misses(n) for n in range(levels)])
    return [*rows, total]


def _row(label: str, accesses: int, misses: list[int]) -> list[str]:
    return [label, f"{accesses:,}", *(f"{m:,}" for m in misses), _rate(misses[-1], accesses)]


def _rate(misses: int, accesses: int) -> str:
    return f"{100 * misses / accesses if accesses else 0:.1f} %"


def _shaded_html(part: Share) -> str:
    """Miss rates as shades of text, for where there is nothing else."""
    grid = grid_of(part.buffer)
    touched, missed = grid.sums(part.touched), grid.sums(part.missed[-1])
    rates = missed / np.maximum(touched, 1)
    lines = ["".join(SHADES[round(rate * 4)] * 2 for rate in row) for row in rates]
    label = escape(f"{part.buffer.name}: the darker, the more of an element's accesses miss")
    shades = "\n".join(f"│{line}│" for line in lines)
    return f"<details><summary>{label}</summary><pre>{shades}\n</pre></details>"
