"""The book's pages in a real browser, from files, with the network off."""

import re
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

import nbformat
import pytest

from notebooks.book import front, page, search
from notebooks.book.outline import OUTLINE
from notebooks.book.run import entry_of
from tests.browser.looks import CONTRAST

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SCHEDULES = "03_schedules"

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]


@dataclass
class Visit:
    """An open page and what it asked for or complained about."""

    page: object
    requests: list[str]
    complaints: list[str]


@pytest.fixture(scope="module")
def book(tmp_path_factory) -> Path:
    """Pages of the chapters as they are stored; nothing is executed."""
    folder = tmp_path_factory.mktemp("html")
    entries = [replace(entry_of(path), verdict="passed", seconds=1.0) for path in CHAPTERS]
    texts = {}
    for path in CHAPTERS:
        notebook = nbformat.read(path, as_version=4)
        texts[path.stem] = search.sections(notebook)
        (folder / f"{path.stem}.html").write_text(
            page.chapter(notebook, path.stem, entries), "utf-8"
        )
    (folder / "index.html").write_text(front.index(entries, texts), "utf-8")
    return folder


@pytest.fixture
def visit(chromium):
    """Opens a file with the network off; anything but files and in-page modules is refused."""
    contexts = []

    def open_file(
        path: Path, scheme: str = "light", scripts: bool = True, width: int = 1280
    ) -> Visit:
        context = chromium.new_context(
            offline=True,
            color_scheme=scheme,
            java_script_enabled=scripts,
            viewport={"width": width, "height": 720},
        )
        contexts.append(context)
        visit = Visit(context.new_page(), [], [])
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on(
            "console",
            lambda message: (
                message.type in ("error", "warning") and visit.complaints.append(message.text)
            ),
        )
        visit.page.goto(path.as_uri())
        if scripts and path.stem != "index":
            visit.page.wait_for_selector("html[data-widgets=ready]", timeout=30_000)
        return visit

    yield open_file
    for context in contexts:
        context.close()


def stepper(open_page):
    """The first PassStepper: its whole, its slider and its label."""
    whole = open_page.locator("[data-mlc=PassStepper]").first
    whole.scroll_into_view_if_needed()
    return whole, whole.locator("input.mlc-slider"), whole.locator("output.mlc-step-label")


def test_there_are_chapters():
    assert SCHEDULES in [path.stem for path in CHAPTERS]


WIDTH = "document.documentElement.scrollWidth"
NARROW = 400


@pytest.mark.parametrize("name", [path.stem for path in CHAPTERS])
def test_every_widget_comes_alive_and_nothing_leaves(book, visit, name):
    seen = visit(book / f"{name}.html")
    text = (book / f"{name}.html").read_text("utf-8")
    views = len(re.findall(r'<div data-widget="', text))
    assert views > 0, "a chapter without a widget"
    assert seen.page.locator("[data-widget]").count() == 0, "a widget kept its static form"
    assert seen.page.locator(".mlc-widget").count() >= views
    assert not seen.complaints
    outside = [url for url in seen.requests if not url.startswith(("file:///", "blob:null/"))]
    assert not outside
    seen.page.set_viewport_size({"width": NARROW, "height": 720})
    assert seen.page.evaluate(WIDTH) <= NARROW


def test_stepper_moves_by_keyboard(book, visit):
    _, slider, label = stepper(visit(book / f"{SCHEDULES}.html").page)
    slider.focus()
    slider.press("Home")
    first = label.inner_text()
    slider.press("ArrowRight")
    second = label.inner_text()
    slider.press("End")
    last = label.inner_text()
    assert len({first, second, last}) >= 2 and first != second
    slider.press("Home")
    assert label.inner_text() == first


def test_stepper_moves_by_mouse(book, visit, screenshots):
    whole, slider, label = stepper(visit(book / f"{SCHEDULES}.html").page)
    box = slider.bounding_box()
    y = box["height"] / 2
    slider.click(position={"x": 3, "y": y})
    first, first_view = label.inner_text(), whole.inner_text()
    whole.screenshot(path=screenshots / "page_stepper_first.png")
    slider.click(position={"x": box["width"] - 3, "y": y})
    assert label.inner_text() != first
    assert whole.inner_text() != first_view
    whole.screenshot(path=screenshots / "page_stepper_last.png")


def test_slider_is_named(book, visit):
    _, slider, _ = stepper(visit(book / f"{SCHEDULES}.html").page)
    assert slider.get_attribute("aria-label")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(book, visit, screenshots, scheme):
    open_page = visit(book / f"{SCHEDULES}.html", scheme).page
    _, _, label = stepper(open_page)
    for place in (label, open_page.locator("main p").first, open_page.locator("main pre").first):
        assert place.evaluate(CONTRAST) >= 4.5
    open_page.screenshot(path=screenshots / f"page_{scheme}.png")


