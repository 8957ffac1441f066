"""Element-wise chains: all of them in one loop, which goes through memory once.

What limits such a function is how many bytes it moves. So nothing that is computed on the way gets
a buffer, and each input is read where it is used.
"""

from math import prod

from minimlc.dtypes import DTYPES
from minimlc.errors import ScheduleError
from minimlc.node import structural_equal, walk
from minimlc.recipes.general import attempt
from minimlc.recipes.views import HINT, WORTH_THREADS, block_of, buffer_of, extent, loops_of
from minimlc.schedule import Schedule
from minimlc.schedule.tree import find_block
from minimlc.target import Target
from minimlc.tir.nodes import Block, Load, Store, Var
from minimlc.tir.wellformed import blocks_in

CHUNK = 1 << 14
"""Elements of one long row that a thread takes at a time."""


def elementwise(
    sch: Schedule, block: str | None = None, *, target: Target | None = None
) -> Schedule:
    """A fast chain of blocks that each compute an element from elements: no sums, in any order.

    Takes the whole function. `block` names one block that must be in it. Raises `ScheduleError`
    where a block is not of this kind.
    """
    target = target or Target.host()
    others = [name for name in sch.blocks() if not is_elementwise(sch, name)]
    if others or block not in (None, *sch.blocks()):
        what = f'block "{others[0] if others else block}" is not an element-wise one'
        raise ScheduleError(f"elementwise: {what}", code="E170", hint=HINT)
    for name in sch.blocks()[:-1]:
        if used_once(sch, name):
            sch = attempt(sch, "compute_inline", name)
    for name in sch.blocks():
        sch = one_loop(sch, name, target)
    return sch


def left_over(sch: Schedule, names: list[str], target: Target) -> Schedule:
    """Those of the blocks that are element-wise and have no schedule yet, each in one loop."""
    for name in names:
        if name in sch.blocks() and is_elementwise(sch, name) and is_untouched(sch, name):
            sch = one_loop(sch, name, target)
    return sch


def is_untouched(sch: Schedule, name: str) -> bool:
    """Whether a block stands alone in loops that all run in order."""
    loops = find_block(sch.func, name).loops
    alone = bool(loops) and len(blocks_in(loops[0])) == 1
    return alone and all(loop.kind == "serial" for loop in loops)


def is_elementwise(sch: Schedule, name: str) -> bool:
    """Whether a block writes one element, for each of its iterations another."""
    item = block_of(sch, name)
    if not item.iters or any(it.kind != "S" for it in item.iters):
        return False
    return isinstance(item.body, Store) and len(sch.loops(name)) == len(item.iters)


def used_once(sch: Schedule, name: str) -> bool:
    """Whether each element that a block computes is used for one element of one other block."""
    consumers = sch.consumers(name)
    if len(consumers) != 1:
        return False
    buffer = buffer_of(sch, name)
    item = block_of(sch, consumers[0])
    first, *more = [load for load in loads_of(item) if load.buffer.name == buffer]
    alike = all(
        structural_equal(i, j)
        for load in more
        for i, j in zip(first.indices, load.indices, strict=True)
    )
    return alike and size_of(sch, name) >= size_of(sch, consumers[0])


def one_loop(sch: Schedule, name: str, target: Target) -> Schedule:
    """Rows in lanes, and shared out over threads; rows too short for that become one long one."""
    *outer, lane = loops_of(sch, name, "S")
    enough = size_of(sch, name) >= WORTH_THREADS
    lanes = target.vector_bits // DTYPES[_store(sch, name).buffer.dtype].bits
    if outer and extent(sch, name, lane) < 4 * lanes and goes_straight(sch, name):
        sch = sch.fuse(*outer, lane)
        return sch.vectorize(*sch.loops(name))
    if not outer and enough:
        sch = sch.split(lane, [None, CHUNK])
        *outer, lane = loops_of(sch, name, "S")
    sch = sch.vectorize(lane)
    if not outer or not enough:
        return sch
    if len(outer) > 1:
        sch = sch.fuse(*outer)
    return sch.parallel(sch.loops(name)[0])


def goes_straight(sch: Schedule, name: str) -> bool:
    """Whether a block goes through all that it reads and writes in the order of its loops."""
    item = block_of(sch, name)
    places = tuple(it.var for it in item.iters)
    sizes = tuple(it.extent for it in item.iters)
    order = [it.value.name for it in item.iters if isinstance(it.value, Var)]
    uses: list[Store | Load] = [_store(sch, name), *loads_of(item)]
    return order == sch.loops(name) and all(
        not use.indices or (use.indices == places and use.buffer.shape == sizes) for use in uses
    )


def loads_of(item: Block) -> list[Load]:
    """What a block reads, in the order in which it is written down."""
    return [part for part in walk(item.body) if isinstance(part, Load)]


def size_of(sch: Schedule, name: str) -> int:
    """How often a block runs."""
    return prod(extent(sch, name, loop) for loop in sch.loops(name))


def _store(sch: Schedule, name: str) -> Store:
    store = block_of(sch, name).body
    assert isinstance(store, Store)
    return store
