"""The chapters as they are stored: they run to the same outputs, use public names, and end with
exercises that check themselves."""

import ast
import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from random import SystemRandom

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from minimlc_widgets import bundle

import minimlc as mlc
from notebooks.book.outline import OUTLINE

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
LARGEST = 3_000_000  # bytes a stored chapter may have

by_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
SHARING = {chapter.name for chapter in OUTLINE if chapter.shares}
alone_if_close = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.alone] * (path.stem not in SHARING))
        for path in CHAPTERS
    ],
    ids=lambda path: path.stem,
)


def cells(path: Path, kind: str = "code") -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def parsed(cell: nbformat.NotebookNode) -> ast.Module:
    return ast.parse(TransformerManager().transform_cell(cell.source))


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def test_there_are_chapters():
    assert CHAPTERS, "no notebooks/NN_*.ipynb: every test of the chapters would pass on nothing"


@alone_if_close
def test_outputs_are_the_stored_ones(path):
    """Strict nbval, with another hash seed each time."""
    seed = str(SystemRandom().randrange(2**32))
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", str(path)]
    options = ["-p", "no:cacheprovider", "--color=no", "-q", "--nbval-cell-timeout=600"]
    # Of the plugins only those that are meant: the others take seconds to import.
    plugins = ["-p", "nbval.plugin", "-p", "pytest_timeout"]
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONHASHSEED": seed, "MINIMLC_REQUIRE": ""}
    result = subprocess.run(
        command + options + plugins,
        cwd=ROOT,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
    )
    said = f"PYTHONHASHSEED={seed}\n{result.stdout[-20_000:]}{result.stderr[-2_000:]}"
    assert result.returncode == 0, said
    assert " passed" in result.stdout and "skipped" not in result.stdout, result.stdout[-2_000:]


@by_chapter
def test_outputs_are_stored_from_one_run(path):
    code = [cell for cell in cells(path) if cell.source.strip()]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        raised = [output.ename for output in cell.outputs if output.output_type == "error"]
        assert not raised or "raises-exception" in tags(cell), raised


@by_chapter
def test_file_is_of_a_readable_size(path):
    assert path.stat().st_size <= LARGEST


def private(name: str) -> bool:
    """Names such as __doc__ and _repr_html_ are protocols: public."""
    return name.startswith("_") and not name.endswith("_")


def private_names(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if private(name):
                found.append(ast.unparse(node))
            case ast.Import(names=names):
                found += [n.name for n in names if any(map(private, n.name.split(".")))]
            case ast.ImportFrom(module=module, names=names):
                whole = [*(module or "").split("."), *(alias.name for alias in names)]
                found += [name for name in whole if private(name)]
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found += [name] if private(name) else []
    return found


@by_chapter
def test_uses_public_names_only(path):
    found = [name for cell in cells(path) for name in private_names(parsed(cell))]
    assert not found


def test_private_names_are_found():
    """The test above can fail."""
    text = "import a._b\nfrom minimlc import _c\nx._d\ngetattr(x, '_e')\nx.__doc__\n_ = 1"
    assert private_names(ast.parse(text)) == ["a._b", "_c", "x._d", "_e"]


PUBLIC = {
    "minimlc": set(mlc.__all__),
    "minimlc.script": {"I", "R", "T"},
    "minimlc_widgets": set(bundle.__all__),
}
"""The modules that chapters import from, and the names in them."""


def inner_names(tree: ast.Module) -> list[str]:
    """Names that are imported from minimlc but not offered to readers."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                whole = [n.name for n in names if n.name.startswith("minimlc")]
                found += [name for name in whole if name not in PUBLIC]
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("minimlc"):
                offered = PUBLIC.get(module, set())
                found += [f"{module}.{n.name}" for n in names if n.name not in offered]
    return found


@by_chapter
def test_imports_what_is_offered_to_readers(path):
    """Up to the exercises, whose claims may look deeper."""
    every = nbformat.read(path, as_version=4).cells
    lesson = takewhile(lambda cell: not cell.source.startswith("## Exercises"), every)
    code = [cell for cell in lesson if cell.cell_type == "code"]
    assert code and not [name for cell in code for name in inner_names(parsed(cell))]


def test_inner_names_are_found():
    """The test above can fail."""
    text = "import minimlc.a.node\nfrom minimlc import te, node\nfrom minimlc.loops import te"
    assert inner_names(ast.parse(text)) == [
        "minimlc.a.node",
        "minimlc.node",
        "minimlc.loops.te",
    ]


def checks_itself(tree: ast.Module) -> bool:
    """An assertion, or a call of something named check…, that runs as the cell runs."""
    names = [
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    ]
    asserts = any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    return asserts or any(name.startswith(("check", "assert_")) for name in names)


@by_chapter
def test_ends_with_exercises_that_check_themselves(path):
    notebook = nbformat.read(path, as_version=4)
    sections = [
        index
        for index, cell in enumerate(notebook.cells)
        if cell.cell_type == "markdown" and cell.source.lstrip().startswith("## ")
    ]
    last = notebook.cells[sections[-1] :]
    assert "exercise" in last[0].source.splitlines()[0].lower(), last[0].source
    checking = [c for c in last if c.cell_type == "code" and checks_itself(parsed(c))]
    assert len(checking) >= 2, "the last section checks fewer than two answers"


@by_chapter
def test_begins_with_a_title_and_what_one_will_be_able_to_do(path):
    first = cells(path, "markdown")[0].source
    assert first.startswith("# ")
    text = " ".join(cell.source for cell in cells(path, "markdown")[:3]).lower()
    assert "you will" in text or "you can" in text


@by_chapter
def test_unstable_cells_are_followed_by_a_claim(path):
    """A cell whose output is not compared is followed, not far below, by one that asserts."""
    code = cells(path)
    for index, cell in enumerate(code):
        if "nbval-ignore-output" in tags(cell):
            near = code[index : index + 4]
            assert any(checks_itself(parsed(c)) for c in near), cell.source
