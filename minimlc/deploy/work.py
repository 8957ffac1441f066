"""The operations on floats of a primitive function, counted from its loops.

One operation is `+`, `-`, `*`, `/`, `//`, `%`, min, max, or a call of a function such as exp; a
multiply-add is two. Nothing is run.
"""

from collections.abc import Container, Iterable
from math import prod

import numpy as np

from minimlc.loops.ir.nodes import (
    ARITHMETIC,
    Binary,
    Expr,
    For,
    Intrin,
    Load,
    PrimFunc,
    Select,
    Store,
    Var,
)
from minimlc.loops.proofs.access import Access, accesses, loop_extents
from minimlc.loops.proofs.arith import has_loads, variables
from minimlc.loops.proofs.points import evaluate
from minimlc.loops.values.dtypes import is_float
from minimlc.loops.values.node import children

MOST_POINTS = 1 << 22
"""The most iterations that conditions are evaluated for, in one group of loops that share them."""


def flops(func: PrimFunc) -> int | None:
    """The operations on floats of one call, as the loops are written: a schedule that pads to whole
    tiles computes with its zeros, too. Conditions on data are taken to hold. None where data, or
    too many iterations, decide how often a statement runs.
    """
    total = 0
    for access in accesses(func):
        ops = operations(access.node.value) if isinstance(access.node, Store) else 0
        count = runs(access) if ops else 0
        if count is None:
            return None
        total += ops * count
    return total


def operations(value: Expr) -> int:
    """The operations on floats of an expression; of two cases, the longer one's."""
    if isinstance(value, Load):
        return 0
    inside = [operations(part) for part in children(value) if isinstance(part, Expr)]
    if isinstance(value, Select):
        return inside[0] + max(inside[1:])
    return sum(inside) + is_flop(value)


def is_flop(item: Expr) -> bool:
    """Whether an expression is itself an operation on floats that takes time."""
    arithmetic = isinstance(item, Binary) and item.op in ARITHMETIC
    return is_float(item.dtype) and (arithmetic or isinstance(item, Intrin))


def runs(access: Access) -> int | None:
    """How often an access happens: exactly, but for conditions on data."""
    if any(has_loads(loop.extent) for loop in access.loops):
        return None
    extents = loop_extents(access.loops)
    inside = [
        Binary("<", loop.var, loop.extent) for loop in access.loops if _is_over(loop, extents)
    ]
    guards = [guard for guard in (*access.guards, *inside) if not has_loads(guard)]
    bound = {var for guard in guards for var in variables(guard)}
    counts = [_holding(group, extents) for group in _sharing(guards)]
    free = prod(extent for var, extent in extents.items() if var not in bound)
    known = [count for count in counts if count is not None]
    return free * prod(known) if len(known) == len(counts) else None


def _is_over(loop: For, extents: Container[Var]) -> bool:
    """Whether other loops decide a loop's extent; where iters do, there is a guard already."""
    return bool(variables(loop.extent)) and all(var in extents for var in variables(loop.extent))


def _sharing(guards: Iterable[Expr]) -> list[tuple[frozenset[Var], list[Expr]]]:
    """Conditions in groups that have no variable in common."""
    groups: list[tuple[frozenset[Var], list[Expr]]] = []
    for guard in guards:
        used = variables(guard)
        met = [group for group in groups if group[0] & used]
        groups = [group for group in groups if not group[0] & used]
        together = [part for _, parts in met for part in parts]
        groups.append((used.union(*(names for names, _ in met)), [*together, guard]))
    return groups


def _holding(group: tuple[frozenset[Var], list[Expr]], extents: dict[Var, int]) -> int | None:
    """For how many values of a group's variables its conditions hold."""
    names = [var for var in extents if var in group[0]]
    sizes = [extents[var] for var in names]
    if prod(sizes) > MOST_POINTS:
        return None
    values = {var: axis.ravel() for var, axis in zip(names, np.indices(sizes), strict=True)}
    hold = np.ones(prod(sizes), np.bool_)
    for guard in group[1]:
        hold &= np.asarray(evaluate(guard, values)).astype(np.bool_)
    return int(hold.sum())
