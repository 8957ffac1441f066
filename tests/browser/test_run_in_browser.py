"""Kernels as WGSL by Chromium's WebGPU: they agree; where they cannot run, the page shows why."""

from pathlib import Path

import nbformat
import numpy as np
import pytest
from minimlc_widgets import RunInBrowser

import minimlc as mlc
from notebooks.book import page as book
from notebooks.book.stored import STATE, VIEW
from tests.browser.looks import CONTRAST, DARK
from tests.gpu.programs import PROGRAMS, add, product_shared
from tests.gpusim import programs
from tests.helpers import random_array

pytestmark = [pytest.mark.requires("browser"), pytest.mark.many]
CHAPTERS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))
DONE = "[data-verdict]:not([data-verdict=ready]):not([data-verdict=running])"
ABSENT = "This browser has no WebGPU, or it is switched off, so the kernel does not run here"


def view_of(mod) -> RunInBrowser:
    rng = np.random.default_rng(3)
    params = (mod["main"] if isinstance(mod, mlc.IRModule) else mod.func).params
    return RunInBrowser(mod, "main", *(random_array(p.shape, p.dtype, rng) for p in params))


def verdict(page, view="[data-mlc=RunInBrowser]") -> tuple[str, str]:
    """The verdict of a view once its button is pressed, and its message."""
    root = page.locator(view)
    root.get_by_role("button", name="Run in this browser").click()
    root.and_(page.locator(DONE)).wait_for(timeout=60_000)
    return root.get_attribute("data-verdict"), root.get_by_role("status").inner_text()


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.__name__)
def test_kernels_agree(open_with_webgpu, case):
    kind, text = verdict(open_with_webgpu(view_of(case())))
    assert kind == "agrees", text
    assert "swiftshader" in text.lower() and "bound" in text


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float16"])
def test_other_dtypes(open_with_webgpu, dtype):
    mod = mlc.parse(programs.COPY.format(size=1024, index="b * 128 + t").replace("float32", dtype))
    kind, text = verdict(open_with_webgpu(view_of(mod)))
    assert kind == "agrees" or (dtype == "float16" and "no 16-bit floats" in text), text


def test_special_values_are_compared(open_with_webgpu):
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42] * 205, "float32")[:1024]
    view = RunInBrowser(programs.copy("b * 128 + t"), "main", values, np.empty_like(values))
    assert verdict(open_with_webgpu(view))[0] == "agrees"


def test_what_differs_is_found(open_with_webgpu):
    wrong = view_of(add())
    wrong.code = wrong.code.replace(" + B[", " - B[")
    kind, text = verdict(open_with_webgpu(wrong))
    assert kind == "differs" and "C differs: largest difference" in text
    near = view_of(add())
    near.results = [{**near.results[0], "expected": "AACAPw" + near.results[0]["expected"][6:]}]
    assert verdict(open_with_webgpu(near))[0] == "differs"  # one element of a thousand


def test_a_text_that_is_refused_says_why(open_with_webgpu):
    view = view_of(add())
    view.code = view.code.replace("C[", "D[")
    kind, text = verdict(open_with_webgpu(view))
    assert kind == "error" and "unresolved value 'D'" in text


def test_without_webgpu_the_page_explains_itself(open_view):
    page = open_view(view_of(product_shared(16)))
    page.set_default_timeout(10_000)
    start = page.get_by_role("button", name="Run in this browser")
    if start.is_enabled():  # there is an interface, but no adapter
        start.click()
    page.locator("[data-verdict=absent]").wait_for()
    assert page.get_by_role("status").inner_text().startswith(ABSENT)
    assert start.is_disabled() and "expected" in page.locator(".mlc-results").inner_text()


def test_a_browser_without_the_interface_says_so_at_once(chromium, tmp_path):
    context = chromium.new_context(offline=True)
    context.add_init_script("Object.defineProperty(navigator, 'gpu', { value: undefined })")
    page = opened(context, view_of(add()), tmp_path)
    assert page.get_by_role("status").inner_text().startswith(ABSENT)
    assert page.get_by_role("button", name="Run in this browser").is_disabled()
    context.close()


def exported(view: RunInBrowser) -> str:
    """A chapter of one cell, as the book has it."""
    output = nbformat.v4.new_output("display_data", data=view.bundle())
    state = {name: value for name, value in view.get_state().items() if name != "layout"}
    models = {output.data[VIEW]["model_id"]: {"state": state}}
    cell = nbformat.v4.new_code_cell("view", outputs=[output])
    metadata = {"widgets": {STATE: {"state": models}}}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=metadata)
    return book.chapter(notebook, "07_gpu", [])


def opened(context, view, folder):
    path = folder / "chapter.html"
    path.write_text(exported(view), "utf-8")
    page = context.new_page()
    page.goto(path.as_uri())
    return page


def test_a_page_of_the_book_runs_its_kernel(chromium_with_webgpu, tmp_path):
    context = chromium_with_webgpu.new_context(offline=True)
    page = opened(context, view_of(product_shared(16)), tmp_path)
    page.wait_for_selector("html[data-widgets=ready]")
    kind, text = verdict(page)
    assert kind == "agrees", text
    context.close()


def test_without_scripts_the_code_is_there(chromium, tmp_path):
    context = chromium.new_context(offline=True, java_script_enabled=False)
    page = opened(context, view_of(add()), tmp_path)
    page.get_by_text("WGSL", exact=True).click()
    assert "@compute @workgroup_size(128, 1, 1)" in page.locator("details pre").inner_text()
    assert page.get_by_text("A browser with scripts and WebGPU runs it").is_visible()
    context.close()


def test_kernels_of_the_chapters_agree(chromium_with_webgpu, tmp_path):
    for path in CHAPTERS:
        notebook = nbformat.read(path, as_version=4)
        if "RunInBrowser" not in nbformat.writes(notebook):
            continue
        target = tmp_path / f"{path.stem}.html"
        target.write_text(book.chapter(notebook, path.stem, []), "utf-8")
        page = chromium_with_webgpu.new_page()
        page.goto(target.as_uri())
        page.wait_for_selector("html[data-widgets=ready]")
        for number in range(page.locator("[data-mlc=RunInBrowser]").count()):
            kind, text = verdict(page, f"[data-mlc=RunInBrowser] >> nth={number}")
            assert kind == "agrees", (path.stem, number, text)
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 940])
def test_it_fits_and_reads_well(open_with_webgpu, screenshots, scheme, width):
    page = open_with_webgpu(view_of(product_shared(16)))
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate("document.body.style.width = 'auto'")
    if scheme == "dark":
        page.add_style_tag(content=DARK)
    verdict(page)
    for text in (
        ".mlc-verdict",
        ".mlc-title",
        ".mlc-results td",
        ".mlc-results thead th",
        "summary",
    ):
        assert page.locator(text).last.evaluate(CONTRAST) >= 4.5, text
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".mlc-widget").screenshot(path=screenshots / f"run_{scheme}_{width}.png")
