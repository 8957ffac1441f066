"""compute_inline: a block's elements are computed where they are read."""

from collections.abc import Sequence

from minimlc.loops.ir import nodes as ir
from minimlc.loops.proofs.access import Access, accesses, reads, update_of
from minimlc.loops.proofs.coverage import covers
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Redirect
from minimlc.loops.schedule.shape import (
    Producer,
    check_clipping_only,
    check_inputs_unchanged,
    check_own_result,
    check_plain_path,
    check_runs,
    producer,
)
from minimlc.loops.schedule.tree import find_block, inside, replaced, without_unused_allocs
from minimlc.loops.values.node import walk


@primitive(keeps_order=True)
def compute_inline(func: ir.PrimFunc, block: str) -> ir.PrimFunc:
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
    value = plain_store(subject).value
    check_own_result(func, subject)
    check_clipping_only(subject.block, subject.place.loops)
    readers = subject.readers()
    top, _, shared = subject.place.nest()
    if min(item.order for item in readers) < max(item.order for item in subject.own()):
        refuse("E115", f"{subject.buffer.name} is read before it is written")
    _check_written(subject, readers)
    check_scopes(subject, readers)
    alone = [s for s in subject.place.around if len(inside(readers, s)) < len(readers)]
    check_runs(s for s in alone if isinstance(s, ir.For))
    check_plain_path(s for s in alone if isinstance(s, ir.IfThenElse))
    check_inputs_unchanged(subject, shared)

    def computed(load: ir.Load) -> ir.Expr:
        places = zip(subject.lines, load.indices, strict=True)
        return ir.substitute(value, {line.it.var: line.value(at) for line, at in places})

    inlined = Redirect({subject.buffer: computed}, stores=False).visit(replaced(func, {top: None}))
    return finish(without_unused_allocs(inlined))


def _is_dead(func: ir.PrimFunc, block: ir.Block) -> bool:
    """Whether nothing but the block itself reads what it writes."""
    items = accesses(func)
    mine = inside(items, block)
    written = {item.buffer for item in mine if item.is_write}
    others = (item for item in items if item not in mine and not item.is_write)
    return written.isdisjoint(func.params) and not any(item.buffer in written for item in others)


def check_scopes(subject: Producer, others: Sequence[Access]) -> None:
    """The buffers that the block uses exist where the others are, too."""
    used = {part.buffer for part in walk(subject.block) if isinstance(part, ir.Load | ir.Store)}
    scopes = [part for part in subject.place.around if isinstance(part, ir.Alloc)]
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


def plain_store(subject: Producer) -> ir.Store:
    block, store = subject.block, update_of(subject.block)
    if any(it.kind == "R" for it in block.iters) or block.init is not None:
        hint = "compute_at moves it into its readers' loops instead"
        refuse("E115", "is a reduction: its value is not one expression", of=block, hint=hint)
    if store is None or store is not block.body:
        refuse("E115", "is not a single store", of=block)
    if reads(store.value, subject.buffer):
        refuse("E115", "reads what it writes", of=block)
    return store
