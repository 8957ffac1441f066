"""AsmView in a browser: lines link by mouse and keyboard, stay when pinned, light and dark."""

import pytest
from minimlc_widgets import AsmView

from tests.browser.looks import CONTRAST, DARK
from tests.widgets.values import product

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]


def view() -> AsmView:
    sch = product(64).split("j", factors=[None, 16]).reorder("i", "j_0", "k", "j_1")
    return AsmView(sch.vectorize("j_1").split("k", factors=[None, 4]).unroll("k_1"))


def linked(page, column: int) -> str:
    return "\n".join(page.locator(".mlc-pane").nth(column).locator(".mlc-linked").all_inner_texts())


def test_pointing_at_a_line_points_at_what_it_became(open_view):
    page = open_view(view())
    script, llvm, assembly = page.locator(".mlc-pane").all()
    assert page.locator(".mlc-linked").count() == 0
    script.locator(".mlc-row", has_text="A[vi, vk] * B[vk, vj]").hover()
    assert "fmul contract <16 x float>" in linked(page, 1) and "vfmadd" in linked(page, 2)
    assert "add nuw nsw" not in linked(page, 1)
    said = page.locator(".mlc-said").inner_text()
    assert said.startswith("line 16: ") and "of assembly" in said
    assembly.locator(".mlc-row", has_text="vfmadd").first.hover()
    assert "A[vi, vk] * B[vk, vj]" in linked(page, 0)
    page.locator(".mlc-title").hover()
    assert page.locator(".mlc-linked").count() == 0


def test_a_click_keeps_a_line_and_brings_the_others_into_view(open_view):
    page = open_view(view())
    row = page.locator(".mlc-pane").nth(0).locator(".mlc-row", has_text="A[vi, vk] * B[vk, vj]")
    row.click()
    assert page.evaluate("model.get('pinned')") == 16
    page.locator(".mlc-title").hover()
    assert "vfmadd" in linked(page, 2)
    assert row.get_attribute("aria-selected") == "true"
    for column in (1, 2):
        pane = page.locator(".mlc-pane").nth(column)
        box, first = pane.bounding_box(), pane.locator(".mlc-linked").first.bounding_box()
        assert box["y"] <= first["y"] <= box["y"] + box["height"] - first["height"]
    row.click()
    assert page.evaluate("model.get('pinned')") == 0
    page.evaluate("model.set('pinned', 16)")
    assert "vfmadd" in linked(page, 2)


def test_a_pinned_line_is_in_view_once_the_view_is(open_view):
    """JupyterLab draws outputs before they are in the page."""
    page = open_view(AsmView(product(64), pin="A[vi, vk] * B[vk, vj]"))
    page.evaluate("""async () => {
      const widget = document.querySelector(".mlc-widget");
      const frame = () => new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
      widget.style.display = "none";
      await frame();
      for (const pane of widget.querySelectorAll(".mlc-pane")) pane.scrollTop = 0;
      widget.style.display = "";
      await frame();
    }""")
    for column in (1, 2):
        pane = page.locator(".mlc-pane").nth(column)
        box, first = pane.bounding_box(), pane.locator(".mlc-linked").first.bounding_box()
        assert box["y"] <= first["y"] <= box["y"] + box["height"] - first["height"]
    assert page.locator(".mlc-pane").nth(1).evaluate("pane => pane.scrollTop") > 0


def test_by_keyboard(open_view):
    page = open_view(view())
    page.get_by_role("button", name="Next innermost loop").focus()
    page.keyboard.press("Tab")
    script = page.locator(".mlc-pane").nth(0)
    assert script.evaluate("pane => pane === document.activeElement")
    assert script.get_attribute("data-lm-suppress-shortcuts") == "true"
    page.keyboard.press("End")
    active = script.get_attribute("aria-activedescendant")
    assert "A[vi, vk] * B[vk, vj]" in page.locator(f"#{active}").inner_text()
    assert "vfmadd" in linked(page, 2)
    page.keyboard.press("Enter")
    assert page.evaluate("model.get('pinned')") == 16
    page.keyboard.press("ArrowUp")
    assert "T.float32(0)" in linked(page, 0)
    page.keyboard.press("Tab")
    assert "vfmadd" in linked(page, 2), "the pinned line comes back"
    page.keyboard.press("Escape")
    assert page.evaluate("model.get('pinned')") == 0
    assert page.locator(".mlc-linked").count() == 0


def test_innermost_loops_are_reached_and_told(open_view):
    page = open_view(view())
    assert page.locator("[data-loop=head]").count() == 1
    page.get_by_role("button", name="Next innermost loop").press("Enter")
    assert "innermost loop 1 of 1: " in page.locator(".mlc-said").inner_text()
    assert "8 multiply-adds" in page.locator(".mlc-said").inner_text()
    assert "vfmadd" in " ".join(page.locator(".mlc-at-loop").all_inner_texts())
    pane, head = page.locator(".mlc-pane").nth(2), page.locator("[data-loop=head]")
    assert pane.bounding_box()["y"] <= head.bounding_box()["y"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 940])
def test_it_fits_and_reads_well(open_view, screenshots, scheme, width):
    page = open_view(view())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'; model.set('pinned', 16)")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in (".mlc-title", ".mlc-said", ".mlc-side-title", ".mlc-number", ".mlc-legend span"):
        assert page.locator(text).first.evaluate(CONTRAST) >= 4.5, text
    wide, fits = page.evaluate(
        "[document.querySelector('.mlc-widget').scrollWidth, document.body.clientWidth]"
    )
    assert wide <= fits
    page.locator(".mlc-widget").screenshot(path=screenshots / f"asm_{scheme}_{width}.png")
