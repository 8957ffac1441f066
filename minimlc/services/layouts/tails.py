"""The iterations of an uneven split beyond the end: guarded, or run on larger buffers."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Buffer,
    For,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
)
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.arith import has_loads, variables
from minimlc.loops.schedule.primitive import refuse
from minimlc.loops.schedule.shape import names_loops
from minimlc.loops.schedule.tree import guarded, replaced_in
from minimlc.loops.values.node import replace, walk


class Padded(NamedTuple):
    """A loop's body for more iterations than the loop has, and the buffers that grew for them."""

    body: Stmt
    buffers: dict[Buffer, Buffer]


def padded(func: PrimFunc, loop: For, extent: int, more: int) -> Padded:
    """The body of a loop for `more` iterations; the ones from `extent` on have no meaning.

    A block runs in them without a guard where that changes nothing anybody sees: what it writes is
    beyond the old end of own buffers, which grow, and what it reads there is used for nothing else.
    All other blocks get a guard. Refused where no block can go without.
    """
    _check_inner_loops(loop)
    growth: dict[Buffer, dict[int, int]] = {}
    fits: dict[Stmt, Stmt | None] = {}
    reasons: list[tuple[Stmt, str]] = []
    for block in blocks_in(loop.body):
        needs = _growth(func, block, loop, extent, more)
        if isinstance(needs, str):
            reasons.append((block, needs))
            continue
        iters = (replace(it, extent=more) if it.value is loop.var else it for it in block.iters)
        fits[block] = replace(block, iters=tuple(iters))
        for buffer, dim in needs:
            growth.setdefault(buffer, {})[dim] = more
    if not fits:
        at, why = reasons[0] if reasons else (loop, "there is no block in it")
        name = loop.var.name
        why = f'split("{name}", tail="pad"): the extra iterations of {name} would be seen: {why}'
        hint = 'tail="guard", or cache_read and cache_write what it uses first'
        refuse("E140", why, at=at, hint=hint)
    body = guarded(replaced_in(loop.body, fits), loop.var < extent, frozenset(fits.values()))
    larger = {}
    for buffer, dims in growth.items():
        shape = tuple(max(size, dims.get(dim, 0)) for dim, size in enumerate(buffer.shape))
        larger[buffer] = replace(buffer, shape=shape)
    return Padded(body, larger)


def _check_inner_loops(loop: For) -> None:
    for inner in loops_in(loop.body):
        if loop.var in variables(inner.extent) or has_loads(inner.extent):
            name = loop.var.name
            why = f'split("{name}", tail="pad"): the extent of {inner.var.name} depends on {name}'
            refuse("E140", why, at=inner, hint='tail="guard"')


def _growth(
    func: PrimFunc, block: Block, loop: For, extent: int, more: int
) -> list[tuple[Buffer, int]] | str:
    """The (buffer, dimension) pairs that must grow for a block to run in the extra iterations of a
    loop, or why it needs a guard.
    """
    parts = [block.body] if block.init is None else [block.init, block.body]
    stores = [part for part in parts if isinstance(part, Store)]
    if len(stores) < len(parts):
        return f"{block.name} is more than a single store"
    its = [it for it in block.iters if loop.var in variables(it.value)]
    if len(its) != 1 or its[0].value is not loop.var or its[0].kind != "S":
        return f"{loop.var.name} is not one spatial axis of {block.name}"
    if block.predicate is not None or names_loops(block, [loop]):
        return f"{block.name} asks where it is"
    if any(_depends_on_data(store) for store in stores):
        return f"what {block.name} touches depends on data"
    if any(_depends_on_place(store, its[0].var) for store in stores):
        return f"which values {block.name} computes or divides by depends on {its[0].var.name}"
    grow = []
    for buffer, indices, written in _touched(stores):
        dims = [dim for dim, i in enumerate(indices) if its[0].var in variables(i)]
        if not dims and not written:
            continue
        if len(dims) != 1 or indices[dims[0]] is not its[0].var:
            return f"{block.name} does not step through {buffer.name} along one dimension"
        if not written and buffer.shape[dims[0]] >= more:
            continue
        if buffer not in func.allocs:
            verb = "writes" if written else "reads"
            return f"{block.name} {verb} the parameter {buffer.name}"
        everywhere = (item for item in accesses(func) if item.buffer is buffer)
        gathered = any(has_loads(i) for item in everywhere for i in item.indices)
        if buffer.shape[dims[0]] != extent or gathered:
            return f"{buffer.name} holds more than what this loop makes"
        grow.append((buffer, dims[0]))
    return grow


def _touched(stores: Sequence[Store]) -> Iterator[tuple[Buffer, tuple, bool]]:
    for store in stores:
        yield store.buffer, store.indices, True
        for part in walk(store.value):
            if isinstance(part, Load):
                yield part.buffer, part.indices, False


def _depends_on_data(store: Store) -> bool:
    """Whether a loaded value decides where something is, which side is taken, or a division."""
    for part in walk(store):
        match part:  # other nodes: the loop goes on
            case Load(_, indices) | Store(_, indices, _) if any(map(has_loads, indices)):
                return True
            case Select(condition, _, _) if has_loads(condition):
                return True
            case Binary("//" | "%" | "and" | "or", _, b) if has_loads(b):
                return True
    return False


def _depends_on_place(store: Store, place: Var) -> bool:
    """Whether `place` decides which side is taken, or the value of a divisor.

    Beyond its old end a divisor may be 0, and a side may be taken that never was.
    """
    for part in walk(store):
        match part:  # other nodes: the loop goes on
            case Select(condition, _, _) if place in variables(condition):
                return True
            case Binary("//" | "%", _, b) if place in variables(b):
                return True
            case Binary("and" | "or", a, _) if place in variables(a):
                return True
    return False
