"""The cache model: hand-computed cases, a second model written another way, and bad sizes."""

import numpy as np
import pytest

from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.target import Target
from minimlc.machine.cache_model import Cache, levels_of, simulate

N = 64
ROWS = np.arange(N * N) * 4
COLUMNS = ROWS.reshape(N, N).T.ravel()


def misses(addresses, cache: Cache) -> int:
    return int(simulate(addresses, [cache]).sum())


def test_a_row_major_sum_misses_once_a_line():
    assert misses(ROWS, Cache(1024, 64, 2)) == N * N // 16


def test_a_column_major_sum_misses_always_where_a_column_does_not_fit():
    assert misses(COLUMNS, Cache(1024, 64, 2)) == N * N


def test_a_column_major_sum_misses_once_a_line_where_a_column_fits():
    assert misses(COLUMNS, Cache(N * 64, 64, N)) == N * N // 16
    # 64 lines would fit, but rows of 256 bytes use every fourth set only
    assert misses(COLUMNS, Cache(N * 64, 64, 1)) == N * N


def test_the_least_recently_used_line_makes_room():
    two = Cache(128, 64, 2)
    a, b, c = 0, 64, 128
    assert simulate([a, b, a, c, a, b], [two]).tolist() == [1, 1, 0, 1, 0, 1]


def test_a_set_takes_its_own_lines_only():
    direct = Cache(256, 64, 1)
    assert simulate([0, 256, 0, 64, 0], [direct]).tolist() == [1, 1, 1, 1, 0]


def test_two_levels():
    small, large = Cache(64, 64, 1), Cache(256, 64, 4)
    assert simulate([0, 4, 64, 0, 64], [small, large]).tolist() == [2, 0, 2, 1, 1]
    assert simulate([], [small, large]).tolist() == []


class Plain:
    """The same by ages: every line has the time it was last used."""

    def __init__(self, cache: Cache):
        self.cache = cache
        self.used: dict[tuple[int, int], int] = {}

    def has(self, address: int, now: int) -> bool:
        line = address // self.cache.line
        place = line % (self.cache.size // self.cache.line // self.cache.ways)
        there = (place, line) in self.used
        mine = [key for key in self.used if key[0] == place]
        if not there and len(mine) == self.cache.ways:
            del self.used[min(mine, key=self.used.__getitem__)]
        self.used[place, line] = now
        return there


@pytest.mark.parametrize("ways", [1, 2, 3, 8])
@pytest.mark.parametrize("sets", [1, 3, 8])
def test_against_a_model_by_ages(ways, sets):
    random = np.random.default_rng(10 * ways + sets)
    levels = [Cache(ways * sets * 16, 16, ways), Cache(4 * ways * sets * 32, 32, ways)]
    addresses = random.integers(0, 8 * ways * sets * 16, 2000)
    first, second = map(Plain, levels)
    expected = [
        0 if first.has(a, now) else 1 if second.has(a, now) else 2
        for now, a in enumerate(addresses.tolist())
    ]
    assert simulate(addresses, levels).tolist() == expected
    assert len(set(expected)) == 3


def test_sizes_refused():
    with pytest.raises(CompileError, match="not a whole number of sets") as caught:
        Cache(1000, 64, 4)
    assert "Cache(1024, line=64, ways=4)" in str(caught.value)
    for wrong in (0, -64, 1.5, "64", True):
        with pytest.raises(CompileError, match="whole number >= 1"):
            Cache(wrong)


def test_a_targets_levels():
    first, second = levels_of(Target(l1=48 * 1024, l2=1 << 20))
    assert (first.size, second.size) == (48 * 1024, 1 << 20)
    assert str(first) == "48 KiB, lines of 64 bytes, 8-way, LRU"
