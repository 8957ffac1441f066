"""The text of the chapters by section, for a search without a server."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

import nbformat

HEADING = re.compile(r"^#{1,3} +(.+?) *$")
FENCE = re.compile(r"^ *(```|~~~)")
MARKS = re.compile(r"[`*]|\[([^\]]*)\]\([^)]*\)")


class Section(NamedTuple):
    """What stands below a heading: prose without marks, and code. `anchor` is its place."""

    anchor: str
    heading: str
    text: str


def sections(notebook: nbformat.NotebookNode) -> list[Section]:
    """The sections of a notebook in order; what stands before the first heading is none."""
    parts: list[tuple[str, list[str]]] = []
    for is_heading, line in _lines(notebook):
        if is_heading:
            parts.append((line, []))
        elif parts:
            parts[-1][1].append(line)
    return [
        Section(_anchor(heading), heading, " ".join(" ".join(lines).split()))
        for heading, lines in parts
    ]


def index(titles: Mapping[str, str], texts: Mapping[str, list[Section]]) -> list[dict[str, object]]:
    """What search.js looks through: for each page its name, title and sections."""
    return [
        {"page": name, "title": title, "sections": texts[name]}
        for name, title in titles.items()
        if name in texts
    ]


def _anchor(heading: str) -> str:
    """The id that nbconvert gives a heading."""
    return quote(heading.replace(" ", "-"), safe="?/:@!$&'()*+,;=")


def _lines(notebook: nbformat.NotebookNode) -> Iterator[tuple[bool, str]]:
    """Each line of prose and code, and whether it is a heading."""
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            yield from ((False, line) for line in cell.source.splitlines())
            continue
        fenced = False
        for line in cell.source.splitlines():
            if FENCE.match(line):
                fenced = not fenced
            elif fenced:
                yield False, line
            else:
                heading = HEADING.match(line)
                yield heading is not None, MARKS.sub(r"\1", heading[1] if heading else line)
