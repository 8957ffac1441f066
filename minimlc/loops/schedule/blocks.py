"""Primitives that move blocks: compute_at and reverse_compute_at."""

from collections.abc import Callable, Sequence

from minimlc.loops.ir import nodes as ir
from minimlc.loops.proofs.access import Access, Alone, accesses, accesses_alone, loop_extents
from minimlc.loops.proofs.affine import Coverage, Digits
from minimlc.loops.proofs.arith import conjuncts, variables
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.legality import Carried, enclosing
from minimlc.loops.proofs.regions import Box, Side, enclosing_box, repeats
from minimlc.loops.proofs.witness import find_conflict
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names, sweep
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.shape import (
    Producer,
    apart,
    check_clipping_only,
    check_full_domain,
    check_inputs_unchanged,
    check_own_result,
    check_plain_path,
    check_runs,
    check_serial,
    producer,
)
from minimlc.loops.schedule.tree import (
    Place,
    find_block,
    find_loop,
    nest,
    replaced,
    without_unused_allocs,
)
from minimlc.loops.values.node import replace
from minimlc.loops.values.parts import Hook


@primitive(keeps_order=True)
def compute_at(func: ir.PrimFunc, block: str, loop: str) -> ir.PrimFunc:
    """Move a producer into a loop of its readers: compute there just what they need.

        for i in range(n):                  for i in range(n):
            Y[i] = f(i)                         Y[i] = f(i)
        for i in range(n):           -->        S(Y[i])
            S(Y[i])

    Legal when the block alone writes its buffer, all that read it are inside `loop`, and what it
    reads itself does not change in between. Elements that several iterations need are computed
    in each of them; of a buffer in shared memory, also all that the other threads around need.
    """
    subject = producer(func, block, straight=False)
    target = find_loop(func, loop)
    check_own_result(func, subject)
    check_plain_path(target.around)
    _check_readers(subject, target)
    top, _, shared = subject.place.nest()
    check_plain_path(subject.place.around)
    check_runs(lp for lp in subject.place.loops if lp not in target.loops)
    check_serial(subject.block, subject.loops_of("S"), moving=True)
    check_inputs_unchanged(subject, shared)
    reduce_loops = _reduce_loops(subject)
    outer = (*target.loops, target.stmt)
    together = subject.buffer.scope.startswith(ir.SHARED)
    apart = [lp.var for lp in outer if not (together and lp.thread.startswith(ir.THREAD))]
    read = enclosing_box(subject.buffer, subject.readers(), apart)
    box = tuple(line.side(side) for line, side in zip(subject.lines, read, strict=True))
    parts = _reduce_parts(subject, reduce_loops)
    new = _over_box(replaced(func, {top: subject.block}), subject, box, outer, reduce_loops, parts)
    moved = replace(target.stmt, body=ir.seq((new, target.stmt.body)))
    return finish(without_unused_allocs(replaced(func, {target.stmt: moved, top: None})))


def _check_readers(subject: Producer, target: Place[ir.For]) -> None:
    """Every reader comes after the block, and in the loop it is to move into."""
    name, loop = subject.block.name, target.stmt
    if subject.block in target.around or loop in subject.place.around:
        why = f'loop "{loop.var.name}" is around block "{name}" already'
        refuse("E113", why, hint="choose a loop of the block that reads it")
    readers = subject.readers()
    if not readers:
        refuse("E113", f"nothing reads {subject.buffer.name}")
    for item in readers:
        if loop not in item.loops:
            who = f'block "{item.block.name}"' if item.block else "a statement"
            why = f'{who}, which reads {subject.buffer.name}, is not inside loop "{loop.var.name}"'
            hint = f"a loop of {who}: {', '.join(lp.var.name for lp in item.loops)}"
            refuse("E113", why, at=item.node, hint=hint)
    if min(item.order for item in readers) < max(item.order for item in subject.own()):
        refuse("E113", f"{subject.buffer.name} is read before {name} writes it")


def _reduce_loops(subject: Producer) -> list[ir.For]:
    """The reduction's loops, which move along: one that is spatial too would repeat each of its
    values.
    """
    block, around = subject.block, subject.place.loops
    loops, spatial = subject.loops_of("R"), subject.loops_of("S")
    for loop in loops:
        if loop in spatial:
            name = loop.var.name
            why = f'loop "{name}" of block "{block.name}" feeds both a spatial and a reduce iter'
            hint = f'move "{block.name}" before fusing loops into {name}'
            refuse("E115", why, at=loop, hint=hint)
    iters = [it for it in block.iters if it.kind == "R"]
    check_full_domain(block, iters, loops, around)
    again = set(repeats(block, around)) & set(subject.place.nest().own) if iters else set()
    if again:
        names = ", ".join(sorted(loop.var.name for loop in again))
        refuse("E113", f'block "{block.name}" runs anew in each iteration of {names}')
    return loops


