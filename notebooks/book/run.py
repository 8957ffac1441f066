"""All chapters in order, with progress, time and verdict; what is finished is on disk at once."""

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import get_terminal_size

import nbformat

from minimlc.services.runtime.files import write_atomically
from notebooks.book import front, page, search
from notebooks.book.execute import Failure, Outcome, executed
from notebooks.book.homework import STUDENTS, release
from notebooks.book.outline import minutes
from notebooks.book.stored import normalized

SHOWN_SOURCE_LINES = 20


@dataclass(frozen=True)
class Entry:
    """A chapter's line in the table of contents and in status.json."""

    name: str
    title: str
    verdict: str = "waiting"  # then "passed", "failed" or "interrupted"
    seconds: float = 0.0
    cell: int | None = None
    error: str = ""
    minutes: int = 0  # to read


def run(
    paths: Sequence[Path],
    build: Path,
    timeout: int,
    book: Sequence[Path] = (),
    homework: Sequence[Path] = (),
) -> int:
    """Execute `paths`; write notebooks, pages, index and status under `build`; 0 if all passed.

    `book` are all chapters there are (for the table of contents); default: those executed.
    `homework` are assignments, which the book offers without their solutions.
    """
    for path in homework:
        write(_homework(build) / path.name, nbformat.writes(release(path)) + "\n")
    entries = _known_entries(book or paths, paths, build)
    _write_overview(entries, build)
    writes: list[Future] = []
    lines = _Lines(paths)

    def ended(path: Path, outcome: Outcome) -> None:
        failure = outcome.failure
        entries[path.stem] = replace(
            entries[path.stem],
            verdict="failed" if failure else "passed",
            seconds=round(outcome.seconds, 2),
            cell=failure.cell if failure else None,
            error=_plain(failure.traceback) if failure else "",
        )
        writes.append(writer.submit(_write_chapter, path, outcome, dict(entries), build))
        lines.end(path, f"{'FAILED' if failure else 'passed'} in {outcome.seconds:.1f} s")
        if failure:
            _report(failure)

    # A chapter's page is written while the next chapters run.
    with ThreadPoolExecutor(1) as writer:
        try:
            _for_each(executed(paths, timeout, lines.cell), ended)
        except KeyboardInterrupt:
            for path in lines.running():
                lines.end(path, "interrupted")
                entries[path.stem] = replace(entries[path.stem], verdict="interrupted")
            writer.submit(_write_overview, entries, build)
            raise
    for written in writes:
        written.result()  # or what it raised
    failed = sum(entries[path.stem].verdict == "failed" for path in paths)
    print(f"{len(paths) - failed} of {len(paths)} chapters passed; the book: ", end="")
    print(build / "html" / "index.html", flush=True)
    return 1 if failed else 0


def _write_chapter(path: Path, outcome: Outcome, entries: dict[str, Entry], build: Path) -> None:
    write(build / "notebooks" / path.name, nbformat.writes(outcome.notebook) + "\n")
    sections = json.dumps(search.sections(outcome.notebook))
    write(build / "sections" / f"{path.stem}.json", sections)
    html = page.chapter(outcome.notebook, path.stem, list(entries.values()))
    write(build / "html" / f"{path.stem}.html", html)
    _write_overview(entries, build)


def refresh(paths: Sequence[Path], timeout: int, homework: Sequence[Path] = ()) -> int:
    """Execute `paths` and store the outputs in them; a failing chapter's file stays as it was. Of
    `homework`, the students' versions are written anew.
    """
    for path in homework:
        write(path.parent / STUDENTS / path.name, nbformat.writes(release(path)) + "\n")
    failed = []
    lines = _Lines(paths)

    def ended(path: Path, outcome: Outcome) -> None:
        if outcome.failure:
            failed.append(path)
            lines.end(path, "FAILED; the file is unchanged")
            _report(outcome.failure)
            return
        stored = normalized(outcome.notebook, path.stem)
        write(path, nbformat.writes(stored) + "\n")
        lines.end(path, f"refreshed in {outcome.seconds:.1f} s")

    _for_each(executed(paths, timeout, lines.cell), ended)
    return 1 if failed else 0


