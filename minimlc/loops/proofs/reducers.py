"""Reducers: how a block combines values into what it keeps, one element or several at once.

A block that keeps several elements, as one that finds the greatest value and where it is,

    I[i] = select(x > V[i] or (x == V[i] and k < I[i]), k, I[i])
    V[i] = max(V[i], x)

combines the tuple it keeps, here (V, I), with a new one, here (x, k). Whether tuples may be grouped
and exchanged is decided by trying all of them: see `TupleReducer`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from functools import reduce as fold
from itertools import product
from typing import NamedTuple

import numpy as np

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir import operators
from minimlc.loops.ir.operators import COMPARISONS, LOGICAL, OPERATORS, extremes
from minimlc.loops.proofs.access import (
    element_key,
    operands,
    reads_any,
    reducer_of,
    update_of,
    updates_of,
)
from minimlc.loops.proofs.arith import key
from minimlc.loops.values.dtypes import is_float
from minimlc.loops.values.node import Node, replace, walk

MOST_PARTS = 3
"""Elements kept by one reducer: trying all triples of tuples takes 64**parts steps at most."""


class Reducer(NamedTuple):
    """`stores` run in order and combine what they keep with `values`, one for each store: of
    `X = a + X + b` it is `X = X + (a + b)`.
    """

    stores: tuple[ir.Store, ...]
    values: tuple[ir.Expr, ...]
    start: tuple[ir.Const, ...]
    """The identity, which leaves the other operand as it is."""


class TupleReducer(NamedTuple):
    """A reducer of several elements, and its proven properties.

    Comparisons, `min`, `max`, `select`, `and`, `or`, `not` see only the order of their
    operands, each part of the tuples for itself. So three tuples behave as any others in the same
    order, and there are no more orders of three values than those of 0, 1, 2, and NaN for floats:
    trying all of these is a proof. (-0.0 and 0.0 are equal; which one is kept is not looked at.)
    `example` are tuples that show what does not hold.
    """

    stores: tuple[ir.Store, ...]
    values: tuple[ir.Expr, ...]
    associative: bool
    commutative: bool
    example: str
    start: tuple[ir.Const, ...] | None


def reducer(block: ir.Block) -> Reducer | None:
    """A block's associative and commutative reducer that has an identity, if it is one."""
    op, store = reducer_of(block), update_of(block)
    if op is not None and store is not None:
        parts = list(operands(op, store.value))
        target = next(part for part in parts if reads_any(part, (store.buffer,)))
        value = fold(partial(ir.Binary, op), (part for part in parts if part is not target))
        store = replace(store, value=ir.Binary(op, target, value))
        return Reducer((store,), (value,), (identity(op, store.buffer.dtype),))
    several = tuple_reducer(block)
    if several is None or not (several.associative and several.commutative and several.start):
        return None
    return Reducer(several.stores, several.values, several.start)


def is_reduction(block: ir.Block) -> bool:
    """Whether a block combines values that may be grouped in any way."""
    several = tuple_reducer(block)
    return reducer_of(block) is not None or (several is not None and several.associative)


def identity(op: str, dtype: str) -> ir.Const:
    """The identity of one of `REDUCERS`, which leaves the other operand as it is."""
    return ir.Const(operators.identity(op, dtype), dtype)


def tuple_reducer(block: ir.Block) -> TupleReducer | None:
    """The reducer of a block that combines several elements; None for another block."""
    return _of_body(block.body)


@lru_cache(maxsize=256)
def _of_body(body: ir.Stmt) -> TupleReducer | None:
    stores = tuple(updates_of(body) or ())
    kept = {store.buffer: store for store in stores}
    if not 2 <= len(stores) <= MOST_PARTS:
        return None
    if len(kept) != len(stores) or any(buffer.dtype == "bool" for buffer in kept):
        return None
    if not all(_at_home(load, kept) for store in stores for load in _loads(store.value)):
        return None
    if any(reads_any(part, kept) for store in stores for part in store.indices):
        return None
    candidates = [_candidates(store.value, store.buffer, kept) for store in stores]
    if any(len({key(part) for part in parts}) != 1 for parts in candidates):
        return None
    values = tuple(parts[0] for parts in candidates)
    try:
        return _proved(_Steps(stores, values))
    except _Unknown:
        return None


def _loads(expr: Node) -> Iterator[ir.Load]:
    return (n for n in walk(expr) if isinstance(n, ir.Load))


def _at_home(load: ir.Load, kept: Mapping[ir.Buffer, ir.Store]) -> bool:
    """Whether a load from an accumulator reads the element being updated."""
    return load.buffer not in kept or element_key(load) == element_key(kept[load.buffer])