def _reduce_parts(subject: Producer, reduce_loops: Sequence[ir.For]) -> list[ir.Expr]:
    """The conjuncts of the predicate that depend on the reduction's loops alone: they stay."""
    inner = {loop.var for loop in reduce_loops}
    parts = list(conjuncts(subject.block.predicate))
    for part in parts:
        if variables(part) & inner and not variables(part) <= inner:
            refuse("E115", f"the condition {part.script()} mixes spatial and reduction loops")
    check_clipping_only(subject.block, subject.place.loops)
    return [part for part in parts if variables(part) and variables(part) <= inner]


def _over_box(
    func: ir.PrimFunc,
    subject: Producer,
    box: Box,
    outer: Sequence[ir.For],
    kept: Sequence[ir.For],
    parts: Sequence[ir.Expr],
) -> ir.Stmt:
    """The block over the elements of a box of its buffer: new spatial loops around `kept`.

    `func` is the function with the bare block: the names of the loops it was in are free again.
    """
    names = Names(func)
    names.symbols.reserve(loop.var.name for loop in kept)
    sizes = [it.extent for it in subject.dims]
    loops, values, clips = sweep(box, sizes, names, outer)
    along = {it.var: value for it, value in zip(subject.dims, values, strict=True)}
    iters = tuple(replace(it, value=along.get(it.var, it.value)) for it in subject.block.iters)
    predicate = ir.conjunction((*clips, *parts))
    return nest([*loops, *kept], replace(subject.block, iters=iters, predicate=predicate))


@primitive(keeps_order=True)
def reverse_compute_at(func: ir.PrimFunc, block: str, loop: str) -> ir.PrimFunc:
    """Move a reader into a loop of its producers: use what was just computed.

        for i in range(n):                  for i in range(n):
            Y[i] = f(i)                         Y[i] = f(i)
        for i in range(n):           -->        Z[i] = g(Y[i])
            Z[i] = g(Y[i])

    Legal when the block has only spatial iters, each of which indexes the produced buffer or runs
    in full; when every element it reads is finished by then; and when the iterations together
    cover all it did before.
    """
    subject = producer(func, block, straight=False)
    target = find_loop(func, loop)
    top, loops, _ = subject.place.nest()
    _check_reverse(subject, target)
    produced = _produced(subject, target)
    check_full_domain(subject.block, subject.dims, loops, subject.place.loops)
    check_runs(apart(subject.place, target))
    outer = (*target.loops, target.stmt)
    sides = _sides(subject, outer, produced)
    new = _over_box(replaced(func, {top: subject.block}), subject, sides, outer, (), ())
    moved = replace(target.stmt, body=ir.seq((target.stmt.body, new)))
    result = replaced(func, {target.stmt: moved, top: None})
    _check_finished(result, subject.block.name)
    result = finish(result)
    _check_covers(result, subject, target.stmt)
    return result


def _check_reverse(subject: Producer, target: Place[ir.For]) -> None:
    name, loop = subject.block.name, target.stmt
    check_plain_path(target.around)
    check_plain_path(subject.place.around)
    if any(it.kind != "S" for it in subject.block.iters):
        refuse("E113", f'block "{name}" has reduction iters', at=subject.block)
    if loop in subject.place.around:
        refuse("E113", f'"{loop.var.name}" is around "{name}" already')
    check_serial(subject.block, subject.loops_of("S"), moving=True)
    under = [item for item in subject.items if loop in item.loops]
    if not under or max(item.order for item in under) > min(i.order for i in subject.own()):
        why = f'block "{name}" does not come after loop "{loop.var.name}"'
        hint = f'compute_at("{name}", ...) moves a producer into its readers\' loops'
        refuse("E113", why, hint=hint)
    if subject.buffer in subject.inputs():
        refuse("E113", f'"{name}" reads {subject.buffer.name}, which it writes')
    _check_crossed(subject, target)


