"""The views by mouse and by keyboard, from their stored state, with the network off."""

import pytest
from minimlc_widgets import IRDiff, IRView, PassStepper, TimingBars

import minimlc as mlc
from minimlc.loops.values.module import History
from tests.widgets.values import history, module, net

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]


def test_stepper_by_keyboard_search_and_choice(open_view):
    page = open_view(PassStepper(history()))
    label, slider = page.locator("output.mlc-step-label"), page.locator("input.mlc-slider")
    assert label.inner_text() == "1 · widen"
    assert slider.get_attribute("data-lm-suppress-shortcuts") == "true"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert label.inner_text() == "2 · verify"
    assert "This step changes nothing" in page.locator(".mlc-side-title").inner_text().capitalize()
    page.keyboard.press("End")
    assert label.inner_text() == "3 · rename"
    page.keyboard.press("Home")
    assert label.inner_text() == "0 · start"
    assert page.locator(".mlc-pane").count() == 1 and page.locator(".mlc-pairs").count() == 0

    page.get_by_label("Hide steps that change nothing").check()
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert label.inner_text() == "3 · rename"
    assert page.locator(".mlc-stop").count() == 3

    field = page.get_by_role("searchbox")
    field.fill("256")
    assert "in 3 of 4 steps; changes in 1" in page.locator(".mlc-find").inner_text()
    assert page.locator(".mlc-hit").count() > 0
    field.press("Enter")
    assert label.inner_text() == "1 · widen"
    field.fill("no such text")
    assert "in no step" in page.locator(".mlc-find").inner_text()
    assert page.get_by_role("button", name="Next change").is_disabled()


def test_stepper_follows_its_model_and_the_mouse(open_view):
    page = open_view(PassStepper(history()))
    label = page.locator("output.mlc-step-label")
    page.evaluate("model.set('step', 3)")
    assert label.inner_text() == "3 · rename"
    page.get_by_role("button", name="Previous step").click()
    assert label.inner_text() == "2 · verify"
    page.locator(".mlc-stop").first.click()
    assert label.inner_text() == "0 · start"
    box = page.locator("input.mlc-slider").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    assert label.inner_text() == "3 · rename"
    assert page.evaluate("model.get('step')") == 3


def test_stepper_counts_operators_and_what_changes_of_them(open_view):
    steps = History()
    mlc.run_passes(net(), [mlc.passes.legalize], observe=steps)
    page = open_view(PassStepper(steps))
    counts = page.locator(".mlc-counts span")
    assert counts.all_inner_texts() == [
        "6 calls",
        "add 1 → 0",
        "call 2",
        "call_tir 0 → 4",
        "matmul 1 → 0",
        "relu 1 → 0",
        "softmax 1 → 0",
    ]
    assert page.locator(".mlc-counts [data-changed]").count() == 5
    page.locator("input.mlc-slider").focus()
    page.keyboard.press("ArrowLeft")
    assert counts.all_inner_texts()[:3] == ["6 calls", "add 1", "call 2"]
    page = open_view(PassStepper(history()))
    assert page.locator(".mlc-counts").is_hidden()


def test_diff_links_lines_and_opens_what_is_collapsed(open_view):
    before = "\n".join(f"x{n} = {n}" for n in range(30))
    page = open_view(IRDiff(before, before.replace("x28 = 28", "x28 = 29")))
    left, right = page.locator(".mlc-before"), page.locator(".mlc-after")
    assert left.locator(".mlc-word").inner_text() == "28"
    assert right.locator(".mlc-word").inner_text() == "29"
    left.locator(".mlc-row", has_text="x27 = 27").hover()
    assert right.locator(".mlc-linked").inner_text().split() == ["28", "x27", "=", "27"]
    assert "x3 = 3" not in left.inner_text()
    page.get_by_role("button", name="Show 25 unchanged lines").press("Enter")
    assert "x3 = 3" in left.inner_text() and "x3 = 3" in right.inner_text()
    assert page.locator(".mlc-pane").evaluate("pane => pane === document.activeElement")
    numbers = left.locator(".mlc-number").all_inner_texts()
    assert numbers == [str(n + 1) for n in range(30)]
    heights = [[r.bounding_box()["y"] for r in s.locator(".mlc-row").all()] for s in (left, right)]
    assert heights[0] == heights[1]


def test_a_diff_of_equal_scripts_says_so(open_view):
    page = open_view(IRDiff(module(), module()))
    assert page.get_by_text("No line differs.").is_visible()
    assert "T.grid" in page.locator(".mlc-pane").inner_text()


def test_a_diff_begins_at_the_first_change(open_view):
    before = "\n".join(f"x{n} = {n} + {n % 2}" for n in range(300))
    page = open_view(IRDiff(before, before.replace("+ 1", "+ 2")))
    assert page.locator(".mlc-pane").first.evaluate("pane => pane.scrollTop") == 0
    changed = page.locator(".mlc-row[data-kind='~']").first
    assert changed.bounding_box()["y"] < 200


