"""Find races: threads that touch one element, one of them to write it, with no barrier between.

Of each element that threads share, the last write is remembered, and of its readers as many as
show whether another thread's write would race: two since the last barrier, and two of different
blocks, which never wait for each other. What an access meets is then the same whatever the order of
the threads was, so one run finds every race that its data leads to.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from minimlc.gpusim.active import WARP, Active
from minimlc.gpusim.execute import Watch
from minimlc.gpusim.memory import Memory, space_of
from minimlc.gpusim.values import Value
from minimlc.loops.ir.nodes import SHARED, Buffer, Stmt, Store
from minimlc.loops.ir.walks import stored_in
from minimlc.loops.values.errors import RaceError
from minimlc.loops.values.node import Node, span_of
from minimlc.targets.gpu.launch import Barrier, Kernel, Sizes, Touch, trimmed

Stamps = Any
"""Accesses as numbers: the place in the program, the barriers before, the thread; -1 for none."""
THREAD_BITS, BARRIER_BITS = 30, 22
NEVER = np.int64(-1)


def _thread(stamps: Stamps) -> Any:
    return stamps & (1 << THREAD_BITS) - 1


def _barriers(stamps: Stamps) -> Any:
    return stamps >> THREAD_BITS & (1 << BARRIER_BITS) - 1


class _Shadow:
    """The accesses `known` of a buffer's elements, in rows: the last writer; and where there are
    readers, a first one, and one of an `other` block; the `last` one since a barrier, and `near` it
    another thread.
    """

    def __init__(self, known: Stamps, width: int):
        self.known, self.width = known, width

    def met_by_read(self, at: np.ndarray, now: Stamps) -> Iterable[Stamps]:
        """The earlier accesses that reads race with, and remember the reads."""
        yield self._racing(self.known[0][at], now)
        if len(self.known) == 1:
            self.known = np.pad(self.known, ((0, 4), (0, 0)), constant_values=NEVER)
        _, first, other, last, near = self.known
        _put(first, at, now, first[at] < 0)
        _put(other, at, now, self._block(first[at]) != self._block(now))
        old = last[at]
        past = (old < 0) | (_barriers(old) != _barriers(now))
        _put(last, at, now, past | (self._block(old) != self._block(now)))
        _put(near, at, now, _thread(last[at]) != _thread(now))

    def met_by_write(self, at: np.ndarray, now: Stamps) -> Iterable[Stamps]:
        """The earlier accesses that writes race with, each other's too, and remember the writes."""
        for known in self.known:
            yield self._racing(known[at], now)
        _put(self.known[0], at, now)
        yield self._racing(self.known[0][at], now)

    def repeated(self, blocks: int) -> "_Shadow":
        """The shadow for blocks that have all done what the first one did."""
        known = self.known[:, np.newaxis]
        later = known + np.arange(blocks).reshape(-1, 1) * self.width
        return _Shadow(np.where(known < 0, NEVER, later).reshape(len(known), -1), self.width)

    def _block(self, stamps: Stamps) -> Any:
        return _thread(stamps) // self.width

    def _racing(self, known: Stamps, now: Stamps) -> Stamps:
        """The known accesses where they race with the current ones, else -1."""
        apart = (known >= 0) & (_thread(known) != _thread(now))
        unordered = (_barriers(known) == _barriers(now)) | (self._block(known) != self._block(now))
        return np.where(apart & unordered, known, NEVER)


def _put(known: Stamps, at: np.ndarray, new: Stamps, where: Any = slice(None)) -> None:
    """Remember accesses; of several to one element, the first."""
    known[at[where][::-1]] = new[where][::-1]


