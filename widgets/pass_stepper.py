"""A slider through every version of a module."""

from collections.abc import Iterable
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.diff import compare, counts
from minimlc_widgets.sources import Lines, Shown, steps_of
from minimlc_widgets.static import steps_html, steps_text
from traitlets import Bool, Dict, Int, List, Unicode


class PassStepper(View):
    """The steps of a history, of a schedule, or of (name, module[, seconds]) in order.

    Each step shows what it changes, before and after, and of graph functions how often they call
    each operator; the first is the start. `step` counts from
    0, `query` is a text to look for, `hide_unchanged` leaves out steps that change nothing.
    """

    _esm = source("prelude.js", "diff.js", "pass_stepper.js")
    _css = source("base.css", "diff.css", "pass_stepper.css")
    lines = List(List(Unicode())).tag(sync=True)
    steps = List(Dict()).tag(sync=True)
    step = Int().tag(sync=True)
    query = Unicode().tag(sync=True)
    hide_unchanged = Bool().tag(sync=True)

    def __init__(self, history: Any, step: int = 1, hide_unchanged: bool = False) -> None:
        self.shown = steps_of(history)
        lines = Lines()
        steps = list(_states(self.shown, lines))
        super().__init__(
            lines=[list(line) for line in lines.tokens],
            steps=steps,
            step=max(0, min(step, len(steps) - 1)),
            hide_unchanged=hide_unchanged,
        )

    def static_html(self) -> str:
        return steps_html(self.shown)

    def text(self) -> str:
        return steps_text(self.shown)


def _states(steps: tuple[Shown, ...], lines: Lines) -> Iterable[dict[str, Any]]:
    """The steps as plain data; the start changes nothing and has no operations."""
    before = steps[0].script if steps else ""
    known = steps[0].operators if steps else {}
    for name, script, seconds, operators in steps:
        changed = script != before
        ops = compare(before.split("\n"), script.split("\n")) if changed else []
        come, go = counts(ops)
        yield {
            "name": name,
            "seconds": seconds,
            "lines": lines.add(script),
            "ops": [list(op) for op in ops],
            "changed": changed,
            "come": come,
            "go": go,
            "operators": [
                [op, known.get(op, 0), operators.get(op, 0)] for op in sorted({*known, *operators})
            ],
        }
        before, known = script, operators
