"""Primitives that dissolve a block into another: compute_inline and reverse_compute_inline."""

from collections.abc import Collection, Sequence
from typing import Any

from minimlc.errors import ScheduleError
from minimlc.node import Mutator, Node, replace, walk
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
    producer,
)
from minimlc.schedule.staging import inside
from minimlc.schedule.tree import refuse, replaced, without_unused_allocs
from minimlc.tir.analysis.access import Access, update_of
from minimlc.tir.analysis.arith import key, variables
from minimlc.tir.analysis.index_map import IndexMap
from minimlc.tir.analysis.regions import covers
from minimlc.tir.nodes import Buffer, Expr, For, IfThenElse, Load, PrimFunc, Store, substitute


@primitive(keeps_order=True)
def compute_inline(func: PrimFunc, block: str) -> PrimFunc:
    """Compute a producer's elements where they are read, and keep them nowhere.

        for i in range(n):
            Y[i] = f(i)              for i in range(n):
        for i in range(n):     -->       S(f(i))
            S(Y[i])

    Legal when the block is one store without reduction or condition, alone writes its buffer,
    which is no output, and all that is read of it, and what it reads does not change before its
    readers run. What nothing reads is just left out.
    """
    made = producer(func, block, "compute_inline")
    store = _plain_store(made, "compute_inline")
    check_intermediate(func, made, "compute_inline")
    check_only_writer(made, "compute_inline")
    check_clipping_only(made.block, made.place.loops, "compute_inline")
    readers = [i for i in made.others() if i.buffer is made.buffer]
    if not readers:
        return finish(without_unused_allocs(replaced(func, {exclusive(func, made.place)[0]: None})))
    if min(item.order for item in readers) < max(item.order for item in made.own()):
        refuse("E115", f"compute_inline: {made.buffer.name} is read before it is written")
    _check_made(made, readers)
    top, _, shared = exclusive(func, made.place)
    alone = [s for s in made.place.around if len(inside(readers, s)) < len(readers)]
    check_runs((s for s in alone if isinstance(s, For)), "compute_inline")
    check_plain_path((s for s in alone if isinstance(s, IfThenElse)), "compute_inline")
    check_inputs_unchanged(func, made, shared, "compute_inline")
    without = replaced(func, {top: None})
    inlined = _Inline(made, store).visit(without)
    return finish(without_unused_allocs(inlined))


def _check_made(made: Producer, readers: Sequence[Access]) -> None:
    """Refuse where a reader may ask for elements that the block never made, as padded loops do:
    the block's expression need not have a value there.
    """
    if all(it.extent == size for it, size in zip(made.dims, made.buffer.shape, strict=True)):
        return
    write = next(item for item in made.own() if item.is_write)
    for item in readers:
        if not covers(write, item, ()):
            refuse(
                "E115",
                f"compute_inline: elements of {made.buffer.name} may be read here that "
                f'"{made.block.name}" does not write',
                at=item.node,
                hint='compute_inline before split(..., tail="pad")',
            )


class _Inline(Mutator):
    """Replaces loads of a producer's buffer by the value it would have stored."""

    def __init__(self, made: Producer, store: Store):
        self.made = made
        self.store = store

    def visit_Load(self, item: Load) -> Expr:
        item = self.visit_children(item)
        if item.buffer is not self.made.buffer:
            return item
        values = zip((it.var for it in self.made.dims), item.indices, strict=True)
        return substitute(self.store.value, dict(values))


def _plain_store(made: Producer, verb: str) -> Store:
    store = update_of(made.block)
    if any(it.kind == "R" for it in made.block.iters) or made.block.init is not None:
        refuse(
            "E115",
            f'{verb}: block "{made.block.name}" is a reduction: its value is not one expression',
            at=made.block,
            hint="compute_at moves it into its readers' loops instead",
        )
    if store is None or store is not made.block.body:
        refuse("E115", f'{verb}: block "{made.block.name}" is not a single store', at=made.block)
    if any(isinstance(n, Load) and n.buffer is made.buffer for n in walk(store.value)):
        refuse("E115", f'{verb}: block "{made.block.name}" reads what it writes', at=made.block)
    return store


