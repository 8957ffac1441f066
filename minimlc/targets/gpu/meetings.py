"""Uses of the memory that threads of a block share, and where they meet in it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.walks import statements_in
from minimlc.loops.values.node import replace
from minimlc.targets.gpu.launch import Barrier, touches


class Place(NamedTuple):
    """Where a statement stands: the axes that are bound around it, the bound loops that determine
    which thread runs it, and the buffers that each of those threads has for itself.
    """

    bound: frozenset[str] = frozenset()
    nest: tuple[tir.For, ...] = ()
    private: frozenset[tir.Buffer] = frozenset()


class Use(NamedTuple):
    """A buffer in memory that threads share, and the nest of loops that determines which use it."""

    buffer: tir.Buffer
    writes: bool
    nest: tuple[tir.For, ...]


class Part(NamedTuple):
    """A statement of one thread; what it uses before its first barrier and after its last."""

    stmt: tir.Stmt
    head: tuple[Use, ...]
    tail: tuple[Use, ...]
    meets: bool = False


def apart(uses: Iterable[Use], body: tir.Stmt) -> tuple[Use, ...]:
    """Uses as in a separate nest, to which no other one is equal."""
    loop = tir.For(tir.Var("own"), tir.index(1), "serial", body)
    return tuple(use._replace(nest=(*use.nest, loop)) for use in uses)


def uses(item: tir.Stmt | tir.Expr, at: Place) -> tuple[Use, ...]:
    """The uses by a thread of the memory that it shares with others."""
    used = (
        Use(part.buffer, isinstance(part, tir.Store), at.nest)
        for part in touches(item)
        if part.buffer not in at.private
    )
    return tuple(dict.fromkeys(used))


def meeting(
    before: Iterable[Use], after: Sequence[Use], outside: tuple[tir.For, ...] | None
) -> tuple[str, str]:
    """Why threads have to wait between two parts, and the buffer that they use: one touches what
    another has written, or writes what another has read; "" where they need not.

    Threads of one nest never meet, as its loops are independent; in another iteration of a loop
    they may, unless all loops of the nest are the ones `outside` of that loop.
    """
    pairs = [
        (one, other)
        for one in before
        for other in after
        if one.buffer is other.buffer and (one.writes or other.writes)
        if one.nest != other.nest or outside not in (None, one.nest)
    ]
    for one, other in sorted(pairs, key=lambda pair: pair[1].writes):
        verb = "written" if other.writes else "read"
        done = "written" if one.writes else "read"
        name = one.buffer.name
        return f"{name} is {verb} when all have {done} it", name
    return "", ""


def waits(stmt: tir.Stmt) -> bool:
    """Whether there is a barrier in a statement."""
    return any(isinstance(part, Barrier) for part in statements_in(stmt))


def guarded(condition: tir.Expr, stmt: tir.Stmt) -> tir.Stmt:
    """A statement where a condition holds, which is the same for all threads and does not change.
    Barriers between its parts stay outside, for all threads in any case: PoCL 3.1 computes wrong
    numbers where one inside a condition precedes a condition on the thread.
    """
    match stmt:
        case _ if not waits(stmt):
            return tir.IfThenElse(condition, stmt)
        case Barrier():
            return stmt
        case tir.Seq(stmts):
            return tir.seq(guarded(condition, part) for part in stmts)
        case tir.Alloc() | tir.Block() | tir.For(extent=tir.Const()):
            return replace(stmt, body=guarded(condition, stmt.body))
        case tir.For(extent=extent):
            return replace(stmt, extent=tir.select(condition, extent, tir.as_expr(0, extent.dtype)))
        case _:  # other nodes: nothing of theirs waits
            return tir.IfThenElse(condition, stmt)
