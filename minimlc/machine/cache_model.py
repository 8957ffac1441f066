"""A textbook cache: sets of lines; in a full set, the least recently used line makes room.

    Cache(32 * 1024, line=64, ways=8)    64 sets of 8 lines of 64 bytes

An address's line number, modulo the number of sets, is its set. Reads and writes are alike: both
bring the line in where it is missing (write-allocate). There is no prefetching, so what streams
through memory misses once a line; a machine that fetches ahead hides some of these. After Hennessy
and Patterson, Computer Architecture: A Quantitative Approach, appendix B.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.target import Target


@dataclass(frozen=True, slots=True)
class Cache:
    """`size` and `line` in bytes; `ways` lines make a set (as many as fit: fully associative)."""

    size: int = 32 * 1024
    line: int = 64
    ways: int = 8

    def __post_init__(self) -> None:
        for name in ("size", "line", "ways"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise CompileError(f"a cache's {name} must be a whole number >= 1, got {value!r}")
        if self.size % (self.line * self.ways):
            whole = max(1, round(self.size / (self.line * self.ways))) * self.line * self.ways
            raise CompileError(
                f"a cache of {self.size} bytes is not a whole number of sets of {self.ways} lines "
                f"of {self.line} bytes",
                hint=f"Cache({whole}, line={self.line}, ways={self.ways})",
            )

    @property
    def sets(self) -> int:
        return self.size // (self.line * self.ways)

    def __str__(self) -> str:
        return f"{bytes_text(self.size)}, lines of {self.line} bytes, {self.ways}-way, LRU"


def levels_of(target: Target) -> tuple[Cache, Cache]:
    """Levels 1 and 2 of a target with usual lines and ways: a rough idea, not a model."""
    usual = Cache()
    one_set = usual.line * usual.ways
    first, second = (max(1, round(size / one_set)) * one_set for size in (target.l1, target.l2))
    return Cache(first), Cache(second)


def simulate(addresses: Iterable[int] | np.ndarray, levels: Sequence[Cache]) -> np.ndarray:
    """For each access, in order, the number of the level that had its byte: 0 for the first one,
    `len(levels)` where none had it. A level is asked, and filled, only where those before it miss.
    """
    flat = np.asarray(addresses, np.int64).ravel()
    missed = np.zeros(flat.size, np.int8)
    waiting = np.arange(flat.size)
    for level in levels:
        waiting = waiting[_misses(flat[waiting] // level.line, level)]
        missed[waiting] += 1
    return missed


def _misses(lines: np.ndarray, cache: Cache) -> np.ndarray:
    """Whether each line, in order, is missing. A dict keeps a set's lines, oldest first."""
    count = cache.sets
    sets: list[dict[int, None]] = [{} for _ in range(count)]
    missing = np.zeros(lines.size, np.bool_)
    for number, line in enumerate(lines.tolist()):
        held = sets[line % count]
        if line in held:
            del held[line]
        else:
            missing[number] = True
            if len(held) == cache.ways:
                del held[next(iter(held))]
        held[line] = None
    return missing


def bytes_text(size: int) -> str:
    """A size in bytes, KiB or MiB, whichever is whole."""
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % scale == 0:
            return f"{size // scale} {unit}"
    return f"{size} bytes"
