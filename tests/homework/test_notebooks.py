"""The assignments as they are stored: their solutions earn every point; readers see no solution."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from notebooks.book.homework import STUDENTS, release

FOLDER = Path(__file__).resolve().parents[2] / "notebooks/homework"
TOTALS = {"hw1_tensor_programs": 30.0, "hw2_schedules": 20.0, "hw3_search": 20.0, "hw4_gpu": 20.0}


def test_every_assignment_is_tested_here():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(TOTALS)


@pytest.mark.many
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.alone] * (name[:3] in ("hw2", "hw3")))
        for name in TOTALS  # points for speed are in these two
    ],
)
def test_the_solutions_run_clean_and_earn_every_point(name, tmp_path):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    points = 0.0
    for cell in notebook.cells:
        assert not any(o.get("name") == "stderr" for o in cell.get("outputs", ()))
        if cell.metadata.get("nbgrader", {}).get("grade"):
            assert cell.metadata.nbgrader.points
            points += float(cell.outputs[-1].data["text/plain"])
    assert points == TOTALS[name]


@pytest.mark.parametrize("name", TOTALS)
def test_the_stored_notebook_is_a_source_of_nbgrader(name):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert sum(cell.metadata.nbgrader.get("points", 0) for cell in marked) == TOTALS[name]
    for cell in marked:
        record = cell.metadata.nbgrader
        assert record.schema_version == 3
        assert record.solution != record.locked
        assert ("### BEGIN SOLUTION" in cell.source) == record.solution
        assert ("### BEGIN HIDDEN TESTS" in cell.source) == record.grade
    ids = [cell.metadata.nbgrader.grade_id for cell in marked]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", TOTALS)
def test_the_book_offers_it_without_solutions(name):
    offered = release(FOLDER / f"{name}.ipynb")
    text = nbformat.writes(offered)
    assert "SOLUTION" not in text and "HIDDEN" not in text and "seed=" not in text
    stubs = [cell for cell in offered.cells if "# YOUR CODE HERE" in cell.source]
    assert len(stubs) == sum(
        c.metadata.get("nbgrader", {}).get("solution", False) for c in offered.cells
    )
    for cell in stubs:
        compile(cell.source, "<cell>", "exec")


@pytest.mark.parametrize("name", TOTALS)
def test_the_students_version_is_stored_beside_it(name):
    """`make refresh` writes it."""
    stored = (FOLDER / STUDENTS / f"{name}.ipynb").read_text("utf-8")
    assert stored == nbformat.writes(release(FOLDER / f"{name}.ipynb")) + "\n"
    assert {path.stem for path in (FOLDER / STUDENTS).glob("*")} == set(TOTALS)
