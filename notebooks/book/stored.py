"""What is kept of an executed notebook in the repository: the same text for the same run.

A cell whose output has measured numbers is tagged: its output is not compared.
"""

import hashlib
import json
from collections.abc import Iterator

import nbformat

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
NOT_COMPARED = "nbval-ignore-output"


def normalized(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """Without what differs from run to run: random widget ids, times, the Python version."""
    text = nbformat.writes(notebook)
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for number, model in enumerate(models):  # in the order in which they were made
        text = text.replace(model, hashlib.md5(f"{name}/{number}".encode()).hexdigest())
    stored = nbformat.from_dict(json.loads(text))
    for cell in stored.cells:
        cell.metadata.pop("execution", None)
        for output, html in pages(stored, cell):
            output.data["text/html"] = html
            tags = cell.metadata.setdefault("tags", [])
            cell.metadata.tags = sorted({*tags, NOT_COMPARED})
    stored.metadata.kernelspec = {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    }
    stored.metadata.language_info = {
        "name": "python",
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "pygments_lexer": "ipython3",
    }
    return stored


def pages(
    notebook: nbformat.NotebookNode, cell: nbformat.NotebookNode
) -> Iterator[tuple[nbformat.NotebookNode, str]]:
    """The outputs of a cell whose view has HTML of its own for a page: with what was measured."""
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for output in cell.get("outputs", ()):
        view = output.get("data", {}).get(VIEW, {})
        html = models.get(view.get("model_id"), {}).get("state", {}).get("page")
        if html:
            yield output, html
