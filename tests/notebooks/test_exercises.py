"""Every exercise of every chapter: its solution is right, wrong answers (`answers/`) get the
reason, and nothing that an answer does ends in a traceback."""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from minimlc import exercise
from tests.notebooks.exercise_cells import ROOT, Chapter, cells

CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
FEWEST = 5
MEASURES = {"at_least", "at_most", "faster"}

chapter = cache(Chapter)
by_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
alone_if_timed = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.alone] * ("faster(" in path.read_text("utf-8")))
        for path in CHAPTERS
    ],
    ids=lambda path: path.stem,
)


@cache
def wrong(path: Path) -> dict:
    """Wrong answers to each exercise of a chapter, with the verdicts' texts."""
    answers = importlib.import_module(f"tests.notebooks.answers.chapter_{path.stem[:2]}")
    return answers.wrong(chapter(path))


class Checked(ast.NodeTransformer):
    """A cell that judges a solution as if the reader had written it."""

    def visit_Attribute(self, node):
        if node.attr == "solution":
            node.attr = "check"
        return self.generic_visit(node)


@by_chapter
def test_there_are_five_and_one_is_open(path):
    """Each has an answer, a solution and wrong answers; one is judged by what is measured."""
    names = chapter(path).names
    assert len(names) >= FEWEST
    for kind, verb in (("answer", "check"), ("solution", "solution")):
        chosen = [cell for cell in cells(path) if kind in cell.tags]
        last = [ast.unparse(cell.tree.body[-1]).partition("(")[0] for cell in chosen]
        assert last == [f"{name}.{verb}" for name in names]
    used = {name for cell in cells(path) if "exercise" in cell.tags for name in cell.uses}
    assert used & MEASURES
    assert {name: len(answers) >= 2 for name, answers in wrong(path).items()} == dict.fromkeys(
        names, True
    )


@alone_if_timed
def test_solutions_are_right(path):
    for cell in chapter(path).solutions:
        Checked().visit(cell.tree)
        verdict = cell.run(dict(chapter(path).session))
        assert verdict.right and repr(verdict).startswith("right"), f"{cell.text}\n{verdict}"


@pytest.mark.many
@alone_if_timed
def test_wrong_answers_are_told_what_is_wrong(path):
    session = chapter(path).session
    for name, answers in wrong(path).items():
        for answer, said in answers:
            verdict = session[name].check(answer)
            line = repr(verdict)
            assert line.startswith("not yet: ") and said in line, f"{name}: {line}"
            assert not verdict.right and "\n" not in line


@by_chapter
def test_untouched_exercises_are_not_right(path):
    for cell in chapter(path).answers:
        line = repr(cell.run(dict(chapter(path).session)))
        assert line.startswith("not yet: ") and line.endswith("None: your turn"), line


def test_the_page_says_what_is_so():
    """Its program runs, with the names of chapter 03, and its table has every claim."""
    page = (ROOT / "docs" / "exercises.md").read_text("utf-8")
    code, said = re.search(r"```python\n(.*?)  # (.*?)\n```", page, re.S).groups()
    session = dict(chapter(ROOT / "notebooks" / "03_schedules.ipynb").session)
    *body, last = ast.parse(code).body
    exec(compile(ast.Module(body, []), "exercises.md", "exec"), session)
    assert repr(eval(ast.unparse(last), session)) == said
    rows = "".join(re.findall(r"^\| (`.*?) \|", page, re.M))
    functions = inspect.getmembers(exercise, inspect.isfunction)
    own = {name for name, value in functions if value.__module__ == exercise.__name__}
    assert set(re.findall(r"`(\w+)\(", rows)) == {name for name in own if name[0] != "_"}


def raises(*taken):
    raise LookupError("a mistake")


@by_chapter
@pytest.mark.parametrize("answer", [42, "text", object(), [None], lambda *taken: ..., raises])
def test_answers_of_another_kind_are_wrong(path, answer):
    for name in chapter(path).names:
        line = repr(chapter(path).session[name].check(answer))
        assert line.startswith("not yet: ") and "\n" not in line, f"{name}: {line}"


@by_chapter
def test_names_of_the_chapter_keep_their_meaning(path):
    """After the exercises, every cell of the chapter can run again."""
    every = cells(path)
    first = next(n for n, cell in enumerate(every) if "minimlc.exercise" in cell.text)
    taken = {name for cell in every[:first] for name in cell.binds | cell.uses}
    assert not taken & {name for cell in every[first:] for name in cell.binds}


@by_chapter
def test_solutions_are_folded_and_look_like_none(path):
    """JupyterLab shows a folded cell's first line, and its output unless that is hidden as well."""
    for cell in nbformat.read(path, as_version=4).cells:
        tags = cell.metadata.get("tags", [])
        said = "".join(str(out.get("data", out.get("text", ""))) for out in cell.get("outputs", []))
        if "solution" in tags:
            assert cell.source.startswith("# One solution\n")
            assert cell.metadata.jupyter == {"outputs_hidden": True, "source_hidden": True}
            assert "one solution" in said and "but" not in said.partition(":")[0]
        elif "answer" in tags:
            assert "not yet: " in said and "right" not in said
