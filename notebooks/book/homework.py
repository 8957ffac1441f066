"""The assignments as students get them: without solutions and hidden tests."""

from pathlib import Path

import nbformat

SOLUTION = ("### BEGIN SOLUTION", "### END SOLUTION")
HIDDEN = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


STUDENTS = "student"
"""The folder beside the sources where what `release` gives is stored."""


def release(path: Path) -> nbformat.NotebookNode:
    """What nbgrader releases of a source notebook, for readers who have no nbgrader."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _without(_without(cell.source, SOLUTION, STUB), HIDDEN, ())
            cell.outputs, cell.execution_count = [], None
    return notebook


def _without(text: str, region: tuple[str, str], instead: tuple[str, ...]) -> str:
    """`text` with the lines of a region replaced, indented as its first."""
    kept: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.strip() == region[0]:
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + part for part in instead]
        elif line.strip() == region[1]:
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept)
