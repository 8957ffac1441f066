"""LoopNest in a browser: stepping, dragging, playing, less motion, light and dark."""

import pytest
from minimlc_widgets import LoopNest

from tests.browser.looks import CONTRAST, DARK
from tests.widgets.values import product

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]

OPAQUE = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const cells = [];
  for (let n = 3; n < data.length; n += 4) if (data[n] === 255) cells.push((n - 3) / 4);
  return cells;
}"""


def vectorized() -> LoopNest:
    return LoopNest(product(8).split("j", factors=[None, 4]).vectorize("j_1").parallel("i"))


def test_steps_by_keyboard_and_buttons(open_view):
    page = open_view(LoopNest(product(4)))
    slider, counter = page.locator("input.mlc-slider"), page.locator(".mlc-step-count")
    now, where = page.locator(".mlc-now"), page.locator(".mlc-where")
    assert counter.inner_text() == "0 / 79"
    assert "T.float32(0)" in now.inner_text()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert counter.inner_text() == "2 / 79" and page.evaluate("model.get('step')") == 2
    assert "A[vi, vk] * B[vk, vj]" in now.inner_text()
    assert where.inner_text().split("\n") == ["i = 0", "j = 0", "k = 1"]
    assert slider.get_attribute("aria-valuetext") == "step 2: i = 0, j = 0, k = 1"
    canvases = page.locator("canvas")
    assert [canvases.nth(n).evaluate(OPAQUE) for n in range(3)] == [[1], [4], [0]]
    page.get_by_role("button", name="Previous step").press("Enter")
    assert counter.inner_text() == "1 / 79"
    page.get_by_role("button", name="Next step").click()
    page.evaluate("model.set('step', 79)")
    assert counter.inner_text() == "79 / 79"
    page.get_by_role("button", name="Next step").click()
    assert counter.inner_text() == "79 / 79"


def test_lanes_and_threads_light_up_together(open_view):
    page = open_view(vectorized())
    assert page.locator("canvas").nth(2).evaluate(OPAQUE) == [0, 1, 2, 3, 32, 33, 34, 35]
    assert page.locator(".mlc-where").inner_text().split("\n")[:3] == [
        "i = 0 and 1 more",
        "j_0 = 0",
        "j_1 = 0…3",
    ]


def test_it_plays_pauses_and_ends(open_view):
    page = open_view(LoopNest(product(4)))
    page.get_by_label("Steps a second").select_option("60")
    page.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function("model.get('step') > 2")
    page.get_by_role("button", name="Pause").press("Enter")
    stopped = page.evaluate("model.get('step')")
    page.wait_for_timeout(120)
    assert page.evaluate("model.get('step')") == stopped
    page.get_by_label("Steps a second").select_option("240")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("model.get('step') === 79")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("model.get('step') < 79")


def test_a_view_that_goes_away_stops(open_view):
    page = open_view(LoopNest(product(4)))
    page.get_by_role("button", name="Play").click()
    page.evaluate("() => { undo(); document.querySelector('.mlc-widget').remove(); }")
    stopped = page.evaluate("model.get('step')")
    page.wait_for_timeout(300)
    assert page.evaluate("model.get('step')") - stopped <= 1


def test_less_motion_is_honoured(open_view):
    page = open_view(LoopNest(product(4)))
    page.emulate_media(reduced_motion="reduce")
    play = page.locator(".mlc-play")
    page.wait_for_function("document.querySelector('.mlc-play').disabled")
    assert "less motion" in play.get_attribute("title")
    page.locator("input.mlc-slider").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".mlc-step-count").inner_text() == "1 / 79"


def test_an_element_tells_its_steps(open_view):
    page = open_view(LoopNest(product(4), step=20))
    page.locator(".mlc-board").nth(0).focus()
    page.keyboard.press("Home")
    said = page.locator(".mlc-said")
    assert said.inner_text() == "A[0, 0]: in 4 steps, first in step 1; 4 of them so far"
    page.evaluate("model.set('step', 0)")
    assert said.inner_text() == "A[0, 0]: in 4 steps, first in step 1; 0 of them so far"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 940])
def test_it_fits_and_reads_well(open_view, screenshots, scheme, width):
    page = open_view(vectorized())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'; model.set('step', 35)")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (".mlc-where", ".mlc-step-count", ".mlc-caption", ".mlc-said", ".mlc-legend span"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    wide, fits = page.evaluate(
        "[document.querySelector('.mlc-widget').scrollWidth, document.body.clientWidth]"
    )
    assert wide <= fits
    page.locator(".mlc-widget").screenshot(path=screenshots / f"loop_nest_{scheme}_{width}.png")
