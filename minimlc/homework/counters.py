"""Requirements on a run of a schedule's kernels on a simulated GPU, in words.

Each is a `Requirement`, as in `structure`; its test takes the `Counts` of a run.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from minimlc.homework.allowed import invalid, is_number
from minimlc.homework.structure import Requirement

WARP = 32
COUNTERS = ("requests", "sectors", "wavefronts", "conflicts")


class Counted(NamedTuple):
    """The accesses of one place in the kernels: see `minimlc.gpusim.profile.Access`."""

    buffer: str
    action: str
    space: str
    requests: int
    sectors: int
    wavefronts: int
    conflicts: int


class Counts(NamedTuple):
    """A run on the simulator: how many kernels were launched, the share of the warps' threads that
    were at work, and the accesses.
    """

    kernels: int
    active: float
    accesses: tuple[Counted, ...]

    @staticmethod
    def of(data: Mapping[str, Any]) -> "Counts":
        """The counts in a worker's data."""
        accesses = tuple(Counted(*row) for row in data["accesses"])
        return Counts(int(data["kernels"]), float(data["active"]), accesses)

    def total(self, counter: str, **where: str) -> int:
        """The sum of a counter over the accesses that have the values in `where`."""
        chosen = (a for a in self.accesses if all(getattr(a, k) == v for k, v in where.items()))
        return sum(getattr(access, counter) for access in chosen)


def at_most(counter: str, most: int, **where: str) -> Requirement:
    """A counter is at most that: `at_most("sectors", 2048, action="store", buffer="C")`."""
    if counter not in COUNTERS or not set(where) <= {"buffer", "action", "space"}:
        raise invalid(f"at_most: there is no counter {counter!r:.30} by {', '.join(where)}")
    if not is_number(most, int) or most < 0:
        raise invalid(f"at_most: a whole number is wanted, got {most!r:.30}")

    def test(counts: Counts) -> str:
        number = counts.total(counter, **where)
        return "" if number <= most else f"they take {number:,} {counter}"

    words = " ".join([where.get("space", ""), where.get("action", ""), where.get("buffer", "")])
    return Requirement(f"at most {most:,} {counter} ({' '.join(words.split()) or 'all'})", test)


def one_kernel() -> Requirement:
    """The function is launched as one kernel: nothing goes through global memory in between."""
    return Requirement(
        "one kernel does it all",
        lambda counts: "" if counts.kernels == 1 else f"there are {counts.kernels} kernels",
    )


def busy(least: float) -> Requirement:
    """At least that share of the threads of the warps that run a statement is at work."""
    return Requirement(
        f"of the threads of a warp, {least:.0%} are at work",
        lambda counts: "" if counts.active >= least else f"{counts.active:.0%} are",
    )
