"""The display of values: the same in every run, escaped, readable without styles."""

import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import minimlc_widgets
import pytest
from minimlc_widgets import bundle, mimebundle

from minimlc.loops.values.module import History
from tests.widgets.values import Timing, history, module, schedule

ROOT = Path(__file__).resolve().parents[2]
VIEW = "application/vnd.jupyter.widget-view+json"


def stripped(html: str) -> str:
    """The text without any markup."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def test_a_module_shows_its_script():
    mod = module()
    data = mod._repr_mimebundle_()
    assert data["text/plain"] == mod.script()
    assert mod.script() in stripped(data["text/html"])
    assert data[VIEW]["version_major"] == 2


def test_an_expression_needs_no_panel():
    buffer = module()["main"].params[0]
    assert VIEW not in mimebundle(buffer)
    assert mimebundle(buffer)["text/plain"] == buffer.script()


def test_a_history_and_a_schedule_show_steps_without_times():
    for value in (history(), schedule()):
        data = mimebundle(value)
        steps = value.steps if isinstance(value, History) else value.history.steps
        assert set(data) == {VIEW, "text/html", "text/plain"}
        for step in steps:
            assert step.name in data["text/plain"] and step.name in stripped(data["text/html"])
        assert steps[-1].mod.script() in stripped(data["text/html"])
        assert not re.search(r"0\.0123|12\.3|450|67", data["text/html"] + data["text/plain"])
    assert "<b>verify</b> changes nothing" in mimebundle(history())["text/html"]


def test_an_empty_history_shows():
    assert mimebundle(History())["text/plain"] == "no steps"


def test_a_timing_shows_its_time_where_no_widget_is_live():
    data = mimebundle(Timing())
    assert data["text/plain"] == "Timing of mm: median 2.1 ms, 3 samples"
    assert "<th>mm</th><td>2.1 ms</td>" in data["text/html"] and "<script" not in data["text/html"]


def test_markup_in_a_script_is_text():
    class Evil:
        def script(self) -> str:
            return '<img src=x onerror="alert(1)">\nx = "</pre><script>1</script>"'

    html = mimebundle(Evil())["text/html"]
    assert "<img" not in html and "<script" not in html
    assert Evil().script() in stripped(html)
    shown = minimlc_widgets.PassStepper([("<b>a</b>", Evil()), ("<i>", module())]).static_html()
    assert "<img" not in shown and "<b>a</b>" not in shown.replace("<b>&lt;b", "")
    assert "<script" not in minimlc_widgets.IRDiff(Evil(), module(), ("<u>", "&")).static_html()


def test_html_has_no_script_style_or_id():
    for value in (module(), history(), Timing()):
        html = mimebundle(value)["text/html"]
        assert not re.search(r"<script|<style|\sid=|\sstyle=|0x[0-9a-f]{6}", html)


def test_the_text_and_html_do_not_depend_on_the_hash_seed():
    program = (
        "from tests.widgets.values import *; from minimlc_widgets import mimebundle\n"
        "import json\n"
        "for v in (module(), history(), schedule(), Timing()):\n"
        "    d = mimebundle(v); print(json.dumps([d['text/html'], d['text/plain']]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and len(json.loads(outputs.pop().splitlines()[0])) == 2


def test_without_jupyter_html_and_text_remain(monkeypatch):
    live = {kind: mimebundle(v) for kind, v in (("m", module()), ("h", history()), ("t", Timing()))}
    monkeypatch.setattr(bundle, "VIEWS", {})
    for kind, value in (("m", module()), ("h", history()), ("t", Timing())):
        data = mimebundle(value)
        assert VIEW not in data
        assert data == {key: live[kind][key] for key in ("text/html", "text/plain")}


@pytest.mark.parametrize("absent", ["anywidget", "ipywidgets", "traitlets"])
def test_the_package_imports_without(absent):
    program = (
        f"import sys; sys.modules[{absent!r}] = None\n"
        "import minimlc_widgets; from tests.widgets.values import module\n"
        "print(sorted(minimlc_widgets.mimebundle(module())))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "['text/html', 'text/plain']"
