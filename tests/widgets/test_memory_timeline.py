"""Memory plans and profiles as views: their numbers, their forms, and how values reach them."""

import numpy as np
import pytest
from minimlc_widgets import GraphView, MemoryTimeline, ProfileView, bundle, mimebundle

import minimlc as mlc
from minimlc.deploy.memory import MemoryPlan, PlannedValue
from minimlc.graphs.ir.nodes import TensorType
from minimlc.loops.values.errors import CompileError
from tests.deploy.graphs import mlp
from tests.widgets.values import memory_plan, net, timed

VIEW = "application/vnd.jupyter.widget-view+json"


def test_the_numbers_are_the_plan_s_and_beside_them_others():
    view = MemoryTimeline(memory_plan())
    assert view.sizes == [
        ["planned", 384, 384 / 320],
        ["a place for each", 448, 448 / 320],
        ["alive at once", 320, 1.0],
    ]
    assert [(v["name"], v["first"], v["last"], v["offset"]) for v in view.values] == [
        ("a", 0, 1, 0),
        ("b", 1, 2, 128),
        ("c", 2, 3, 128),
    ]
    assert view.values[2]["over"] == 1 and view.live == [128, 256, 320, 192]


def test_the_text():
    assert MemoryTimeline(memory_plan()).text().splitlines() == [
        "main: 3 values in 4 steps",
        "  planned: 384 bytes",
        "  a place for each: 448 bytes",
        "  alive at once: 320 bytes",
        "  a: float32[32], 128 bytes at 0, steps 0 to 1",
        "  b: float32[32], 128 bytes at 128, steps 1 to 2",
        "  c: float32[48], 192 bytes at 128, steps 2 to 3",
    ]


def test_a_library_s_plan():
    plan = mlc.build(mlp()).plan("main")
    view = MemoryTimeline(plan)
    assert [size for _, size, _ in view.sizes] == [plan.planned, plan.naive, plan.least]
    assert view.text() == mimebundle(plan)["text/plain"] == plan._repr_mimebundle_()["text/plain"]
    assert VIEW in mimebundle(plan)


def test_an_empty_plan_and_a_long_one():
    assert MemoryTimeline(MemoryPlan("main", (), 0, ())).sizes[0] == ["planned", 0, 1.0]
    kind = TensorType((16,), "float32")
    values = tuple(
        PlannedValue(f"v{n}", kind, 64, n, n + 1, 64 * (n % 2), None) for n in range(300)
    )
    view = MemoryTimeline(MemoryPlan("main", values, 128, (64, *[128] * 299, 64)))
    assert view.text().endswith("… and 100 more") and "… and 100 more" in view.static_html()
    assert view.static_html().count("<tr>") == 4 + 201


def test_a_profile_s_view_tells_times_in_its_page_only():
    profile = timed("dense", "dense")
    view = ProfileView(profile, net())
    assert view.text() == (
        "Profile of main: 2 kernels\n  dense: 64 bytes, ? flops\n  dense: 128 bytes, 8 flops"
    )
    assert "<td>2 µs</td><td>66.7%</td><td>128</td><td>8</td><td>25.0%</td>" in view.page
    assert "A call takes 10 µs. a machine" in view.page
    assert "µs" not in view.static_html() + view.text()
    assert [row["seconds"] for row in view.rows] == [1e-6, 2e-6]
    assert [node["seconds"] for node in view.nodes if "seconds" in node] == [1e-6, 2e-6]


def test_a_profile_shows_itself_without_a_graph():
    profile = mlc.build(mlp()).profile("main", np.ones((3, 6), np.float32))
    data = profile._repr_mimebundle_()
    assert VIEW in data and data["text/plain"] == ProfileView(profile).text()
    assert ProfileView(profile).nodes == []


def test_without_jupyter_plans_and_profiles_are_their_tables(monkeypatch):
    monkeypatch.setattr(bundle, "VIEWS", {})
    for value in (memory_plan(), timed("a", "b")):
        data = mimebundle(value)
        assert data == {"text/html": value._repr_html_(), "text/plain": repr(value)}


def test_markup_in_names_is_text():
    values = tuple(value._replace(name="<b>") for value in memory_plan().values)
    named = mlc.IRModule({"<i>": net()["dense"]})
    views = (
        MemoryTimeline(MemoryPlan("<i>", values, 384, (128, 256, 320, 192))),
        ProfileView(timed("<b>")),
        GraphView(named),
    )
    for view in views:
        html = view.static_html() + view.page
        assert "&lt;" in html and "<b>" not in html and "<i>" not in html


def test_refused():
    with pytest.raises(CompileError, match="expected a memory plan, got IRModule"):
        MemoryTimeline(net())
    with pytest.raises(CompileError, match="expected a profile, got int"):
        ProfileView(3)
    with pytest.raises(CompileError, match="kernels are not those"):
        ProfileView(timed("dense"), net())
