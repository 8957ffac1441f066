"""reverse_compute_inline: a block becomes part of the one that computes what it reads."""

from collections.abc import Collection, Iterable, Mapping
from operator import gt
from typing import Any

from minimlc.loops.ir.nodes import (
    Binary,
    BlockIter,
    Buffer,
    Expr,
    For,
    Load,
    PrimFunc,
    Store,
    conjunction,
    substitute,
)
from minimlc.loops.proofs.arith import conjuncts, constant_value, key, variables
from minimlc.loops.proofs.coverage import covers
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.inline import check_scopes, plain_store
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Redirect
from minimlc.loops.schedule.shape import (
    Producer,
    apart,
    check_full_domain,
    check_own_result,
    check_plain_path,
    check_runs,
    producer,
)
from minimlc.loops.schedule.tree import replaced, without_unused_allocs
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.node import Node, replace, walk
from minimlc.services.layouts.index_map import IndexMap


@primitive(keeps_order=True)
def reverse_compute_inline(func: PrimFunc, block: str) -> PrimFunc:
    """Apply a reader to the value its producer is about to store.

        for i in range(n):
            Y[i] = f(i)              for i in range(n):
        for i in range(n):     -->       Z[i] = g(f(i))
            Z[i] = g(Y[i])

    Legal when the block is the only reader of a buffer that one block without reduction writes,
    and reads each element at most once (also in another shape: Y[i * 16 + j] for Z[i, j]). Where it
    reads some of them only, the new block runs for these.
    """
    subject = producer(func, block)
    store = plain_store(subject)
    source = _source(func, subject)
    feed = plain_store(source)
    check_own_result(func, source)
    same, held = _elements(subject, source)
    still, covered = _still(subject, source, same), _is_covered(subject, source)
    check_joined(subject, source, (), still, covered=covered)
    check_scopes(subject, source.own())
    indices = tuple(substitute(i, same) for i in store.indices)
    value = Redirect({source.buffer: lambda _: feed.value}).visit(substitute(store.value, same))
    over_loops: dict[Node, Node] = {it.var: it.value for it in source.block.iters}
    known = set(map(key, conjuncts(source.block.predicate)))
    held = [part for part in (substitute(p, over_loops) for p in held) if key(part) not in known]
    new = replace(
        source.block,
        name=subject.block.name,
        predicate=conjunction((*conjuncts(source.block.predicate), *held)),
        body=Store(store.buffer, indices, value),
    )
    changed = replaced(func, {source.block: new, subject.place.nest().top: None})
    return finish(without_unused_allocs(changed), "E115")


def check_joined(
    subject: Producer,
    source: Producer,
    loops: Iterable[For] = (),
    still: Collection[BlockIter] = (),
    *,
    covered: bool = False,
) -> None:
    """Refuse unless both blocks run for all values of their spatial iters, except iters that stand
    `still`, whatever the conditions and extents (of `loops`, too), and nothing comes between them.
    The producer's condition does not count where all that is read is `covered`.
    """
    for side in (subject, source):
        place = side.place
        check_plain_path(place.around)
        iters = [it for it in side.dims if it not in still]
        clipped = side is subject or not covered
        check_full_domain(side.block, iters, place.nest().own, place.loops, clipped=clipped)
    check_runs((*apart(subject.place, source.place), *loops))
    _check_between(subject, source)


def _still(subject: Producer, source: Producer, same: Mapping[Node, Node]) -> set[BlockIter]:
    """The iters of both blocks that only loops around both of them choose, and that agree with the
    other block's iters at the element: both blocks then are at the same ones in an iteration.
    """
    shared = {lp.var for lp in subject.place.loops if lp in source.place.loops}
    values: list[dict[Node, Node]]
    values = [{it.var: it.value for it in side.dims} for side in (subject, source)]
    layout = _element_for_element(subject, source.buffer)
    assert layout is not None
    at: list[tuple[BlockIter, Any, dict[Node, Node]]]
    at = [(it, same[it.var], values[1]) for it in subject.dims]
    at += [(it, out, values[0]) for it, out in zip(source.dims, layout.outputs, strict=True)]
    return {
        it
        for it, other, over in at
        if variables(it.value) <= shared
        and constant_value(simplify(it.value - substitute(other, over))) == 0
    }


def _is_covered(subject: Producer, source: Producer) -> bool:
    """Whether the producer, whatever its condition, surely writes each element that is read."""
    write = next(item for item in source.own() if item.is_write)
    shared = [lp.var for lp in subject.place.loops if lp in source.place.loops]
    read = [item for item in subject.own() if item.buffer is source.buffer]
    return all(covers(write, item, shared) for item in read)