@primitive(keeps_order=True)
def reverse_compute_inline(func: PrimFunc, block: str) -> PrimFunc:
    """Apply a reader to the value its producer is about to store.

        for i in range(n):
            Y[i] = f(i)              for i in range(n):
        for i in range(n):     -->       Z[i] = g(f(i))
            Z[i] = g(Y[i])

    Legal when the block is the only reader of a buffer that one block without reduction writes,
    reads it element for element (also in another shape: Y[i * 16 + j] for Z[i, j]), and both run
    through the same elements.
    """
    made = producer(func, block, "reverse_compute_inline")
    store = _plain_store(made, "reverse_compute_inline")
    source = _source(func, made)
    feed = _plain_store(source, "reverse_compute_inline")
    check_intermediate(func, source, "reverse_compute_inline")
    check_only_writer(source, "reverse_compute_inline")
    same = matching(made, source, "reverse_compute_inline")
    for side in (made, source):
        check_plain_path(side.place.around, "reverse_compute_inline")
        _, own, _ = exclusive(func, side.place)
        check_full_domain(side.block, side.dims, own, side.place.loops, "reverse_compute_inline")
    check_runs(apart(made.place, source.place), "reverse_compute_inline")
    check_between(func, made, source, "reverse_compute_inline")
    top, _, _ = exclusive(func, made.place)
    indices = tuple(substitute(i, same) for i in store.indices)
    value = _Feed(source, feed.value).visit(substitute(store.value, same))
    new = replace(source.block, name=made.block.name, body=Store(store.buffer, indices, value))
    changed = replaced(func, {source.block: new, top: None})
    return finish(without_unused_allocs(changed))


def _source(func: PrimFunc, made: Producer) -> Producer:
    """The only block whose buffer `made` can be inlined into.

    Of several that it reads, the one whose element it needs for each of its own, best without
    arithmetic.
    """
    inputs = {i.buffer for i in made.own() if not i.is_write} & set(func.allocs)
    maps = {each: at for each in inputs if (at := _element_for_element(made, each))}
    direct = {each for each, at in maps.items() if {*at.inputs} == {*at.outputs}}
    writers = _writers(made, direct) or _writers(made, maps) or _writers(made, inputs)
    if len(writers) != 1:
        found = ", ".join(sorted(writers)) or "none"
        refuse(
            "E115",
            f'reverse_compute_inline: "{made.block.name}" needs one producer, found: {found}',
            at=made.block,
        )
    (name,) = writers
    source = producer(func, name, "reverse_compute_inline")
    for item in source.others():
        if item.buffer is source.buffer and item.block is not made.block:
            refuse(
                "E115",
                f"reverse_compute_inline: {source.buffer.name} has another reader",
                at=item.node,
            )
    return source


def _writers(made: Producer, buffers: Collection[Buffer]) -> set[str]:
    """The other blocks that write one of these buffers."""
    return {i.block.name for i in made.others() if i.is_write and i.buffer in buffers and i.block}


def _element_for_element(made: Producer, buffer: Buffer) -> IndexMap | None:
    """The one index by which a block reads a buffer, as a map of its iters; None if it has none."""
    loads = [n for n in walk(made.block.body) if isinstance(n, Load) and n.buffer is buffer]
    own = {it.var: it.extent for it in made.block.iters}
    if len({tuple(map(key, load.indices)) for load in loads}) != 1:
        return None
    layout = IndexMap(tuple(own), loads[0].indices)
    if not all(variables(part) <= own.keys() for part in layout.outputs):
        return None
    try:
        return layout if layout.inverse([*own.values()]) is not None else None
    except ScheduleError:
        return None  # it goes below 0, say


def matching(made: Producer, source: Producer, verb: str) -> dict[Node, Node]:
    """Each iter of the reader over the iters of the producer, where both are at one element."""
    layout = _element_for_element(made, source.buffer)
    if layout is None:
        refuse(
            "E115",
            f'{verb}: "{made.block.name}" does not read {source.buffer.name} element for element',
            at=made.block,
        )
    sizes, wanted = [it.extent for it in made.block.iters], [it.extent for it in source.dims]
    if list(layout.shape(sizes)) != wanted or not layout.is_onto(sizes):
        refuse(
            "E115",
            f'{verb}: "{made.block.name}" runs through other elements of {source.buffer.name} than '
            f"its producer: {layout} for {sizes}, not all of {wanted}",
            at=made.block,
        )
    back = layout.inverse(sizes)
    assert back is not None
    return dict(zip(layout.inputs, back([it.var for it in source.dims]), strict=True))


def check_between(func: PrimFunc, made: Producer, source: Producer, verb: str) -> None:
    """Nothing that the reader uses may change, nor its output be used, from the producer on.

    What shares a loop with either of them comes again after it.
    """
    start = min(item.order for item in source.own())
    stop = max(item.order for item in made.own())
    inputs = {item.buffer for item in made.own() if not item.is_write}
    shared = {loop for side in (made, source) for loop in exclusive(func, side.place)[2]}
    for item in made.others():
        near = start <= item.order <= stop or bool(shared & set(item.loops))
        if not near or (item.block is source.block and item.buffer is source.buffer):
            continue
        if item.buffer is made.buffer or (item.is_write and item.buffer in inputs):
            refuse(
                "E115",
                f"{verb}: {item.buffer.name} is used between producer and reader",
                at=item.node,
            )


class _Feed(Mutator):
    """Replaces loads of the producer's buffer by its value."""

    def __init__(self, source: Producer, value: Expr):
        self.source = source
        self.value = value

    def visit_Load(self, item: Load) -> Any:
        if item.buffer is self.source.buffer:
            return self.value
        return self.visit_children(item)
