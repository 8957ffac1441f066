"""The shape of a block, for the primitives that move, inline or split it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from minimlc.loops.ir import nodes as ir
from minimlc.loops.proofs.access import Access, accesses, loop_extents, reads
from minimlc.loops.proofs.affine import Coverage, Digits
from minimlc.loops.proofs.arith import conjuncts, linear, variables
from minimlc.loops.proofs.coverage import clips_only
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.regions import Side, is_private, is_written_before
from minimlc.loops.schedule.primitive import refuse
from minimlc.loops.schedule.tree import Place, find_block, inside, runs
from minimlc.loops.values.node import Node, walk


class Line(NamedTuple):
    """An index `start + sign * it`: the place of an element in one dimension."""

    it: ir.BlockIter
    sign: int = 1
    start: int = 0

    def value(self, at: ir.Expr) -> ir.Expr:
        """The iter's value where the index is `at`."""
        if self.sign < 0:
            return self.start - at
        return at - self.start if self.start else at

    def side(self, side: Side) -> Side:
        """The iter's values where the index is in a side of a box."""
        if self == Line(self.it):
            return side
        if side.extent >= self.it.extent:
            return Side(ir.index(0), self.it.extent)
        end = side.start if self.sign > 0 else side.start + (side.extent - 1)
        return Side(self.value(end), side.extent)


class Producer(NamedTuple):
    """A block that writes `buffer`, one element per value of its spatial iters.

    `dims[d]` is the iter that is the element's index in dimension d, along `lines[d]`.
    """

    place: Place[ir.Block]
    block: ir.Block
    buffer: ir.Buffer
    lines: tuple[Line, ...]
    items: list[Access]

    @property
    def dims(self) -> tuple[ir.BlockIter, ...]:
        return tuple(line.it for line in self.lines)

    def own(self) -> list[Access]:
        """The block's accesses."""
        return [item for item in self.items if item.block is self.block]

    def others(self) -> list[Access]:
        """The accesses of everything else."""
        return [item for item in self.items if item.block is not self.block]

    def inputs(self) -> set[ir.Buffer]:
        """The buffers that the block reads."""
        return {item.buffer for item in self.own() if not item.is_write}

    def readers(self) -> list[Access]:
        """The reads of its buffer elsewhere."""
        return [i for i in self.others() if not i.is_write and i.buffer is self.buffer]

    def loops_of(self, kind: ir.IterKind) -> list[ir.For]:
        """The unshared loops around it that iters of a kind depend on."""
        iters = [it for it in self.block.iters if it.kind == kind]
        return loops_feeding(iters, self.place.nest().own)


def producer(
    func: ir.PrimFunc, name: str, *, alone: bool = True, straight: bool = True
) -> Producer:
    """The block `name`, checked to write each element by itself.

    It must write one buffer, at an index made of its spatial iters, all of them and each once:
    `straight` as they are, or else with an offset or backwards too (`B[15 - vi]`);
    its other iters must be reductions with an init; and what it computes must depend on its iters
    `alone`, or else on loops too whose iterations each have the buffer for themselves.
    """
    place = find_block(func, name)
    block = place.stmt
    stores = [n for n in walk(block) if isinstance(n, ir.Store)]
    targets = {store.buffer for store in stores}
    if len(targets) != 1 or any(isinstance(n, ir.Block) for n in walk(block.body)):
        _unsuitable(block, "it does not write exactly one buffer")
    (buffer,) = targets
    spatial = {it.var: it for it in block.iters if it.kind == "S"}
    if any(it.kind == "O" for it in block.iters):
        _unsuitable(block, "its iterations must be taken in order")
    if any(it.kind == "R" for it in block.iters) and block.init is None:
        _unsuitable(block, "it updates what another block initialised")
    lines = [tuple(_line(part, spatial) for part in store.indices) for store in stores]
    for dims in lines:
        if None in dims or sorted(map(id, spatial.values())) != sorted(id(i.it) for i in dims if i):
            _unsuitable(block, "its index is not each spatial iter once")
        if straight and any(line != Line(line.it) for line in dims if line):
            _unsuitable(block, "its index is not each spatial iter as it is")
    if len(set(lines)) > 1:
        _unsuitable(block, "its init and its body write different elements")
    items = accesses(func)
    if names_loops(block, (lp for lp in place.loops if alone or not is_private(buffer, lp, items))):
        _unsuitable(block, "its body uses loop variables directly, not through its iters")
    return Producer(place, block, buffer, tuple(line for line in lines[0] if line), items)


