"""Primitives that move blocks: compute_at and reverse_compute_at."""

from collections.abc import Sequence

from minimlc.node import replace
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.shape import (
    Producer,
    apart,
    check_clipping_only,
    check_full_domain,
    check_inputs_unchanged,
    check_intermediate,
    check_only_writer,
    check_plain_path,
    check_runs,
    exclusive,
    loops_feeding,
    producer,
)
from minimlc.schedule.tree import (
    Names,
    Place,
    find_loop,
    nest,
    refuse,
    replaced,
    without_unused_allocs,
)
from minimlc.tir.analysis.access import Access, accesses, loop_extents, loop_ranges
from minimlc.tir.analysis.affine import Digits, contiguous
from minimlc.tir.analysis.arith import Ranges, conjuncts, constant_value, variables
from minimlc.tir.analysis.dependence import Conflict
from minimlc.tir.analysis.legality import Carried, enclosing
from minimlc.tir.analysis.regions import Box, Side, enclosing_box, repeats
from minimlc.tir.analysis.witness import find_conflict
from minimlc.tir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Expr,
    For,
    PrimFunc,
    Stmt,
    Var,
    conjunction,
    index,
    seq,
)


@primitive(keeps_order=True)
def compute_at(func: PrimFunc, block: str, loop: str) -> PrimFunc:
    """Move a producer into a loop of its readers: compute there just what they need.

        for i in range(n):                  for i in range(n):
            Y[i] = f(i)                         Y[i] = f(i)
        for i in range(n):           -->        S(Y[i])
            S(Y[i])

    Legal when the block alone writes its buffer, all that read it are inside `loop`, and what it
    reads itself does not change in between. Elements that several iterations need are computed
    in each of them.
    """
    made = producer(func, block, "compute_at")
    target = find_loop(func, loop)
    check_intermediate(func, made, "compute_at")
    check_only_writer(made, "compute_at")
    check_plain_path(target.around, "compute_at")
    readers = [i for i in made.others() if not i.is_write and i.buffer is made.buffer]
    _check_readers(made, target, readers)
    top, own, shared = exclusive(func, made.place)
    check_plain_path(made.place.around, "compute_at")
    check_runs((lp for lp in made.place.loops if lp not in target.loops), "compute_at")
    _check_serial_or_reduce(made, own)
    check_inputs_unchanged(func, made, shared, "compute_at")
    reduce_iters = [it for it in made.block.iters if it.kind == "R"]
    reduce_loops = loops_feeding(reduce_iters, own)
    _check_apart(made, own, reduce_loops)
    around = (*made.place.loops,)
    check_full_domain(made.block, reduce_iters, reduce_loops, around, "compute_at")
    again = set(repeats(made.block, around)) & set(own) if reduce_iters else set()
    if again:
        names = ", ".join(sorted(loop.var.name for loop in again))
        refuse("E113", f'compute_at: block "{block}" runs anew in each iteration of {names}')
    outer = (*target.loops, _for(target))
    box = enclosing_box(made.buffer, readers, [lp.var for lp in outer])
    parts = _reduce_parts(made, reduce_loops)
    new = _over_box(replaced(func, {top: made.block}), made, box, outer, reduce_loops, parts)
    old = _for(target)
    moved = replaced(func, {old: replace(old, body=seq((new, old.body))), top: None})
    return finish(without_unused_allocs(moved))


def _for(place: Place) -> For:
    assert isinstance(place.stmt, For)
    return place.stmt


