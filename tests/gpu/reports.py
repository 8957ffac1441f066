"""Reports on kernels with a mistake, in a form that others' reports can be compared with."""

import re
from typing import NamedTuple

import numpy as np

from minimlc.loops.values.errors import RaceError
from minimlc.targets.gpu.kernels import Launches

Place = tuple[int, int, int]
Thread = tuple[Place, Place]
"""The places of a block and of a thread in it, by x, y and z."""


class Race(NamedTuple):
    """Two threads that race for an element of a buffer, by its place in memory."""

    buffer: str
    element: int
    threads: frozenset[Thread]


class Apart(NamedTuple):
    """A block where only some threads come to a barrier, and how many there are."""

    block: Place
    threads: int
    of: int


def said(error: RaceError, whole: Launches) -> Race | Apart:
    """The simulator's error as a report."""
    places = re.findall(r"thread (\d+|\([\d, ]+\)) of block (\d+|\([\d, ]+\))", error.why)
    threads = [(place(block), place(thread)) for thread, block in places]
    if error.code == "E619":
        here, everyone = re.findall(r"\d+", error.example)[:2]
        return Apart(threads[0][0], int(here), int(everyone))
    name, index = re.search(r" (\w+)\[([\d, ]*)\], which", error.why).groups()
    used = [b for kernel in whole.kernels for b in (*kernel.params, *kernel.shared)]
    shape = next(buffer.shape for buffer in used if buffer.name == name)
    indices = tuple(map(int, re.findall(r"\d+", index)))
    element = int(np.ravel_multi_index(indices, shape)) if shape else 0
    return Race(name, element, frozenset(threads))


def place(text: str) -> Place:
    """Numbers in a text as a place on x, y and z."""
    x, y, z, *_ = (*map(int, re.findall(r"\d+", text)), 0, 0, 0)
    return x, y, z
