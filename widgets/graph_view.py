"""A graph function as a drawing: operators in layers, groups that open, time where it is known."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.graphs import Drawing, Drawn, graph_of
from minimlc_widgets.sources import Profiled
from minimlc_widgets.static import table
from traitlets import Dict, Int, List, Unicode

from minimlc.loops.values.errors import CompileError
from minimlc.services.runtime.timing import seconds_text

MOST_ROWS = 200
"""Nodes, at the most, in the forms without scripts."""
HEADS = ("value", "type", "operator", "reads")


class GraphView(View):
    """The dataflow of a graph function: boxes for operators, above the ones that read
    them. Groups open: calls of graph functions (fused operators), and dataflow blocks.

    `GraphView(mod)`, or a library or a function; `name` is the function's, `open` has the groups
    that are open: their names, or True for all. `profile`, of `lib.profile(name, ...)`, gives each
    kernel's time and bytes; the graph is then `lib`, or the module before fused operators became
    kernels. `CompileError` for no such graph function or group, and for other kernels.
    """

    _esm = source("prelude.js", "graph.js", "graph_view.js")
    _css = source("base.css", "graph.css")
    title = Unicode().tag(sync=True)
    nodes = List(Dict()).tag(sync=True)
    scopes = List(Dict()).tag(sync=True)
    opened = List(Int()).tag(sync=True)
    chosen = Int(-1).tag(sync=True)

    def __init__(
        self,
        graph: Any,
        name: str | None = None,
        *,
        profile: Any = None,
        open: bool | Iterable[str] = (),
        **state: Any,
    ) -> None:
        mod, self.name = graph_of(graph, name)
        self.drawing = Drawing(mod, self.name)
        self.times = {} if profile is None else _times(self.drawing, profile)
        calls = sum(node.kind in ("operator", "kernel") for node in self.drawing.nodes)
        noun = "operator" if calls == 1 else "operators"
        super().__init__(
            title=f"{self.name}: {calls:,} {noun}",
            nodes=[self._state(number) for number in range(len(self.drawing.nodes))],
            scopes=[
                {"nodes": ids, "layers": layout.layers, "pieces": list(map(list, layout.pieces))}
                for ids, layout in self.drawing.layouts()
            ],
            opened=_opened(self.drawing.nodes, open),
            page=self._page() if self.times else "",
            **state,
        )

    def static_html(self) -> str:
        rows = [_row(node) for node in self._listed()]
        return f"<p>{escape(self.title)}</p>{table(HEADS, rows)}{self._rest('<p>', '</p>')}"

    def text(self) -> str:
        parents, nodes = self.drawing.parents, self.drawing.nodes
        depths = [0]
        for parent in parents[1:]:
            depths.append(depths[nodes[parent].scope] + 1)
        lines = [f"{'  ' * (depths[node.scope] + 1)}{node.text}" for node in self._listed()]
        return "\n".join([self.title, *lines]) + self._rest("\n  ", "")

    def _listed(self) -> Sequence[Drawn]:
        return [node for node in self.drawing.nodes if node.kind != "entry"][:MOST_ROWS]

    def _rest(self, before: str, after: str) -> str:
        left = sum(node.kind != "entry" for node in self.drawing.nodes) - MOST_ROWS
        return f"{before}… and {left:,} more{after}" if left > 0 else ""

    def _state(self, number: int) -> dict[str, Any]:
        node = self.drawing.nodes[number]
        state = {"name": node.name, "kind": node.kind, "text": node.text, "scope": node.scope}
        if node.inside >= 0:
            state["inside"] = node.inside
        if number in self.times:
            kernel = self.times[number]
            state |= {"seconds": kernel.seconds, "bytes": kernel.bytes}
        return state

    def _page(self) -> str:
        nodes = self.drawing.nodes
        rows = [
            (nodes[n].name, nodes[n].value, seconds_text(k.seconds), f"{k.bytes:,}")
            for n, k in self.times.items()
        ]
        return table(("kernel", "value", "time", "bytes"), rows)


def _row(node: Drawn) -> Sequence[str]:
    name = "" if node.kind == "result" else node.name
    return (node.value, node.type, name, ", ".join((*node.reads, *filter(None, [node.options]))))


def _times(drawing: Drawing, profile: Any) -> dict[int, Any]:
    """A profile's kernels by the number of their node: the same calls in the same order."""
    if not isinstance(profile, Profiled):
        raise CompileError(
            f"profile= takes a profile, got {type(profile).__name__}",
            hint="lib.profile(name, ...)",
        )
    numbers = drawing.kernels()
    calls = [drawing.nodes[number].name for number in numbers]
    ran = [kernel.name for kernel in profile.kernels]
    if calls != ran:
        why = f'the profile\'s kernels are not those of "{drawing.name}"'
        hint = "show the library that was profiled: GraphView(lib, profile=lib.profile(name, ...))"
        raise CompileError(why, hint=hint)
    return dict(zip(numbers, profile.kernels, strict=True))


def _opened(nodes: Sequence[Drawn], wanted: bool | Iterable[str]) -> list[int]:
    groups = [number for number, node in enumerate(nodes) if node.kind == "group"]
    if isinstance(wanted, bool):
        return groups if wanted else []
    names = {wanted} if isinstance(wanted, str) else set(wanted)
    for name in sorted(names - {nodes[number].name for number in groups}):
        raise CompileError(f'no group is called "{name}"')
    return [number for number in groups if nodes[number].name in names]
