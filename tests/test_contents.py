"""Digests of arrays: right, and the large ones of a module are computed side by side."""

import hashlib
import threading

import numpy as np
import pytest

from minimlc.loops.values import contents
from minimlc.loops.values.contents import digest_of
from minimlc.services.caches import kept
from minimlc.services.caches.kept import LARGE, read_together


def frozen(size: int, seed: int) -> np.ndarray:
    array = np.frombuffer(np.random.default_rng(seed).bytes(size), np.uint8)
    assert not array.flags.writeable
    return array


def test_large_arrays_are_read_by_two_threads_each_once(monkeypatch):
    arrays = [frozen(size, seed) for seed, size in enumerate([LARGE, 3 * LARGE, LARGE - 1, LARGE])]
    exact = [hashlib.sha256(array.tobytes()).digest() for array in arrays]
    readers, real = [], hashlib.sha256

    def sha256(data):
        readers.append((len(data), threading.current_thread() is threading.main_thread()))
        return real(data)

    monkeypatch.setattr(contents, "hashlib", type("hashlib", (), {"sha256": staticmethod(sha256)}))
    read_together([*arrays, arrays[0]])
    assert sorted(readers) == [(LARGE, True), (LARGE, True), (3 * LARGE, False)]
    assert [digest_of(array) for array in arrays] == exact
    assert readers[3:] == [(LARGE - 1, True)]
    read_together(arrays)
    assert len(readers) == 4


def test_one_large_array_needs_no_thread(monkeypatch):
    monkeypatch.setattr(kept, "Thread", None)
    read_together([frozen(LARGE, 1), frozen(1, 2)])


@pytest.mark.parametrize("size", [0, 1, LARGE])
def test_without_another_thread_an_array_is_read_where_its_digest_is_asked(monkeypatch, size):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    arrays = [frozen(size, 7), frozen(size, 8)]
    read_together(arrays)
    for array in arrays:
        assert digest_of(array) == hashlib.sha256(array.tobytes()).digest()


def test_an_array_that_may_change_is_read_again():
    array = np.zeros(LARGE, np.uint8)
    read_together([array])
    before = digest_of(array)
    array[3] = 1
    assert digest_of(array) != before