def _line(part: ir.Expr, iters: Mapping[ir.Var, ir.BlockIter]) -> Line | None:
    """An index as one of some iters, with an offset or backwards; None for others."""
    total = linear(part)
    match list(total.terms.items()):
        case [(atom, (1 | -1) as sign)] if isinstance(atom.expr, ir.Var) and atom.expr in iters:
            return Line(iters[atom.expr], sign, total.constant)
    return None


def names_loops(block: ir.Block, loops: Iterable[ir.For]) -> bool:
    """Whether a block's init or body uses one of these loops directly, not through an iter."""
    inside = {node for part in (block.init, block.body) if part is not None for node in walk(part)}
    return any(loop.var in inside for loop in loops)


def _unsuitable(block: ir.Block, why: str) -> NoReturn:
    refuse("E115", f"cannot be moved: {why}", of=block)


def check_own_result(func: ir.PrimFunc, subject: Producer) -> None:
    """Refuse if the producer's buffer is a parameter, which the caller reads in full, or if another
    block writes it too.
    """
    name = subject.block.name
    if subject.buffer in func.params:
        why = f'block "{name}" writes the output {subject.buffer.name}'
        hint = f"all of {subject.buffer.name} must stay computed; move its producers instead"
        refuse("E115", why, hint=hint)
    for item in subject.others():
        if item.is_write and item.buffer is subject.buffer:
            who = f'block "{item.block.name}"' if item.block else "another statement"
            hint = f'do this step before decomposing or caching "{name}"'
            refuse("E115", f"{who} writes {subject.buffer.name} too", at=item.node, hint=hint)


def check_inputs_unchanged(subject: Producer, shared: Sequence[ir.For]) -> None:
    """Refuse if what the block reads may differ between its place now and a later one.

    Its inputs' writers must all come before it; and where the block shares loops with its readers
    (`shared`), its inputs must not change from one iteration to the next, unless its buffer is
    private to the iteration.
    """
    inputs = subject.inputs() - {subject.buffer}
    first = min(item.order for item in subject.own())
    for item in subject.others():
        if not item.is_write or item.buffer not in inputs:
            continue
        what = f"{item.buffer.name}, which {subject.block.name} reads, changes"
        if item.order > first:
            refuse("E113", f"{what} later", at=item.node)
        within = [loop for loop in item.loops if loop in shared]
        if within and not is_private(subject.buffer, within[-1], subject.items):
            refuse("E113", f"{what} with {within[-1].var.name}", at=item.node)


def check_alone(
    func: ir.PrimFunc, block: ir.Block, loop: ir.For, code: str, hint: str, *, again: bool = False
) -> None:
    """Refuse with `code` unless the block's init, or a fill, may run before `loop`: nothing else in
    it uses what the block writes, or writes what decides where the block runs and starts. What the
    block writes `again` in each iteration of the loop may be read after that.
    """
    items = accesses(func)
    mine = inside(items, block)
    writes = [item for item in mine if item.is_write]
    written = {item.buffer for item in writes}
    changing = {item.buffer for item in items if item.is_write}
    values = [*(it.value for it in block.iters), *conjuncts(block.predicate)]
    parts: list[Node] = [*values, *((block.init,) if block.init is not None else ())]
    for item in items:
        if loop not in item.loops or item in mine:
            continue
        feeds = item.is_write and any(reads(part, item.buffer) for part in parts)
        depth = item.loops.index(loop) + 1
        if again and not item.is_write and is_written_before(item, depth, writes, changing):
            continue
        if item.buffer in written or feeds:
            why = f'{item.buffer.name} is used elsewhere in "{loop.var.name}"'
            refuse(code, why, at=item.node, hint=hint)


