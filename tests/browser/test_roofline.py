"""Roofline in a browser: dots under the roof, rows linked to them, light and dark, odd points."""

import pytest
from minimlc_widgets import Roofline

from minimlc.machine.peaks import Peaks
from tests.browser.looks import CONTRAST, DARK

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]
MACHINE = Peaks(160e9, 22e9, "a machine")


def steps() -> Roofline:
    work = (2 * 1024**3, 3 * 4 * 1024**2)
    times = {"naive": 1.2, "swapped": 0.3, "tiled": 0.22, "packed": 0.021, "final": 0.0145}
    points = {name: (*work, seconds) for name, seconds in times.items()}
    return Roofline({**points, "softmax": (5e6, 8.4e6, 0.0009)}, MACHINE)


def test_kernels_by_keyboard_and_mouse(open_view):
    page = open_view(steps())
    assert page.locator("circle.mlc-point").count() == 6
    row = page.locator(".mlc-kernels tbody tr").nth(3)
    assert row.inner_text().split("\t") == [
        "packed",
        "171",
        "102 GFLOP/s",
        "63.9\N{NO-BREAK SPACE}%",
        "multiply-adds",
    ]
    page.get_by_role("button", name="packed").focus()
    assert page.locator("circle.mlc-on").count() == 1
    assert page.locator(".mlc-point-name.mlc-on").inner_text() == "packed"
    page.keyboard.press("Tab")
    assert page.locator(".mlc-point-name.mlc-on").inner_text() == "final"
    page.locator("circle.mlc-point").nth(5).hover()
    assert page.locator("tr.mlc-linked th").inner_text() == "softmax"


def test_dots_are_where_their_numbers_say(open_view):
    page = open_view(Roofline({"on the ridge": (8e9, 1e9, 0.05)}, Peaks(160e9, 20e9)))
    dot, ridge = (
        page.locator(name).first.evaluate(
            "line => [line.getAttribute('cx') ?? line.getAttribute('x1'), "
            "line.getAttribute('cy') ?? line.getAttribute('y1')]"
        )
        for name in ("circle", ".mlc-ridge")
    )
    assert dot == ridge


def test_names_do_not_cover_each_other(open_view):
    page = open_view(steps())
    boxes = [page.locator(".mlc-point-name").nth(n).bounding_box() for n in range(6)]
    for n, a in enumerate(boxes):
        for b in boxes[:n]:
            apart_x = a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"]
            assert apart_x or abs(a["y"] - b["y"]) >= 14


ENDS = """(leader) => {
  const [at, matrix] = [leader.getPointAtLength(leader.getTotalLength()), leader.getScreenCTM()];
  return [matrix.e, matrix.f, matrix.a * at.x + matrix.e, matrix.d * at.y + matrix.f];
}"""


@pytest.mark.parametrize("width", [400, 940])
def test_a_line_leads_from_each_dot_to_its_name(open_view, width):
    crowd = {f"step {n}": (2 * 1024**3, 12 * 1024**2, 0.0145 + n / 10_000) for n in range(12)}
    page = open_view(Roofline(crowd, MACHINE))
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    area = page.locator(".mlc-roof-plot").bounding_box()
    for n in range(12):
        dot = page.locator("circle.mlc-point").nth(n).bounding_box()
        name = page.locator(f".mlc-point-name[data-point='{n}']").bounding_box()
        x, y, end_x, end_y = page.locator(".mlc-leader").nth(n).evaluate(ENDS)
        assert (x, y) == pytest.approx((dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2))
        assert end_y == pytest.approx(name["y"] + name["height"] / 2, abs=1)
        assert min(abs(end_x - name["x"]), abs(end_x - name["x"] - name["width"])) <= 1
        assert area["y"] - 10 <= end_y <= area["y"] + area["height"] + 10


def test_what_exceeds_a_roof_is_explained(open_view):
    page = open_view(Roofline({"cached": (1e9, 4e9, 0.1), "below": (1e9, 4e9, 1.0)}, MACHINE))
    assert page.locator(".mlc-kernels td:nth-child(4)").all_inner_texts() == [
        "181.8\N{NO-BREAK SPACE}%*",
        "18.2\N{NO-BREAK SPACE}%",
    ]
    (note,) = page.locator(".mlc-above").all_inner_texts()
    assert note.startswith("* cached: above the roof of memory") and "still in a cache" in note


@pytest.mark.parametrize(
    "points",
    [{"a": (1, 1e9, 100.0)}, {"a": (1e15, 1, 1e-6)}, {"a": (1, 1, 1), "b": (1e12, 1, 1e-9)}],
)
def test_odd_points_are_drawn(open_view, points):
    page = open_view(Roofline(points, MACHINE))
    drawn = page.locator(".mlc-widget").inner_html()
    assert drawn.count("<circle") == len(points)
    assert "NaN" not in drawn and "Infinity" not in drawn


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 940])
def test_it_fits_and_reads_well(open_view, screenshots, scheme, width):
    page = open_view(steps())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (".mlc-y-tick", ".mlc-flat", ".mlc-kernels td", ".mlc-foot span", ".mlc-axis-name"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    wide, fits = page.evaluate(
        "[document.querySelector('.mlc-widget').scrollWidth, document.body.clientWidth]"
    )
    assert wide <= fits
    assert page.locator(".mlc-roof-table").evaluate(
        "table => table.scrollWidth <= table.clientWidth"
    )
    page.locator(".mlc-widget").screenshot(path=screenshots / f"roofline_{scheme}_{width}.png")
