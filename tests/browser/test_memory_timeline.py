"""Memory plans and profiles in a browser: rectangles where numbers say, rows linked to boxes."""

import pytest
from minimlc_widgets import MemoryTimeline, ProfileView

from tests.browser.looks import CONTRAST, DARK
from tests.widgets.values import memory_plan, net, timed

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]
VIEWS = {
    "memory": (lambda: MemoryTimeline(memory_plan()), (".mlc-axis", ".mlc-where", "td")),
    "profile": (lambda: ProfileView(timed("dense", "dense"), net()), (".mlc-foot span", "td")),
}


def test_rectangles_are_where_their_numbers_say(open_view):
    plan = memory_plan()
    page = open_view(MemoryTimeline(plan))
    area = page.locator("svg.mlc-memory").first.evaluate(
        "svg => { const b = svg.getBoundingClientRect(); return [b.x, b.y, svg.clientWidth, 260]; }"
    )
    boxes = page.locator("rect.mlc-life").evaluate_all(
        """rects => rects.map((rect) => {
          const { x, y, width, height } = rect.getBBox();
          return [x, y, width, height];
        })"""
    )
    byte, step = area[3] / plan.planned, area[2] / len(plan.live)
    for value, (x, y, width, height) in zip(plan.values, boxes, strict=True):
        assert x == pytest.approx(value.first * step, abs=0.5)
        assert width == pytest.approx((value.last + 1 - value.first) * step, abs=0.5)
        assert height == pytest.approx(value.bytes * byte, abs=0.5)
        assert y + height == pytest.approx(area[3] - value.offset * byte, abs=0.5)
    alive = page.locator("rect.mlc-alive").evaluate_all(
        "rects => rects.map((r) => r.getBBox().height)"
    )
    tallest = max(alive)
    assert alive == pytest.approx([tallest * live / max(plan.live) for live in plan.live], abs=0.5)


def test_values_by_keyboard_and_mouse(open_view):
    page = open_view(MemoryTimeline(memory_plan()))
    said = page.locator(".mlc-where")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert said.inner_text() == "a: float32[32], 128 bytes at 0, steps 0 to 1"
    page.keyboard.press("End")
    expected = "c: float32[48], 192 bytes at 128, steps 2 to 3, over the value of step 1"
    assert said.inner_text() == expected
    page.keyboard.press("ArrowRight")
    assert said.inner_text() == expected
    assert page.locator("rect.mlc-life.mlc-on").get_attribute("data-value") == "2"
    page.locator("rect.mlc-life").first.hover(position={"x": 5, "y": 5})
    assert said.inner_text().startswith("a: ")
    page.locator(".mlc-title").hover()
    assert said.inner_text() == expected


def test_a_row_and_its_box_are_chosen_together(open_view):
    page = open_view(ProfileView(timed("dense", "dense"), net()))
    second = page.locator(".mlc-profile tbody tr").nth(1)
    second.hover()
    box = page.locator("g.mlc-on")
    assert box.locator(".mlc-note").text_content() == "2 µs · 128 B"
    page.locator(".mlc-profile button").first.focus()
    assert box.locator(".mlc-note").text_content() == "1 µs · 64 B"
    assert page.locator("tr[data-chosen]").inner_text().startswith("dense")
    page.locator("g.mlc-group").nth(1).click()
    assert "2 µs" in page.locator("tr[data-chosen]").inner_text()


def test_the_slowest_come_first_if_asked_for(open_view):
    page = open_view(ProfileView(timed("a", "b", "c")))
    rows = page.locator(".mlc-profile tbody th")
    assert rows.all_inner_texts() == ["a", "b", "c"]
    page.get_by_label("Slowest first").check()
    assert rows.all_inner_texts() == ["c", "b", "a"]
    assert page.locator("svg").count() == 0
    page.get_by_role("button", name="b").click()
    assert page.locator("tr[data-chosen]").inner_text().startswith("b")


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 940])
def test_they_fit_and_read_well(open_view, screenshots, name, scheme, width):
    make, texts = VIEWS[name]
    page = open_view(make())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (*texts, ".mlc-title", "th"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    table = page.locator("table").first
    assert table.evaluate("table => table.scrollWidth <= table.parentNode.clientWidth")
    page.locator(".mlc-widget").screenshot(path=screenshots / f"{name}_{scheme}_{width}.png")
