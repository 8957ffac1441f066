"""`docs/glossary.md` and `docs/questions.md` are true of the chapters."""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
TERM = re.compile(
    r"^\| \*\*`?(.+?)`?\*\* \| .+ \| \[\d\d\]\(\.\./notebooks/(\w+)\.ipynb\) \|$", re.M
)
QUESTIONS = (ROOT / "docs" / "questions.md").read_text("utf-8")
CHAPTER = re.compile(r"(?ms)^## \[[^\]]+\]\(\.\./notebooks/(\w+)\.ipynb\)\n(.+?)^</details>")
ITEM = re.compile(r"^\d+\. .+?(?: \*\((.+)\)\*)?$", re.M)


def text_of(chapter: str) -> str:
    """A chapter's text and code, without outputs."""
    notebook = nbformat.read(ROOT / "notebooks" / f"{chapter}.ipynb", as_version=4)
    return "\n".join(cell.source for cell in notebook.cells)


def test_the_glossary_is_in_order():
    terms = [term for term, _ in TERM.findall(GLOSSARY)]
    assert len(terms) == GLOSSARY.count("| **") >= 50
    assert terms == sorted(terms, key=str.lower)


@pytest.mark.parametrize(("term", "chapter"), TERM.findall(GLOSSARY))
def test_a_term_stands_in_its_chapter(term, chapter):
    words = " ".join(re.sub(r"[*`]", "", text_of(chapter)).split())
    assert re.search(rf"\b{re.escape(term)}", words, re.I)


def test_there_are_questions_on_seven_chapters():
    chapters = [name for name, _ in CHAPTER.findall(QUESTIONS)]
    assert [name[:2] for name in chapters] == ["01", "02", "03", "04", "07", "09", "17"]


@pytest.mark.parametrize(("chapter", "part"), CHAPTER.findall(QUESTIONS))
def test_ten_questions_ten_answers_and_sections_that_exist(chapter, part):
    questions, answers = part.split("<details>")
    sections = ITEM.findall(questions)
    assert len(sections) == len(ITEM.findall(answers)) == 10
    headings = re.findall(r"^#{2,4} (.+)$", text_of(chapter), re.M)
    assert [s for s in sections if s not in headings] == []
