"""`python -m notebooks` on small notebooks written here: verdicts, pages, interrupts, refresh."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import pytest

from notebooks.__main__ import main
from notebooks.book.execute import executed
from notebooks.book.outline import OUTLINE, minutes
from notebooks.book.page import chapter
from notebooks.book.run import Entry, _for_each
from notebooks.book.search import sections

ROOT = Path(__file__).resolve().parents[2]
WIDGET = '''
import anywidget
import traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    export default { render({ model, el }) {
      const label = document.createElement("output");
      const show = () => { label.textContent = `count ${model.get("count")}`; };
      model.on("change:count", show);
      el.addEventListener("click", () => model.set("count", model.get("count") + 1));
      show();
      el.append(label);
    } }"""
    _css = ".counter { color: red }"
    count = traitlets.Int(3).tag(sync=True)

    def _repr_mimebundle_(self, **kwargs):
        bundle, metadata = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/plain": "Counter(3)", "text/html": "<b>count 3</b>"}, metadata
'''


def write(folder: Path, name: str, *sources: str) -> Path:
    """A notebook of these cells; a source that starts with # and a blank is Markdown."""
    notebook = nbformat.v4.new_notebook()
    for number, source in enumerate(sources):
        new = (
            nbformat.v4.new_markdown_cell if source.startswith("# ") else nbformat.v4.new_code_cell
        )
        cell = new(source)
        cell["id"] = f"cell{number}"
        notebook.cells.append(cell)
    folder.mkdir(exist_ok=True)
    nbformat.write(notebook, folder / f"{name}.ipynb")
    return folder / f"{name}.ipynb"


def words(folder: Path, *arguments: str) -> list[str]:
    return ["--source", str(folder / "source"), "--build", str(folder / "build"), *arguments]


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "notebooks", *words(folder, *arguments)]


def book(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command's result, without a process for it: what it imports takes longer than it runs.
    A thread of its own: in this one, a browser's event loop may be running.
    """
    said = io.StringIO()
    with redirect_stdout(said), ThreadPoolExecutor(1) as thread:
        try:
            code = thread.submit(main, words(folder, *arguments)).result()
        except SystemExit as refused:
            code = refused.code
    return subprocess.CompletedProcess(command(folder, *arguments), code, said.getvalue(), "")


def strictly_compared(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", str(path)]
    return subprocess.run(
        [*command, "-p", "nbval.plugin"],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )


def verdicts(folder: Path) -> dict[str, str]:
    entries = json.loads((folder / "build" / "status.json").read_text("utf-8"))
    return {entry["name"]: entry["verdict"] for entry in entries}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Three chapters; the second one fails in its third cell; run as users do."""
    folder = tmp_path_factory.mktemp("book")
    write(folder / "source", "01_good", "# Good & *well*", WIDGET, "Counter()", "print('one')")
    write(folder / "source", "02_bad", "# Bad", "x = 1", "y = x / 0", "print('never reached')")
    write(folder / "source", "03_last", "# Last", "print('three')")
    return folder, subprocess.run(command(folder), cwd=ROOT, capture_output=True, text=True)


def test_one_failing_chapter_is_reported_and_the_others_run(finished):
    folder, result = finished
    assert result.returncode == 1
    assert verdicts(folder) == {"01_good": "passed", "02_bad": "failed", "03_last": "passed"}
    for expected in ("cell 3", "| y = x / 0", "ZeroDivisionError: division by zero", "2 of 3"):
        assert expected in result.stdout
    assert re.search(r"\[1/3\] 01_good \.\.\. passed in \d+\.\d s", result.stdout)
    assert "never reached" not in result.stdout


def test_every_chapter_has_a_page_and_the_index_links_them(finished):
    folder, _ = finished
    html = folder / "build" / "html"
    index = (html / "index.html").read_text("utf-8")
    for name, title in (("01_good", "Good &amp; well"), ("02_bad", "Bad"), ("03_last", "Last")):
        assert f'<b><a href="{name}.html">{title}</a></b>' in index
        assert (html / f"{name}.html").exists()
    assert "division by zero" in (html / "02_bad.html").read_text("utf-8")
    assert 'href="03_last.html"' in (html / "02_bad.html").read_text("utf-8")


def test_pages_name_no_address_outside(finished):
    """Scripts, styles, pictures and frames are in the page itself."""
    folder, _ = finished
    for page in (folder / "build" / "html").glob("*.html"):
        text = page.read_text("utf-8")
        assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\(http""", text), page


def test_cells_with_hidden_source_are_folded():
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in ("shown = 1", "answer = 42")]
    notebook.cells[1].metadata = {"jupyter": {"source_hidden": True}, "tags": ["solution"]}
    html = chapter(notebook, "01_one", [Entry("01_one", "One")])
    (folded,) = re.findall("<details.*?</details>", html, re.S)
    assert "<summary>A solution</summary>" in folded
    assert ">42<" in folded and "shown" not in folded


def test_widget_is_in_the_page_once_with_its_static_form(finished):
    folder, _ = finished
    text = (folder / "build" / "html" / "01_good.html").read_text("utf-8")
    assert re.search(r'<div data-widget="[0-9a-f]{32}"><b>count 3</b></div>', text)
    state = json.loads(re.search(r'id="widget-state">(.*?)</script>', text, re.S)[1])
    assert [model["state"]["count"] for model in state["models"].values()] == [3]
    assert len(state["modules"]) == 1


def test_the_front_page_announces_what_is_missing(finished):
    folder, _ = finished
    index = (folder / "build" / "html" / "index.html").read_text("utf-8")
    rows = re.findall(r'<li class="(\w+)">.*?<b>(.*?)</b>.*?class="facts">(.*?)</p>', index)
    kinds = {re.sub("<[^>]*>", "", title): (kind, facts) for kind, title, facts in rows}
    kind, facts = kinds["Good &amp; well"]
    assert kind == "chapter" and facts.startswith("about 5 minutes · run: <span") and " s" in facts
    assert "in cell 3" in kinds["Bad"][1]
    assert kinds["Quantization"] == ("planned", "needs 08, 09 · planned, not yet written")
    assert len(rows) == 3 + sum(bool(one.planned) for one in OUTLINE)


def test_the_outline_is_of_the_chapters_there_are():
    chapters = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    names = [one.name for one in OUTLINE]
    missing = {path.stem for path in chapters} - set(names)
    assert not missing, "add them to notebooks/book/outline.py"
    assert names == sorted(names)
    for planned in OUTLINE:
        before = [name[:2] for name in names if name < planned.name]
        assert set(planned.needs) <= set(before), planned
    written = [one.name for one in OUTLINE if not one.planned]
    assert written == [path.stem for path in chapters], "planned= is for what is not there"


def test_a_chapter_takes_as_long_as_its_text():
    notebook = nbformat.v4.new_notebook()
    assert minutes(notebook) == 5
    notebook.cells.append(nbformat.v4.new_markdown_cell("word " * 1300))
    assert minutes(notebook) == 10
    notebook.cells.append(nbformat.v4.new_code_cell("x = 1\n\n" * 120))
    assert minutes(notebook) == 20


def test_sections_for_the_search():
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_markdown_cell("lost\n# A *title*\nSee [03](03.html) and `rfactor`.\n"),
        nbformat.v4.new_code_cell("# not a heading\nx_y = 1"),
        nbformat.v4.new_markdown_cell("```\n# nor this\n```\n## Two `words`: here"),
    ]
    assert sections(notebook) == [
        ("A-title", "A title", "See 03 and rfactor. # not a heading x_y = 1 # nor this"),
        ("Two-words:-here", "Two words: here", ""),
    ]


def test_sources_are_left_alone(finished):
    folder, _ = finished
    stored = nbformat.read(folder / "source" / "03_last.ipynb", as_version=4)
    assert stored.cells[1].outputs == [] and stored.cells[1].execution_count is None
    executed = nbformat.read(folder / "build" / "notebooks" / "03_last.ipynb", as_version=4)
    assert executed.cells[1].outputs[0].text == "three\n"


def test_one_chapter_can_be_run_and_the_others_keep_their_verdict(tmp_path):
    write(tmp_path / "source", "01_one", "# One", "1")
    write(tmp_path / "source", "02_two", "# Two", "2")
    assert book(tmp_path, "run", "01").returncode == 0
    assert verdicts(tmp_path) == {"01_one": "passed", "02_two": "waiting"}
    assert book(tmp_path, "run", "02").returncode == 0
    assert verdicts(tmp_path) == {"01_one": "passed", "02_two": "passed"}
    assert book(tmp_path, "run", "07").returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_interrupting_keeps_the_finished_chapters(tmp_path):
    write(tmp_path / "source", "01_quick", "# Quick", "print('kept')")
    started = tmp_path / "started"
    slow = f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(600)"
    write(tmp_path / "source", "02_slow", "# Slow", slow)
    write(tmp_path / "source", "03_last", "# Last", "1")
    process = subprocess.Popen(
        command(tmp_path), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not started.exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "interrupted" in output and "Traceback" not in errors
    assert verdicts(tmp_path) == {
        "01_quick": "passed",
        "02_slow": "interrupted",
        "03_last": "waiting",
    }
    assert "kept" in (tmp_path / "build" / "html" / "01_quick.html").read_text("utf-8")
    assert '"01_quick.html"' in (tmp_path / "build" / "html" / "index.html").read_text("utf-8")
    assert not list((tmp_path / "build").rglob("*.new"))


MEETING = """
import pathlib, time
pathlib.Path({own!r}).touch()
end = time.monotonic() + {seconds}
while not (both := pathlib.Path({other!r}).exists()) and time.monotonic() < end:
    time.sleep(0.05)
print("met" if both else "alone")
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor")
def test_chapters_that_share_run_side_by_side_and_others_alone(tmp_path):
    """A chapter of the outline that shares meets the next such one; any other meets none."""
    names = ("07_gpu", "08_special_hardware", "09_graph_optimization", "10_cpu_codegen")
    for name, other in zip(names, (names[1], names[0], names[3], names[0]), strict=True):
        own, awaited = str(tmp_path / name), str(tmp_path / other)
        seconds = 60 if name[:2] in ("07", "08") else 2
        meeting = MEETING.format(own=own, other=awaited, seconds=seconds)
        write(tmp_path / "source", name, "# One", meeting)
    assert book(tmp_path).returncode == 0
    notebooks = [tmp_path / "build" / "notebooks" / f"{name}.ipynb" for name in names]
    printed = [nbformat.read(path, as_version=4).cells[1].outputs[0].text for path in notebooks]
    assert printed == ["met\n", "met\n", "alone\n", "met\n"]


def test_kernels_end_if_a_page_cannot_be_written(tmp_path):
    """The caller's exception comes out when the kernel of the next chapter has ended, too."""
    pids = [tmp_path / name for name in ("one", "two")]
    for number, path in enumerate(pids, 1):
        waits = "time.sleep(600)" if number == 2 else "1"
        note = f"import os, time\nopen({str(path)!r}, 'w').write(str(os.getpid()))\n{waits}"
        write(tmp_path / "source", f"0{number}_chapter", "# One", note)

    def refuses(*ended):
        raise OSError("disk full")

    paths = sorted((tmp_path / "source").glob("*.ipynb"))
    with ThreadPoolExecutor(1) as thread:
        outcomes = executed(paths, 60, lambda *cells: None)
        with pytest.raises(OSError, match="disk full"):
            thread.submit(_for_each, outcomes, refuses).result()
    assert not Path(f"/proc/{pids[0].read_text()}").exists() and not pids[1].exists()


def test_a_dying_kernel_and_a_broken_file_are_failures_like_others(tmp_path):
    write(tmp_path / "source", "01_dies", "# Dies", "import os\nos._exit(1)")
    (tmp_path / "source" / "02_broken.ipynb").write_text("{", "utf-8")
    write(tmp_path / "source", "03_last", "# Last", "1")
    result = book(tmp_path)
    assert result.returncode == 1
    assert verdicts(tmp_path) == {"01_dies": "failed", "02_broken": "failed", "03_last": "passed"}
    assert "the kernel died while this cell ran" in result.stdout
    assert "02_broken.ipynb is not a notebook" in result.stdout


def test_a_cell_that_takes_too_long_fails(tmp_path):
    write(tmp_path / "source", "01_slow", "# Slow", "import time\ntime.sleep(600)")
    result = book(tmp_path, "--timeout", "2")
    assert result.returncode == 1 and "the cell took more than 2 s" in result.stdout


def test_refresh_stores_the_same_text_each_time(tmp_path, monkeypatch):
    path = write(tmp_path / "source", "01_one", "# One", WIDGET, "Counter()", "print('two')\n2")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    texts = []
    for _ in range(2):
        assert book(tmp_path, "refresh").returncode == 0
        texts.append(path.read_text("utf-8"))
    assert texts[0] == texts[1]
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    view = stored.cells[2].outputs[0].data["application/vnd.jupyter.widget-view+json"]
    state = stored.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert "_esm" in state[view["model_id"]]["state"]


MEASURING = """
import time, traitlets
class Clock(Counter):
    page = traitlets.Unicode().tag(sync=True)
clock = Clock(page=f"<b>at {time.time_ns()}</b>")
"""


def test_what_was_measured_is_stored_in_cells_that_are_not_compared(tmp_path):
    sources = ["# One", WIDGET, MEASURING, "clock", "Counter()"]
    path = write(tmp_path / "source", "01_one", *sources)
    assert book(tmp_path, "refresh").returncode == 0
    stored = nbformat.read(path, as_version=4)
    assert re.fullmatch(r"<b>at \d+</b>", stored.cells[3].outputs[0].data["text/html"])
    assert stored.cells[3].metadata.tags == ["nbval-ignore-output"]
    assert stored.cells[4].outputs[0].data["text/html"] == "<b>count 3</b>"
    assert "tags" not in stored.cells[4].metadata
    assert book(tmp_path).returncode == 0
    page = (tmp_path / "build" / "html" / "01_one.html").read_text("utf-8")
    assert re.search(r'<div data-widget="[0-9a-f]{32}"><b>at \d+</b></div>', page)
    result = strictly_compared(path)
    assert "4 passed" in result.stdout, result.stdout


def test_refresh_leaves_a_failing_chapter_as_it_was(tmp_path):
    path = write(tmp_path / "source", "01_bad", "# Bad", "1 / 0")
    before = path.read_text("utf-8")
    assert book(tmp_path, "refresh").returncode == 1
    assert path.read_text("utf-8") == before


def test_strict_comparison_sees_html_and_text(tmp_path):
    """The premise of the test of the chapters: of these five cells, the three changed ones fail.

    The random names of widgets are no difference.
    """
    sources = ["Counter()", "Counter()", "print('two')", "Counter()"]
    path = write(tmp_path / "source", "01_one", "# One", WIDGET, *sources)
    assert book(tmp_path, "refresh").returncode == 0
    stored = nbformat.read(path, as_version=4)
    stored.cells[2].outputs[0].data["text/html"] = "<b>count 4</b>"
    stored.cells[3].outputs[0].data["text/plain"] = "Counter(4)"
    stored.cells[4].outputs[0].text = "three\n"
    nbformat.write(stored, path)
    result = strictly_compared(path)
    assert "3 failed, 2 passed" in result.stdout, result.stdout
    assert all(f"Cell {cell}" in result.stdout for cell in (1, 2, 3))