def _check_readers(made: Producer, target: Place, readers: Sequence[Access]) -> None:
    name, loop = made.block.name, _for(target).var.name
    if any(made.block is stmt for stmt in target.around) or _for(target) in made.place.around:
        refuse(
            "E113",
            f'compute_at: loop "{loop}" is around block "{name}" already',
            hint="choose a loop of the block that reads it",
        )
    if not readers:
        refuse("E113", f"compute_at: nothing reads {made.buffer.name}")
    for item in readers:
        if _for(target) not in item.loops:
            who = f'block "{item.block.name}"' if item.block else "a statement"
            hint = f"a loop of {who}: {', '.join(lp.var.name for lp in item.loops)}"
            refuse(
                "E113",
                f'compute_at: {who}, which reads {made.buffer.name}, is not inside loop "{loop}"',
                at=item.node,
                hint=hint,
            )
    if min(item.order for item in readers) < max(item.order for item in made.own()):
        refuse("E113", f"compute_at: {made.buffer.name} is read before {name} writes it")


def _check_serial_or_reduce(made: Producer, own: Sequence[For]) -> None:
    """The spatial loops are built anew: what was said of them must not be lost silently."""
    spatial = loops_feeding([it for it in made.block.iters if it.kind == "S"], own)
    for loop in spatial:
        if loop.kind != "serial":
            refuse(
                "E119",
                f'loop "{loop.var.name}" of block "{made.block.name}" is {loop.kind} already',
                hint=f'move "{made.block.name}" first, then make its new loops {loop.kind}',
            )


def _check_apart(made: Producer, own: Sequence[For], reduce_loops: Sequence[For]) -> None:
    """The reduction's loops move along: one that is spatial too would repeat each of its values."""
    spatial = loops_feeding([it for it in made.block.iters if it.kind == "S"], own)
    for loop in reduce_loops:
        if loop in spatial:
            name = loop.var.name
            refuse(
                "E115",
                f'compute_at: loop "{name}" of block "{made.block.name}" feeds both a spatial and '
                "a reduce iter",
                at=loop,
                hint=f'move "{made.block.name}" before fusing loops into {name}',
            )


def _reduce_parts(made: Producer, reduce_loops: Sequence[For]) -> list[Expr]:
    """The conjuncts of the predicate that speak of the reduction's loops alone: they stay."""
    own = {loop.var for loop in reduce_loops}
    parts = list(conjuncts(made.block.predicate))
    for part in parts:
        if variables(part) & own and not variables(part) <= own:
            refuse("E115", f"the condition {part.script()} mixes spatial and reduction loops")
    check_clipping_only(made.block, made.place.loops, "moving")
    return [part for part in parts if variables(part) and variables(part) <= own]


def _over_box(
    func: PrimFunc,
    made: Producer,
    box: Box,
    outer: Sequence[For],
    kept: Sequence[For],
    parts: Sequence[Expr],
) -> Stmt:
    """The block over the elements of a box of its buffer: new spatial loops around `kept`.

    `func` is the function with the bare block: the names of the loops it was in are free again.
    """
    names = Names(func)
    names.symbols.reserve(loop.var.name for loop in kept)
    ranges = loop_ranges(tuple(outer))
    values: dict[Var, Expr] = {}
    loops: list[For] = []
    conditions: list[Expr] = []
    for dim, (it, side) in enumerate(zip(made.dims, box, strict=True)):
        value, loop = _along(side, names, f"ax{dim}")
        if loop is not None:
            loops.append(loop)
            ranges = ranges.extended({loop.var: side.extent})
        values[it.var] = value
        conditions += _clips(value, it.extent, ranges)
    iters = tuple(replace(it, value=values.get(it.var, it.value)) for it in made.block.iters)
    predicate = conjunction((*conditions, *parts))
    return nest([*loops, *kept], replace(made.block, iters=iters, predicate=predicate))


def _along(side: Side, names: Names, name: str) -> tuple[Expr, For | None]:
    """The index along one side of a box, and the loop that runs along it."""
    if side.extent == 1:
        return side.start, None
    var = names.var(name)
    loop = For(var, index(side.extent), "serial", seq(()))
    return (var if constant_value(side.start) == 0 else side.start + var), loop


