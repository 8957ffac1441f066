"""Where arrays of a block lie in the memory that its threads share.

Where they are more than every device gives, one may lie where another lay that is not used any
more. A barrier is between their uses, as a thread may be ahead of others.
"""

from collections.abc import Iterator
from math import prod
from operator import itemgetter
from typing import NamedTuple

from minimlc.loops.ir.nodes import SHARED, Alloc, Block, Buffer, Seq, Stmt, seq
from minimlc.loops.ir.walks import buffers_in
from minimlc.loops.schedule.tree import replaced_in
from minimlc.loops.values.dtypes import DTYPES
from minimlc.services.checks.threads import SWIZZLED
from minimlc.targets.gpu.launch import Barrier, touches

LEAST = 48 * 1024
"""Bytes that a block has on every device without asking."""


class Places(NamedTuple):
    """The first byte of each array, and how many bytes there are in all."""

    starts: dict[Buffer, int]
    size: int

    @property
    def apart(self) -> int:
        """The most bytes that arrays take if they share none, wherever each begins."""
        return sum(size_of(buffer) + step_of(buffer) - 16 for buffer in self.starts)


class _Life(NamedTuple):
    """The steps of a kernel that use an array, first and last; how many barriers come before."""

    first: int
    last: int
    begin: int
    end: int


def places(body: Stmt) -> Places:
    """Where the arrays lie that the threads of a kernel share."""
    buffers = [item for item in buffers_in(body) if item.scope.startswith(SHARED)]
    lives = _lives(body) if sum(map(size_of, buffers)) > LEAST else {}
    starts, whole = dict[Buffer, int](), 0
    for buffer in buffers:
        start, size = 0, size_of(buffer)
        for other, first in sorted(starts.items(), key=itemgetter(1)):
            if _at_once(lives, buffer, other) and first < start + size:
                start = -(-max(start, first + size_of(other)) // step_of(buffer)) * step_of(buffer)
        starts[buffer], whole = start, max(whole, start + size)
    return Places(starts, whole)


def step_of(buffer: Buffer) -> int:
    """The alignment of an array, in bytes."""
    return 1024 if is_swizzled(buffer) else 16


def is_swizzled(buffer: Buffer) -> bool:
    """Whether an array has rows of 128 bytes in swizzled memory, eight by eight."""
    if buffer.scope != SWIZZLED or buffer.ndim < 2 or buffer.shape[-2] % 8:
        return False
    return buffer.shape[-1] * DTYPES[buffer.dtype].bits == 1024


def size_of(buffer: Buffer) -> int:
    """Bytes of an array, up to a boundary of 16."""
    size = prod(buffer.shape) * max(8, DTYPES[buffer.dtype].bits) // 8
    return -(-size // 16) * 16


def with_places(body: Stmt) -> Stmt:
    """A kernel's body with a barrier wherever an array is used first that may lie where another
    one lay.
    """
    if sum(size_of(other) for other in buffers_in(body) if other.scope.startswith(SHARED)) <= LEAST:
        return body
    lives, steps = _lives(body), list(_steps(body))
    for buffer, life in lives.items():
        earlier = (other for other, its in lives.items() if its.last < life.first)
        gone = [other.name for other in earlier if lives[other].end == life.begin]
        if gone:
            step = steps[life.first]
            why = f"{buffer.name} may lie where {gone[0]} did, which all have used"
            return with_places(replaced_in(body, {step: seq((Barrier(why), step))}))
    return body


def _at_once(lives: dict[Buffer, _Life], one: Buffer, other: Buffer) -> bool:
    """Whether no barrier of all is between the uses of two arrays."""
    if one not in lives or other not in lives:
        return True
    return lives[one].begin <= lives[other].end and lives[other].begin <= lives[one].end


def _lives(body: Stmt) -> dict[Buffer, _Life]:
    lives, met = dict[Buffer, _Life](), 0
    for number, step in enumerate(_steps(body)):
        met += isinstance(step, Barrier)
        for buffer in dict.fromkeys(part.buffer for part in touches(step)):
            if buffer.scope.startswith(SHARED):
                first, _, begin, _ = lives.get(buffer, (number, 0, met, 0))
                lives[buffer] = _Life(first, number, begin, met)
    return lives


def _steps(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that all threads run one after the other."""
    match stmt:
        case Seq(stmts):
            for part in stmts:
                yield from _steps(part)
        case Alloc(body=body) | Block(body=body):
            yield from _steps(body)
        case _:  # other nodes: one step
            yield stmt
