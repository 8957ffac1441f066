"""The widgets' state: all that is drawn, as small plain data; and their modules' syntax."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from minimlc_widgets import (
    AccessHeatmap,
    AsmView,
    Banks,
    GraphView,
    IRDiff,
    IRView,
    LoopNest,
    MemoryTimeline,
    Occupancy,
    PassStepper,
    ProfileView,
    Roofline,
    RunInBrowser,
    SearchProgress,
    Threads,
    TimingBars,
    Transactions,
)

import minimlc as mlc
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.module import History
from minimlc.machine.peaks import Peaks
from tests.gpusim import programs
from tests.helpers import refuses
from tests.widgets.values import (
    Timing,
    arguments,
    history,
    memory_plan,
    module,
    net,
    product,
    profile,
    schedule,
    timed,
    tuned,
)

ROOT = Path(__file__).resolve().parents[2]
VIEWS = {
    "IRView": lambda: IRView(module(), title="a module"),
    "IRDiff": lambda: IRDiff(module(), module(256)),
    "PassStepper": lambda: PassStepper(history()),
    "TimingBars": lambda: TimingBars({"a": (1.0, 2.0), "b": (0.5,)}),
    "Roofline": lambda: Roofline({"a": (1e9, 1e6, 0.1), "b": (1e6, 1e6, 0.1)}, Peaks(1e11, 1e10)),
    "AsmView": lambda: AsmView(product(8)),
    "LoopNest": lambda: LoopNest(product(4)),
    "AccessHeatmap": lambda: AccessHeatmap(product(8).reorder("i", "k", "j")),
    "Threads": lambda: Threads(programs.transpose(32, row=33)),
    "Transactions": lambda: Transactions(profile(programs.transpose(32))),
    "Banks": lambda: Banks(profile(programs.transpose(32, row=32))),
    "Occupancy": lambda: Occupancy(profile(programs.transpose(32, row=32))),
    "GraphView": lambda: GraphView(net(), profile=timed("dense", "dense"), open=True),
    "MemoryTimeline": lambda: MemoryTimeline(memory_plan()),
    "ProfileView": lambda: ProfileView(timed("dense", "dense"), net()),
    "RunInBrowser": lambda: RunInBrowser(programs.copy("b * 128 + t"), "main", *arguments(2, 1024)),
    "SearchProgress": lambda: SearchProgress(tuned(), library={"numpy": 0.001}),
}


def state_of(view) -> dict:
    """The state that is sent to the page, less what ipywidgets adds."""
    return {name: value for name, value in view.get_state().items() if name != "layout"}


@pytest.mark.parametrize("name", VIEWS)
def test_state_is_plain_data_and_the_same_again(name):
    first, second = (json.dumps(state_of(VIEWS[name]()), allow_nan=False) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_itself_without_an_address(name):
    view = VIEWS[name]()
    assert "0x" not in repr(view)
    assert view._repr_mimebundle_()["text/plain"] == repr(view)


@pytest.mark.parametrize("name", VIEWS)
def test_the_static_form_has_no_script_style_or_id(name):
    view = VIEWS[name]()
    html = view.static_html() + view.page
    assert not re.search(r"<script|<style|\sid=|\sstyle=| at 0x", html)


def test_what_is_stored_does_not_depend_on_the_hash_seed():
    program = (
        "import json; from tests.widgets.test_views import VIEWS, state_of\n"
        "for make in VIEWS.values():\n"
        "    v = make(); print(json.dumps([v.static_html(), v.text(), state_of(v)]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and len(outputs.pop().splitlines()) == len(VIEWS)


@pytest.mark.parametrize("name", VIEWS)
def test_the_module_is_self_contained(name):
    source = state_of(VIEWS[name]())["_esm"]
    assert "export default" in source and source.count("export") == 1
    assert "import " not in source and "http" not in source.replace("http://www.w3.org/2000", "")
    assert "innerHTML" not in source


@pytest.mark.parametrize("name", VIEWS)
def test_the_module_is_javascript(name, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here; the tests in a browser run the modules")
    path = tmp_path / "view.mjs"
    path.write_text(state_of(VIEWS[name]())["_esm"], "utf-8")
    done = subprocess.run([node, "--check", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_lines_of_a_view_join_to_the_script():
    view = IRView(module())
    assert "\n".join("".join(line[1::2]) for line in view.lines) == module().script()


def test_fold_by_text_and_by_number():
    lines = module().script().splitlines()
    init = next(n for n, line in enumerate(lines) if "T.init" in line)
    assert IRView(module(), fold=["T.init", 2]).folded == [1, init]
    with pytest.raises(CompileError, match="no such line"):
        IRView(module(), fold=["T.nothing"])
    with pytest.raises(CompileError, match="no such line"):
        IRView(module(), fold=[0])


@pytest.mark.parametrize("wrong", [3, "mod", None])
def test_what_has_no_steps_is_refused(wrong):
    refuses("", lambda: PassStepper(wrong), "steps are a history", "observe=history")


def test_the_stepper_tells_changes_from_none():
    view = PassStepper(history())
    assert [step["changed"] for step in view.steps] == [False, True, False, True]
    assert view.step == 1
    assert view.steps[1]["seconds"] == 0.0123
    assert (view.steps[1]["come"], view.steps[1]["go"]) == (2, 2)


def test_the_stepper_takes_histories_schedules_and_pairs():
    pairs = PassStepper([("start", module()), ("same", module()), ("wide", module(256), 0.5)])
    assert [step["name"] for step in pairs.steps] == ["start", "same", "wide"]
    assert [step["changed"] for step in pairs.steps] == [False, False, True]
    names = [step.name for step in schedule().history.steps]
    assert [step["name"] for step in PassStepper(schedule()).steps] == names
    assert PassStepper([("only", module())]).step == 0
    assert PassStepper([]).step == 0


def test_the_stepper_counts_operators_of_graph_functions():
    steps = History()
    mlc.run_passes(net(), [mlc.passes.legalize, mlc.passes.fuse_ops], observe=steps)
    start, legalized, fused = (step["operators"] for step in PassStepper(steps).steps)
    once = ("add", "matmul", "relu", "softmax")
    assert start == sorted([["call", 2, 2], *([name, 1, 1] for name in once)])
    gone = [[name, 1, 0] for name in once]
    assert legalized == sorted([["call", 2, 2], ["call_tir", 0, 4], *gone])
    assert fused == [["call", 2, 3], ["call_tir", 4, 4]]
    assert all(step["operators"] == [] for step in PassStepper(history()).steps)


def test_thirty_steps_of_a_hundred_lines_stay_small():
    lines = [f"{'    ' * (n % 8)}for i{n} in T.grid({n}, {n + 1}):" for n in range(100)]
    versions = []
    for step in range(30):
        lines = [*lines[:step], f"B{step}[i, j] = A[i, j] * T.float32({step})", *lines[step:]]
        versions.append((f"step {step}", "\n".join(lines), 0.001))
    state = json.dumps(state_of(PassStepper(versions)))
    assert len(state) < 100_000


def test_timing_statistics():
    bars = TimingBars([("slow", (3.0, 1.0, 2.0)), ("fast", (0.25, 0.25, 4.0, 0.75))])
    assert [timing["median"] for timing in bars.timings] == [2.0, 0.5]
    assert [timing["spread"] for timing in bars.timings] == [0.5, 2.625]
    assert bars.timings[0]["samples"] == [3.0, 1.0, 2.0]
    assert bars.baseline == "slow"
    assert bars.speedups() == {"slow": 1.0, "fast": 4.0}
    assert not bars.logarithmic
    assert TimingBars({"a": [1.0], "b": [0.01]}).logarithmic


def test_timings_of_every_form():
    assert TimingBars(Timing()).baseline == ""
    assert TimingBars(Timing()).speedups() == {}
    assert TimingBars([Timing()]).timings[0]["machine"] == "a machine"
    assert TimingBars({"mine": Timing()}).timings[0]["name"] == "mine"
    assert TimingBars({"a": [2.0], "b": [1.0]}, baseline="b").speedups() == {"a": 0.5, "b": 1.0}


def test_a_page_has_the_times_as_a_table():
    view = TimingBars([("naive <1>", (0.004, 0.002, 0.003)), Timing()], baseline="mm")
    row = "<td>3 ms</td><td>0.7×</td><td>2 ms</td><td>4 ms</td><td>33 %</td><td>3</td>"
    assert f"<th>naive &lt;1&gt;</th>{row}" in view.static_html()
    assert "<th>mm</th><td>2.1 ms</td>" in view.static_html() and "a machine" in view.static_html()
    assert "mm: median 2.1 ms" in view.text() and not view.page
    assert "×" not in TimingBars(Timing()).static_html()
    assert TimingBars({"a": [0.0]}).static_html()


def test_the_axis_ends_where_most_samples_do():
    for times, end in (
        ((1.0,), 1.0),
        ((1.0, 1.1, 1.2, 1.4), 1.4),  # far from the median, but nothing is flattened
        ((1.0, 1.0, 1.0, 1.0, 40.0), 1.5),
        ((1.0, 40.0), 40.0),  # which of the two is the outlier?
        ((0.0, 0.0), 0.0),
    ):
        assert TimingBars({"a": times}).end == end
    both = TimingBars({"slow": (10.0, 10.0, 10.0), "fast": (1.0, 1.0, 9.0)})
    assert both.end == 10.0, "an outlier within the axis is a dot like others"


def test_timings_refused():
    with pytest.raises(CompileError, match='no timing is called "nump"'):
        TimingBars({"numpy": [1.0]}, baseline="nump")
    with pytest.raises(CompileError, match="no timing to show"):
        TimingBars([])
    with pytest.raises(CompileError, match="no samples"):
        TimingBars({"a": ()})
