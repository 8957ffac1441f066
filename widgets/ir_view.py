"""A script to read: coloured, numbered, with blocks that fold."""

from collections.abc import Iterable
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.lexer import script_tokens
from minimlc_widgets.sources import script_of
from minimlc_widgets.static import script_html
from traitlets import Int, List, Unicode

from minimlc.loops.values.errors import CompileError


class IRView(View):
    """A module, a function, any node with a script, or a script itself.

    `fold` has the blocks that start folded, by number of their first line (from 1) or by a text in
    it: `IRView(mod, fold=["T.init"])`.
    """

    _esm = source("prelude.js", "ir_view.js")
    _css = source("base.css")
    title = Unicode().tag(sync=True)
    lines = List(List(Unicode())).tag(sync=True)
    folded = List(Int()).tag(sync=True)

    def __init__(self, ir: Any, title: str = "", fold: Iterable[str | int] = ()) -> None:
        self.script = script_of(ir)
        lines = self.script.split("\n")
        super().__init__(
            title=title,
            lines=[list(line) for line in script_tokens(self.script)],
            folded=sorted({number for item in fold for number in _find(item, lines)}),
        )

    def static_html(self) -> str:
        return script_html(self.script, self.title)

    def text(self) -> str:
        return self.script


def _find(item: str | int, lines: list[str]) -> list[int]:
    """The lines, counted from 0, that `item` is about."""
    if isinstance(item, int):
        found = [item - 1] if 0 < item <= len(lines) else []
    else:
        found = [number for number, line in enumerate(lines) if item in line]
    if not found:
        raise CompileError(f"fold={item!r}: the script has no such line")
    return found