def _source(func: PrimFunc, subject: Producer) -> Producer:
    """The only block into which `subject`, its reader, can be inlined.

    Of several that it reads, the one that it reads element for element, preferably without
    arithmetic.
    """
    inputs = subject.inputs() & set(func.allocs)
    maps = {buffer: at for buffer in inputs if (at := _element_for_element(subject, buffer))}
    direct = {buffer for buffer, at in maps.items() if {*at.inputs} == {*at.outputs}}
    writers = _writers(subject, direct) or _writers(subject, maps) or _writers(subject, inputs)
    if len(writers) != 1:
        listed = ", ".join(sorted(writers)) or "none"
        why = f'"{subject.block.name}" needs one producer, found: {listed}'
        refuse("E115", why, at=subject.block)
    source = producer(func, writers.pop())
    check_only_reader(subject, source)
    return source


def check_only_reader(subject: Producer, source: Producer) -> None:
    """Refuse if a third block uses what `source` writes and `subject` reads."""
    for item in source.others():
        if item.buffer is source.buffer and item.block is not subject.block:
            refuse("E115", f"{source.buffer.name} has another reader", at=item.node)


def _writers(subject: Producer, buffers: Collection[Buffer]) -> set[str]:
    """The other blocks that write one of these buffers."""
    return {
        i.block.name for i in subject.others() if i.is_write and i.buffer in buffers and i.block
    }


def _element_for_element(subject: Producer, buffer: Buffer) -> IndexMap | None:
    """The one index by which a block reads a buffer, as a map of its iters; None if it has none."""
    loads = [n for n in walk(subject.block.body) if isinstance(n, Load) and n.buffer is buffer]
    extents = {it.var: it.extent for it in subject.block.iters}
    if len({tuple(map(key, load.indices)) for load in loads}) != 1:
        return None
    layout = IndexMap(tuple(extents), loads[0].indices)
    if not all(variables(part) <= extents.keys() for part in layout.outputs):
        return None
    try:
        return layout if layout.inverse([*extents.values()]) is not None else None
    except ScheduleError:
        return None  # it goes below 0, say


def matching(subject: Producer, source: Producer) -> dict[Node, Node]:
    """Each iter of the reader over the iters of the producer, where both are at one element, and
    run through all of them.
    """
    same, held = _elements(subject, source)
    if held:
        name, buffer = subject.block.name, source.buffer.name
        why = f'"{name}" runs through other elements of {buffer} than its producer: '
        only = " and ".join(part.script() for part in held)
        refuse("E115", f"{why}those where {only}", at=subject.block)
    return same


def _elements(subject: Producer, source: Producer) -> tuple[dict[Node, Node], list[Expr]]:
    """Each iter of the reader over the iters of the producer, where both are at one element; and
    the conditions on the producer's under which the reader gets there.
    """
    name, buffer = subject.block.name, source.buffer.name
    layout = _element_for_element(subject, source.buffer)
    if layout is None:
        refuse("E115", f'"{name}" does not read {buffer} element for element', at=subject.block)
    sizes, whole = [it.extent for it in subject.block.iters], [it.extent for it in source.dims]
    if any(map(gt, layout.shape(sizes), whole)):
        why = f'"{name}" runs through other elements of {buffer} than its producer: '
        refuse("E115", f"{why}{layout} for {sizes}, not within {whole}", at=subject.block)
    origin = layout.origin(sizes, [it.var for it in source.dims], whole)
    assert origin is not None
    values, held = origin
    gaps = [part.script() for part in held if isinstance(part, Binary) and part.op == "=="]
    if gaps:
        why = f'"{name}" leaves out elements of {buffer} in between: it reads those where {gaps[0]}'
        refuse("E115", why, at=subject.block)
    return dict(zip(layout.inputs, values, strict=True)), held


def _check_between(subject: Producer, source: Producer) -> None:
    """Nothing that the reader uses may change, nor its output be used, from the producer on.

    What shares a loop with either of them comes again after it.
    """
    start = min(item.order for item in source.own())
    stop = max(item.order for item in subject.own())
    inputs = subject.inputs()
    shared = {*subject.place.nest().shared, *source.place.nest().shared}
    for item in subject.others():
        near = start <= item.order <= stop or bool(shared & set(item.loops))
        if not near or (item.block is source.block and item.buffer is source.buffer):
            continue
        if item.buffer is subject.buffer or (item.is_write and item.buffer in inputs):
            why = f"{item.buffer.name} is used between producer and reader"
            refuse("E115", why, at=item.node)
