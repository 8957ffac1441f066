"""Primitives that dissolve a block into another: compute_inline and reverse_compute_inline."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import gt
from typing import Any

from minimlc.errors import ScheduleError
from minimlc.node import Node, replace, walk
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive, refuse
from minimlc.schedule.redirect import Redirect
from minimlc.schedule.shape import (
    Producer,
    apart,
    check_clipping_only,
    check_full_domain,
    check_inputs_unchanged,
    check_own_result,
    check_plain_path,
    check_runs,
    producer,
)
from minimlc.schedule.tree import find_block, inside, replaced, without_unused_allocs
from minimlc.tir.analysis.access import Access, accesses, reads, update_of
from minimlc.tir.analysis.arith import conjuncts, constant_value, key, variables
from minimlc.tir.analysis.coverage import covers
from minimlc.tir.analysis.index_map import IndexMap
from minimlc.tir.analysis.simplify import simplify
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Block,
    BlockIter,
    Buffer,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Store,
    conjunction,
    substitute,
)


@primitive(keeps_order=True)
def compute_inline(func: PrimFunc, block: str) -> PrimFunc:
    """Compute a producer's elements where they are read, and keep them nowhere.

        for i in range(n):
            Y[i] = f(i)              for i in range(n):
        for i in range(n):     -->       S(f(i))
            S(Y[i])

    Legal when the block is one store without reduction or condition, alone writes its buffer,
    which is not an output, and all that is read of it, and what it reads does not change before its
    readers run. It may use loop variables, where each iteration has the buffer for itself. A block
    of whatever form whose results nothing else reads is just left out.
    """
    place = find_block(func, block)
    if _is_dead(func, place.stmt):
        return finish(without_unused_allocs(replaced(func, {place.nest().top: None})))
    subject = producer(func, block, alone=False, straight=False)
    value = _plain_store(subject).value
    check_own_result(func, subject)
    check_clipping_only(subject.block, subject.place.loops)
    readers = subject.readers()
    top, _, shared = subject.place.nest()
    if min(item.order for item in readers) < max(item.order for item in subject.own()):
        refuse("E115", f"{subject.buffer.name} is read before it is written")
    _check_written(subject, readers)
    _check_scopes(subject, readers)
    alone = [s for s in subject.place.around if len(inside(readers, s)) < len(readers)]
    check_runs(s for s in alone if isinstance(s, For))
    check_plain_path(s for s in alone if isinstance(s, IfThenElse))
    check_inputs_unchanged(subject, shared)

    def computed(load: Load) -> Expr:
        places = zip(subject.lines, load.indices, strict=True)
        return substitute(value, {line.it.var: line.value(at) for line, at in places})

    inlined = Redirect({subject.buffer: computed}, stores=False).visit(replaced(func, {top: None}))
    return finish(without_unused_allocs(inlined))


def _is_dead(func: PrimFunc, block: Block) -> bool:
    """Whether nothing but the block itself reads what it writes."""
    items = accesses(func)
    mine = inside(items, block)
    written = {item.buffer for item in mine if item.is_write}
    others = (item for item in items if item not in mine and not item.is_write)
    return written.isdisjoint(func.params) and not any(item.buffer in written for item in others)


def _check_scopes(subject: Producer, others: Sequence[Access]) -> None:
    """The buffers that the block uses exist where the others are, too."""
    used = {part.buffer for part in walk(subject.block) if isinstance(part, Load | Store)}
    scopes = [part for part in subject.place.around if isinstance(part, Alloc)]
    for scope in scopes:
        if scope.buffer in used and len(inside(others, scope)) < len(others):
            why = f'"{subject.block.name}" uses {scope.buffer.name}, which exists around it only'
            refuse("E115", why, at=subject.block)


def _check_written(subject: Producer, readers: Sequence[Access]) -> None:
    """Refuse where a reader may ask for elements that the block never wrote, as padded loops do:
    the block's expression need not have a value there.
    """
    if all(it.extent == size for it, size in zip(subject.dims, subject.buffer.shape, strict=True)):
        return
    write = next(item for item in subject.own() if item.is_write)
    for item in readers:
        if not covers(write, item, ()):
            why = f"elements of {subject.buffer.name} may be read here that "
            why += f'"{subject.block.name}" does not write'
            hint = 'compute_inline before split(..., tail="pad")'
            refuse("E115", why, at=item.node, hint=hint)


def _plain_store(subject: Producer) -> Store:
    block, store = subject.block, update_of(subject.block)
    if any(it.kind == "R" for it in block.iters) or block.init is not None:
        hint = "compute_at moves it into its readers' loops instead"
        refuse("E115", "is a reduction: its value is not one expression", of=block, hint=hint)
    if store is None or store is not block.body:
        refuse("E115", "is not a single store", of=block)
    if reads(store.value, subject.buffer):
        refuse("E115", "reads what it writes", of=block)
    return store


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
    store = _plain_store(subject)
    source = _source(func, subject)
    feed = _plain_store(source)
    check_own_result(func, source)
    same, held = _elements(subject, source)
    still, covered = _still(subject, source, same), _is_covered(subject, source)
    check_joined(subject, source, (), still, covered=covered)
    _check_scopes(subject, source.own())
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
    """Both blocks run for all values of their spatial iters, but those that stand `still`, whatever
    conditions and extents (those of `loops` as well) say, and nothing comes between them. The
    producer's condition does not count where all that is read is `covered`.
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
    """The iters of both blocks that only loops around both of them choose, if each is what the
    other block's iters say at the element: both blocks then are at the same ones in an iteration.
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

    Of several that it reads, the one whose element it needs for each of its own, best without
    arithmetic.
    """
    inputs = subject.inputs() & set(func.allocs)
    maps = {each: at for each in inputs if (at := _element_for_element(subject, each))}
    direct = {each for each, at in maps.items() if {*at.inputs} == {*at.outputs}}
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
    own = {it.var: it.extent for it in subject.block.iters}
    if len({tuple(map(key, load.indices)) for load in loads}) != 1:
        return None
    layout = IndexMap(tuple(own), loads[0].indices)
    if not all(variables(part) <= own.keys() for part in layout.outputs):
        return None
    try:
        return layout if layout.inverse([*own.values()]) is not None else None
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
