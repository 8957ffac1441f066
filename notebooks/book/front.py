"""The book's front page: what each chapter teaches, needs and takes, and a search in all."""

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from notebooks.book import page, search
from notebooks.book.outline import LINES, OUTLINE, WORDS, Chapter

if TYPE_CHECKING:
    from notebooks.book.run import Entry

INTRODUCTION = f"""<h1>{page.BOOK}</h1>
<p>A machine-learning compiler that fits in a head, in chapters that run. Begin with chapter 01,
then 02 to 04 in order; after them go where you like. Below each chapter stands which ones to read
before, and how long it takes at {WORDS} words or {LINES} lines of code a minute; exercises come on
top. Every page works without a network.</p>
{page.SEARCH}
<p id="search-status" role="status"></p>
<ol id="search-results"></ol>
<noscript><p>The search needs JavaScript; the chapters do not.</p></noscript>
"""


def index(
    entries: Sequence["Entry"],
    texts: Mapping[str, list[search.Section]],
    homework: Sequence[tuple[str, str]] = (),
) -> str:
    """The front page. Chapters with a page are those in `texts`, which are searched; chapters of
    the outline without an entry are announced. `homework` are addresses and titles of assignments.
    """
    rows = {entry.name: _chapter(entry, entry.name in texts) for entry in entries}
    planned = {c.name: _planned(c) for c in OUTLINE if c.planned and c.name not in rows}
    items = [row for _, row in sorted({**rows, **planned}.items())]
    body = f'{INTRODUCTION}<h2>Chapters</h2><ol class="chapters">{"".join(items)}</ol>'
    if homework:
        links = "".join(
            f'<li><a href="{html.escape(address)}" download>{html.escape(title)}</a>'
            for address, title in homework
        )
        body += f"<h2>Homework</h2><p>Notebooks to download and fill in:</p><ul>{links}</ul>"
    searched = search.index({entry.name: entry.title for entry in entries}, texts)
    return page.document(
        page.BOOK,
        body,
        state=page.json_script("search-index", searched),
        script=page.source("search.js"),
    )


def _chapter(entry: "Entry", has_page: bool) -> str:
    title = html.escape(entry.title)
    if has_page:
        title = f'<a href="{entry.name}.html">{title}</a>'
    verdict = f'<span class="verdict {entry.verdict}">{entry.verdict}</span>'
    if entry.cell is not None:
        verdict += f" in cell {entry.cell}"
    if entry.seconds:
        verdict += f" in {entry.seconds:.1f} s"
    about = next((chapter for chapter in OUTLINE if chapter.name == entry.name), None)
    takes = f"about {entry.minutes} minutes" if entry.minutes else ""
    return _item("chapter", entry.name, title, about, [takes, f"run: {verdict}"])


def _planned(chapter: Chapter) -> str:
    title = html.escape(chapter.planned)
    return _item("planned", chapter.name, title, chapter, ["planned, not yet written"])


def _item(kind: str, name: str, title: str, about: Chapter | None, facts: Sequence[str]) -> str:
    """A row of the list of chapters; `title` and `facts` are HTML."""
    needs = "needs " + ", ".join(about.needs) if about and about.needs else ""
    said = " · ".join(filter(None, [needs, *facts]))
    teaches = f"<p>{html.escape(about.teaches)}</p>" if about else ""
    number = html.escape(name[:2])
    return (
        f'<li class="{kind}"><span class="number">{number}</span><div><b>{title}</b>{teaches}'
        f'<p class="facts">{said}</p></div></li>'
    )
