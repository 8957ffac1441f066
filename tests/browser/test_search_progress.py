"""SearchProgress in a browser: trials, lines, failures and differences; what comes later; light and
dark."""

import pytest
from minimlc_widgets import SearchProgress

from tests.browser.looks import CONTRAST, DARK
from tests.widgets.values import tuned

pytestmark = pytest.mark.requires("browser")


def view() -> SearchProgress:
    return SearchProgress(tuned(), trials=8, library={"numpy": 0.001})


def test_what_is_drawn(open_view):
    page = open_view(view())
    status = page.get_by_role("status").inner_text()
    assert "4 of 8 trials; the best is trial 2, 2 × the default's speed" in status
    left, right = (page.locator(".mlc-search svg[width]").nth(n) for n in range(2))
    assert left.locator("circle").count() == 3 and left.locator(".mlc-failed").count() == 1
    assert right.locator("circle").count() == 2, "nothing was expected of the default"
    assert page.locator(".mlc-level-name").all_inner_texts() == ["default", "numpy"]
    failure, decision = page.locator(".mlc-search-parts tbody tr").all_inner_texts()
    assert failure.split("\t") == ["wrong", "1", "<b>3.0</b> is not 4.0"]
    assert decision.split("\t")[0] == "i"
    assert page.locator(".mlc-search-steps [data-sign='+']").count() == 1


def test_the_best_so_far_only_rises(open_view):
    page = open_view(view())
    heights = page.locator(".mlc-best").evaluate_all(
        "lines => lines.flatMap(line => [line.y1, line.y2].map(y => y.baseVal.value))"
    )
    assert heights == sorted(heights, reverse=True) and len(set(heights)) == 2


def test_before_the_first_trial(open_view):
    page = open_view(SearchProgress(trials=8))
    assert "0 of 8 trials" in page.get_by_role("status").inner_text()
    assert page.locator(".mlc-search-parts").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 940])
def test_it_fits_and_reads_well(open_view, screenshots, scheme, width):
    page = open_view(view())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (".mlc-y-tick", ".mlc-search figcaption", ".mlc-search-parts td", ".mlc-title b"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    wide, fits = page.evaluate(
        "[document.querySelector('.mlc-widget').scrollWidth, document.body.clientWidth]"
    )
    assert wide <= fits
    page.locator(".mlc-widget").screenshot(path=screenshots / f"search_{scheme}_{width}.png")
