"""Whether a compiled function may work in place: its result over an input, element by element."""

from collections.abc import Callable
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from minimlc.loops.ir.nodes import Expr, Load, PrimFunc, Select, Store, Var, index, substitute
from minimlc.loops.llvm.value import IN_PLACE
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.arith import Atom, Sum, constant_value, flat, key
from minimlc.loops.proofs.dependence import Conflict, Direction
from minimlc.loops.values.node import Node, nodes_of
from minimlc.loops.values.parts import Hook

FACTS = Hook[WeakKeyDictionary[PrimFunc, Any]]("facts of functions")
"""Facts of functions that were compiled before."""


def _ready(func: PrimFunc) -> Any:
    return next((known[func] for known in FACTS if func in known), None)


def may_share(func: PrimFunc, source: int, result: int) -> bool:
    """Whether the parameter number `result` may be the memory of the one number `source`.

    Legal when both have one shape and dtype, a single store writes the result, each element once,
    nothing reads the result, and the source is read in the value of this store alone, at the same
    element.
    """
    if ready := _ready(func):
        return (source, result) in ready.shares
    known = _KNOWN.setdefault(func, {})
    if (source, result) not in known:
        known[source, result] = _may_share(func, source, result)
    return known[source, result]


_KNOWN: WeakKeyDictionary[PrimFunc, dict[tuple[int, int], bool]] = WeakKeyDictionary()


def shares(func: PrimFunc) -> list[tuple[int, int]]:
    """All pairs of parameters for which `may_share` holds."""
    stored = {part.buffer for part in nodes_of(func.body, Store)}
    read = [at for at, param in enumerate(func.params) if param not in stored]
    written = [at for at, param in enumerate(func.params) if param in stored]
    return [(a, b) for a in read for b in written if may_share(func, a, b)]


def _may_share(func: PrimFunc, source: int, result: int) -> bool:
    a, b = func.params[source], func.params[result]
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    items = [item for item in accesses(func) if item.buffer in (a, b)]
    writes, reads = ([item for item in items if item.is_write is kind] for kind in (True, False))
    if len(writes) != 1 or not _writes_once(writes[0]):
        return False
    return all(read.buffer is a and _is_beside(read, writes[0]) for read in reads)


def _is_beside(read: Access, write: Access) -> bool:
    """Whether a read is for the value that goes to its own element."""
    first, second = (list(map(key, item.indices)) for item in (read, write))
    return read.into is write.node and first == second


def _writes_once(write: Access) -> bool:
    """Whether no two instances of a write meet: in no loop, the loops around it being equal."""
    conflict = Conflict(write, write)
    outer = [loop.var for loop in write.loops]
    cases: list[dict[Var, Direction]] = [
        {**dict.fromkeys(outer[:at], "0"), var: "+"} for at, var in enumerate(outer)
    ]
    return not any(map(conflict.possible, cases))


def views(func: PrimFunc) -> tuple[int, ...]:
    """The elements of the first parameter at which the others begin, of a function that only copies
    it to them in the order of memory, as a reshape does, or a split into rows. They may be the same
    memory, so nothing is to be done. Empty for other functions.
    """
    ready = _ready(func)
    return ready.views if ready else _known(_views, func)


def joined(func: PrimFunc) -> tuple[int, ...]:
    """The elements of the last parameter at which the others begin, of a function that only copies
    them to it in the order of memory, as a concatenation of rows does. They may be parts of its
    memory, so nothing is to be done. Empty for other functions.
    """
    ready = _ready(func)
    return ready.joined if ready else _known(_joined, func)


Parts = Callable[[PrimFunc], tuple[int, ...]]
_PARTS: WeakKeyDictionary[PrimFunc, dict[Parts, tuple[int, ...]]] = WeakKeyDictionary()


def _known(find: Parts, func: PrimFunc) -> tuple[int, ...]:
    known = _PARTS.setdefault(func, {})
    if find not in known:
        known[find] = find(func)
    return known[find]


def _views(func: PrimFunc) -> tuple[int, ...]:
    items = [] if func.allocs else accesses(func)
    writes = [item for item in items if item.is_write]
    if not writes or [item.buffer for item in writes] != list(func.params[1:]):
        return ()
    starts = []
    for write in writes:
        reads = [item for item in items if item.into is write.node]
        if len(reads) != 1 or reads[0].buffer is not func.params[0] or reads[0].guards:
            return ()
        starts.append(_behind(reads[0], write, _copied(write)))
    known = tuple(start for start in starts if start is not None)
    return known if len(known) == len(starts) else ()


def _joined(func: PrimFunc) -> tuple[int, ...]:
    items = [] if func.allocs else accesses(func)
    writes, reads = ([it for it in items if it.is_write is kind] for kind in (True, False))
    if len(writes) != 1 or {*(it.buffer for it in reads)} != {*func.params[:-1]}:
        return ()
    loads, (write,) = _copied(writes[0]), writes
    starts = {it.buffer: _behind(it, write, loads) for it in reads if it.into is write.node}
    # Each element is read from one of them. As none is read beyond its end, and they fill the
    # result one behind the other, it is of the one that lies there, whatever the conditions say.
    ends = [0]
    for source in func.params[:-1]:
        if len(reads) != len(starts) or starts[source] != -ends[-1] or 0 in source.shape:
            return ()
        ends.append(ends[-1] + prod(source.shape))
    return tuple(ends[:-1]) if ends[-1] == prod(func.params[-1].shape) else ()


def _copied(write: Access) -> frozenset[Expr]:
    """The loads that a write may store one of; empty where it may store something else."""
    store = write.node
    chosen = _chosen(store.value) if isinstance(store, Store) and not write.role else []
    return frozenset(chosen if all(isinstance(value, Load) for value in chosen) else ())


def _behind(read: Access, write: Access, copied: frozenset[Expr]) -> int | None:
    """The number of elements by which the element read lies behind the one written, in memory; None
    where something else is written, or not all. `copied` are the loads that may be stored.
    """
    times = prod(constant_value(loop.extent) or 0 for loop in write.loops)
    whole = times == prod(write.buffer.shape) and not (write.guards or write.runs_where)
    alike = read.node in copied
    first, second = _number(read), _number(write)
    same = read.buffer.dtype == write.buffer.dtype and first.terms == second.terms
    return first.constant - second.constant if whole and alike and same else None


def _chosen(value: Expr) -> list[Expr]:
    """The values that a value may be, by its conditions."""
    if not isinstance(value, Select):
        return [value]
    return [*_chosen(value.a), *_chosen(value.b)]


def _number(access: Access) -> Sum[Atom]:
    """The number of the accessed element in memory, over the loops around it."""
    single: dict[Node, Node] = {
        loop.var: index(0) for loop in access.loops if constant_value(loop.extent) == 1
    }
    indices = [substitute(position, single) for position in access.indices]
    return flat(indices, access.buffer.shape)


def sharing(func: PrimFunc) -> PrimFunc:
    """The function, marked for calls that make use of `may_share`."""
    result = func.with_attr(IN_PLACE, True)
    if ready := _ready(func):
        for known in FACTS:
            known[result] = ready
    return result
