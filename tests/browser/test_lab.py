"""A reader's sitting in real JupyterLab: run chapter 03, move the stepper, change the theme."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = "03_schedules.ipynb"
RUN_SECONDS = 600
IDLE = ".jp-Notebook-ExecutionIndicator[data-status=idle]"

pytestmark = pytest.mark.requires("browser")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a copy of the chapter, with a home folder of its own; yields its address."""
    home = tmp_path_factory.mktemp("home")
    work = tmp_path_factory.mktemp("work")
    shutil.copy(ROOT / "notebooks" / CHAPTER, work / CHAPTER)
    settings = home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}', "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex(16)
    log = open(home / "lab.log", "w")  # noqa: SIM115
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
            *(f"--ServerApp.root_dir={work}", f"--IdentityProvider.token={token}"),
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.extension_manager=readonly",
        ],
        env={
            **{name: value for name, value in os.environ.items() if "JUPYTER" not in name},
            "HOME": str(home),
            "PYTHONPATH": str(ROOT),
        },
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    address = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"{address}/api?token={token}", timeout=5).close()
            break
        except OSError:
            assert process.poll() is None, (home / "lab.log").read_text()
            assert time.monotonic() < deadline, (home / "lab.log").read_text()
            time.sleep(0.3)
    yield f"{address}/lab/tree/{CHAPTER}?token={token}", work / CHAPTER
    process.terminate()
    process.wait(30)
    log.close()


def menu(page, *names: str) -> None:
    """Choose an entry of the menus, one level after the other."""
    page.locator(".lm-MenuBar-itemLabel", has_text=names[0]).first.click()
    for name in names[1:]:
        entry = page.locator(".lm-Menu-itemLabel").get_by_text(name, exact=True)
        entry.last.wait_for()
        entry.last.click()


def wait_until_run(page, seconds: float) -> None:
    page.wait_for_timeout(500)
    page.wait_for_selector(IDLE, timeout=seconds * 1000)


def show(page, selector: str):
    """Scroll the notebook until what `selector` means is there; cells far away are not drawn."""
    scroller = page.locator(".jp-NotebookPanel:visible .jp-WindowedPanel-outer").first
    scroller.evaluate("element => { element.scrollTop = 0; }")
    for _ in range(400):
        found = page.locator(selector)
        if found.count() and found.first.is_visible():
            found.first.scroll_into_view_if_needed()
            return found.first
        scroller.evaluate("element => { element.scrollTop += element.clientHeight / 2; }")
        page.wait_for_timeout(60)
    raise AssertionError(f"no {selector} in the notebook")


def saved(page, path: Path) -> list[dict]:
    """The notebook's code cells, after saving it from the menu."""
    before = path.stat().st_mtime_ns
    menu(page, "File", "Save Notebook")
    deadline = time.monotonic() + 30
    while True:
        assert time.monotonic() < deadline, "the notebook was not saved"
        page.wait_for_timeout(100)
        if path.stat().st_mtime_ns == before:
            continue
        try:
            cells = json.loads(path.read_text("utf-8"))["cells"]
        except ValueError:  # still being written
            continue
        return [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"])]


def run_all(page, path: Path) -> list[dict]:
    """Run every cell and return them, saved. A click that comes before the kernel is quite ready
    runs nothing, so it is repeated until some cell has run.
    """
    deadline = time.monotonic() + RUN_SECONDS
    menu(page, "Edit", "Clear Outputs of All Cells")
    while True:
        menu(page, "Run", "Run All Cells")
        wait_until_run(page, RUN_SECONDS)
        page.wait_for_timeout(2000)
        wait_until_run(page, RUN_SECONDS)
        cells = saved(page, path)
        if all(cell["execution_count"] for cell in cells):
            return cells
        assert time.monotonic() < deadline, "the cells did not run"


@pytest.mark.slow
@pytest.mark.requires("thorough")
def test_a_sitting(lab, chromium, screenshots):
    address, path = lab
    context = chromium.new_context(viewport={"width": 1500, "height": 950})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
    wait_until_run(page, 60)  # the kernel is up

    # A fresh run of every cell, without the outputs that came with the file.
    cells = run_all(page, path)
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "not every cell ran"
    for cell in cells:
        for output in cell["outputs"]:
            raised = output["output_type"] == "error"
            allowed = "raises-exception" in cell["metadata"].get("tags", [])
            assert not raised or allowed, output.get("evalue")

    # The stepper, by keyboard and by mouse.
    stepper = show(page, "[data-mlc=PassStepper]")
    slider = stepper.locator("input.mlc-slider")
    label = stepper.locator("output.mlc-step-label")
    slider.focus()
    slider.press("Home")
    first = label.inner_text()
    slider.press("ArrowRight")
    assert label.inner_text() != first
    active = page.locator(".jp-Notebook-cell.jp-mod-active").first
    place = active.get_attribute("data-windowed-list-index")
    slider.press("ArrowDown")  # in JupyterLab, outside of an input, the next cell
    assert active.get_attribute("data-windowed-list-index") == place
    box = slider.bounding_box()
    slider.click(position={"x": 3, "y": box["height"] / 2})
    assert label.inner_text() == first
    slider.click(position={"x": box["width"] - 3, "y": box["height"] / 2})
    assert label.inner_text() != first
    page.screenshot(path=screenshots / "lab_light.png")

    # The stepper's cell once more: its output is replaced by one that works.
    cell = page.locator(".jp-CodeCell", has=page.locator("[data-mlc=PassStepper]")).first
    prompt = cell.locator(".jp-InputPrompt").first
    before = prompt.inner_text()
    cell.locator(".cm-content").first.click()
    page.keyboard.press("Control+Enter")
    page.wait_for_function(
        "([element, text]) => element.innerText !== text && !element.innerText.includes('*')",
        arg=[prompt.element_handle(), before],
        timeout=120_000,
    )
    stepper = cell.locator("[data-mlc=PassStepper]")
    stepper.wait_for()
    assert stepper.count() == 1
    slider, label = stepper.locator("input.mlc-slider"), stepper.locator("output.mlc-step-label")
    deadline = time.monotonic() + 60
    while label.inner_text() != first:  # while the new view takes the old one's place
        assert time.monotonic() < deadline, "the stepper of the new output does not move"
        slider.press("Home")
        page.wait_for_timeout(200)
    slider.press("ArrowRight")
    assert label.inner_text() != first

    # Dark.
    light_back = stepper.evaluate(BACKGROUND)
    menu(page, "Settings", "Theme", "JupyterLab Dark")
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached", timeout=30_000)
    page.wait_for_timeout(1500)
    dark_back = stepper.evaluate(BACKGROUND)
    assert sum(light_back) > 600 and sum(dark_back) < 200, (light_back, dark_back)
    assert sum(stepper.evaluate(COLOR)) > 400
    stepper.scroll_into_view_if_needed()
    page.screenshot(path=screenshots / "lab_dark.png")
    stepper.screenshot(path=screenshots / "lab_dark_stepper.png")
    assert not complaints
    context.close()


COLOR = "(element) => getComputedStyle(element).color.match(/[\\d.]+/g).slice(0, 3).map(Number)"
BACKGROUND = """(element) => {
  const rgba = (e) => getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number);
  let behind = element;
  while (behind.parentElement && rgba(behind)[3] === 0) behind = behind.parentElement;
  return rgba(behind).slice(0, 3);
}"""