LONG = "x = " + " + ".join(f"value{n}" for n in range(40))


def test_long_lines_of_a_diff_wrap_and_stay_side_by_side(open_view):
    page = open_view(IRDiff(f"a = 1\n    {LONG}\nb = 2", f"a = 1\n    {LONG} + last\nb = 2"))
    tall = page.locator(".mlc-before .mlc-row").nth(1).bounding_box()
    assert tall["height"] > 60
    for line in range(3):
        boxes = [
            page.locator(f".mlc-{side} .mlc-row").nth(line).bounding_box()
            for side in ("before", "after")
        ]
        assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["height"] == boxes[1]["height"]
    word = page.locator(".mlc-after .mlc-word").last.bounding_box()
    whole = page.locator(".mlc-widget").bounding_box()
    assert word["x"] + word["width"] <= whole["x"] + whole["width"], "what changed is in view"
    assert page.locator(".mlc-pane").evaluate("pane => pane.scrollWidth <= pane.clientWidth")


def test_a_narrow_diff_is_one_column_in_order(open_view):
    page = open_view(IRDiff("a = 1\nb = 2\nc = 3", "a = 1\nb = 20\nc = 3\nd = 4"))
    page.set_viewport_size({"width": 400, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    rows = page.locator(".mlc-row:visible")
    seen = sorted((row.bounding_box()["y"], row.inner_text().split()) for row in rows.all())
    texts = [" ".join(words[-3:]) for _, words in seen]
    assert texts == ["a = 1", "b = 2", "b = 20", "c = 3", "d = 4"]


def test_a_view_that_is_put_back_shows_its_place_again(open_view):
    """A notebook takes cells that are far away out of the page."""
    before = "\n".join(f"x{n} = {n}" for n in range(300))
    page = open_view(IRDiff(before, "\n".join(f"y{n} = {n}" for n in range(150)) + before))
    page.evaluate("""async () => {
      const widget = document.querySelector(".mlc-widget");
      const frame = () => new Promise((next) => requestAnimationFrame(() => setTimeout(next)));
      widget.querySelector(".mlc-pane").scrollTop = 500;
      await frame();
      widget.remove();
      await frame();
      document.body.append(widget);
      await frame();
    }""")
    page.wait_for_function("document.querySelector('.mlc-pane').scrollTop === 0")


def test_blocks_fold_by_mouse_and_by_keyboard(open_view):
    page = open_view(IRView(module(), fold=["T.init"]))
    fold = page.locator(".mlc-fold")
    pane = page.locator(".mlc-pane")
    assert fold.last.get_attribute("aria-expanded") == "false"
    assert "1 line" in pane.inner_text() and "T.float32(0)" not in pane.inner_text()
    fold.last.click()
    assert "T.float32(0)" in pane.inner_text()
    fold.last.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("model.get('folded')") == [1]
    assert "T.grid" not in pane.inner_text()
    page.keyboard.press("ArrowRight")
    assert "T.grid" in pane.inner_text()
    page.get_by_role("button", name="Fold all").click()
    assert "T.grid" not in pane.inner_text()
    page.get_by_role("button", name="Unfold all").click()
    assert "T.float32(0)" in pane.inner_text()


def test_what_several_lines_open_folds(open_view):
    script = (
        "def f(\n    a,  # (\n):\n    for i in range(2):  # parallel\n        a[i] = 0\n\nx = 1"
    )
    page = open_view(IRView(script, fold=["def f"]))
    pane = page.locator(".mlc-pane")
    assert "a," not in pane.inner_text() and "x = 1" in pane.inner_text()
    page.locator(".mlc-fold").first.click()
    assert "a[i] = 0" in pane.inner_text() and page.locator(".mlc-fold").count() == 2
    page.locator(".mlc-fold").last.click()
    assert "a[i] = 0" not in pane.inner_text() and "range(2)" in pane.inner_text()


@pytest.mark.parametrize("width", [380, 940])
def test_the_ends_of_long_lines_are_reached(open_view, width):
    page = open_view(PassStepper([("start", LONG), ("next", f"{LONG} + last", 0.000822)], step=0))
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    pane, text = page.locator(".mlc-pane").last, page.locator(".mlc-text").last.bounding_box()
    box = pane.bounding_box()
    assert text["x"] + text["width"] <= box["x"] + box["width"] <= width and text["height"] > 30
    assert pane.evaluate("pane => pane.scrollWidth <= pane.clientWidth"), "nothing is cut off"
    page.get_by_role("button", name="Next step").click()
    assert page.locator(".mlc-time").inner_text() == "step took 822 µs"
    box, word = pane.bounding_box(), page.locator(".mlc-after .mlc-word").bounding_box()
    assert word["x"] + word["width"] <= box["x"] + box["width"] <= width


def test_copied_text_is_the_script(open_view):
    page = open_view(IRView(module(), fold=["T.init"]))
    page.evaluate("""() => Object.defineProperty(navigator, "clipboard",
        { value: { writeText: (text) => { window.copied = text; } } })""")
    page.get_by_role("button", name="Copy").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("window.copied") == module().script()


def test_timings_draw_every_sample_and_change_their_baseline(open_view):
    page = open_view(TimingBars({"naive": [0.004, 0.004, 0.005], "tiled": [0.001, 0.0012]}))
    assert page.locator("circle.mlc-dot").count() == 5
    assert page.locator(".mlc-ratio").all_inner_texts()[:2] == ["baseline", "3.64×"]
    assert "4 ms" in page.locator(".mlc-value").first.inner_text()
    page.get_by_role("button", name="tiled").press("Enter")
    assert page.locator(".mlc-ratio").all_inner_texts()[:2] == ["0.275×", "baseline"]
    assert page.locator(".mlc-bar").count() == 2
    page.get_by_label("Logarithmic").check()
    assert page.locator(".mlc-bar").count() == 0
    assert page.evaluate("model.get('logarithmic')")


def test_an_outlier_does_not_flatten_the_others(open_view):
    calm = [0.004, 0.0041, 0.0042, 0.0043]
    page = open_view(TimingBars({"calm": calm, "hiccup": [*calm, 2.0]}))
    bars = [page.locator(".mlc-bar").nth(n).bounding_box()["width"] for n in range(2)]
    strip = page.locator(".mlc-strip").first.bounding_box()
    assert all(strip["width"] / 2 < bar < strip["width"] for bar in bars), (bars, strip)
    assert page.locator("circle.mlc-dot").count() == 8
    assert page.locator(".mlc-beyond").all_text_contents() == ["2 s"]
    arrow, whole = (page.locator(n).first.bounding_box() for n in (".mlc-beyond path", "table"))
    assert arrow["x"] >= strip["x"] + strip["width"]
    assert arrow["x"] + arrow["width"] <= whole["x"] + whole["width"]
    assert "beyond the axis" in page.locator(".mlc-foot").inner_text()
    page.get_by_label("Logarithmic").check()
    assert page.locator(".mlc-bar").count() == 0, "a bar's length means nothing without a zero"
    assert page.locator(".mlc-beyond").count() == 1


@pytest.mark.parametrize("width", [380, 940])
@pytest.mark.parametrize("times", [{"a": [34.0], "b": [0.12, 0.8]}, {"a": [0.00123, 0.00119]}])
def test_labels_of_the_axis_do_not_cover_each_other(open_view, times, width):
    page = open_view(TimingBars(times))
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    whole = page.locator(".mlc-wide").bounding_box()
    edge = whole["x"]
    for label in page.locator(".mlc-scale span:visible").all():
        box = label.bounding_box()
        assert box["x"] >= edge
        edge = box["x"] + box["width"]
    assert edge <= whole["x"] + whole["width"]


@pytest.mark.parametrize("times", [[0.0], [0.0, 1e-9], [1e-9, 1.0], [3.2, 3.2, 3.2], [1e6]])
def test_odd_times_are_drawn(open_view, times):
    page = open_view(TimingBars({"a": times, "b": times}))
    for logarithmic in ("false", "true"):
        page.evaluate(f"model.set('logarithmic', {logarithmic})")
        drawn = page.locator(".mlc-widget").inner_html()
        assert drawn.count("<circle") == 2 * len(times)
        assert "NaN" not in drawn and "Infinity" not in drawn


def test_a_view_undoes_its_listeners(open_view):
    page = open_view(PassStepper(history()))
    label = page.locator("output.mlc-step-label")
    page.evaluate("undo()")
    page.evaluate("model.set('step', 3)")
    assert label.inner_text() == "1 · widen"


VIEWS = {
    "stepper": lambda: PassStepper(history()),
    "diff": lambda: IRDiff(LONG, f"{LONG} + last"),
    "script": lambda: IRView(module()),
    "times": lambda: TimingBars({"loops in Python": [1.5, 1.6], "tiled": [1e-3, 2e-3, 0.4]}),
}


@pytest.mark.parametrize("width", [380, 940])
@pytest.mark.parametrize("name", VIEWS)
def test_views_fit_their_place(open_view, name, width):
    page = open_view(VIEWS[name]())
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    widths = page.evaluate(
        "[document.body.clientWidth, document.querySelector('.mlc-widget').scrollWidth]"
    )
    assert widths[1] <= widths[0]
    if name == "times":  # nothing to scroll for
        assert page.locator(".mlc-wide").evaluate("table => table.scrollWidth <= table.clientWidth")
