"""A headless Chromium for the tests of this folder, and a place for the pictures they take."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)

PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Views</title>
<body style="width: 900px"><script type="application/json" id="state">%s</script><script>
(async () => {
  const state = JSON.parse(document.getElementById("state").textContent);
  const listeners = {};
  const model = {
    get: (name) => state[name],
    set(name, value) {
      state[name] = value;
      for (const listener of listeners["change:" + name] ?? []) listener();
    },
    on(name, listener) { (listeners[name] ??= []).push(listener); },
    off(name, listener) { listeners[name] = listeners[name].filter((f) => f !== listener); },
    save_changes() {},
  };
  window.model = model;
  const style = document.createElement("style");
  style.textContent = state._css;
  document.head.append(style);
  const blob = new Blob([state._esm], { type: "text/javascript" });
  const view = (await import(URL.createObjectURL(blob))).default;
  window.undo = await view.render({ model, el: document.body });
  document.documentElement.dataset.ready = "";
})();
</script>"""


WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


@pytest.fixture(scope="session")
def browsers():
    """Starts a Chromium with more arguments; all are closed at the end. The one without windows
    opens a page in less than half the time.
    """
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium-headless-shell") or shutil.which("chromium")

    with sync_playwright() as playwright:
        started = []

        def start(*arguments):
            started.append(
                playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *arguments])
            )
            return started[-1]

        yield start
        for browser in started:
            browser.close()


@pytest.fixture(scope="session")
def chromium(browsers):
    return browsers()


@pytest.fixture(scope="session")
def chromium_with_webgpu(browsers):
    return browsers(*WEBGPU)


@pytest.fixture(scope="session")
def screenshots() -> Path:
    folder = ROOT / "_build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def open_view(chromium, tmp_path):
    """Opens a page with nothing but the view; fails on any complaint of the page."""
    yield from _opener(chromium, tmp_path)


@pytest.fixture
def open_with_webgpu(chromium_with_webgpu, tmp_path):
    """As `open_view`, in a browser that has WebGPU."""
    yield from _opener(chromium_with_webgpu, tmp_path)


def _opener(browser, folder):
    context = browser.new_context(offline=True, viewport={"width": 940, "height": 900})
    complaints: list[str] = []

    def open_page(view):
        state = {name: value for name, value in view.get_state().items() if name != "layout"}
        path = folder / "view.html"
        path.write_text(PAGE % json.dumps(state).replace("<", "\\u003c"), "utf-8")
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    context.close()
    assert complaints == []