def check_serial(block: ir.Block, loops: Iterable[ir.For], *, moving: bool = False) -> None:
    """Refuse if loops of a block, which are built anew, are parallel, vectorized or the like: that
    must not be lost silently.
    """
    for loop in loops:
        if loop.kind != "serial":
            name = loop.var.name
            why = f'loop "{name}" of block "{block.name}" is {loop.kind} already'
            hint = f"do this step before the one that made {name} {loop.kind}"
            if moving:
                hint = f'move "{block.name}" first, then make its new loops {loop.kind}'
            refuse("E119", why, hint=hint)


def check_plain_path(around: Iterable[ir.Stmt]) -> None:
    """Refuse if a condition or another block stands around a place."""
    for stmt in around:
        if isinstance(stmt, ir.IfThenElse | ir.Block):
            kind = "a condition" if isinstance(stmt, ir.IfThenElse) else f'block "{stmt.name}"'
            refuse("E113", f"the place is inside {kind}", at=stmt)


def check_full_domain(
    block: ir.Block,
    iters: Sequence[ir.BlockIter],
    moving: Sequence[ir.For],
    around: Sequence[ir.For],
    *,
    clipped: bool = True,
) -> None:
    """Refuse unless the loops `moving` make `iters` take every combination of their values.

    `around` are all loops around the block. The block's predicate may only keep iters within
    their extents, if it counts: if they are `clipped`.
    """
    digits = Digits(loop_extents(tuple(around)))
    sums = digits.sums([it.value for it in iters])
    free = {loop.var for loop in moving}
    coverage = Coverage(digits)
    for it, total in zip(iters, sums, strict=True):
        moves = total is not None and {d.var for d in total.terms} <= free
        values = coverage.take(total) if moves else None
        if values is None or values.start != 0 or values.stop < it.extent:
            why = f'the loops of "{block.name}" do not surely run through all of {it.var.name}'
            refuse("E113", f"{why} (0..{it.extent - 1})", at=block)
        if not coverage.is_exact():
            refuse("E113", f'a loop of "{block.name}" is cut unevenly', at=block)
    check_runs(moving)
    if clipped:
        check_clipping_only(block, around)


def check_runs(loops: Iterable[ir.For]) -> None:
    """Refuse unless each loop surely has iterations: what is in one that has none never runs, and
    must not run somewhere else.
    """
    for loop in loops:
        if not runs(loop):
            name = loop.var.name
            why = f"the extent of {name} is not a constant >= 1: {loop.extent.script()}"
            example = f"where {name} has no iterations, what is in it does not run"
            refuse("E113", why, at=loop, example=example)


def apart(one: Place, other: Place) -> list[ir.For]:
    """The loops around one of two places and not around the other."""
    both = set(one.loops) & set(other.loops)
    return [loop for loop in (*one.loops, *other.loops) if loop not in both]


def check_clipping_only(block: ir.Block, around: Sequence[ir.For]) -> None:
    """Refuse unless the block's predicate only excludes values beyond some iter's extent, or always
    holds.
    """
    ranges = Ranges(loop_extents(tuple(around)))
    sides = [(it.value, it.extent) for it in block.iters]
    for part in conjuncts(block.predicate):
        if not ranges.prove(part) and not clips_only(part, sides, ranges):
            why = f"runs only where {part.script()}"
            refuse("E115", why, of=block, hint="the condition would be lost")


def loops_feeding(iters: Iterable[ir.BlockIter], loops: Sequence[ir.For]) -> list[ir.For]:
    """The loops whose variables occur in the values of `iters`."""
    used: set[ir.Var] = set()
    for it in iters:
        used |= variables(it.value)
    return [loop for loop in loops if loop.var in used]
