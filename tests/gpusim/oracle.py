"""Races by comparing each access with each other: slow, and too simple to be wrong."""

from collections import defaultdict
from itertools import combinations
from math import prod

import numpy as np

from minimlc.gpusim import launch
from minimlc.gpusim.active import Active
from minimlc.gpusim.execute import Watch
from minimlc.gpusim.memory import space_of
from minimlc.loops.ir.nodes import Store
from minimlc.loops.values.errors import RaceError
from minimlc.targets.gpu.kernels import Barrier, Kernel, Launches
from tests.gpu.reports import Apart, Place, Race, said


class Pairs(Watch):
    """All accesses to the memory that threads share, each with the barriers before it."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.seen = defaultdict(set)
        self.met = {}

    def begin(self, blocks: range) -> None:
        self.blocks = blocks
        for block in blocks:
            self.met[block] = np.zeros(prod(self.kernel.block), int)

    def _running(self, active: Active):
        """Blocks and threads, by their numbers in the chunk and the block."""
        mask = np.broadcast_to(active.mask, active.shape)
        return np.argwhere(mask[:, : prod(self.kernel.block)])

    def statement(self, item, active: Active) -> None:
        for row, thread in self._running(active) if isinstance(item, Barrier) else ():
            self.met[self.blocks[row]][thread] += 1

    def access(self, item, memory, element, active: Active) -> None:
        space = space_of(item.buffer, self.kernel)
        elements = np.broadcast_to(element, active.shape)
        for row, thread in self._running(active) if space else ():
            block = self.blocks[row]
            key = item.buffer, elements[row, thread], block if space == "shared" else None
            access = block, thread, self.met[block][thread], isinstance(item, Store)
            self.seen[key].add(access)

    def races(self) -> set[Race]:
        return {
            Race(
                buffer.name,
                int(element),
                frozenset((self._place(one[:2]), self._place(other[:2]))),
            )
            for (buffer, element, _), accesses in self.seen.items()
            for one, other in combinations(accesses, 2)
            if one[:2] != other[:2] and (one[3] or other[3])
            if one[0] != other[0] or one[2] == other[2]
        }

    def apart(self) -> set[Place]:
        """The blocks whose threads did not come to barriers equally often."""
        return {self._place((b, 0))[0] for b, met in self.met.items() if len(set(met)) > 1}

    def _place(self, thread) -> tuple[Place, Place]:
        sizes = self.kernel.grid, self.kernel.block
        return tuple(
            tuple(map(int, np.unravel_index(number, size, order="F")))
            for number, size in zip(thread, sizes, strict=True)
        )


def watched(whole: Launches, arrays, monkeypatch) -> list[Pairs]:
    """The accesses of each kernel in a run that no race ends."""
    watches: list[Pairs] = []

    def watch(kernel: Kernel) -> Pairs:
        watches.append(Pairs(kernel))
        return watches[-1]

    with monkeypatch.context() as patch:
        patch.setattr(launch, "Races", watch)
        launch.launch(whole, [array.copy() for array in arrays])
    return watches


def check(whole: Launches, arrays, monkeypatch) -> Race | Apart | None:
    """The simulator's report on kernels, which must be right; None where nothing is wrong."""
    watches = watched(whole, arrays, monkeypatch)
    races = {race for watch in watches for race in watch.races()}
    apart = {block for watch in watches for block in watch.apart()}
    try:
        launch.launch(whole, [array.copy() for array in arrays])
    except RaceError as error:
        report = said(error, whole)
        assert report in races or report[0] in apart, report
        return report
    assert not races and not apart
    return None
