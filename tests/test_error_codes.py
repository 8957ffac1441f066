"""Every error code has one meaning, written down: a page in `docs/errors/`, a line in its list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from minimlc.services.explain import explain

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "errors"
CODE = re.compile(r"E\d{3}")
ROW = re.compile(r"^\| \[(E\d{3})\]\(\1\.md\) \| (.*) \|$", re.M)


def raised() -> Iterator[str]:
    for path in sorted((ROOT / "minimlc").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and CODE.fullmatch(str(node.value)):
                yield node.value


def pages() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "README")


def test_every_code_has_a_page_and_every_page_a_code():
    """A new code needs `docs/errors/E….md` and a row in `docs/errors/README.md`; the page of an
    E1xx has an example, whose message `python -m tests.error_pages` fills in.
    """
    assert set(pages()) == set(raised())


def test_the_list_has_every_page_once_with_its_title():
    rows = ROW.findall((FOLDER / "README.md").read_text("utf-8"))
    assert sorted(code for code, _ in rows) == pages()
    for code, meaning in rows:
        assert explain(code).title == meaning