def _check_crossed(subject: Producer, target: Place[ir.For]) -> None:
    """Nothing that the block moves across uses what it writes or writes what it reads."""
    name, around = subject.block.name, (*target.loops, target.stmt)
    region = next((lp for lp in around if lp not in subject.place.loops), target.stmt)
    start = min(item.order for item in subject.items if region in item.loops)
    stop = min(item.order for item in subject.own())
    shared = {lp for lp in subject.place.loops if lp in target.loops}
    inputs = subject.inputs()
    for item in subject.others():
        between = start <= item.order < stop
        if item.buffer is subject.buffer and (between or shared & set(item.loops)):
            refuse("E113", f"{subject.buffer.name} is used before {name}", at=item.node)
        if between and item.is_write and item.buffer in inputs and region not in item.loops:
            why = f'"{name}" also reads {item.buffer.name}, which is written after loop '
            refuse("E113", f'{why}"{target.stmt.var.name}"', at=item.node)


def _produced(subject: Producer, target: Place[ir.For]) -> list[ir.Buffer]:
    """The buffers that the block reads and that are written under the target loop."""
    loop = target.stmt
    written = {i.buffer for i in subject.others() if i.is_write and loop in i.loops}
    produced = list(dict.fromkeys(i.buffer for i in subject.own() if i.buffer in written))
    if not produced:
        why = f'nothing under loop "{loop.var.name}" writes what "{subject.block.name}" reads'
        refuse("E113", why)
    return produced


PREIMAGES = Hook[Callable[..., Box]]("preimages")
"""The solver for iters where indices are formulas over them."""


def _sides(subject: Producer, outer: Sequence[ir.For], produced: Sequence[ir.Buffer]) -> Box:
    """For each iter, its values where it indexes what is produced in the innermost of `outer`; all
    of them where it indexes nothing produced. Whether they are the right ones is checked later.
    """
    fixed = {loop.var for loop in outer}
    writes = [i for i in subject.others() if outer[-1] in i.loops and i.is_write]
    boxes = {b: enclosing_box(b, [i for i in writes if i.buffer is b], fixed) for b in produced}
    sides: list[tuple[ir.Expr, Side]] = []
    for item in accesses_alone(Alone.of(subject.block)):
        if item.buffer in boxes and not item.is_write:
            sides += zip(item.indices, boxes[item.buffer], strict=True)
    extents = {it.var: it.extent for it in subject.dims}
    for preimage in PREIMAGES:
        return preimage(extents, sides, loop_extents(tuple(outer)))
    known = dict(reversed(sides))
    return tuple([known.get(it.var, Side(ir.index(0), it.extent)) for it in subject.dims])


def _check_covers(result: ir.PrimFunc, subject: Producer, target: ir.For) -> None:
    """The moved block still takes every value of its iters."""
    block = find_block(result, subject.block.name).stmt
    loops = next(i.loops for i in accesses(result) if i.is_write and i.block is block)
    digits = Digits(loop_extents(loops))
    sums = digits.sums([it.value for it in block.iters])
    coverage = Coverage(digits)
    for it, total in zip(block.iters, sums, strict=True):
        values = coverage.take(total)
        full = values is not None and values.start <= 0 and values.stop >= it.extent
        if not full or not coverage.is_exact():
            why = f'the iterations of "{target.var.name}" do not surely cover all of {it.var.name}'
            refuse("E113", f"{why} (0..{it.extent - 1})", at=block)
    check_runs(loops)
    check_clipping_only(block, loops)


def _check_finished(result: ir.PrimFunc, name: str) -> None:
    """No element that the moved block reads is written after it did."""
    items = accesses(result)
    block = find_block(result, name).stmt
    for read in items:
        if read.block is not block or read.is_write:
            continue
        for write in items:
            together = write.loops[:1] == read.loops[:1] != ()
            if write.is_write and write.buffer is read.buffer and together:
                _check_not_later(write, read, name)


def _check_not_later(write: Access, read: Access, name: str) -> None:
    question = Conflict(write, read)
    same: dict[ir.Var, str] = {}
    for loop in question.common:
        if question.possible({**same, loop.var: "-"}):
            search = find_conflict(write, read, enclosing(loop, read), loop.var)
            why = f'"{name}" would read {read.buffer.name} before it is finished: '
            refuse(
                "E113",
                f"{why}{loop.var.name} goes on writing it",
                at=loop,
                example=Carried(loop, write, read, search.witness).explain(),
                hint=f'a loop outside of "{loop.var.name}"',
            )
        same[loop.var] = "0"
    if write.order > read.order and question.possible(same):
        refuse("E113", f'{read.buffer.name} is written after "{name}" reads it')
