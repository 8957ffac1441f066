"""What is kept of an executed notebook in the repository: the same text for the same run."""

import hashlib
import json

import nbformat

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def normalized(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """Without what differs from run to run: random widget ids, times, the Python version."""
    text = nbformat.writes(notebook)
    models = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    for number, model in enumerate(models):  # in the order in which they were made
        text = text.replace(model, hashlib.md5(f"{name}/{number}".encode()).hexdigest())
    stored = nbformat.from_dict(json.loads(text))
    for cell in stored.cells:
        cell.metadata.pop("execution", None)
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
