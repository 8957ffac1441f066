"""The pages on errors: each example gives the message beside it, and the right version runs."""

import subprocess
import sys

import pytest

import minimlc as mlc
from minimlc.loops.schedule import PRIMITIVES
from minimlc.loops.values.errors import MAX_LINES
from minimlc.services.explain import codes
from tests.error_pages import RIGHT, ROOT, WRONG, message, run_code, shown, with_examples
from tests.helpers import refuses


@pytest.mark.parametrize("page", with_examples(), ids=lambda page: page.stem)
def test_the_wrong_example_fails_as_shown_and_the_right_one_runs(page, tmp_path, monkeypatch):
    monkeypatch.setattr("minimlc.loops.schedule.trace.PRIMITIVES", PRIMITIVES)
    before = dict(PRIMITIVES)
    space: dict = {}
    text = page.read_text("utf-8")
    try:
        error = message(page, space, tmp_path)
        assert error is not None and error.code == page.stem, error
        assert WRONG.search(text)[2] == shown(error)
        assert len(shown(error).splitlines()) <= MAX_LINES
        run_code(RIGHT.search(text)[1], space, tmp_path, "right")
    finally:
        PRIMITIVES.clear()
        PRIMITIVES.update(before)


def test_every_code_of_programs_and_schedules_has_an_example():
    found = {page.stem for page in with_examples()}
    assert {code for code in codes() if code.startswith("E1")} <= found


def test_explain_opens_a_page_by_code_or_error():
    page = mlc.explain("E104")
    assert page.title.startswith("The iterations of a parallel")
    assert repr(page).startswith("# E104") and "## Right" in repr(page)
    bundle = page._repr_mimebundle_()
    assert bundle["text/plain"] == repr(page)
    assert bundle["text/markdown"].startswith("#### E104")
    assert mlc.explain("e104") == page
    error = refuses("E105", lambda: mlc.Schedule(mlc.parse(PROGRAM)).parallel("j"))
    assert mlc.explain(error).code == "E105"


PROGRAM = """
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = 0
"""


def test_explain_lists_all_and_finds_near_misses():
    listed = repr(mlc.explain())
    assert all(f"[{code}]({code}.md)" in listed for code in codes())
    refuses("E161", lambda: mlc.explain("E1O4"), "E104")
    refuses("E161", lambda: mlc.explain("../README"), "no error code")


def test_a_wheel_holds_the_pages(tmp_path):
    """Built from a copy without what git ignores, installed into a folder, read from there."""
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    source = tmp_path / "source"
    for name in listed.stdout.splitlines():
        shipped = name.startswith(("minimlc/", "widgets/", "docs/errors/")) or "/" not in name
        if shipped and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([*build, "-w", str(tmp_path), str(source)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "-q", "--target"]
    target = tmp_path / "installed"
    subprocess.run([*install, str(target), str(wheel)], check=True, capture_output=True)
    code = "import minimlc; print(minimlc.__file__, minimlc.explain('E104').title)"
    shown_there = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert str(target) in shown_there.stdout, shown_there.stderr
    assert "The iterations of" in shown_there.stdout
