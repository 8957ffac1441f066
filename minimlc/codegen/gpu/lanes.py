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
        or count not in (2, 4)
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
    first = _without(last, var)
    if first is None or any(var in variables(index) for index in outer):
        return None
    rows = not outer or place.buffer.shape[-1] % count == 0
    fits = rows and _is_multiple(first, count) and place.buffer.scope != "local"
    return (*outer, first) if fits else None


def _without(index: Expr, var: Var) -> Expr | None:
    """`index` less `var`, which is a summand of it; None where it is not."""
    match index:
        case Var() if index is var:
            return Const(0, var.dtype)
        case Binary("+", a, b):
            if var in variables(a):
                a, b = b, a
            rest = None if var in variables(a) else _without(b, var)
            return None if rest is None else replace(index, a=a, b=rest)
        case _:  # other nodes: steps of another size, or none
            return None


def _is_multiple(item: Expr, count: int) -> bool:
    match item:
        case Const(value):
            return int(value) % count == 0
        case Binary("+" | "-", a, b):
            return _is_multiple(a, count) and _is_multiple(b, count)
        case Binary("*", a, b):
            return _is_multiple(a, count) or _is_multiple(b, count)
        case _:  # other nodes: anything
            return False
