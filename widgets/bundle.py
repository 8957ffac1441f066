"""The display of a value in a notebook."""

from collections.abc import Callable
from typing import Any

from minimlc_widgets import static
from minimlc_widgets.sources import (
    Planned,
    Profiled,
    Scheduled,
    Searched,
    Timed,
    script_of,
    steps_of,
    timings_of,
)

from minimlc.loops.values.module import History

VIEWS: dict[str, Callable[[Any], Any]] = {}
try:
    from minimlc_widgets.access_heatmap import AccessHeatmap, Cache
    from minimlc_widgets.asm_view import TARGETS, AsmView, machine_code
    from minimlc_widgets.graph_view import GraphView
    from minimlc_widgets.ir_diff import IRDiff
    from minimlc_widgets.ir_view import IRView
    from minimlc_widgets.loop_nest import LoopNest
    from minimlc_widgets.memory_timeline import MemoryTimeline
    from minimlc_widgets.occupancy import Occupancy
    from minimlc_widgets.pass_stepper import PassStepper
    from minimlc_widgets.profile_view import ProfileView
    from minimlc_widgets.roofline import Roofline
    from minimlc_widgets.run_in_browser import RunInBrowser
    from minimlc_widgets.search_progress import SearchProgress
    from minimlc_widgets.threads import Threads
    from minimlc_widgets.timing_bars import TimingBars
    from minimlc_widgets.warps import Banks, Transactions
except ModuleNotFoundError as missing:  # without Jupyter's widgets, HTML and text remain
    if str(missing.name).partition(".")[0] not in ("anywidget", "ipywidgets", "traitlets"):
        raise
else:
    VIEWS = {
        "steps": PassStepper,
        "timings": TimingBars,
        "script": IRView,
        "plan": MemoryTimeline,
        "profile": ProfileView,
        "search": SearchProgress,
    }
    __all__ = [
        "TARGETS",
        "AccessHeatmap",
        "AsmView",
        "Banks",
        "Cache",
        "GraphView",
        "IRDiff",
        "IRView",
        "LoopNest",
        "MemoryTimeline",
        "Occupancy",
        "PassStepper",
        "ProfileView",
        "Roofline",
        "RunInBrowser",
        "SearchProgress",
        "Threads",
        "TimingBars",
        "Transactions",
        "machine_code",
        "mimebundle",
    ]


def mimebundle(value: Any) -> dict[str, Any]:
    """`value` for a notebook, by MIME type: a live widget where one can be made, HTML and text.

    Takes a module, a function or any other node, a history, a schedule, a timing, a memory plan, a
    profile or the outcome of a search.
    """
    kind = _kind(value)
    if kind == "script" and "\n" not in script_of(value):  # an expression needs no panel
        return _static(kind, value)
    return VIEWS[kind](value).bundle() if VIEWS else _static(kind, value)


def _kind(value: Any) -> str:
    if isinstance(value, History | Scheduled):
        return "steps"
    if isinstance(value, Searched):
        return "search"
    if isinstance(value, Planned | Profiled):
        return "plan" if isinstance(value, Planned) else "profile"
    return "timings" if isinstance(value, Timed) else "script"


def _static(kind: str, value: Any) -> dict[str, Any]:
    if kind == "steps":
        steps = steps_of(value)
        return {"text/html": static.steps_html(steps), "text/plain": static.steps_text(steps)}
    if kind == "timings":
        timings = timings_of(value)
        html = static.timings_html(timings, {})
        return {"text/html": html, "text/plain": static.timings_text(timings)}
    if kind in ("plan", "profile"):
        return {"text/html": value._repr_html_(), "text/plain": repr(value)}
    if kind == "search":
        name = value.records[0].candidate.func
        return {"text/html": static.search_html(name), "text/plain": static.search_text(name)}
    script = script_of(value)
    return {"text/html": static.script_html(script), "text/plain": script}
