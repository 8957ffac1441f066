"""Where constants are: on a cache line, none in another, large ones in huge pages after a build."""

import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from minimlc import memory
from minimlc.memory import AREA, LINE, SHARED, make_pages_huge, on_a_line

LEAST, MOST = SHARED[0], SHARED[-1]


def shifted(size: int, seed: int) -> np.ndarray:
    """Random bytes that do not begin on a cache line."""
    room = np.random.default_rng(seed).integers(0, 255, size + 2 * LINE, np.uint8)
    return room[-room.ctypes.data % LINE + 1 :][:size]


@pytest.mark.parametrize("size", [1, LEAST - 1, LEAST, LEAST + 1, MOST, MOST + 1, AREA + 1])
def test_a_copy_has_the_same_bytes_and_begins_on_a_line(size):
    array = shifted(size, size)
    copy = on_a_line(array)
    np.testing.assert_array_equal(copy, array)
    assert copy.ctypes.data % LINE == 0


def test_what_begins_on_a_line_is_not_copied():
    array = on_a_line(shifted(1000, 0))
    assert on_a_line(array) is array


def test_copies_of_several_threads_do_not_overlap():
    arrays = [shifted(LEAST + 77 * number, number) for number in range(48)]
    with ThreadPoolExecutor(8) as pool:
        copies = list(pool.map(on_a_line, arrays))
    for copy, array in zip(copies, arrays, strict=True):
        np.testing.assert_array_equal(copy, array)
    ranges = sorted((copy.ctypes.data, copy.ctypes.data + copy.nbytes) for copy in copies)
    assert all(end <= start for (_, end), (start, _) in pairwise(ranges))


def test_it_can_be_written_and_lives_as_long_as_it_is_used():
    copies = [on_a_line(shifted(AREA // 3, number)) for number in range(9)]
    make_pages_huge()
    expected = [shifted(AREA // 3, number) for number in range(9)]
    del copies[::2], expected[::2]
    copies[0][...] = 7
    expected[0][...] = 7
    for copy, array in zip(copies, expected, strict=True):
        np.testing.assert_array_equal(copy, array)


@pytest.mark.skipif(sys.platform != "linux", reason="advice to Linux")
def test_bytes_stay_what_they_are_while_pages_are_moved(monkeypatch):
    moved = []
    collapse = memory._collapse
    monkeypatch.setattr(memory, "_collapse", lambda areas: moved.extend(areas) or collapse(areas))
    memory._small.clear()
    array = shifted(MOST, 1)
    copies = [on_a_line(array) for _ in range(8)]
    make_pages_huge()
    for _ in range(20):
        for copy in copies:
            np.testing.assert_array_equal(copy, array)
    assert len(moved) == len(copies)
    assert all(
        any(start <= copy.ctypes.data and copy.ctypes.data + MOST <= end for start, end, _ in moved)
        for copy in copies
    )
    make_pages_huge()
    assert len(moved) == len(copies)


def test_what_nobody_uses_is_not_kept():
    memory._small.clear()
    for number in range(3 * AREA // MOST):
        on_a_line(shifted(MOST, number))
    alive = {id(area) for *_, at in memory._small if (area := at()) is not None}
    assert len(alive) <= 1