def test_without_scripts_the_static_form_is_there(book, visit):
    open_page = visit(book / f"{SCHEDULES}.html", scripts=False).page
    place = open_page.locator("[data-widget]").first
    assert place.inner_text().strip()


def test_index_leads_to_the_chapters_and_on(book, visit):
    open_page = visit(book / "index.html").page
    open_page.locator(".chapters a").first.click()
    open_page.wait_for_selector("html[data-widgets=ready]")
    assert open_page.url.endswith(f"{CHAPTERS[0].stem}.html")
    open_page.locator("nav.book a[rel=next]").first.click()
    open_page.wait_for_selector("html[data-widgets=ready]")
    assert open_page.url.endswith(f"{CHAPTERS[1].stem}.html")


def found(open_page) -> list[str]:
    links = open_page.locator("#search-results a")
    return links.evaluate_all("links => links.map((link) => link.getAttribute('href'))")


def test_search_finds_words_in_chapters_and_appendix(book, visit):
    seen = visit(book / "index.html")
    field = seen.page.locator("main").get_by_role("searchbox")
    field.fill("rfactor")
    addresses = found(seen.page)
    assert addresses[0] == "90_primitives.html#rfactor"
    assert any(address.startswith(f"{SCHEDULES}.html#") for address in addresses)
    assert "rfactor" in seen.page.locator("mark").first.inner_text()
    field.fill("RFACTOR axis")
    assert 0 < len(found(seen.page)) < len(addresses)
    field.fill("rfactor zyzzyva")
    assert found(seen.page) == []
    assert "Nothing" in seen.page.locator("#search-status").inner_text()
    field.fill("")
    assert seen.page.locator("#search-status").inner_text() == ""
    assert not seen.complaints
    assert [url for url in seen.requests if not url.startswith("file:///")] == []


def test_search_from_a_chapter_leads_to_its_section(book, visit):
    open_page = visit(book / f"{SCHEDULES}.html").page
    field = open_page.locator("header").get_by_role("searchbox")
    field.fill("partial results")
    field.press("Enter")
    open_page.wait_for_url("**/index.html?q=partial+results")
    open_page.locator(f"#search-results a[href^='{SCHEDULES}']").first.click()
    open_page.wait_for_selector("html[data-widgets=ready]")
    assert "partial" in open_page.locator(":target").inner_text().lower()


@pytest.mark.parametrize("name", [path.stem for path in CHAPTERS])
def test_every_section_that_is_searched_has_its_place(book, name):
    text = unescape((book / f"{name}.html").read_text("utf-8"))
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    anchors = [section.anchor for section in search.sections(notebook)]
    assert anchors and set(anchors) <= set(re.findall(r'<h[123] id="([^"]*)"', text))


@pytest.mark.parametrize("name", ["index", *(path.stem for path in CHAPTERS)])
def test_pages_fit_a_narrow_screen_without_scripts(book, visit, name):
    open_page = visit(book / f"{name}.html", scripts=False, width=NARROW).page
    assert open_page.evaluate(WIDTH) <= NARROW
    for output in open_page.locator(".jp-OutputArea-output:has(table)").all():
        assert output.evaluate("output => output.scrollWidth <= output.clientWidth")


def test_search_fits_a_narrow_screen(book, visit):
    open_page = visit(book / "index.html", width=NARROW).page
    open_page.locator("main").get_by_role("searchbox").fill("a")
    assert found(open_page) and open_page.evaluate(WIDTH) <= NARROW


def test_the_book_is_small(book):
    assert sum(path.stat().st_size for path in book.iterdir()) <= 10_000_000


def test_planned_chapters_are_announced(book, visit):
    open_page = visit(book / "index.html").page
    planned = open_page.locator(".chapters .planned")
    assert planned.count() == len(OUTLINE) - len(CHAPTERS)
    assert planned.locator("a").count() == 0
    assert (
        "needs 02"
        in open_page.locator(".chapters .chapter", has_text="How the order of").inner_text()
    )
    for place in (planned.locator("b"), planned.locator(".facts")):
        assert place.first.evaluate(CONTRAST) >= 4.5


def test_pictures_follow_the_theme(book, visit):
    filters = [
        visit(book / "01_one_sitting.html", scheme)
        .page.locator(".jp-RenderedImage img")
        .first.evaluate("image => getComputedStyle(image).filter")
        for scheme in ("light", "dark")
    ]
    assert filters[0] == "none" and filters[1].startswith("invert(")
