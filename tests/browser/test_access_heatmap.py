"""AccessHeatmap in a browser: its cells, what they show, by keyboard, light and dark."""

import pytest
from minimlc_widgets import AccessHeatmap, Cache

from tests.browser.looks import CONTRAST, DARK
from tests.widgets.values import product

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]

PAINTED = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  return data.filter((_, n) => n % 4 === 3).reduce((count, alpha) => count + (alpha > 0), 0);
}"""


def heatmap() -> AccessHeatmap:
    return AccessHeatmap(product(32).reorder("i", "k", "j"), cache=Cache(2048, 64, 4))


def test_cells_are_painted_where_there_are_misses(open_view):
    page = open_view(heatmap())
    canvases = page.locator("canvas")
    painted = [canvases.nth(n).evaluate(PAINTED) for n in range(canvases.count())]
    assert painted == [64, 1024, 64, 64, 64, 64]
    page.get_by_label("hits", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('layer')") == 2
    assert [canvases.nth(n).evaluate(PAINTED) for n in range(6)] == [1024] * 6
    page.evaluate("model.set('layer', 1)")
    assert page.get_by_label("hits", exact=True).is_checked()
    assert canvases.nth(1).evaluate(PAINTED) == 0


def test_elements_are_read_by_keyboard_and_mouse(open_view):
    page = open_view(heatmap())
    said, board = page.locator(".mlc-said"), page.locator(".mlc-board").nth(1)
    assert "arrow keys" in said.inner_text()
    page.locator("input[type=radio]").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert said.inner_text() == "B[0, 0]: 32 accesses, 32 missed"
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    assert said.inner_text() == "B[0, 2]: 32 accesses, 32 missed"
    page.keyboard.press("End")
    assert said.inner_text() == "B[31, 31]: 32 accesses, 32 missed"
    assert board.get_attribute("data-lm-suppress-shortcuts") == "true"
    page.locator(".mlc-board").first.hover(position={"x": 2, "y": 2})
    assert said.inner_text() == "A[0, 0]: 32 accesses, 17 missed"


INSIDE = """side => [...side.querySelectorAll(".mlc-total, .mlc-figure, .mlc-board")].map(part => {
  const [at, box] = [side.getBoundingClientRect(), part.getBoundingClientRect()];
  return [box.x - at.x, box.y - at.y, box.width, box.height];
})"""


@pytest.mark.parametrize("width", [380, 941, 1200])
def test_both_sides_are_laid_out_alike(open_view, width):
    page = open_view(heatmap())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    before, after = page.locator(".mlc-side").all()
    assert before.evaluate(INSIDE) == after.evaluate(INSIDE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 940])
def test_it_fits_and_reads_well(open_view, screenshots, scheme, width):
    page = open_view(heatmap())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (".mlc-total b", ".mlc-of", ".mlc-caption", ".mlc-said", ".mlc-key"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    wide, fits = page.evaluate(
        "[document.querySelector('.mlc-widget').scrollWidth, document.body.clientWidth]"
    )
    assert wide <= fits
    page.locator(".mlc-widget").screenshot(path=screenshots / f"heatmap_{scheme}_{width}.png")
