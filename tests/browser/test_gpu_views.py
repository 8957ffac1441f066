"""Threads, Transactions, Banks, Occupancy in a browser: by mouse and keyboard, light and dark."""

import pytest
from minimlc_widgets import Banks, Occupancy, Threads, Transactions

from tests.browser.looks import CONTRAST, DARK
from tests.gpu.programs import twice
from tests.gpusim import programs
from tests.widgets.values import profile

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]

COLOURS = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const cells = [];
  for (let n = 0; n < data.length; n += 4) {
    const [r, g, b, alpha] = data.slice(n, n + 4);
    cells.push(alpha === 0 ? "" : Math.max(r, g, b) - Math.min(r, g, b) < 9 ? "grey"
      : alpha < 128 ? "dim" : "colour");
  }
  return cells;
}"""


def cells(page, number: int, kind: str) -> list[int]:
    """Which cells of a grid are of a kind: coloured, dimmed or grey."""
    colours = page.locator("canvas").nth(number).evaluate(COLOURS)
    return [n for n, colour in enumerate(colours) if colour == kind]


def test_threads_by_step_and_block(open_view):
    page = open_view(Threads(programs.transpose(64, row=33), step=1))
    where, step = page.locator(".mlc-where"), page.get_by_label("Step", exact=True)
    assert where.inner_text().startswith("line 10: tile[u * 8 + ty, tx] = A[")
    rows = [64 * row + column for row in range(8, 16) for column in range(32)]
    assert cells(page, 1, "colour") == rows
    assert cells(page, 1, "grey") == [64 * row + column for row in range(8) for column in range(32)]
    assert cells(page, 3, "colour") == [33 * row + c for row in range(8, 16) for c in range(32)]
    page.get_by_label("Block", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("model.get('block')") == 1
    assert cells(page, 1, "colour") == [cell + 32 for cell in rows]
    assert "(1, 0) of 2 × 2" in page.locator(".mlc-sliders").inner_text()
    page.get_by_role("button", name="Next step").click()
    assert page.evaluate("model.get('step')") == 2
    step.focus()
    page.keyboard.press("End")
    assert page.locator(".mlc-step-count").first.inner_text() == "8 / 8"
    assert page.locator(".mlc-action").all_inner_texts() == ["", "stores", "loads"]
    page.evaluate("model.set('step', 4)")
    assert where.inner_text() == "barrier: tile is read when all have written it"
    assert cells(page, 0, "colour") == []


def test_threads_and_elements_are_named(open_view):
    page = open_view(Threads(programs.transpose(64, row=33), step=5))
    said, boards = page.locator(".mlc-said"), page.locator(".mlc-board")
    boards.nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert said.inner_text() == "thread (1, 1), lane 1 of warp 1: loads tile[1, 1], stores B[1, 1]"
    assert cells(page, 0, "colour") == [33] and cells(page, 3, "colour") == [34]
    assert len(cells(page, 3, "dim")) == 255
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert said.inner_text() == "B[0, 0]: thread (0, 0) stores it"
    page.get_by_label("Step", exact=True).focus()
    assert said.inner_text().startswith("Point at") and len(cells(page, 0, "colour")) == 256
    page.evaluate("model.set('step', 0)")
    boards.nth(2).hover(position={"x": 2, "y": 2})
    assert said.inner_text() == "B[0, 0]: no thread in this step"


def test_of_a_large_buffer_the_part_is_shown_where_the_block_is(open_view):
    page = open_view(Threads(programs.transpose(256, row=33), step=1, block=11))  # (3, 1)
    assert cells(page, 1, "colour") == [
        64 * row + c for row in range(40, 48) for c in range(32, 64)
    ]
    page.locator(".mlc-board").nth(1).hover(position={"x": 1, "y": 1})
    assert page.locator(".mlc-said").inner_text() == "A[0, 64]: no thread in this step"
    captions = page.locator(".mlc-caption").all_inner_texts()
    assert captions[1] == "A 256 × 256 float32 from A[0, 64] on loads"
    page.evaluate("model.set('step', 8)")
    boards, said = page.locator(".mlc-board"), page.locator(".mlc-said")
    boards.nth(2).focus()
    page.keyboard.press("End")
    assert said.inner_text() == "B[127, 63]: thread (31, 7) stores it"


def test_threads_that_share_an_element_and_two_kernels(open_view):
    page = open_view(Threads(programs.product(32), step=3))
    page.locator(".mlc-board").nth(4).hover(position={"x": 2, "y": 2})
    assert page.locator(".mlc-said").inner_text() == (
        "As[0, 0]: threads (0, 0), (1, 0), (2, 0) … (15, 0) (16 threads) load it"
    )
    page = open_view(Threads(twice()))
    assert page.locator(".mlc-where").inner_text().startswith("main_0: ")
    page.evaluate("model.set('step', 1)")
    assert page.locator(".mlc-where").inner_text().startswith("main_1: ")


def test_transactions_show_what_is_moved(open_view):
    page = open_view(Transactions(profile(programs.copy("b * 128 + t + 1", 1025))))
    assert "5 sectors moved, 128 of 160 bytes used" in page.locator(".mlc-request").inner_text()
    assert cells(page, 1, "colour") == list(range(1, 33))
    assert cells(page, 1, "grey") == [0, *range(33, 40)]
    said = page.locator(".mlc-said")
    page.locator(".mlc-board").first.focus()
    page.keyboard.press("End")
    assert said.inner_text() == "lane 31 loads bytes 128 … 131 of A"
    assert cells(page, 1, "colour") == [32]
    page.keyboard.press("Tab")
    assert said.inner_text() == "bytes 0 … 3, sector 0: moved for no lane"
    page.get_by_role("button", name="store B").press("Enter")
    assert page.evaluate("model.get('chosen')") == 1
    assert "4 sectors moved, 128 of 128 bytes used" in page.locator(".mlc-request").inner_text()
    assert cells(page, 1, "grey") == []


def test_banks_show_conflicts(open_view):
    page = open_view(Banks(profile(programs.transpose(32, row=32)), chosen=1))
    request = page.locator(".mlc-request")
    assert "32 wavefronts, 31 by bank conflicts" in request.inner_text()
    assert cells(page, 1, "colour") == [32 * row for row in range(32)]
    said = page.locator(".mlc-said")
    page.locator(".mlc-board").nth(1).focus()
    page.keyboard.press("ArrowDown")
    assert said.inner_text() == "bank 0, wavefront 1: word 32 for lane 1: a bank conflict"
    page.get_by_role("button", name="store tile").click()
    assert "1 wavefront, no bank conflict" in request.inner_text()
    assert cells(page, 1, "colour") == list(range(32))


def test_occupancy_has_a_bar_for_each_device(open_view):
    page = open_view(Occupancy(profile(programs.vectors("u * 4 + v")), ("T4", "H100")))
    bars = page.locator(".mlc-meter span")
    assert [bar.evaluate("bar => bar.style.width") for bar in bars.all()] == ["12.5%", "20.3125%"]
    text = page.locator("tbody").inner_text()
    assert "13 of 64 warps" in text and "limited by shared memory" in text


VIEWS = {
    "threads": lambda: Threads(programs.product(32), step=3),
    "transactions": lambda: Transactions(profile(programs.product(32))),
    "banks": lambda: Banks(profile(programs.transpose(32, row=32)), chosen=1),
    "occupancy": lambda: Occupancy(profile(programs.product(32))),
}
TEXTS = ".mlc-said, .mlc-where, .mlc-caption, .mlc-title, .mlc-small, td, th, .mlc-step-count"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 940])
@pytest.mark.parametrize("name", VIEWS)
def test_it_fits_and_reads_well(open_view, screenshots, name, width, scheme):
    page = open_view(VIEWS[name]())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    for text in page.locator(TEXTS).all():
        assert text.evaluate(CONTRAST) >= 4.5, text.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for table in page.locator(".mlc-scroll").all():
        assert table.evaluate("box => box.scrollWidth <= box.clientWidth"), "a table is cut"
    page.locator(".mlc-widget").screenshot(path=screenshots / f"{name}_{scheme}_{width}.png")
