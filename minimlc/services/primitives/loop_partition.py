"""Primitives that cut a loop's range into consecutive loops, or run two loops as one."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf
from typing import Any

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Expr,
    For,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    index,
    seq,
    substitute,
)
from minimlc.loops.ir.walks import blocks_in, buffers_in, loops_in
from minimlc.loops.proofs.access import Access, accesses, loop_ranges
from minimlc.loops.proofs.arith import Atom, has_loads, linear
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.legality import Carried, conflicting_pairs, enclosing
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.witness import find_conflict
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.tree import (
    constant_extent,
    find_loop,
    inner_stmts,
    replaced,
    serial_loop,
)
from minimlc.loops.values.node import Mutator, Node, replace


@primitive(keeps_order=True)
def loop_partition(
    func: PrimFunc,
    loop: str,
    points: Sequence[int] | None = None,
    *,
    factors: Sequence[int | None] | None = None,
) -> PrimFunc:
    """Cut a loop's range into consecutive loops, so that the long one needs no guard.

        for i in range(n):                for i in range(p):
            S(i)                   -->        S(i)
                                          for i_tail in range(n - p):
                                              S(i_tail + p)

    `points` are the first iterations of the second loop and those after it; left out, they are
    where the conditions inside begin and cease to hold. Or `factors` are the parts' extents, one of
    which may be None. The longest part keeps the names of loops
    and blocks, those before it end in `_head`, those after it in `_tail`. Legal where the extent
    is constant: the iterations keep their order.
    """
    target = serial_loop(func, loop)
    extent = constant_extent(target)
    if factors is not None:
        points = _points_between(target, extent, factors)
    points = _guard_points(func, target, extent) if points is None else points
    cuts = [0, *_checked_points(target, extent, points), extent]
    parts = list(pairwise(cuts))
    longest = max(parts, key=lambda part: part[1] - part[0])
    endings = iter(["head" if part < longest else "tail" for part in parts if part != longest])
    names = Names(func)
    pieces = [_piece(target, p, names, "" if p == longest else next(endings)) for p in parts]
    return finish(replaced(func, {target: seq(pieces)}))


def _points_between(loop: For, extent: int, factors: Sequence[int | None]) -> list[int]:
    """Where parts of some extents begin, all but the first."""
    rest = extent - sum(factor for factor in factors if factor is not None)
    sizes = [rest if factor is None else factor for factor in factors]
    if sum(sizes) != extent or len(sizes) < 2 or list(factors).count(None) > 1:
        why = f'loop_partition("{loop.var.name}"): {list(factors)} are not the extents of its parts'
        hint = f"two or more, at most one of them None; {extent} in all"
        refuse("E118", why, at=loop, hint=hint)
    return list(accumulate(sizes[:-1]))


def _checked_points(loop: For, extent: int, points: Sequence[int]) -> list[int]:
    call = f'loop_partition("{loop.var.name}")'
    for point in points:
        if not 0 < point < extent:
            why = f"{call}: a point is within 1..{extent - 1}, got {point!r}"
            refuse("E118", why, at=loop)
    if not points or list(points) != sorted(set(points)):
        refuse("E118", f"{call}: points rise, got {list(points)}", at=loop)
    return list(points)


def _piece(loop: For, part: tuple[int, int], names: Names, ending: str) -> For:
    """The iterations of a part, counted from 0; with an ending, all names in it are fresh."""
    start, stop = part
    var = loop.var
    fresh: dict[Node, Node] = {}
    blocks: dict[str, str] = {}
    if ending:
        var = names.var(f"{var.name}_{ending}")
        inner = blocks_in(loop.body)
        fresh = names.again(loops_in(loop.body), ending=f"_{ending}")
        iters = [it for block in inner for it in block.iters]
        fresh |= names.again((), iters, buffers_in(loop.body))
        blocks = {block.name: names.block(f"{block.name}_{ending}") for block in inner}
    value = index(start) if stop - start == 1 else var + start if start else var
    body = substitute(loop.body, {**fresh, loop.var: value})
    piece = replace(loop, var=var, extent=index(stop - start), body=body)
    return _Piece(blocks, Ranges()).visit(piece)


class _Piece(Mutator):
    """Names the blocks, and takes the init from reductions that surely do not start here."""

    def __init__(self, names: dict[str, str], ranges: Ranges):
        self.names, self.ranges = names, ranges

    def visit(self, value: Any) -> Any:
        return value if isinstance(value, Expr) else super().visit(value)

    def visit_For(self, item: For) -> Stmt:
        inner = _Piece(self.names, loop_ranges((item,), self.ranges))
        return replace(item, body=inner.visit(item.body))

    def visit_Block(self, item: Block) -> Stmt:
        goes_on = any(it.kind == "R" and self.ranges.bounds(it.value)[0] > 0 for it in item.iters)
        return replace(
            item,
            name=self.names.get(item.name, item.name),
            init=None if goes_on else self.visit(item.init),
            body=self.visit(item.body),
        )


def _guard_points(func: PrimFunc, loop: For, extent: int) -> list[int]:
    """Where the range of iterations begins and ends in which all conditions inside surely hold."""
    first: float = 0
    last: float = extent
    for item in accesses(func):
        if loop in item.loops and item.role != "init":
            others = loop_ranges(tuple(lp for lp in item.loops if lp is not loop))
            for part in item.guards:
                low, high = _holds_within(part, loop.var, others)
                first = max(first, low) if low < extent else first
                last = min(last, high) if high > 0 else last
    points = [int(point) for point in (first, last) if 0 < point < extent]
    if not points or first >= last:
        name = loop.var.name
        why = f'loop_partition("{name}"): no condition inside changes along it'
        hint = f'sch.loop_partition("{name}", [{max(1, extent // 2)}])'
        refuse("E118", why, at=loop, hint=hint)
    return points


def _holds_within(condition: Expr, var: Var, others: Ranges) -> tuple[float, float]:
    """The range of `var` in which a condition surely holds; everything where that is not known."""
    match condition:
        case Binary("<" | "<=", a, b):
            value = a - b
        case Binary(">" | ">=", a, b):
            value = b - a
        case _:  # other nodes: not known
            return -inf, inf
    return _at_most(value, 0 if condition.op in ("<=", ">=") else -1, var, others)


def _at_most(value: Expr, limit: int, var: Var, others: Ranges) -> tuple[float, float]:
    """The range of `var` in which `value <= limit`, whatever the other variables are."""
    if value.dtype != "int64" or has_loads(value):
        return -inf, inf
    form = linear(value)
    slope = form.terms.get(Atom.of(var), 0)
    rest = form.without((Atom.of(var),))
    room = limit - form.constant - others.reach(rest)[1]
    if slope == 0:
        return -inf, inf
    return (-inf, room // slope + 1) if slope > 0 else (-(room // -slope), inf)


@primitive(keeps_order=True)
def merge(func: PrimFunc, *loops: str) -> PrimFunc:
    """Run neighbouring loops of one extent as one.

        for i in range(n):                for i in range(n):
            S(i)                              S(i)
        for j in range(n):         -->        R(i)
            R(j)

    The loop keeps the first one's name; loops inside of others have those merged first. Legal when
    the loops stand next to each other in the order given, then, and no iteration of a later one
    uses what a later iteration of an earlier one changes, or the other way round: such pairs would
    now run in the opposite order.
    """
    if len(loops) < 2 or len(set(loops)) != len(loops):
        refuse("E118", f"merge takes two or more different loops, got {list(loops)}")
    for name in loops[1:]:
        for pair in _nests(func, loops[0], name):
            func = _merged(func, *pair)
    return finish(func)


def _nests(func: PrimFunc, name: str, other: str) -> list[tuple[str, str]]:
    """Two loops, after those around them that they do not share, as pairs from the outside in."""
    places = find_loop(func, name), find_loop(func, other)
    paths = [[*place.loops, place.stmt] for place in places]
    both = set(paths[0]) & set(paths[1])
    first, second = ([lp.var.name for lp in path if lp not in both] for path in paths)
    if len(first) != len(second) or not first:
        why = f"{name} and {other} are not equally deep in what they share"
        refuse("E116", why, at=places[1].stmt, hint="loops of two nests, both as far in")
    return list(zip(first, second, strict=True))


def _merged(func: PrimFunc, name: str, other: str) -> PrimFunc:
    first, second = serial_loop(func, name), serial_loop(func, other)
    _check_neighbours(func, first, second)
    sizes = constant_extent(first), constant_extent(second)
    if sizes[0] != sizes[1]:
        why = f"{name} has {sizes[0]} iterations, {other} has {sizes[1]}"
        hint = "split or loop_partition makes loops of one extent"
        refuse("E118", why, at=second, hint=hint)
    count = sum(1 for item in accesses(func) if first in item.loops)
    moved = substitute(second.body, {second.var: first.var})
    both = replace(first, body=seq((first.body, moved)))
    after = replaced(func, {first: both, second: None})
    inside = [item for item in accesses(after) if both in item.loops]
    _check_merge(both, other, inside[:count], inside[count:])
    return after


def _check_neighbours(func: PrimFunc, first: For, second: For) -> None:
    around = find_loop(func, first.var.name).around
    parent = around[-1] if around else func.body
    beside = list(inner_stmts(parent)) if isinstance(parent, Seq) else []
    if second in beside and beside.index(second) == beside.index(first) + 1:
        return
    why = f"{second.var.name} does not stand directly behind {first.var.name}"
    hint = "merge the outer loops first; then the inner ones are neighbours"
    refuse("E116", why, at=second, hint=hint)


def _check_merge(loop: For, other: str, early: list[Access], late: list[Access]) -> None:
    """Refuse if an iteration of the second part needs a later one of the first part."""
    later = {item.order for item in late}
    for a, b in conflicting_pairs([*early, *late]):
        if (a.order in later) == (b.order in later):
            continue
        former, latter = sorted((a, b), key=lambda item: item.order)
        outer = enclosing(loop, former)
        question = Conflict(former, latter)
        if not question.possible({**dict.fromkeys(outer, "0"), loop.var: "-"}):
            continue
        search = find_conflict(former, latter, outer, loop.var, earlier=True)
        if search.witness is None and search.complete:
            continue
        refuse(
            "E109",
            f"{other} uses {a.buffer.name} before {loop.var.name} is done with it",
            at=former.node,
            example=Carried(loop, former, latter, search.witness).explain(),
            hint=f"keep {loop.var.name} and {other} apart",
        )
