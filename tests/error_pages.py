"""The examples on the pages of `docs/errors/`: run, and their messages compared or written anew.

A page with examples has a section `## Wrong`, a Python block and the message as a text block, and
a section `## Right`, a Python block that goes on from where the wrong one stopped.
`python -m tests.error_pages` runs all of them and writes the messages into the pages.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from minimlc.loops.values.errors import CompileError

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "errors"
WRONG = re.compile(r"^## Wrong\n+```python\n(.*?)^```\n+```text\n(.*?)^```\n", re.M | re.S)
RIGHT = re.compile(r"^## Right\n+```python\n(.*?)^```\n", re.M | re.S)


def pages() -> list[Path]:
    return sorted(FOLDER.glob("E???.md"))


def with_examples() -> list[Path]:
    return [page for page in pages() if "## Wrong" in page.read_text("utf-8")]


def run_code(code: str, space: dict[str, Any], folder: Path, name: str) -> None:
    """Run an example from a file of its own, so that scripts in it find their source."""
    path = folder / f"{name}.py"
    path.write_text(code, "utf-8")
    exec(compile(code, str(path), "exec"), space)


def message(page: Path, space: dict[str, Any], folder: Path) -> CompileError | None:
    """The error of a page's wrong example; None where there is none."""
    found = WRONG.search(page.read_text("utf-8"))
    assert found, f"{page.name} has no wrong example in the usual form"
    try:
        run_code(found[1], space, folder, "example")
    except CompileError as error:
        return error
    return None


def shown(error: CompileError) -> str:
    """An error as a notebook shows it."""
    return "\n".join(error._render_traceback_()) + "\n"


def main() -> int:
    failed = 0
    for page in with_examples():
        text = page.read_text("utf-8")
        found = WRONG.search(text)
        assert found, f"{page.name} has no wrong example in the usual form"
        with tempfile.TemporaryDirectory() as folder:
            error = message(page, {}, Path(folder))
        if error is None or error.code != page.stem:
            print(f"{page.name}: the wrong example gives {error!r}")
            failed += 1
            continue
        start, end = found.span(2)
        page.write_text(text[:start] + shown(error) + text[end:], "utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