class Races(Watch):
    """Raises `RaceError` E618 for a race, E619 for a barrier that only some threads come to.

    Shared memory is looked at in one block, as long as all blocks of a chunk do the same with it.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.threads = prod(kernel.block)
        self.width = -(-self.threads // WARP) * WARP
        self.written = {buffer for buffer in stored_in(kernel.body) if space_of(buffer, kernel)}
        self.shadows: dict[Buffer, _Shadow] = {}
        self.places: dict[Touch, int] = {}
        self.numbers = range(0)
        self.barriers: Value = np.int64(0)
        self.current: Stmt = kernel.body

    def statement(self, item: Stmt, active: Active) -> None:
        self.current = item
        if isinstance(item, Barrier):
            self._meet(item, active)

    def begin(self, blocks: range) -> None:
        """Other blocks run, whose shared memory is another."""
        self.numbers, self.barriers = blocks, np.int64(0)
        self.shadows = {b: s for b, s in self.shadows.items() if not b.scope.startswith(SHARED)}

    def _meet(self, item: Barrier, active: Active) -> None:
        here = active.of_each_block
        apart = (here > 0) & (here < self.threads)
        if apart.any():
            raise self._divergent(item, active, int(np.argmax(apart)))
        self.barriers = self.barriers + (1 if here.all() else (here > 0).reshape(-1, 1))

    def access(self, item: Touch, memory: Memory, element: Value, active: Active) -> None:
        if item.buffer not in self.written:
            return
        shape = np.broadcast_shapes(np.shape(element), np.shape(active.mask), (1, self.width))
        shadow = self._shadow(item.buffer, memory, shape[0] == 1)
        whole = shadow.known.shape[1] == len(memory.data)
        shape = active.shape if whole else (1, self.width)
        parts = memory.at(element) if whole else element, self._stamps(item, shape[0])
        mask = np.broadcast_to(active.mask, shape)
        at, now = (np.broadcast_to(part, shape)[mask] for part in parts)
        met = shadow.met_by_write if isinstance(item, Store) else shadow.met_by_read
        for stamps in met(at, now):
            if (stamps >= 0).any():
                lane = int(np.argmax(stamps >= 0))
                raise self._race(item, int(at[lane]), int(stamps[lane]), int(now[lane]))

    def _shadow(self, buffer: Buffer, memory: Memory, alike: bool) -> _Shadow:
        """The shadow of a buffer; of its first block alone, as long as all are `alike`."""
        whole, one = len(memory.data), prod(buffer.shape)
        local = buffer.scope.startswith(SHARED)
        alike = alike and np.ndim(self.barriers) == 0
        if buffer not in self.shadows:
            never = np.full((1, one if local else whole), NEVER)
            self.shadows[buffer] = _Shadow(never, self.width)
        shadow = self.shadows[buffer]
        if shadow.known.shape[1] < whole and not alike:
            shadow = self.shadows[buffer] = shadow.repeated(whole // one)
        return shadow

    def _stamps(self, item: Touch, rows: int) -> Stamps:
        place = self.places.setdefault(item, len(self.places)) << THREAD_BITS + BARRIER_BITS
        threads = np.arange(rows * self.width).reshape(rows, -1) + self.numbers.start * self.width
        return place + (self.barriers << THREAD_BITS) + threads

    # Errors

    def _race(self, item: Touch, at: int, before: int, now: int) -> RaceError:
        buffer = item.buffer
        other = list(self.places)[before >> THREAD_BITS + BARRIER_BITS]
        index = np.unravel_index(at % max(1, prod(buffer.shape)), buffer.shape)
        name = f"{buffer.name}[{', '.join(map(str, index))}]"
        same = _thread(before) // self.width == _thread(now) // self.width
        line = span_of(other)
        where = f" (line {line.line})" if line is not None else ""
        which = f"{self._name(before)} {_verb(other)}{where} with no barrier between"
        why = f"{self._name(now)} {_verb(item)} {name}, which {which}"
        hint = "let all threads of the block wait between the two"
        if not same:
            hint = "blocks do not wait for each other: let one do both, or launch two kernels"
        return self._error("E618", why, item, "", hint)

    def _divergent(self, item: Barrier, active: Active, block: int) -> RaceError:
        """The error that names a thread at a barrier and one of its block that does not come."""
        mask = np.broadcast_to(active.mask, active.shape)[block]
        first = (self.numbers[block]) * self.width
        comes, stays = int(np.argmax(mask)), int(np.argmin(mask[: self.threads]))
        one, other = self._name(first + comes), self._name(first + stays)
        why = f"{one} comes to a barrier, {other} does not"
        hint = "put the barrier where all threads of the block come by"
        here = f"{mask[: self.threads].sum()} of {self.threads} threads come"
        return self._error("E619", why, item, f"{here}; it is there because {item.why}", hint)

    def _error(self, code: str, why: str, item: Node, example: str, hint: str) -> RaceError:
        """The error with the line of the script, or the statement where a schedule wrote it."""
        span = span_of(item) or span_of(self.current)
        excerpt = "" if span or isinstance(item, Barrier) else self.current.script(full=False)
        return RaceError(why, code=code, span=span, excerpt=excerpt, example=example, hint=hint)

    def _name(self, stamp: int) -> str:
        """A thread in words."""
        block, thread = divmod(_thread(stamp), self.width)
        return f"thread {_at(thread, self.kernel.block)} of block {_at(block, self.kernel.grid)}"


def _verb(item: Touch) -> str:
    return "writes" if isinstance(item, Store) else "reads"


def _at(number: int, sizes: Sizes) -> str:
    """A number as a place on the axes x, y and z, as few of them as are used."""
    place = [int(n) for n in np.unravel_index(number, sizes[::-1])][::-1][: len(trimmed(sizes))]
    return str(tuple(place) if len(place) > 1 else place[0])