def _clips(value: Expr, extent: int, ranges: Ranges) -> list[Expr]:
    """The conditions that keep `value` in 0 ... extent-1, where that is not sure anyway."""
    low, high = ranges.bounds(value)
    below = [] if low >= 0 else [value >= 0]
    return below + ([] if high < extent else [value < extent])


@primitive(keeps_order=True)
def reverse_compute_at(func: PrimFunc, block: str, loop: str) -> PrimFunc:
    """Move a reader into a loop of its producers: use what was just computed.

        for i in range(n):                  for i in range(n):
            Y[i] = f(i)                         Y[i] = f(i)
        for i in range(n):           -->        Z[i] = g(Y[i])
            Z[i] = g(Y[i])

    Legal when the block has only spatial iters, each of which indexes the produced buffer or runs
    in full; when every element it reads is finished by then; and when the iterations together
    cover all it did before.
    """
    made = producer(func, block, "reverse_compute_at")
    target = find_loop(func, loop)
    top, own, _ = exclusive(func, made.place)
    _check_reverse(func, made, target, own)
    produced = _produced(made, target)
    links = _links(made, produced)
    around = made.place.loops
    check_full_domain(made.block, made.dims, own, around, "reverse_compute_at")
    check_runs(apart(made.place, target), "reverse_compute_at")
    outer = (*target.loops, _for(target))
    under = [i for i in made.others() if _for(target) in i.loops]
    writes = [i for i in under if i.is_write and i.buffer in produced]
    boxes = {
        buffer: enclosing_box(
            buffer, [w for w in writes if w.buffer is buffer], [lp.var for lp in outer]
        )
        for buffer in produced
    }
    sides = tuple(_side_of(it, links, boxes) for it in made.dims)
    new = _over_box(replaced(func, {top: made.block}), made, sides, outer, (), ())
    old = _for(target)
    result = finish(replaced(func, {old: replace(old, body=seq((old.body, new))), top: None}))
    _check_covers(result, made, target)
    _check_finished(result, made)
    return result


def _check_reverse(func: PrimFunc, made: Producer, target: Place, own: Sequence[For]) -> None:
    name, loop = made.block.name, _for(target)
    check_plain_path(target.around, "reverse_compute_at")
    check_plain_path(made.place.around, "reverse_compute_at")
    if any(it.kind != "S" for it in made.block.iters):
        refuse("E113", f'reverse_compute_at: block "{name}" has reduction iters', at=made.block)
    if loop in made.place.around:
        refuse("E113", f'reverse_compute_at: "{loop.var.name}" is around "{name}" already')
    _check_serial_or_reduce(made, own)
    under = [item for item in made.items if loop in item.loops]
    if not under or max(item.order for item in under) > min(i.order for i in made.own()):
        refuse(
            "E113",
            f'reverse_compute_at: block "{name}" does not come after loop "{loop.var.name}"',
            hint=f'compute_at("{name}", ...) moves a producer into its readers\' loops',
        )
    region = _region(made, target)
    if made.buffer in {item.buffer for item in made.own() if not item.is_write}:
        refuse("E113", f'reverse_compute_at: "{name}" reads {made.buffer.name}, which it writes')
    start = min(item.order for item in made.items if region in item.loops)
    stop = min(item.order for item in made.own())
    reads = {item.buffer for item in made.own() if not item.is_write}
    shared = [lp for lp in made.place.loops if lp in target.loops]
    for item in made.others():
        between = start <= item.order < stop
        if item.buffer is made.buffer and (between or set(shared) & set(item.loops)):
            why = f"{made.buffer.name} is used before {name}"
            refuse("E113", f"reverse_compute_at: {why}", at=item.node)
        if between and item.is_write and item.buffer in reads and region not in item.loops:
            refuse(
                "E113",
                f'reverse_compute_at: "{name}" also reads {item.buffer.name}, which is written '
                f'after loop "{loop.var.name}"',
                at=item.node,
            )


def _region(made: Producer, target: Place) -> For:
    """The outermost loop around the target that is not around the block: what it moves across."""
    return next(
        (lp for lp in (*target.loops, _for(target)) if lp not in made.place.loops), _for(target)
    )