def _candidates(expr: ir.Expr, own: ir.Buffer, kept: Mapping[ir.Buffer, ir.Store]) -> list[ir.Expr]:
    """The values that an element may become, other than its present one."""
    if not reads_any(expr, kept):
        return [expr]
    match expr:
        # other nodes: they read what is kept, so there is no single candidate
        case ir.Load(buffer) if buffer is own:
            return []
        case ir.Select(_, a, b) | ir.Binary("min" | "max", a, b):
            return _candidates(a, own, kept) + _candidates(b, own, kept)
    return [expr, ir.Const(0, "none")]  # something else: no single candidate


class _Unknown(Exception):
    """An expression that is more than comparisons of like parts."""


Arrays = tuple[np.ndarray, ...]


class _Steps:
    """A reducer's stores, run on arrays of tuples: `run(kept, new)` gives the next kept ones."""

    def __init__(self, stores: Sequence[ir.Store], values: Sequence[ir.Expr]):
        self.stores, self.values = stores, values
        self.places = {key(value): place for place, value in enumerate(values)}
        self.buffers = {store.buffer: place for place, store in enumerate(stores)}
        if len(self.places) != len(values):
            raise _Unknown

    def run(self, kept: Arrays, new: Arrays) -> Arrays:
        now = list(kept)
        for place, store in enumerate(self.stores):
            updated, part = self.value(store.value, now, new)
            if part != place:
                raise _Unknown
            now[place] = updated
        return tuple(now)

    def value(self, expr: ir.Expr, now: list, new: Arrays) -> tuple[np.ndarray, int]:
        """A value, and the number of the tuples' part that it is."""
        if key(expr) in self.places:
            place = self.places[key(expr)]
            return new[place], place
        match expr:
            # other nodes: refused below, as parts that differ are
            case ir.Load(buffer) if buffer in self.buffers:
                return now[self.buffers[buffer]], self.buffers[buffer]
            case ir.Select(condition, a, b):
                (one, place), (two, other) = self.value(a, now, new), self.value(b, now, new)
                if place == other:
                    return np.where(self.holds(condition, now, new), one, two), place
            case ir.Binary("min" | "max" as op, a, b):
                (one, place), (two, other) = self.value(a, now, new), self.value(b, now, new)
                if place == other:
                    return OPERATORS[op].array(one, two), place
        raise _Unknown

    def holds(self, expr: ir.Expr, now: list, new: Arrays) -> np.ndarray:
        match expr:
            # other nodes: refused below, as parts that differ are
            case ir.Unary("not", a):
                return ~self.holds(a, now, new)
            case ir.Binary(op, a, b) if op in LOGICAL:
                one, two = self.holds(a, now, new), self.holds(b, now, new)
                return one & two if op == "and" else one | two
            case ir.Binary(op, a, b) if op in COMPARISONS:
                (one, place), (two, other) = self.value(a, now, new), self.value(b, now, new)
                if place == other:
                    return OPERATORS[op].array(one, two)
        raise _Unknown


def _proved(steps: _Steps) -> TupleReducer:
    dtypes = [store.buffer.dtype for store in steps.stores]
    sides = [[0.0, 1.0, 2.0] + [np.nan] * is_float(dtype) for dtype in dtypes]
    tuples = list(product(*sides))
    count = len(tuples)
    picks = np.indices((count, count, count)).reshape(3, -1)
    table = np.array(tuples).T
    a, b, c = (tuple(column[pick] for column in table) for pick in picks)
    grouped = _equal(steps.run(steps.run(a, b), c), steps.run(a, steps.run(b, c)))
    exchanged = _equal(steps.run(a, b), steps.run(b, a))
    wrong = exchanged if grouped.all() else grouped
    example = ""
    if not wrong.all():
        row = int(np.argmin(wrong))
        shown = (a, b) if grouped.all() else (a, b, c)
        example = " and ".join(f"({', '.join(f'{p[row]:g}' for p in part)})" for part in shown)
    start = _start(steps, dtypes, tuple(table))
    return TupleReducer(
        tuple(steps.stores),
        tuple(steps.values),
        bool(grouped.all()),
        bool(exchanged.all()),
        example,
        start,
    )


def _equal(one: Arrays, two: Arrays) -> np.ndarray:
    same = [(x == y) | (np.isnan(x) & np.isnan(y)) for x, y in zip(one, two, strict=True)]
    return np.logical_and.reduce(same)


def _start(steps: _Steps, dtypes: Sequence[str], tuples: Arrays) -> tuple[ir.Const, ...] | None:
    """The identity, among tuples of least and greatest values: 0 and 2 stand for those here."""
    for ends in product((0, 1), repeat=len(dtypes)):
        start = tuple(np.full_like(column, 2.0 * e) for e, column in zip(ends, tuples, strict=True))
        kept = _equal(steps.run(start, tuples), tuples) & _equal(steps.run(tuples, start), tuples)
        if kept.all():
            pairs = zip(ends, dtypes, strict=True)
            return tuple(ir.Const(extremes(dtype)[end], dtype) for end, dtype in pairs)
    return None
