"""Programs of a grid as blocks of a launch, unless a schedule has bound loops already."""

from minimlc.loops.ir.nodes import Alloc, PrimFunc
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.regions import is_private
from minimlc.loops.schedule.tree import replaced
from minimlc.loops.values.errors import RaceError
from minimlc.loops.values.node import replace
from minimlc.services.checks.programs import is_atomic, programs_in, race_of


def with_grid(func: PrimFunc) -> PrimFunc:
    """A function whose programs are blocks of one thread, unless loops are bound already, or
    programs update elements one at a time, which blocks cannot: then one thread runs them in order.
    `RaceError` E618 where these race for others.
    """
    loops, items = programs_in(func)[:3], accesses(func)
    if not loops or any(loop.thread for loop in loops_in(func.body)):
        return func
    race = race_of(func)
    if any(map(is_atomic, blocks_in(func.body))):
        if race is not None:
            raise RaceError(race.explain(), code="E618", hint="tile.atomic_add(C[at], value)")
        return func
    new = loops[-1].body
    tiles = [alloc for alloc in func.allocs if not is_private(alloc, loops[0], items)]
    for buffer in tiles:  # each program has its tiles, whatever suites they are in
        new = Alloc(buffer, new)
    for loop, axis in zip(reversed(loops), "xyz", strict=False):
        new = replace(loop, kind="thread_binding", thread=f"blockIdx.{axis}", body=new)
    allocs = tuple(alloc for alloc in func.allocs if alloc not in tiles)
    return replace(replaced(func, {loops[0]: new}), allocs=allocs)
