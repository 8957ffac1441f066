"""Graphs in a browser: boxes apart, edges down, groups by mouse and keyboard, only what is seen."""

from itertools import combinations

import pytest
from minimlc_widgets import GraphView

from tests.browser.looks import CONTRAST, DARK
from tests.deploy.graphs import graph, op
from tests.widgets.values import net, timed

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]
BOXES = """nodes => nodes.map((node) => {
  const [own, { x, y, width, height }] = [node.dataset.node, node.getBoundingClientRect()];
  return [Number(own), x, y, x + width, y + height];
})"""


def boxes(page) -> dict[int, tuple[float, ...]]:
    found = page.locator("g.mlc-node > rect:first-child").evaluate_all(
        BOXES.replace("node.dataset", "node.parentNode.dataset")
    )
    return {int(own): tuple(box) for own, *box in found}


def chain(length: int):
    def make(x, emit):
        known = [x]
        for n in range(length - 1):
            known.append(emit(op.add(known[-1], known[-1 - (7 * n) % min(40, len(known))])))
        return op.nn.relu(known[-1])

    return GraphView(graph((4, 4), make))


@pytest.mark.parametrize("open", [False, True])
def test_boxes_do_not_meet_and_readers_are_below(open_view, open):
    view = GraphView(net(), open=open)
    page = open_view(view)
    places = boxes(page)
    nodes = view.drawing.nodes
    assert len(places) == (len(nodes) if open else sum(node.scope == 0 for node in nodes))
    for (m, a), (n, b) in combinations(places.items(), 2):
        if nodes[m].scope == nodes[n].scope:
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    for scope, edges in enumerate(view.drawing.edges):
        for source, target in edges if open or not scope else []:
            assert places[source][3] < places[target][1]
    for number, node in enumerate(nodes):
        if number in places and node.scope:
            outer = places[view.drawing.parents[node.scope]]
            inner = places[number]
            assert outer[0] < inner[0] and outer[1] < inner[1]
            assert inner[2] < outer[2] and inner[3] < outer[3]


def test_by_keyboard(open_view):
    page = open_view(GraphView(net()))
    said, stage = page.locator(".mlc-where"), page.locator(".mlc-graph-pane")
    assert stage.get_attribute("data-lm-suppress-shortcuts") == "true"
    page.get_by_role("button", name="Smaller").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert stage.evaluate("stage => stage === document.activeElement")
    page.keyboard.press("Home")
    assert said.inner_text() == "x: float32[2, 4]"
    page.keyboard.press("ArrowRight")
    assert said.inner_text() == "w: float32[4, 4]"
    page.keyboard.press("ArrowDown")
    assert said.inner_text() == "a: float32[2, 4] = dense(x, w)"
    page.keyboard.press("Enter")
    assert page.locator("g.mlc-open").count() == 1
    assert said.inner_text() == "x: float32[2, 4]"
    page.keyboard.press("ArrowDown")
    assert said.inner_text() == "lv: float32[2, 4] = matmul(x, w)"
    page.keyboard.press("Escape")
    assert said.inner_text() == "a: float32[2, 4] = dense(x, w)"
    page.keyboard.press("Enter")
    assert page.locator("g.mlc-open").count() == 0
    page.keyboard.press("ArrowDown")
    assert said.inner_text() == "b: float32[2, 4] = softmax(a, axis=-1)"
    page.keyboard.press("End")
    assert said.inner_text() == "result: float32[2, 4], float32[2, 4]"


def test_by_mouse(open_view):
    page = open_view(GraphView(net()))
    page.locator("g.mlc-operator", has_text="softmax").hover()
    assert "softmax(a" in page.locator(".mlc-where").inner_text()
    assert page.locator("path.mlc-on").get_attribute("d").count("M") == 2
    page.locator("g.mlc-group").first.click()
    assert page.locator("g.mlc-open").count() == 1
    page.get_by_role("button", name="Open all").click()
    assert page.locator("g.mlc-open").count() == 2
    page.get_by_role("button", name="Close all").click()
    assert page.locator("g.mlc-open").count() == 0
    wide = page.locator("svg.mlc-graph").bounding_box()["width"]
    page.get_by_role("button", name="Smaller").click()
    assert page.locator("svg.mlc-graph").bounding_box()["width"] < wide


def test_times_are_shown_and_add_up(open_view):
    page = open_view(GraphView(net(), profile=timed("dense", "dense")))
    notes = page.locator(".mlc-note").all_text_contents()
    assert notes == ["1 µs · 64 B", "2 µs · 128 B"]
    shares = page.locator(".mlc-heat").evaluate_all(
        """bars => bars.map((bar) => {
          const box = bar.parentNode.querySelector("rect");
          return bar.getAttribute("width") / (box.getAttribute("width") - 2);
        })"""
    )
    assert shares == pytest.approx([0.5, 1.0], rel=0.01)


def test_what_is_not_seen_is_not_drawn(open_view):
    page = open_view(chain(2000))
    stage = page.locator(".mlc-graph-pane")
    assert 3 <= page.locator("g.mlc-node").count() <= 60
    stage.focus()
    page.keyboard.press("End")
    assert "result" in page.locator("g.mlc-on text").text_content()
    assert 3 <= page.locator("g.mlc-node").count() <= 60
    for _ in range(5):
        page.keyboard.press("Tab")
        smaller = page.get_by_role("button", name="Smaller")
        if smaller.is_enabled():
            smaller.click()
    assert page.locator("svg.mlc-graph *").count() <= 4000


def test_an_undone_view_lets_go_of_its_model(open_view):
    page = open_view(GraphView(net()))
    page.evaluate("undo()")
    page.evaluate("model.set('opened', [2])")
    assert page.locator("g.mlc-open").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 940])
def test_it_fits_and_reads_well(open_view, screenshots, scheme, width):
    page = open_view(GraphView(net(), profile=timed("dense", "dense"), open=True))
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (".mlc-title", ".mlc-where", ".mlc-head .mlc-button"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".mlc-widget").screenshot(path=screenshots / f"graph_{scheme}_{width}.png")
