"""The report of a benchmark: tables, claims with their limits, and the machine they are from."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness import Measured
from minimlc.services.runtime.timing import seconds_text

SCHEMA = 1
SIGNS = {"<=": "≤", ">=": "≥"}


@dataclass(frozen=True)
class Claim:
    """A figure and the limit it is held against.

    Of a contest also the peer that was beaten or not, minimlc's rate, and its share of the peak.
    `unless` is the reason why the limit is not asked of this machine.
    """

    text: str
    value: float
    relation: Literal["<=", ">="]
    limit: float
    unit: str = ""
    peer: str = ""
    rate: str = ""
    share: float | None = None
    unless: str = ""

    @property
    def met(self) -> bool:
        """Whether the limit holds, or is not asked of this machine."""
        return bool(self.unless) or self.holds

    @property
    def holds(self) -> bool:
        """Whether the limit holds."""
        return self.value <= self.limit if self.relation == "<=" else self.value >= self.limit

    def bound(self) -> str:
        """The limit as text."""
        return f"{SIGNS[self.relation]} {self.limit:g}{self._unit}"

    def figure(self) -> str:
        """The figure as text."""
        return f"{self.value:.3g}{self._unit}"

    @property
    def _unit(self) -> str:
        return f" {self.unit}" if self.unit else ""

    def line(self) -> str:
        """One line of text."""
        verdict = "met" if self.holds else f"not asked: {self.unless}" if self.unless else "MISSED"
        return f"{self.text}: {self.figure()} (target {self.bound()}): {verdict}"


@dataclass(frozen=True)
class Table:
    """Contenders of one comparison. `baseline` names the row that the others are compared with.

    `work` is the arithmetic operations of one call, or `moved` the bytes that it reads and writes
    at least; `peak` is the most of them that the machine was measured to do in a second.
    """

    title: str
    rows: Sequence[Measured]
    baseline: str | None = None
    work: float = 0.0
    moved: float = 0.0
    peak: float = 0.0

    def speedup(self, row: Measured) -> float | None:
        """How many times faster than the baseline, by medians."""
        base = [other for other in self.rows if other.name == self.baseline]
        return base[0].median / row.median if base else None

    @property
    def unit(self) -> str:
        """The unit of the contenders' rates."""
        return "GFLOP/s" if self.work else "GB/s" if self.moved else ""

    def rate(self, seconds: float) -> tuple[str, float | None]:
        """The rate of a call that takes so long, with its unit, and its share of the peak."""
        found = (self.work or self.moved) / seconds
        share = found / self.peak if self.peak else None
        return (f"{found / 1e9:.3g} {self.unit}" if self.unit else ""), share

    def header(self) -> list[str]:
        """The names of the columns."""
        extra = [self.unit] if self.unit else []
        extra += ["of peak"] if self.peak else []
        extra += [f"× {self.baseline}"] if self.baseline else []
        return ["", "median", "min", "spread", "samples", *extra]

    def cells(self, row: Measured) -> list[str]:
        """A row's columns as text."""
        count = f"{len(row.samples)} of {row.batch} call{'s' if row.batch > 1 else ''}"
        found = [row.name, seconds_text(row.median), seconds_text(row.min), f"{row.spread:.1%}"]
        found.append(count)
        rate, share = self.rate(row.median)
        found += [rate.split()[0]] if rate else []
        found += [f"{share:.0%}"] if share is not None else []
        if (speedup := self.speedup(row)) is not None:
            found.append(f"{speedup:.3g}")
        return found

    def data(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rows = [
            {
                "name": row.name,
                "median": row.median,
                "min": row.min,
                "spread": row.spread,
                "batch": row.batch,
                "speedup": self.speedup(row),
                "samples": list(row.samples),
            }
            for row in self.rows
        ]
        known = {"baseline": self.baseline, "work": self.work, "moved": self.moved}
        return {"title": self.title, **known, "peak": self.peak, "rows": rows}


@dataclass
class Report:
    """All that one run of a benchmark found."""

    name: str
    threads: int
    machine: dict[str, Any]
    tables: list[Table] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether every claim's limit holds."""
        return all(claim.met for claim in self.claims)

    def text(self) -> str:
        """The report in Markdown, with tables that read well as they are."""
        parts = [f"# {self.name}", _machine_text(self.machine, self.threads)]
        parts += ["\n".join(f"- {claim.line()}" for claim in self.claims)] if self.claims else []
        for table in self.tables:
            rows = [table.header(), *(table.cells(row) for row in table.rows)]
            parts.append(f"## {table.title}\n\n{aligned(rows)}")
        parts += ["\n".join(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join(parts)

    def data(self) -> dict[str, Any]:
        """Plain data for JSON. Times are in seconds."""
        return {
            "schema": SCHEMA,
            "benchmark": self.name,
            "threads": self.threads,
            "machine": self.machine,
            "claims": [{**asdict(claim), "met": claim.met} for claim in self.claims],
            "tables": [table.data() for table in self.tables],
            "notes": self.notes,
        }


def _machine_text(machine: dict[str, Any], threads: int) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['vector_bits']}-bit vectors "
        f"({', '.join(machine['features'])}); {threads} thread{'s' if threads > 1 else ''} used.",
        f"{machine['system']}, {versions}.",
    ]
    peaks = machine.get("peaks")
    if peaks:
        measured = ", ".join(f"{name} {value:.3g}" for name, value in peaks.items())
        lines.append(f"Measured on one core: {measured}.")
    lines.append(f"Load of the machine when it began: {machine['load']:.2g}.")
    return "  \n".join(lines)


def aligned(rows: list[list[str]]) -> str:
    """A Markdown table: names to the left, figures to the right."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    widths = [max(3, width) for width in widths]

    def line(row: list[str]) -> str:
        first, *rest = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
        return f"| {' | '.join(cells)} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(rows[0]), line(rule), *map(line, rows[1:])])


def write(report: Report, path: Path, table: bool) -> None:
    """The figures as JSON; with `table`, also the text beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report.data(), indent=1, ensure_ascii=False) + "\n")
    if table:
        path.with_suffix(".md").write_text(report.text() + "\n")
