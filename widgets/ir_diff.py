"""Before and after, side by side."""

from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.diff import compare
from minimlc_widgets.sources import Lines, script_of
from minimlc_widgets.static import diff_html, diff_text
from traitlets import Dict, List, Unicode


class IRDiff(View):
    """Two modules, functions or scripts: matching lines face each other, changed words are marked.

    Lines that differ only in indentation match; a line that goes in one place and comes in another
    is shown as moved. Pointing at a line points at its partner; long equal runs are collapsed.
    """

    _esm = source("prelude.js", "diff.js", "ir_diff.js")
    _css = source("base.css", "diff.css")
    titles = List(Unicode()).tag(sync=True)
    lines = List(List(Unicode())).tag(sync=True)
    diff = Dict().tag(sync=True)

    def __init__(
        self, before: Any, after: Any, titles: tuple[str, str] = ("before", "after")
    ) -> None:
        self.before, self.after = script_of(before), script_of(after)
        first, second = titles
        lines = Lines()
        diff = {
            "before": lines.add(self.before),
            "after": lines.add(self.after),
            "ops": [list(op) for op in compare(self.before.split("\n"), self.after.split("\n"))],
        }
        table = [list(line) for line in lines.tokens]
        super().__init__(titles=[first, second], lines=table, diff=diff)

    def static_html(self) -> str:
        return diff_html(self.before, self.after, self.titles)

    def text(self) -> str:
        return diff_text(self.before, self.after)
