"""The book's pages in a real browser, from files, with the network off."""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from notebooks.book import page
from notebooks.book.run import Entry
from tests.browser.looks import CONTRAST

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
SCHEDULES = "03_schedules"

pytestmark = pytest.mark.requires("browser")


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
    entries = [Entry(path.stem, page.title_in(path), "passed", 1.0) for path in CHAPTERS]
    for path in CHAPTERS:
        notebook = nbformat.read(path, as_version=4)
        (folder / f"{path.stem}.html").write_text(
            page.chapter(notebook, path.stem, entries), "utf-8"
        )
    index = page.index(entries, {path.stem for path in CHAPTERS})
    (folder / "index.html").write_text(index, "utf-8")
    return folder


@pytest.fixture
def visit(chromium):
    """Opens a file with the network off; anything but files and in-page modules is refused."""
    contexts = []

    def open_file(path: Path, scheme: str = "light", scripts: bool = True) -> Visit:
        context = chromium.new_context(
            offline=True, color_scheme=scheme, java_script_enabled=scripts
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
    open_page.locator("table a").first.click()
    open_page.wait_for_selector("html[data-widgets=ready]")
    assert open_page.url.endswith(f"{CHAPTERS[0].stem}.html")
    open_page.locator("nav.book a[rel=next]").first.click()
    open_page.wait_for_selector("html[data-widgets=ready]")
    assert open_page.url.endswith(f"{CHAPTERS[1].stem}.html")
