"""The arena of a graph function: which values are in it, when, and where."""

from collections.abc import Sequence
from html import escape
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.sources import Planned
from minimlc_widgets.static import table
from traitlets import Dict, Int, List, Unicode

from minimlc.loops.values.errors import CompileError

HEADS = ("value", "type", "bytes", "steps", "offset", "over")
SUMMARY = ("arena", "bytes", "of the least")
MOST_ROWS = 200
"""Values, at the most, in the forms without scripts."""


class MemoryTimeline(View):
    """Each value of a memory plan as a rectangle: the steps that it lives for, by the bytes of the
    arena that it occupies. Above, the plan beside one with a place for every value and beside what
    is alive at once; below, what is alive at each step.

    `MemoryTimeline(lib.plan("main"))`. A value that another is written over, in place, is followed
    by it at the same bytes. `CompileError` for anything but a memory plan.
    """

    _esm = source("prelude.js", "memory_timeline.js")
    _css = source("base.css", "gpu.css", "memory_timeline.css")
    title = Unicode().tag(sync=True)
    values = List(Dict()).tag(sync=True)
    live = List(Int()).tag(sync=True)
    sizes = List(List()).tag(sync=True)
    chosen = Int(-1).tag(sync=True)

    def __init__(self, plan: Any) -> None:
        if not isinstance(plan, Planned):
            why = f"expected a memory plan, got {type(plan).__name__}"
            raise CompileError(why, hint='MemoryTimeline(lib.plan("main"))')
        self.plan = plan
        values, steps = len(plan.values), len(plan.live)
        super().__init__(
            title=f"{plan.name}: {_count(values, 'value')} in {_count(steps, 'step')}",
            values=[
                {
                    "name": value.name,
                    "text": f"{value.name}: {_type_text(value)}",
                    "bytes": value.bytes,
                    "first": value.first,
                    "last": value.last,
                    "offset": value.offset,
                    "over": value.over,
                }
                for value in plan.values
            ],
            live=list(plan.live),
            sizes=self._sizes(),
        )

    def static_html(self) -> str:
        sizes = table(SUMMARY, [(name, f"{size:,}", _ratio(of)) for name, size, of in self.sizes])
        values = table(HEADS, map(_row, self._listed()))
        return f"<p>{escape(self.title)}</p>{sizes}{values}{self._rest()}"

    def text(self) -> str:
        sizes = [f"  {name}: {size:,} bytes" for name, size, _ in self.sizes]
        lines = [
            f"  {v.name}: {_type_text(v)}, {v.bytes:,} bytes at {v.offset:,}, {_steps_text(v)}"
            for v in self._listed()
        ]
        left = len(self.plan.values) - MOST_ROWS
        return "\n".join([self.title, *sizes, *lines, *([f"  … and {left:,} more"] * (left > 0))])

    def _sizes(self) -> list[list[Any]]:
        """The size of the plan, the one without sharing, and the least: each over the least."""
        least = max(self.plan.live, default=0)
        naive = sum(value.bytes for value in self.plan.values)
        sizes = (
            ("planned", self.plan.planned),
            ("a place for each", naive),
            ("alive at once", least),
        )
        return [[name, size, size / least if least else 1.0] for name, size in sizes]

    def _listed(self) -> Sequence[Any]:
        return self.plan.values[:MOST_ROWS]

    def _rest(self) -> str:
        left = len(self.plan.values) - MOST_ROWS
        return f"<p>… and {left:,} more</p>" if left > 0 else ""


def _row(value: Any) -> Sequence[str]:
    over = "" if value.over is None else f"step {value.over}'s value"
    steps = f"{value.first} to {value.last}"
    return (value.name, _type_text(value), f"{value.bytes:,}", steps, f"{value.offset:,}", over)


def _type_text(value: Any) -> str:
    return f"{value.type.dtype}{list(value.type.shape)}"


def _steps_text(value: Any) -> str:
    return f"steps {value.first} to {value.last}"


def _ratio(of: float) -> str:
    return f"{of:.2f}×"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
