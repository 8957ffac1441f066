"""The table of figures beside the results, and ten rows of it in the README, from the results that
are kept: the end of `make bench`.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contest import OURS, Result
from benchmarks.harness import Measured
from benchmarks.report import Claim, Table, aligned

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
CHOSEN = (
    ("f32 matmul 1024³", "numpy"),
    ("f32 matmul 1024³", "torch"),
    ("int8 matmul 1024³", "torch"),
    ("conv2d 56×56×64→64 3×3", "torch"),
    ("softmax, 1024×1024 float32", "jax"),
    ("attention, 1 × 8 heads, 512 positions, width 64", "jax"),
    ("cold build of the digits MLP", ""),
    ("4 transformer blocks", "onnxruntime"),
    ("ResNet-18", "onnxruntime"),
    ("tuned product 1024³, by the best library", ""),
)
"""The rows of the README: the work, and the peer if there is one."""
HEADER = ["work", "peer", "asked", "measured", "rate", "of measured peak"]
NO_PEER = "–"
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


def chosen(results: Sequence[dict[str, Any]]) -> str:
    """The machines of the README's rows, and the table of these rows. Raises `ValueError`
    if one of them is missing.
    """
    found = {(row[0], row[1]): (row, result) for result in results for row in rows_of(result)}
    keys = [(work, peer or NO_PEER) for work, peer in CHOSEN]
    for work, peer in keys:
        if (work, peer) not in found:
            raise ValueError(f'no row "{work}" with the peer {peer}')
    ran: dict[str, dict[str, None]] = {}
    for key in keys:
        machine, name = found[key][1]["machine"], found[key][1]["benchmark"]
        link = f"[{name}](benchmarks/results/{name}.md)"
        ran.setdefault(f"{machine['cpu']}, {machine['cores']} cores", {})[link] = None
    where = " and on ".join(f"{machine} ({', '.join(names)})" for machine, names in ran.items())
    return f"Measured on {where}:\n\n{aligned([HEADER, *(found[key][0] for key in keys)])}"


def rows_of(result: dict[str, Any]) -> Iterator[list[str]]:
    """The rows of one benchmark: its claims; its contests, where nothing is claimed of them."""
    claims = claims_of(result)
    for claim in worst(claims):
        peer = claim.peer or NO_PEER
        share = f"{claim.share:.0%}" if claim.share else ""
        asked = claim.bound() if claim.holds or not claim.unless else f"({claim.bound()})"
        yield [claim.text, peer, asked, claim.figure(), claim.rate, share]
    for table in () if claims else tables_of(result):
        found = Result(table, {row.name: row.median for row in table.rows})
        for claim in found.claim(0.0):
            share = f"{claim.share:.0%}" if claim.share else ""
            yield [table.title, claim.peer, "–", claim.figure(), claim.rate, share]


def claims_of(result: dict[str, Any]) -> list[Claim]:
    """The claims of one benchmark."""
    return [Claim(**{k: v for k, v in c.items() if k != "met"}) for c in result["claims"]]


def tables_of(result: dict[str, Any]) -> Iterator[Table]:
    """The tables in which minimlc has one row among peers'."""
    for data in result["tables"]:
        rows = [Measured(r["name"], tuple(r["samples"]), r["batch"]) for r in data["rows"]]
        rest = {key: data.get(key, 0.0) for key in ("work", "moved", "peak")}
        if OURS in [row.name for row in rows]:
            yield Table(data["title"], rows, data["baseline"], **rest)


def worst(claims: Sequence[Claim]) -> Iterator[Claim]:
    """The claims, with one for many of the same limit about different things."""
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
    """A line for each machine, with what ran on it where there are several, and its measured
    peaks.
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
    rates = [
        f"{name} {max(m['peaks'][name] for m in machines if 'peaks' in m):.3g}" for name in names
    ]
    return f" Measured peaks of one core: {', '.join(rates)}." if rates else ""


def insert(document: str, table: str) -> str:
    """The document with the table between its two markers. Raises `ValueError` without them."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(
    names: Iterable[str], full: Path = RESULTS / "README.md", readme: Path = ROOT / "README.md"
) -> int:
    """Print the table, put it beside the results and its chosen rows into the README; the exit
    status.
    """
    results = load(names)
    print(text(results))
    return max(_refresh(full, lambda: text(results)), _refresh(readme, lambda: chosen(results)))


def _refresh(page: Path, table: Callable[[], str]) -> int:
    try:
        page.write_text(insert(page.read_text("utf-8"), table()), encoding="utf-8")
    except ValueError as error:
        where = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name
        print(f"{where} is left as it was: {error}", file=sys.stderr)
        return 1
    return 0
