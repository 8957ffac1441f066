"""The meaning of error codes: `mlc.explain("E104")` opens its page.

The pages are `docs/errors/` in the repository; an installation holds them in the package.
"""

import re
from operator import eq
from pathlib import Path
from typing import Any, NamedTuple

from minimlc.loops.values.errors import CompileError

_PACKAGE = Path(__file__).parents[1]
FOLDERS = (_PACKAGE / "pages", _PACKAGE.parent / "docs" / "errors")


class Page(NamedTuple):
    """A page in Markdown: notebooks show it formatted, terminals as it is."""

    code: str
    text: str

    @property
    def title(self) -> str:
        """The meaning of the code, in one line."""
        return self.text.split("\n", 1)[0].removeprefix(f"# {self.code}:").strip("# ")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/markdown": _below(self.text)}


def _below(text: str) -> str:
    """Markdown whose headings rank below the headings of the notebook that shows it."""
    parts = text.split("```")
    outside = (re.sub(r"^#", "####", part, flags=re.M) for part in parts[::2])
    parts[::2] = outside
    return "```".join(parts)


def explain(code: str | CompileError = "") -> Page:
    """The page on an error's code, or on an error; without either, the list of all codes.

    E161 where there is no such code.
    """
    asked = code.code if isinstance(code, CompileError) else str(code).strip().upper()
    name = asked or "README"
    known = codes()
    if asked and asked not in known:
        close = [c for c in known if sum(map(eq, c, asked)) > 2][:3]
        why = f'there is no error code "{asked}"'
        why += f"; did you mean {' or '.join(close)}?" if close else ""
        hint = f'mlc.explain("{close[0]}")' if close else "mlc.explain()"
        raise CompileError(why, code="E161", hint=hint)
    return Page(asked, (folder() / f"{name}.md").read_text("utf-8"))


def codes() -> list[str]:
    """Every code that has a page."""
    return sorted(path.stem for path in folder().glob("*.md") if re.fullmatch("E...", path.stem))


def folder() -> Path:
    """Where the pages are."""
    for place in FOLDERS:
        if (place / "README.md").is_file():
            return place
    raise CompileError("the pages on errors are missing from this installation", code="E161")
