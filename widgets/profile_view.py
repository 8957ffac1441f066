"""The distribution of a call's time: kernels as a table with bars, linked to the graph."""

from collections.abc import Iterator
from html import escape
from typing import Any

from minimlc_widgets.base import View, source
from minimlc_widgets.graph_view import GraphView
from minimlc_widgets.sources import Profiled
from minimlc_widgets.static import table
from traitlets import Dict, Float, List, Unicode

from minimlc.loops.values.errors import CompileError
from minimlc.services.runtime.timing import seconds_text

HEADS = ("kernel", "time", "of all", "bytes", "flops", "roofline")


class ProfileView(GraphView):
    """The kernels of a profile in the order of their calls: time, its share, bytes, operations on
    floats, and the share of the roofline. With `graph`, the library that was profiled or its
    module, its drawing stands below: a row and its box are chosen together.

    `ProfileView(lib.profile("main", x), lib)`. `CompileError` for anything but a profile, and for
    a graph with other kernels.
    """

    _esm = source("prelude.js", "graph.js", "profile_view.js")
    _css = source("base.css", "gpu.css", "graph.css", "profile_view.css")
    rows = List(Dict()).tag(sync=True)
    call = Float().tag(sync=True)
    machine = Unicode().tag(sync=True)

    def __init__(self, profile: Any, graph: Any = None, *, name: str | None = None) -> None:
        if not isinstance(profile, Profiled):
            why = f"expected a profile, got {type(profile).__name__}"
            raise CompileError(why, hint='ProfileView(lib.profile("main", x), lib)')
        self.profile = profile
        state = {
            "rows": [_row_state(kernel) for kernel in profile.kernels],
            "call": profile.call,
            "machine": profile.machine,
        }
        if graph is not None:
            super().__init__(graph, name or profile.name, profile=profile, **state)
        else:
            View.__init__(self, title=profile.name, page=self._page(), **state)

    def static_html(self) -> str:
        rows = [(k.name, f"{k.bytes:,}", _flops(k)) for k in self.profile.kernels]
        return f"<p>{escape(self._title())}</p>{table(('kernel', 'bytes', 'flops'), rows)}"

    def text(self) -> str:
        return "\n".join([self._title(), *self._lines()])

    def _title(self) -> str:
        count = len(self.profile.kernels)
        noun = "kernel" if count == 1 else "kernels"
        return f"Profile of {self.profile.name}: {count:,} {noun}"

    def _lines(self) -> Iterator[str]:
        for kernel in self.profile.kernels:
            yield f"  {kernel.name}: {kernel.bytes:,} bytes, {_flops(kernel)} flops"

    def _page(self) -> str:
        total = sum(kernel.seconds for kernel in self.profile.kernels)
        rows = [
            (
                kernel.name,
                seconds_text(kernel.seconds),
                f"{kernel.seconds / total:.1%}" if total else "",
                f"{kernel.bytes:,}",
                _flops(kernel),
                "?" if kernel.share is None else f"{kernel.share:.1%}",
            )
            for kernel in self.profile.kernels
        ]
        call = f"A call takes {seconds_text(self.profile.call)}. {self.profile.machine}"
        return f"{table(HEADS, rows)}<p>{escape(call)}</p>"


def _row_state(kernel: Any) -> dict[str, Any]:
    names = ("name", "seconds", "bytes", "flops", "share")
    return {name: getattr(kernel, name) for name in names}


def _flops(kernel: Any) -> str:
    return "?" if kernel.flops is None else f"{kernel.flops:,}"
