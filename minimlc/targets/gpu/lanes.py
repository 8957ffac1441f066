"""Neighbours in memory that a thread may copy, or calculate with, at once."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    Select,
    Stmt,
    Store,
    Var,
)
from minimlc.loops.proofs.access import element_key
from minimlc.loops.proofs.arith import variables
from minimlc.loops.values.dtypes import DTYPES
from minimlc.loops.values.node import Mutator, Node, nodes_of, replace, walk

BYTES = 16
"""The most that a thread moves at once; arrays begin at a multiple of it."""


class Copy(NamedTuple):
    """As many elements as `lanes`, from `source` on, are copied to those from `target` on."""

    target: Store
    source: Load
    lanes: int

    @property
    def buffers(self) -> set[Buffer]:
        """The buffers whose neighbours are taken at once."""
        return {self.target.buffer, self.source.buffer}

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.lanes * DTYPES[self.source.dtype].bits // 8


def copy_of(item: For) -> Copy | None:
    """The copy by a vectorized loop; None where it does more, or where elements are not known to be
    neighbours that begin at a multiple of their size.
    """
    store, count = _inside(item.body), _count(item)
    if store is None:
        return None
    load = store.value
    size = count * DTYPES[store.buffer.dtype].bits // 8
    if (
        not isinstance(load, Load)
        or load.buffer is store.buffer
        or "local" in (load.buffer.scope, store.buffer.scope)
        or size not in (8, BYTES)
    ):
        return None
    target, source = (_start(place, item.var, count) for place in (store, load))
    if target is None or source is None:
        return None
    return Copy(replace(store, indices=target), replace(load, indices=source), count)


class Wide(NamedTuple):
    """As many neighbours as `lanes` are calculated and stored from `target` on. In its value, each
    variable of `loads` stands for the neighbours from that load on.
    """

    target: Store
    loads: dict[Var, Load]
    lanes: int

    @property
    def buffers(self) -> set[Buffer]:
        """The buffers whose neighbours are taken at once."""
        return {self.target.buffer, *(load.buffer for load in self.loads.values())}


def wide_of(item: For) -> Wide | None:
    """The calculation by a vectorized loop of float32; None where it only copies, or does more than
    sums and products of neighbours and of values that are the same for all of them.
    """
    store, count, loads = _inside(item.body), _count(item), dict[Var, Load]()
    if store is None or not count or copy_of(item) is not None:
        return None
    target, value = _start(store, item.var, count), _spread(store.value, item, loads)
    if target is None or value is None:
        return None
    return Wide(replace(store, indices=target, value=value), loads, count)


class Several(NamedTuple):
    """As many neighbours as `lanes` are loaded into arrays of a thread, from `loads` on; a `loop`
    calculates the elements of its `result`, which are stored from `target` on.
    """

    target: Store
    loads: dict[Buffer, Load]
    loop: For
    result: Buffer
    lanes: int

    @property
    def buffers(self) -> set[Buffer]:
        """The buffers whose neighbours are taken at once."""
        return {self.target.buffer, *(load.buffer for load in self.loads.values())}


def several_of(item: For) -> Several | None:
    """The calculation by a vectorized loop, of any kind. None where it only copies, loads what a
    condition decides about, or takes elements in memory that are not known to be neighbours which
    begin at a multiple of their size.
    """
    store, count = _inside(item.body), _count(item)
    if store is None or not count or copy_of(item) is not None:
        return None
    places: list[Store | Load] = [store, *nodes_of(store.value, Load)]
    places = [place for place in places if any(item.var in variables(i) for i in place.indices)]
    starts = [_start(place, item.var, count) for place in places]
    sizes = {count * DTYPES[place.buffer.dtype].bits // 8 for place in places}
    local = any(place.buffer.scope.startswith("local") for place in places)
    if store not in places or None in starts or local or not sizes <= {2, 4, 8, BYTES}:
        return None
    if len(places) > 1 and any(map(_decides, walk(store.value))):
        return None
    arrays, taken, loads = dict[Hashable, Buffer](), dict[Node, Load](), dict[Buffer, Load]()
    for load, at in zip(places[1:], starts[1:], strict=True):
        start = Load(load.buffer, at or ())
        array = arrays.setdefault(element_key(start), _array(load.buffer, count))
        loads[array], taken[load] = start, Load(array, (item.var,))
    result = _array(store.buffer, count)
    body = Store(result, (item.var,), _Taken(taken).visit(store.value))
    target = replace(store, indices=starts[0])
    return Several(target, loads, replace(item, kind="unrolled", body=body), result, count)


def _array(buffer: Buffer, count: int) -> Buffer:
    return Buffer(f"{buffer.name}_lanes", (count,), buffer.dtype)


def _decides(item: Node) -> bool:
    """Whether a node leaves out a part of a value, which may be beyond a buffer's end there."""
    return isinstance(item, Select) or (isinstance(item, Binary) and item.op in ("and", "or"))


