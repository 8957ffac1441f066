"""What `docs/architecture.md` says of the code: sizes, programs and what they print, files, words.

`python -m tests.ways_in` writes sizes and outputs anew. Its Python blocks run from top to bottom in
one session; the text block below one is what it prints.
"""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.code_lines import code_lines
from tests.rings import SIZES as SIZES_OF_RINGS
from tests.test_core import CORE, ROOMS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"

SIZE = re.compile(r"^(\| `([^`]+)` \| .* \|) +(\d+) \|$", re.M)
TOTAL = re.compile(r"(The core has )(\d+)( lines of code, the rooms )(\d+)\.")
RINGS = re.compile(r"(The first ring has )(\d+)( lines of code, the second )(\d+)( more)")
DAY = re.compile(r"^(### Day \d: .*, about )(\d+)( lines)\n\n((?:\d+\. .*\n)+)", re.M)
EXAMPLE = re.compile(r"(^```python\n(.*?)^```\n)(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
FIRST = re.compile(r"^## Ten files.*\n\n((?:\d+\. .*\n)+)", re.M)
TERM = re.compile(r"^\| \*\*([^*]+)\*\* \| .* \| `([^`]+)` \|$", re.M)
FILE = re.compile(r"`([\w/]+\.py)`")


def sizes() -> dict[str, int]:
    """The budget of each folder of the core and of each room, by the name that the page uses."""
    return {name or "*.py": size for name, size in {**CORE, **ROOMS}.items()}


def lines_in(listed: str) -> int:
    """Lines of code of the files in a list, to the nearest hundred."""
    return round(sum(code_lines(ROOT / "minimlc" / name) for name in FILE.findall(listed)), -2)


def printed(code: str, session: dict[str, Any]) -> str:
    """What a block of code prints; `session` holds the names of those before it."""
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
    core, rooms = sum(CORE.values()), sum(ROOMS.values())
    loops, graphs = SIZES_OF_RINGS
    text = RINGS.sub(lambda said: f"{said[1]}{loops}{said[3]}{graphs}{said[5]}", text)
    text = TOTAL.sub(lambda said: f"{said[1]}{core}{said[3]}{rooms}.", text)
    text = DAY.sub(lambda day: f"{day[1]}{lines_in(day[4])}{day[3]}\n\n{day[4]}", text)
    return EXAMPLE.sub(_output(), text)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text("utf-8")), "utf-8")
