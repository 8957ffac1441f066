"""Whether a compiled function may work in place: its result over an input, element by element."""

from math import prod
from weakref import WeakKeyDictionary

from minimlc.codegen.llvm.entry import IN_PLACE
from minimlc.node import Node, nodes_of
from minimlc.tir.analysis.access import Access, accesses
from minimlc.tir.analysis.arith import Atom, Sum, constant_value, key, linear, recombined
from minimlc.tir.analysis.copies import READY
from minimlc.tir.analysis.dependence import Conflict, Direction
from minimlc.tir.nodes import (
    Block,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Store,
    Var,
    index,
    substitute,
)


def may_share(func: PrimFunc, source: int, result: int) -> bool:
    """Whether the parameter number `result` may be the memory of the one number `source`.

    Legal when both have one shape and dtype, a single store writes the result, each element once,
    nothing reads the result, and the source is read in the value of this store alone, at the same
    element.
    """
    if func in READY:
        return (source, result) in READY[func].shares
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
    own = [item for item in accesses(func) if item.buffer in (a, b)]
    writes, reads = ([item for item in own if item.is_write is kind] for kind in (True, False))
    if len(writes) != 1 or not _writes_once(writes[0]):
        return False
    return all(read.buffer is a and _is_beside(read, writes[0]) for read in reads)


def _is_beside(read: Access, write: Access) -> bool:
    """Whether a read is for the value that goes to its own element."""
    own, other = (list(map(key, item.indices)) for item in (read, write))
    return read.into is write.node and own == other


def _writes_once(write: Access) -> bool:
    """Whether no two instances of a write meet: in no loop, the loops around it being equal."""
    conflict = Conflict(write, write)
    outer = [loop.var for loop in write.loops]
    cases: list[dict[Var, Direction]] = [
        {**dict.fromkeys(outer[:at], "0"), var: "+"} for at, var in enumerate(outer)
    ]
    return not any(map(conflict.possible, cases))


def is_view(func: PrimFunc) -> bool:
    """Whether a function copies its first parameter to its second in the order of memory, as a
    reshape does, and all of it: then both may be the same memory, and nothing is to be done.
    """
    stores, blocks = nodes_of(func.body, Store), nodes_of(func.body, Block)
    if len(func.params) != 2 or func.allocs or len(stores) != 1:
        return False
    if nodes_of(func.body, IfThenElse) or any(block.predicate is not None for block in blocks):
        return False
    times = prod(constant_value(loop.extent) or 0 for loop in nodes_of(func.body, For))
    if times != prod(func.params[1].shape):
        return False
    source, result = func.params
    store, load = stores[0], stores[0].value
    if store.buffer is not result or not isinstance(load, Load) or load.buffer is not source:
        return False
    alike = (source.dtype, prod(source.shape)) == (result.dtype, prod(result.shape))
    iters = [it for block in blocks for it in block.iters]
    single: dict[Node, Node] = {it.var: index(0) for it in iters if it.extent == 1}
    return alike and _number(store, single) == _number(load, single)


def _number(access: Load | Store, known: dict[Node, Node]) -> Sum[Atom]:
    """Which element in memory is accessed, with what is known of variables."""
    number: Expr = index(0)
    for position, size in zip(access.indices, access.buffer.shape, strict=True):
        number = number * size + substitute(position, known)
    return recombined(linear(number))


def sharing(func: PrimFunc) -> PrimFunc:
    """The function, for calls in which `may_share` is made use of."""
    result = func.with_attr(IN_PLACE, True)
    if func in READY:
        READY[result] = READY[func]
    return result