class _Taken(Mutator):
    """Puts elements of arrays in the place of loads."""

    def __init__(self, taken: Mapping[Node, Load]):
        self.taken = taken

    def visit_Load(self, item: Load) -> Load:
        return self.taken.get(item, item)


def _spread(value: Expr, loop: For, loads: dict[Var, Load]) -> Expr | None:
    """A value in a loop, its neighbours as new variables in `loads`; None for other values."""
    match value:
        case _ if value.dtype != "float32":
            return None
        case Binary("+" | "-" | "*", a, b):
            first, second = _spread(a, loop, loads), _spread(b, loop, loads)
            return None if first is None or second is None else replace(value, a=first, b=second)
        case Load(_, indices) if any(loop.var in variables(index) for index in indices):
            start = _start(value, loop.var, _count(loop))
            if start is None:
                return None
            lanes = Var("lanes", "float32")
            loads[lanes] = replace(value, indices=start)
            return lanes
        case Load() | Const():
            return value
        case _:  # other nodes: a language may lack them for several values at once
            return None


def _count(item: For) -> int:
    """How many neighbours a vectorized loop takes; 0 where no type holds so many."""
    count = item.extent.value if isinstance(item.extent, Const) else 0
    return int(count) if item.kind == "vectorized" and count in (2, 4, 8, 16) else 0


def _inside(body: Stmt) -> Store | None:
    while isinstance(body, Block):
        body = body.body
    return body if isinstance(body, Store) else None


def _start(place: Store | Load, var: Var, count: int) -> tuple[Expr, ...] | None:
    """The indices of the first of `count` neighbours in memory, counted by `var`."""
    *outer, last = place.indices or (Const(0, var.dtype),)
    first, rows = _first(last, var, count), [_row(index, var, count) for index in outer]
    whole = not outer or place.buffer.shape[-1] % count == 0
    if first is None or not whole:
        return None
    known = tuple(row for row in rows if row is not None)
    return (*known, first) if len(known) == len(rows) else None


def _first(index: Expr, var: Var, count: int) -> Expr | None:
    """`index` less `var`, its summand, if the rest is a multiple of `count`; None where not."""
    first = _without(index, var, count)
    return None if first is None or quotient(first, count) is None else first


def _without(index: Expr, var: Var, count: int) -> Expr | None:
    match index:
        case Var() if index is var:
            return Const(0, var.dtype)
        case Binary("+", a, b):
            if var in variables(a):
                a, b = b, a
            rest = None if var in variables(a) else _without(b, var, count)
            return None if rest is None else replace(index, a=a, b=rest)
        case Binary("%", a, Const(size)) if _is_multiple(size, count):
            first = _first(a, var, count)
            return None if first is None else replace(index, a=first)
        case _:  # other nodes: steps of another size, or none
            return None


def _row(index: Expr, var: Var, count: int) -> Expr | None:
    """An index without `var`, if it is the same for all `count` neighbours; None where not."""
    match index:
        case _ if var not in variables(index):
            return index
        case Binary("+", a, b):
            first, second = _row(a, var, count), _row(b, var, count)
            return None if first is None or second is None else replace(index, a=first, b=second)
        case Binary("//", a, Const(size)) if _is_multiple(size, count):
            first = _first(a, var, count)
            return None if first is None else replace(index, a=first)
        case _:  # other nodes: neighbours may be in several rows
            return None


def quotient(item: Expr, by: int) -> Expr | None:
    """An index divided by a number that it is known to be a multiple of; None for others."""
    match item:
        case _ if by == 1:
            return item
        case Const(value):
            return None if int(value) % by else replace(item, value=int(value) // by)
        case Binary("+" | "-", a, b):
            first, second = quotient(a, by), quotient(b, by)
            return None if first is None or second is None else replace(item, a=first, b=second)
        case Binary("*", a, b):
            first, second = quotient(a, by), quotient(b, by)
            if first is None:
                return None if second is None else a * second
            return first * b
        case Binary("%", a, Const(size)) if _is_multiple(size, by):
            first = quotient(a, by)
            return (
                None
                if first is None
                else replace(item, a=first, b=replace(item.b, value=size // by))
            )
        case _:  # other nodes: anything
            return None


def _is_multiple(size: int | float, of: int) -> bool:
    """Whether a divisor is a positive multiple of `of`: a negative one turns neighbours around."""
    return size > 0 and not size % of
