"""The result of a check: items with points, as text and as a table."""

import html
from dataclasses import dataclass

from minimlc.loops.values.display import display

LONGEST = 4000
"""The most characters that are shown of a submission's text."""


def shown(text: str) -> str:
    """A submission's text as it can be printed: not too long, without lone surrogates."""
    return text[:LONGEST].encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class Result:
    """One item: what was asked, the points earned of those possible, and why not all."""

    text: str
    earned: float
    possible: float
    why: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", shown(self.why))

    @property
    def passed(self) -> bool:
        return not self.why


@dataclass(frozen=True, repr=False)
class Report:
    """The results of one assignment. `points` of `total` were earned."""

    name: str
    results: tuple[Result, ...]
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "note", shown(self.note))

    @property
    def points(self) -> float:
        return float(sum(result.earned for result in self.results))

    @property
    def total(self) -> float:
        return float(sum(result.possible for result in self.results))

    @property
    def passed(self) -> bool:
        """Whether every item was met."""
        return all(result.passed for result in self.results)

    def show(self) -> None:
        """Display the table in a notebook; print the text elsewhere."""
        display(self)

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.points:g} of {self.total:g} points"]
        for result in self.results:
            mark = "✓" if result.passed else "✗"
            lines.append(f"  {mark} {result.earned:g}/{result.possible:g}  {result.text}")
            lines += [f"         {line}" for line in result.why.split("\n") if line]
        if self.note:
            lines += [f"  printed: {line}" for line in self.note.split("\n")[:8]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(map(_row, self.results))
        note = f"<p>Printed:</p><pre>{html.escape(self.note)}</pre>" if self.note else ""
        return (
            f"<table><caption>{html.escape(self.name)}: <strong>{self.points:g} of "
            f"{self.total:g} points</strong></caption>"
            '<thead><tr><th scope="col">Points<th scope="col">What is asked'
            f'<th scope="col">Found</thead><tbody>{rows}</tbody></table>{note}'
        )


def _row(result: Result) -> str:
    answer = "yes" if result.passed else f"<pre>{html.escape(result.why)}</pre>"
    mark = "✓" if result.passed else "✗"
    return (
        f"<tr><td>{mark} {result.earned:g} of {result.possible:g}"
        f'<td style="text-align: left">{html.escape(result.text)}'
        f'<td style="text-align: left">{answer}'
    )
