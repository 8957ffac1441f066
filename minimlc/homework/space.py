"""Requirements on a space: on the programs that it makes of `KEYS`, taken together.

Each is a `Requirement` whose test takes the points: objects with a `text` (the program) and a
`trace` (its steps, with what was drawn).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minimlc.homework.allowed import invalid, is_number
from minimlc.homework.structure import Requirement

KEYS = range(8)
"""The keys that a space is called with."""

TILES = ("sample_perfect_tile", "sample_partitioned_tile")


def sampled_tile() -> Requirement:
    """A loop is split by factors that were drawn for it, and not always by the same ones."""

    def test(points: Sequence[Any]) -> str:
        tiles = [set(_used_tiles(point.trace)) for point in points]
        if not any(tiles):
            return "no loop is split by factors that were drawn for it"
        loops = {loop for used in tiles for loop, _ in used}
        drawn = {loop: {t for used in tiles for name, t in used if name == loop} for loop in loops}
        same = all(len(choices) == 1 for choices in drawn.values())
        return f"all points have the same tile of {min(loops)}" if same else ""

    return Requirement("a loop is split by a sampled tile", test)


def _used_tiles(trace: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, tuple]]:
    """The loops that are split by the factors drawn for them before, with those factors."""
    drawn: dict[str, tuple] = {}
    for name, arguments in trace:
        if name in TILES:
            drawn[arguments["loop"]] = arguments.get("decision", ())
        elif name == "split" and drawn.get(arguments["loop"]) == arguments["factors"]:
            yield arguments["loop"], arguments["factors"]


def distinct(count: int) -> Requirement:
    """The points are at least `count` different programs, each from its own decisions: they
    differ by chance alone.
    """
    if not is_number(count, int) or not 1 <= count <= len(KEYS):
        raise invalid(f"distinct: a count of 1 to {len(KEYS)} is wanted, got {count!r:.60}")

    def test(points: Sequence[Any]) -> str:
        programs: dict[str, str] = {}
        for point in points:
            decisions = repr(point.trace.decisions)
            if programs.setdefault(decisions, point.text) != point.text:
                return "two points have the same decisions, but not the same program"
        number = len({point.text for point in points})
        return "" if number >= count else _counted(number)

    return Requirement(f"at least {count} of {len(KEYS)} keys give different programs", test)


def _counted(count: int) -> str:
    return "all keys give one program" if count == 1 else f"they give {count} programs"


def decided(count: int) -> Requirement:
    """At least `count` decisions are not alike in all points."""
    if not is_number(count, int) or count < 1:
        raise invalid(f"decided: a count of 1 or more is wanted, got {count!r:.60}")

    def test(points: Sequence[Any]) -> str:
        values: dict[str, set[Any]] = {}
        for point in points:
            for name, value in point.trace.decisions.items():
                values.setdefault(name, set()).add(value)
        varying = sorted(name for name, choices in values.items() if len(choices) > 1)
        shown = ", ".join(varying) or "nothing"
        return "" if len(varying) >= count else f"{shown} varies from key to key"

    return Requirement(f"at least {count} decisions vary", test)
