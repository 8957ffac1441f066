"""Copies of neighbours, which a thread may load and store at once."""

from typing import NamedTuple

from minimlc.dtypes import DTYPES
from minimlc.node import replace
from minimlc.tir.analysis.arith import variables
from minimlc.tir.nodes import Binary, Block, Const, Expr, For, Load, Stmt, Store, Var

BYTES = 16
"""The most that a thread moves at once; arrays begin at a multiple of it."""


class Copy(NamedTuple):
    """As many elements as `lanes`, from `source` on, are copied to those from `target` on."""

    target: Store
    source: Load
    lanes: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.lanes * DTYPES[self.source.dtype].bits // 8


def copy_of(item: For) -> Copy | None:
    """What a vectorized loop copies; None where it does more, or where elements are not known to be
    neighbours that begin at a multiple of their size.
    """
    store = _inside(item.body)
    if item.kind != "vectorized" or store is None or not isinstance(item.extent, Const):
        return None
    load, count = store.value, int(item.extent.value)
    size = count * DTYPES[store.buffer.dtype].bits // 8
    if (
        not isinstance(load, Load)
        or load.buffer is store.buffer
        or count not in (2, 4, 8, 16)
        or size not in (8, BYTES)
    ):
        return None
    target, source = (_start(place, item.var, count) for place in (store, load))
    if target is None or source is None:
        return None
    return Copy(replace(store, indices=target), replace(load, indices=source), count)


def _inside(body: Stmt) -> Store | None:
    while isinstance(body, Block):
        body = body.body
    return body if isinstance(body, Store) else None


def _start(place: Store | Load, var: Var, count: int) -> tuple[Expr, ...] | None:
    """The indices of the first of `count` neighbours in memory, counted by `var`."""
    *outer, last = place.indices or (Const(0, var.dtype),)
    first, rows = _first(last, var, count), [_row(index, var, count) for index in outer]
    whole = not outer or place.buffer.shape[-1] % count == 0
    if first is None or not whole or place.buffer.scope == "local":
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
    """Whether a divisor keeps such neighbours together; a negative one turns them around."""
    return size > 0 and not size % of
