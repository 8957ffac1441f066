"""The README's table of figures, from the results that are kept: the end of `make bench`."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contest import OURS, Result
from benchmarks.harness import Measured
from benchmarks.report import Claim, Table, aligned

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
HEADER = ["work", "peer", "asked", "measured", "rate", "of measured peak"]
ALIKE = 3
"""So many claims of the same limit about different things are shown by the worst of them."""


def load(names: Iterable[str], folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The results there are, in the names' order."""
    paths = [folder / f"{name}.json" for name in names]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def text(results: Sequence[dict[str, Any]]) -> str:
    """The table, and below it what was not asked of this machine, and the machines."""
    rows = [row for result in results for row in rows_of(result)]
    below = [*excuses(results), *machines(results)]
    return "\n\n".join([aligned([HEADER, *rows]), *below])


def rows_of(result: dict[str, Any]) -> Iterator[list[str]]:
    """The rows of one benchmark: its claims; its contests, where nothing is claimed of them."""
    claims = claims_of(result)
    for claim in worst(claims):
        peer = claim.peer or "–"
        share = f"{claim.share:.0%}" if claim.share is not None else ""
        asked = claim.bound() if claim.holds or not claim.unless else f"({claim.bound()})"
        yield [claim.text, peer, asked, claim.figure(), claim.rate, share]
    for table in () if claims else tables_of(result):
        found = Result(table, {row.name: row.median for row in table.rows})
        for claim in found.claim(0.0):
            share = f"{claim.share:.0%}" if claim.share is not None else ""
            yield [table.title, claim.peer, "–", claim.figure(), claim.rate, share]


def claims_of(result: dict[str, Any]) -> list[Claim]:
    """What one benchmark claims."""
    return [Claim(**{k: v for k, v in c.items() if k != "met"}) for c in result["claims"]]


def tables_of(result: dict[str, Any]) -> Iterator[Table]:
    """The tables in which minimlc has one row among peers'."""
    for data in result["tables"]:
        rows = [Measured(r["name"], tuple(r["samples"]), r["batch"]) for r in data["rows"]]
        rest = {key: data.get(key, 0.0) for key in ("work", "moved", "peak")}
        if OURS in [row.name for row in rows]:
            yield Table(data["title"], rows, data["baseline"], **rest)


def worst(claims: Sequence[Claim]) -> Iterator[Claim]:
    """The claims, with one for many that say the same of different things."""
    groups: dict[tuple[str, float, str], list[Claim]] = {}
    for claim in claims:
        key = (claim.text.split(": ")[-1], claim.limit, claim.peer)
        groups.setdefault(key, []).append(claim)
    for group in groups.values():
        if len(group) <= ALIKE or group[0].peer:
            yield from group
        else:
            yield max(group, key=lambda c: c.value if c.relation == "<=" else -c.value)


def excuses(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Why a limit in brackets does not count here."""
    for result in results:
        for claim in claims_of(result):
            if claim.unless and not claim.holds:
                yield f"({claim.text}: not asked here, {claim.unless}.)"


def machines(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each machine, with what ran on it where there are several, and what it was
    measured to do at most.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    ran: dict[str, list[str]] = {}
    for result in results:
        machine = result["machine"]
        name = f"{machine['cpu']}, {machine['cores']} cores ({', '.join(machine['features'])})"
        found.setdefault(name, []).append(machine)
        ran.setdefault(name, []).append(result["benchmark"])
    for name, all_of_it in found.items():
        where = f"{', '.join(ran[name])}: " if len(found) > 1 else ""
        yield f"{where}{name}.{_peaks(all_of_it)}"


def _peaks(machines: Sequence[dict[str, Any]]) -> str:
    names = {name: None for machine in machines for name in machine.get("peaks", {})}
    each = [
        f"{name} {max(m['peaks'][name] for m in machines if 'peaks' in m):.3g}" for name in names
    ]
    return f" Measured peaks of one core: {', '.join(each)}." if each else ""


def insert(document: str, table: str) -> str:
    """The document with the table between its two markers. Raises `ValueError` without them."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(names: Iterable[str], readme: Path = ROOT / "README.md") -> int:
    """Print the table and put it into the README; the exit status."""
    table = text(load(names))
    print(table)
    try:
        readme.write_text(insert(readme.read_text("utf-8"), table), encoding="utf-8")
    except ValueError as error:
        print(f"{readme.name} is left as it was: {error}", file=sys.stderr)
        return 1
    return 0