def _for_each(
    outcomes: AsyncGenerator[tuple[Path, Outcome]], ended: Callable[[Path, Outcome], None]
) -> None:
    """Call `ended` for each chapter. Raises KeyboardInterrupt, when all kernels have ended, if a
    signal came.
    """

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):  # on Windows; in other threads
                asyncio.get_running_loop().add_signal_handler(
                    number, lambda: task.cancelling() or task.cancel()
                )
        async with aclosing(outcomes):
            async for path, outcome in outcomes:
                ended(path, outcome)

    try:
        asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def write(path: Path, text: str) -> None:
    """Write a file atomically, and its folders; all may read it, unless its mode says otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_atomically(path, text.encode(), mode=mode)


def entry_of(path: Path) -> Entry:
    """A chapter that has not run yet."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception:  # not a notebook: running it will say so
        return Entry(path.stem, path.stem)
    return Entry(path.stem, page.title_of(notebook, path.stem), minutes=minutes(notebook))


def _known_entries(book: Sequence[Path], chosen: Sequence[Path], build: Path) -> dict[str, Entry]:
    """Every chapter of the book; verdicts of an earlier run stay for chapters not run now."""
    try:
        old = {e["name"]: Entry(**e) for e in json.loads(_status(build).read_text("utf-8"))}
    except (OSError, ValueError, TypeError, KeyError):
        old = {}
    entries = {}
    for path in book:
        fresh = entry_of(path)
        entries[path.stem] = fresh if path in chosen else old.get(path.stem, fresh)
    return entries


def _write_overview(entries: dict[str, Entry], build: Path) -> None:
    listed = list(entries.values())
    write(_status(build), json.dumps([asdict(entry) for entry in listed], indent=1))
    texts = {path.stem: _sections(build, path.stem) for path in (build / "html").glob("*.html")}
    homework = sorted(_homework(build).glob("*.ipynb"))
    assignments = [(f"homework/{path.name}", entry_of(path).title) for path in homework]
    write(build / "html" / "index.html", front.index(listed, texts, assignments))


def _sections(build: Path, name: str) -> list[search.Section]:
    try:
        text = (build / "sections" / f"{name}.json").read_text("utf-8")
    except OSError:  # a page of an earlier version of this program
        return []
    return [search.Section(*section) for section in json.loads(text)]


def _homework(build: Path) -> Path:
    return build / "html" / "homework"


def _status(build: Path) -> Path:
    return build / "status.json"


def _report(failure: Failure) -> None:
    lines = failure.source.splitlines()
    where = f"cell {failure.cell}" if failure.cell else "before the first cell"
    print(f"    {where}")
    for text in lines[:SHOWN_SOURCE_LINES]:
        print(f"    | {text}")
    if len(lines) > SHOWN_SOURCE_LINES:
        print(f"    | ... {len(lines) - SHOWN_SOURCE_LINES} more lines")
    traceback = failure.traceback if sys.stdout.isatty() else _plain(failure.traceback)
    print("\n".join("    " + text for text in traceback.splitlines()), flush=True)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


class _Lines:
    """A line of verdict for each chapter; on a terminal, below them, the cells being run."""

    def __init__(self, paths: Sequence[Path]):
        self.labels = {p: f"[{number}/{len(paths)}] {p.stem}" for number, p in enumerate(paths, 1)}
        self.cells: dict[Path, str] = {}
        self.live = sys.stdout.isatty()

    def running(self) -> list[Path]:
        return list(self.cells)

    def cell(self, path: Path, number: int, count: int) -> None:
        self.cells[path] = f"{self.labels[path]}  cell {number}/{count}"
        self._below()

    def end(self, path: Path, verdict: str) -> None:
        self.cells.pop(path, None)
        start = f"\r\x1b[K{self.labels[path]}  " if self.live else f"{self.labels[path]} ... "
        print(f"{start}{verdict}", flush=True)
        self._below()

    def _below(self) -> None:
        if self.live:
            width = get_terminal_size().columns - 1
            print(f"\r\x1b[K{'   '.join(self.cells.values())[:width]}", end="", flush=True)
