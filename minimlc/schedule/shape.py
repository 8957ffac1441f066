"""What a block looks like to the primitives that move, inline or split it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from minimlc.node import walk
from minimlc.schedule.tree import Place, find_block, refuse
from minimlc.tir.analysis.access import Access, accesses, loop_extents
from minimlc.tir.analysis.affine import Digit, Digits, contiguous
from minimlc.tir.analysis.arith import Ranges, conjuncts, constant_value, variables
from minimlc.tir.analysis.regions import is_private
from minimlc.tir.nodes import (
    Binary,
    Block,
    BlockIter,
    Buffer,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
    Stmt,
    Store,
    Var,
)


class Producer(NamedTuple):
    """A block that writes `buffer`, one element per value of its spatial iters.

    `dims[d]` is the iter that is the element's index in dimension d.
    """

    place: Place
    block: Block
    buffer: Buffer
    dims: tuple[BlockIter, ...]
    items: list[Access]

    def own(self) -> list[Access]:
        """The block's accesses."""
        return [item for item in self.items if item.block is self.block]

    def others(self) -> list[Access]:
        """The accesses of everything else."""
        return [item for item in self.items if item.block is not self.block]


def producer(func: PrimFunc, name: str, verb: str) -> Producer:
    """The block `name`, checked to be one that writes each element on its own.

    It must write one buffer, at an index made of its spatial iters, all of them and each once;
    its other iters must be reductions with an init; and what it computes must depend on its iters
    alone.
    """
    place = find_block(func, name)
    block = place.stmt
    assert isinstance(block, Block)
    stores = [n for n in walk(block) if isinstance(n, Store)]
    targets = {store.buffer for store in stores}
    if len(targets) != 1 or any(isinstance(n, Block) for n in walk(block.body)):
        _unsuitable(block, verb, "it does not write exactly one buffer")
    (buffer,) = targets
    spatial = {it.var: it for it in block.iters if it.kind == "S"}
    reduces = [it for it in block.iters if it.kind == "R"]
    if any(it.kind == "O" for it in block.iters):
        _unsuitable(block, verb, "its iterations must be taken in order")
    if reduces and block.init is None:
        _unsuitable(block, verb, "it updates what another block initialised")
    for store in stores:
        direct = [i for i in store.indices if isinstance(i, Var) and i in spatial]
        if len(direct) != buffer.ndim or set(direct) != set(spatial) or not _once(direct):
            _unsuitable(block, verb, "its index is not each spatial iter once")
    indices = {store.indices for store in stores}
    if len(indices) > 1:
        _unsuitable(block, verb, "its init and its body write different elements")
    loop_vars = {loop.var for loop in place.loops}
    if loop_vars & _variables_in(block):
        _unsuitable(block, verb, "its body speaks of loops directly, not through its iters")
    dims = tuple(spatial[i] for i in stores[0].indices)  # type: ignore[index]
    return Producer(place, block, buffer, dims, accesses(func))


def _once(items: Sequence[object]) -> bool:
    return len(set(items)) == len(items)


def _variables_in(block: Block) -> set[Var]:
    found = {n for n in walk(block.body) if isinstance(n, Var)}
    if block.init is not None:
        found |= {n for n in walk(block.init) if isinstance(n, Var)}
    return found


def _unsuitable(block: Block, verb: str, why: str) -> None:
    refuse("E115", f'{verb}: block "{block.name}" cannot be moved: {why}', at=block)


def check_only_writer(made: Producer, verb: str) -> None:
    """Refuse if another block writes the producer's buffer."""
    for item in made.others():
        if item.is_write and item.buffer is made.buffer:
            who = f'block "{item.block.name}"' if item.block else "another statement"
            refuse(
                "E115",
                f"{verb}: {who} writes {made.buffer.name} too",
                at=item.node,
                hint=f'do this step before decomposing or caching "{made.block.name}"',
            )


def check_intermediate(func: PrimFunc, made: Producer, verb: str) -> None:
    """Refuse if the producer's buffer is a parameter: the caller reads all of it."""
    if made.buffer in func.params:
        refuse(
            "E115",
            f'{verb}: block "{made.block.name}" writes the output {made.buffer.name}',
            hint=f"all of {made.buffer.name} must stay computed; move its producers instead",
        )


def check_inputs_unchanged(
    func: PrimFunc, made: Producer, shared: Sequence[For], verb: str
) -> None:
    """Refuse if what the block reads may differ between its place now and a later one.

    Its inputs' writers must all come before it; and where the block shares loops with its readers
    (`shared`), its inputs must not change from one iteration to the next, unless its buffer is
    private to the iteration.
    """
    inputs = {item.buffer for item in made.own() if not item.is_write} - {made.buffer}
    first = min(item.order for item in made.own())
    for item in made.others():
        if not item.is_write or item.buffer not in inputs:
            continue
        if item.order > first:
            refuse(
                "E113",
                f"{verb}: {item.buffer.name}, which {made.block.name} reads, changes later",
                at=item.node,
            )
        within = [loop for loop in item.loops if loop in shared]
        if within and not is_private(made.buffer, within[-1], made.items):
            refuse(
                "E113",
                f"{verb}: {item.buffer.name}, which {made.block.name} reads, changes with "
                f"{within[-1].var.name}",
                at=item.node,
            )