def _produced(made: Producer, target: Place) -> list[Buffer]:
    """The buffers that `made` reads and that are written under the target loop."""
    loop = _for(target)
    written = {i.buffer for i in made.others() if i.is_write and loop in i.loops}
    found = list(dict.fromkeys(i.buffer for i in made.own() if i.buffer in written))
    if not found:
        refuse(
            "E113",
            f'reverse_compute_at: nothing under loop "{loop.var.name}" writes what '
            f'"{made.block.name}" reads',
        )
    return found


Links = dict[Var, tuple[Buffer, int]]


def _links(made: Producer, produced: Sequence[Buffer]) -> Links:
    """For each iter, the produced buffer and dimension it indexes."""
    links: Links = {}
    alone = replace(made.block, iters=tuple(replace(it, value=it.var) for it in made.block.iters))
    for item in accesses(alone):
        if item.is_write or item.buffer not in produced:
            continue
        for dim, part in enumerate(item.indices):
            if isinstance(part, Var):
                links.setdefault(part, (item.buffer, dim))
    return links


def _side_of(it: BlockIter, links: Links, boxes: dict[Buffer, Box]) -> Side:
    if it.var not in links:
        return Side(index(0), it.extent)
    buffer, dim = links[it.var]
    return boxes[buffer][dim]


def _check_covers(result: PrimFunc, made: Producer, target: Place) -> None:
    """The moved block still takes every value of its iters."""
    name = made.block.name
    mine = next(i for i in accesses(result) if i.is_write and _is(i, name))
    assert mine.block is not None
    digits = Digits(loop_extents(mine.loops))
    sums = digits.sums([it.value for it in mine.block.iters])
    used: set = set()
    for it, total in zip(mine.block.iters, sums, strict=True):
        reach = None if total is None or total.constant > 0 else contiguous(total)
        full = (
            total is not None
            and reach is not None
            and total.constant + reach >= it.extent
            and not used & set(total.terms)
            and all(digits.is_exact(d.var) for d in total.terms)
        )
        if not full:
            refuse(
                "E113",
                f'reverse_compute_at: the iterations of "{_for(target).var.name}" do not surely '
                f"cover all of {it.var.name} (0..{it.extent - 1})",
                at=mine.block,
            )
        assert total is not None
        used |= set(total.terms)
    check_runs(mine.loops, "reverse_compute_at")
    check_clipping_only(mine.block, mine.loops, "reverse_compute_at")


def _is(item: Access, name: str) -> bool:
    return isinstance(item.block, Block) and item.block.name == name


def _check_finished(result: PrimFunc, made: Producer) -> None:
    """No element that the moved block reads is written after it did."""
    items = accesses(result)
    for read in items:
        if read.is_write or not _is(read, made.block.name):
            continue
        for write in items:
            if write.is_write and write.buffer is read.buffer and _share_loops(write, read):
                _check_not_later(write, read, made.block.name)


def _share_loops(first: Access, second: Access) -> bool:
    return bool(first.loops and second.loops and first.loops[0] is second.loops[0])


def _check_not_later(write: Access, read: Access, name: str) -> None:
    question = Conflict(write, read)
    same: dict[Var, str] = {}
    for loop in question.common:
        if question.possible({**same, loop.var: "-"}):
            search = find_conflict(write, read, enclosing(loop, read), loop.var)
            refuse(
                "E113",
                f'reverse_compute_at: "{name}" would read {read.buffer.name} before it is '
                f"finished: {loop.var.name} goes on writing it",
                at=loop,
                example=Carried(loop, write, read, search.witness).explain(),
                hint=f'a loop outside of "{loop.var.name}"',
            )
        same[loop.var] = "0"
    if write.order > read.order and question.possible(same):
        refuse("E113", f'reverse_compute_at: {read.buffer.name} is written after "{name}" reads it')
