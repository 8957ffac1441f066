"""Claims of the ways into the code (`docs/architecture.md`, the README of each ring): sizes,
programs and what they print, files, words.

`python -m tests.ways_in` writes sizes, summaries and outputs anew. The Python blocks of a page run
from top to bottom in one session; the text block below one is what it prints.
"""

import ast
import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.code_lines import code_lines
from tests.rings import SIZES as SIZES_OF_RINGS
from tests.test_core import AROUND
from tests.test_core import RINGS as IN_RINGS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"

SIZE = re.compile(r"^(\| `([^`]+)` \| .* \|) +(\d+) \|$", re.M)
TOTAL = re.compile(r"(what is around them has )(\d+)")
RINGS = re.compile(r"(The first ring has )(\d+)( lines of code, the second )(\d+)( more)")
PATHS = [ROOT / "minimlc" / ring / "README.md" for ring in ("loops", "graphs")]
PART = re.compile(r"^(## (\d+)\. .*: )(\d+)( lines)\n((?s:.*?))(?=^## |\Z)", re.M)
ROW = re.compile(r"^\| \[[\w/.]+\]\(([\w/.]+)\) \| (.*) \| +(\d+) \|$", re.M)
QUESTION = re.compile(r"^\*.*\?\*$", re.M)
EXAMPLE = re.compile(r"(^```python\n(.*?)^```\n)(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
FIRST = re.compile(r"^## Ten files.*\n\n((?:\d+\. .*\n)+)", re.M)
TERM = re.compile(r"^\| \*\*([^*]+)\*\* \| .* \| `([^`]+)` \|$", re.M)
FILE = re.compile(r"`([\w/]+\.py)`")


def sizes() -> dict[str, int]:
    """The budget of each part of the library."""
    return {**IN_RINGS, **AROUND}


def listed(page: Path, text: str) -> list[Path]:
    """The files in the tables of a part of a ring's page."""
    return [(page.parent / name).resolve() for name, _, _ in ROW.findall(text)]


def summary(file: Path) -> str:
    """The first paragraph of a file's docstring, on one line."""
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def printed(code: str, session: dict[str, Any]) -> str:
    """The output of a block of code; `session` holds the names of earlier blocks."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, PAGE.name, "exec"), session)
    return output.getvalue()


def _output() -> Callable[[re.Match[str]], str]:
    session: dict[str, Any] = {}

    def run(example: re.Match[str]) -> str:
        output = printed(example[2], session)
        return example[1] + (f"\n```text\n{output}```\n" if output else "")

    return run


def refreshed(text: str) -> str:
    """The page with the sizes of today, and with what its programs print today."""
    budgets = sizes()
    text = SIZE.sub(lambda row: f"{row[1]} {budgets.get(row[2], 0)} |", text)
    loops, graphs = SIZES_OF_RINGS
    text = RINGS.sub(lambda said: f"{said[1]}{loops}{said[3]}{graphs}{said[5]}", text)
    text = TOTAL.sub(lambda found: f"{found[1]}{sum(AROUND.values())}", text)
    return EXAMPLE.sub(_output(), text)


def refreshed_path(page: Path, text: str) -> str:
    """The page of a ring with the lines and summaries of its files, and the outputs, of today."""

    def row(found: re.Match[str]) -> str:
        file = (page.parent / found[1]).resolve()
        start = found[0].partition(" | ")[0]
        return f"{start} | {summary(file)} | {code_lines(file)} |"

    def part(found: re.Match[str]) -> str:
        lines = sum(map(code_lines, listed(page, found[5])))
        return f"{found[1]}{lines}{found[4]}\n{found[5]}"

    return EXAMPLE.sub(_output(), PART.sub(part, ROW.sub(row, text)))


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text("utf-8")), "utf-8")
    for path in PATHS:
        path.write_text(refreshed_path(path, path.read_text("utf-8")), "utf-8")