def exclusive(func: PrimFunc, place: Place) -> tuple[Stmt, tuple[For, ...], tuple[For, ...]]:
    """The statement that holds only this block, the loops in it, and the loops it shares.

    A loop is exclusive while it directly holds the next; from the first one outside on that holds
    other statements too, all are shared.
    """
    top = place.stmt
    own: list[For] = []
    around = list(place.around)
    while around and isinstance(loop := around[-1], For) and loop.body is top:
        top = around.pop()
        own.insert(0, loop)
    shared = tuple(s for s in around if isinstance(s, For))
    return top, tuple(own), shared


def check_plain_path(around: Iterable[Stmt], verb: str) -> None:
    """Refuse if a condition or another block stands around a place."""
    for stmt in around:
        if isinstance(stmt, IfThenElse | Block):
            kind = "a condition" if isinstance(stmt, IfThenElse) else f'block "{stmt.name}"'
            refuse("E113", f"{verb}: the place is inside {kind}", at=stmt)


def check_full_domain(
    block: Block,
    iters: Sequence[BlockIter],
    moving: Sequence[For],
    around: Sequence[For],
    verb: str,
) -> None:
    """Refuse unless the loops `moving` make `iters` take every combination of their values.

    `around` are all loops around the block. The block's predicate may only keep iters within
    their extents.
    """
    digits = Digits(loop_extents(tuple(around)))
    sums = digits.sums([it.value for it in iters])
    free = {loop.var for loop in moving}
    used: set[Digit] = set()
    for it, total in zip(iters, sums, strict=True):
        own = total is not None and {d.var for d in total.terms} <= free
        full = own and total is not None and total.constant == 0
        reach = contiguous(total) if full and total is not None else None
        if total is None or reach is None or reach < it.extent or used & set(total.terms):
            refuse(
                "E113",
                f'{verb}: the loops of "{block.name}" do not surely run through all of '
                f"{it.var.name} (0..{it.extent - 1})",
                at=block,
            )
        used |= set(total.terms)
        if not all(digits.is_exact(d.var) for d in total.terms):
            refuse("E113", f'{verb}: a loop of "{block.name}" is cut unevenly', at=block)
    check_runs(moving, verb)
    check_clipping_only(block, around, verb)


def check_runs(loops: Iterable[For], verb: str) -> None:
    """Refuse unless each loop surely has iterations: what is in one that has none never runs, and
    must not run somewhere else.
    """
    for loop in loops:
        if (constant_value(loop.extent) or 0) < 1:
            name = loop.var.name
            refuse(
                "E113",
                f"{verb}: the extent of {name} is not a constant >= 1: {loop.extent.script()}",
                at=loop,
                example=f"where {name} has no iterations, what is in it does not run",
            )


def apart(one: Place, other: Place) -> list[For]:
    """The loops around one of two places and not around the other."""
    both = set(one.loops) & set(other.loops)
    return [loop for loop in (*one.loops, *other.loops) if loop not in both]


def check_clipping_only(block: Block, around: Sequence[For], verb: str) -> None:
    """Refuse unless the block's predicate only keeps iters within their extents."""
    for part in conjuncts(block.predicate):
        if not is_clip(block, part, around):
            refuse(
                "E115",
                f'{verb}: block "{block.name}" runs only where {part.script()}',
                at=block,
                hint="the condition would be lost",
            )


def is_clip(block: Block, part: Expr, around: Sequence[For]) -> bool:
    """Whether a condition only excludes values beyond some iter's extent (or always holds)."""
    if Ranges(loop_extents(tuple(around))).prove(part):
        return True
    match part:
        case Binary("<", value, limit) if (bound := constant_value(limit)) is not None:
            differences = [(it, constant_value(Binary("-", it.value, value))) for it in block.iters]
            return any(d is not None and bound + d >= it.extent for it, d in differences)
        case Binary(">=", value, limit) if (bound := constant_value(limit)) is not None:
            differences = [(it, constant_value(Binary("-", it.value, value))) for it in block.iters]
            return any(d is not None and bound + d <= 0 for _, d in differences)
    return False


def loops_feeding(iters: Iterable[BlockIter], loops: Sequence[For]) -> list[For]:
    """The loops that the values of `iters` speak of."""
    used: set[Var] = set()
    for it in iters:
        used |= variables(it.value)
    return [loop for loop in loops if loop.var in used]
