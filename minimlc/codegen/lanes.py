"""May the iterations of a loop run side by side? A sound test on lowered code.

`verify` proves it for a program; here it is proven once more of the code that lowering made, so
that a mistake between the two costs speed and not the result: what has no proof runs in order.
"""

from dataclasses import dataclass
from math import gcd

from minimlc.node import Node, structural_hash, walk
from minimlc.tir.access import accesses
from minimlc.tir.legality import carried_dependence
from minimlc.tir.nodes import (
    Alloc,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Store,
    Var,
)

Access = tuple[Expr, ...]


@dataclass(frozen=True)
class Linear:
    """An index as a sum: `terms` are (what, coefficient), by what in order of appearance."""

    terms: tuple[tuple[Expr, int], ...]
    offset: int


def independent(loop: For, program: PrimFunc) -> bool:
    """Whether no two iterations of `loop`, a loop of `program`, touch what one of them writes.

    First by a quick test of the index's form, then by the search that `verify` makes.
    """
    return _separate(loop) or carried_dependence(loop, accesses(program)) is None


def _separate(loop: For) -> bool:
    """Whether no two iterations of `loop` touch an element that one of them writes.

    True when each buffer written has a dimension whose index is, at every access,
    `c * loop.var + rest`, where different values of the loop variable can never meet.
    """
    inner = {part.var for part in walk(loop.body) if isinstance(part, For)}
    own = {part.buffer for part in walk(loop.body) if isinstance(part, Alloc)}
    accesses: dict[Buffer, list[Access]] = {}
    written = set()
    for part in walk(loop.body):
        if isinstance(part, Load | Store) and part.buffer not in own:
            accesses.setdefault(part.buffer, []).append(part.indices)
            if isinstance(part, Store):
                written.add(part.buffer)
    return all(_disjoint(loop, inner, accesses[buffer], buffer.ndim) for buffer in written)


def _disjoint(loop: For, inner: set[Var], accesses: list[Access], ndim: int) -> bool:
    return any(
        _separated(loop, inner, [linear(indices[axis]) for indices in accesses])
        for axis in range(ndim)
    )


def _separated(loop: For, inner: set[Var], forms: list[Linear]) -> bool:
    """Whether the forms of one dimension keep iterations apart.

    With c the loop variable's coefficient, m the common divisor of everything else that moves,
    and equal fixed parts, two iterations meet only where c * (i - j) is a multiple of m; none is
    when |c| * (extent - 1) < m.
    """
    shapes = [_split(loop.var, inner, form) for form in forms]
    if any(shape is None for shape in shapes):
        return False
    first = shapes[0]
    assert first is not None
    coefficient, step, fixed = first[0], 0, first[2]
    for form, shape in zip(forms, shapes, strict=True):
        assert shape is not None
        if shape[0] != coefficient or shape[2] != fixed:
            return False
        step = gcd(step, shape[1], form.offset - forms[0].offset)
    if coefficient == 0:
        return False
    if step == 0:
        return True
    extent = loop.extent.value if isinstance(loop.extent, Const) else None
    return extent is not None and abs(coefficient) * (extent - 1) < step


def _split(var: Var, inner: set[Var], form: Linear) -> tuple[int, int, tuple] | None:
    """The variable's coefficient, the divisor of what moves inside, and the fixed terms.

    None where a term other than a plain variable depends on the loop or on what is inside it.
    """
    coefficient, step, fixed = 0, 0, []
    for term, factor in form.terms:
        if term is var:
            coefficient = factor
        elif term in inner:
            step = gcd(step, factor)
        elif any(isinstance(p, Load) or p is var or p in inner for p in walk(term)):
            return None
        else:
            fixed.append((structural_hash(term), id(term) if isinstance(term, Var) else 0, factor))
    return coefficient, step, tuple(sorted(fixed))


def linear(item: Expr) -> Linear:
    """`item` as a sum of multiples; what is not linear is a term of its own."""
    terms: dict[Node, int] = {}
    order: list[Expr] = []

    def add(part: Expr, factor: int) -> int:
        if isinstance(part, Const):
            return int(part.value) * factor
        if isinstance(part, Binary):
            if part.op == "+":
                return add(part.a, factor) + add(part.b, factor)
            if part.op == "-":
                return add(part.a, factor) + add(part.b, -factor)
            if part.op == "*" and isinstance(part.b, Const):
                return add(part.a, factor * int(part.b.value))
            if part.op == "*" and isinstance(part.a, Const):
                return add(part.b, factor * int(part.a.value))
        if part not in terms:
            order.append(part)
        terms[part] = terms.get(part, 0) + factor
        return 0

    offset = add(item, 1)
    return Linear(tuple((part, terms[part]) for part in order if terms[part]), offset)
