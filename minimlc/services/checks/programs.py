"""Programs of a grid, as in tile programs: nothing is promised about their order."""

from weakref import WeakKeyDictionary

from minimlc.loops.ir.nodes import Block, For, PrimFunc
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.legality import Carried, carried_dependence

PROGRAMS = "programs"
"""The annotation of a loop whose iterations are the programs of a grid, along the axis it names."""
ATOMIC = "atomic"
"""The annotation of a block that updates elements atomically."""
_RACES: WeakKeyDictionary[PrimFunc, Carried | None] = WeakKeyDictionary()


def programs_in(func: PrimFunc) -> list[For]:
    """The loops over a grid's programs, outer to inner."""
    return [loop for loop in loops_in(func.body) if PROGRAMS in dict(loop.annotations)]


def is_atomic(block: Block | None) -> bool:
    """Whether a block's updates are atomic."""
    return block is not None and ATOMIC in dict(block.annotations)


def race_of(func: PrimFunc) -> Carried | None:
    """Two programs that race for an element of a parameter, with an example; None where none is
    found. Data-dependent races are left to whoever runs it.
    """
    if func not in _RACES:
        _RACES[func] = _race_in(func)
    return _RACES[func]


def _race_in(func: PrimFunc) -> Carried | None:
    loops = programs_in(func)
    if not loops:
        return None
    items = [item for item in accesses(func) if item.buffer not in func.allocs]
    plain = {item.buffer for item in items if not is_atomic(item.block)}
    items = [item for item in items if item.buffer in plain]
    found = (carried_dependence(loop, items) for loop in loops)
    return next((race for race in found if race is not None and race.witness is not None), None)
