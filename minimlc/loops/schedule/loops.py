"""Primitives that make and order loops: split, fuse, reorder, add_unit_loop."""

from collections.abc import Callable, Sequence
from math import prod

from minimlc.loops.ir.nodes import Buffer, Expr, For, PrimFunc, Stmt, Var, index, seq, substitute
from minimlc.loops.ir.walks import stored_in
from minimlc.loops.proofs.access import Access, accesses, loop_ranges, reads_any
from minimlc.loops.proofs.arith import EVERYTHING, constant_value, variables
from minimlc.loops.proofs.dependence import Conflict
from minimlc.loops.proofs.legality import Carried, commutes, conflicting_pairs, enclosing
from minimlc.loops.proofs.ranges import is_within
from minimlc.loops.proofs.regions import is_private
from minimlc.loops.proofs.simplify import simplify
from minimlc.loops.proofs.witness import direction_vectors, find_conflict
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import with_storage
from minimlc.loops.schedule.tree import (
    constant_extent,
    find_loop,
    find_stmt,
    guarded,
    nest,
    replaced,
    serial_loop,
)
from minimlc.loops.values.names import misnamed
from minimlc.loops.values.node import Node, replace
from minimlc.loops.values.parts import Hook

LONGEST = 24
"""The length up to which a fused loop is called after all the loops that it was made of."""

TAILS = ("guard", "pad", "error")
"""The ways for a split to treat iterations beyond the old extent."""
MOST_FACTORS = 32

Body = tuple[Stmt, dict[Buffer, Buffer]]
"""A loop's body, and the buffers that grew for it."""
PADDED = Hook[Callable[[PrimFunc, For, int, int], Body]]("padding of loops")
"""The padding of a body to run more iterations than its loop has: split(tail="pad")."""


@primitive(keeps_order=True)
def split(
    func: PrimFunc,
    loop: str,
    factors: Sequence[int | None],
    *,
    names: Sequence[str] | None = None,
    tail: str = "guard",
) -> PrimFunc:
    """Cut one loop into a nest.

        for i in range(n):            for i_0, i_1 in grid(n // 4, 4):
            S(i)               -->        S(i_0 * 4 + i_1)

    `factors` are the new loops' extents, outer to inner; at most one is None and follows from the
    rest. Legal when their product covers the extent. Where it exceeds it, `tail="guard"` skips the
    iterations beyond, `tail="error"` refuses, and `tail="pad"` lets those blocks run in them that
    then write nothing but new elements of the function's own buffers, which grow; the others get a
    guard. An extent that is not constant wants None first, and must not change while the loop runs.
    """
    target = serial_loop(func, loop)
    _check_factors(target, factors, tail)
    sizes, body, grown = _cut(func, target, factors, tail)
    parts = _parts(func, target, len(sizes), names)
    value: Expr = index(0)
    for var, size in zip(parts, sizes, strict=True):
        value = value * size + var
    body = substitute(body, {target.var: value})
    loops = [For(var, size, "serial", seq(())) for var, size in zip(parts, sizes, strict=True)]
    loops[0] = replace(loops[0], annotations=target.annotations)
    code = "E102" if constant_value(target.extent) is None else ""
    return finish(with_storage(replaced(func, {target: nest(loops, body)}), grown), code)


def _cut(
    func: PrimFunc, loop: For, factors: Sequence[int | None], tail: str
) -> tuple[list[Expr], Stmt, dict[Buffer, Buffer]]:
    """The new loops' extents, the body with its guards, and the allocations that grow."""
    extent = constant_value(loop.extent)
    if extent is None:
        sizes = _resolve_dynamic(loop, factors, tail)
        return sizes, guarded(loop.body, loop.var < loop.extent), {}
    counts = _resolve_factors(loop, extent, factors, tail)
    sizes = [*map(index, counts)]
    if prod(counts) == extent:
        return sizes, loop.body, {}
    if tail == "pad":
        padded = PADDED.first
        if padded is None:
            refuse("E118", 'tail="pad" is not there', hint='tail="guard"')
        return sizes, *padded(func, loop, extent, prod(counts))
    return sizes, guarded(loop.body, loop.var < extent), {}


def _parts(func: PrimFunc, loop: For, count: int, names: Sequence[str] | None) -> list[Var]:
    """The new loops' variables."""
    fresh = Names(func)
    if names is not None and len(names) != count:
        refuse("E118", f"split makes {count} loops, got {len(names)} name(s)")
    for name in names or ():
        _check_name(name, fresh)
    if names is not None and len(set(names)) < count:
        hint = f'names=["{loop.var.name}_0", "{loop.var.name}_1", ...]'
        refuse("E118", f"each loop has a name of its own, got {list(names)}", hint=hint)
    return [fresh.var(name) for name in names or [f"{loop.var.name}_{n}" for n in range(count)]]


def _check_name(name: str, known: Names) -> None:
    if not name.isidentifier():
        refuse("E118", f"a loop's name is an identifier, got {name!r}", hint="letters, digits, _")
    wrong = misnamed("loop", name)
    if wrong or name in known.symbols:
        refuse("E118", wrong or f'the name "{name}" is taken', hint="another name")


def _resolve_dynamic(loop: For, factors: Sequence[int | None], tail: str) -> list[Expr]:
    """The new loops' extents where the old one is known only when the loop starts."""
    name, extent = loop.var.name, loop.extent
    if tail != "guard" or factors[0] is not None:
        why = f'the extent of "{name}" is not constant: {extent.script()}'
        hint = f'sch.split("{name}", factors=[None, {factors[-1] or 4}])  # with a guard'
        refuse("E102", why, at=loop, hint=hint)
    if reads_any(extent, stored_in(loop.body)):
        why = f'split("{name}"): the loop changes what its extent reads: {extent.script()}'
        refuse("E140", why, at=loop, hint=f"leave {name} as it is")
    inner = [int(factor or 1) for factor in factors[1:]]
    below = prod(inner)
    return [(extent + (below - 1)) // below, *map(index, inner)]


def _check_factors(loop: For, factors: Sequence[int | None], tail: str) -> None:
    call = f'split("{loop.var.name}")'
    if tail not in TAILS:
        listed = ", ".join(f'"{known}"' for known in TAILS)
        refuse("E118", f'tail is one of {listed}, got "{tail}"')
    if len(factors) > MOST_FACTORS:
        refuse("E118", f"{call}: at most {MOST_FACTORS} factors, got {len(factors)}")
    if not factors or list(factors).count(None) > 1:
        refuse("E118", f"{call}: factors need one or more numbers, at most one None")
    for factor in factors:
        if factor is not None and factor < 1:
            refuse("E118", f"{call}: a factor is an integer >= 1, got {factor!r}")


def _resolve_factors(loop: For, extent: int, factors: Sequence[int | None], tail: str) -> list[int]:
    name, listed = loop.var.name, list(factors)
    call = f'split("{name}")'
    known = prod(f for f in factors if f is not None)
    sizes = [-(-extent // known) if f is None else f for f in factors]
    if prod(sizes) >= 2**63:
        refuse("E118", f"{call}: factors {listed} make more iterations than int64 counts")
    if prod(sizes) < extent:
        why = f"{call}: factors {listed} make {prod(sizes)} iterations, {name} has {extent}"
        hint = f'sch.split("{name}", factors=[None, {listed[-1]}])'
        refuse("E118", why, at=loop, hint=hint)
    if tail == "error" and prod(sizes) != extent:
        hint = f'sch.split("{name}", factors={listed}, tail="guard")'
        refuse("E118", f"{call}: {extent} is not a multiple of {known}", at=loop, hint=hint)
    return sizes


@primitive(keeps_order=True)
def fuse(func: PrimFunc, *loops: str, name: str | None = None) -> PrimFunc:
    """Make one loop of a nest.

        for i, j in grid(n, m):            for i_j_fused in range(n * m):
            S(i, j)                 -->        S(i_j_fused // m, i_j_fused % m)

    Legal when the loops are nested directly in one another and only the outermost one may have an
    extent that is not constant. One loop just gets a new name.
    """
    chain = _chain(func, loops, "fuse", at_least=1)
    for loop in chain:
        if loop.kind != "serial":
            refuse("E119", f'"{loop.var.name}" is {loop.kind} already', hint="fuse first")
    order = [loop.var.name for loop in chain]
    if order != list(loops):
        why = f"the loops stand in the order {', '.join(order)}"
        refuse("E116", why, hint="reorder first")
    sizes = [constant_extent(loop) for loop in chain[1:]]
    outermost = find_loop(func, order[0])
    low, high = loop_ranges(outermost.loops).bounds(chain[0].extent)
    wraps = not is_within((low * prod(sizes), high * prod(sizes)), EVERYTHING)
    if wraps or 0 in sizes:
        first = constant_extent(chain[0])
        if wraps:
            why = f"{[first, *sizes]} make more iterations than int64 counts"
            refuse("E118", why, at=chain[0])
    names = Names(func)
    if name is not None:
        _check_name(name, names)
    fused = names.var(name or _fused_name(order))
    values: dict[Node, Node] = {}
    below = 1
    for loop, size in reversed(list(zip(chain, [1, *sizes], strict=True))):
        value: Expr = fused if below == 1 else fused // below
        count = max(1, size)  # no iterations: no value is asked for, but none is divided by 0
        values[loop.var] = value if loop is chain[0] else value % count
        below *= count
    body = substitute(chain[-1].body, values)
    extent = simplify(chain[0].extent * prod(sizes))
    return finish(replaced(func, {chain[0]: For(fused, extent, "serial", body)}))


def _fused_name(names: Sequence[str]) -> str:
    """`i_j_fused`; of names that splitting and fusing has made long, only the beginnings."""
    label = "_".join(names)
    if len(label) > LONGEST:
        label = "_".join(dict.fromkeys(name.split("_")[0] for name in names))[:LONGEST]
    return f"{label}_fused"


@primitive(keeps_order=False)
def reorder(func: PrimFunc, *loops: str) -> PrimFunc:
    """Put loops of one nest in a given order, outermost first.

        for i, j in grid(n, m):            for j, i in grid(m, n):
            S(i, j)                 -->        S(i, j)

    Legal when the loops form a perfect nest (others in between keep their place), no extent
    depends on a loop that would come after it, and every dependence still runs from an earlier to
    a later iteration. The instances of a commutative reduction may come in any order.
    """
    chain = _chain(func, loops, "reorder")
    by_name = {loop.var.name: loop for loop in chain}
    order = iter(by_name[name] for name in loops)
    new_chain = [next(order) if loop.var.name in loops else loop for loop in chain]
    for place, loop in enumerate(new_chain):
        later = {other.var for other in new_chain[place:]}
        if variables(loop.extent) & later:
            refuse("E109", f'the extent of "{loop.var.name}" depends on a later loop')
        moved = new_chain[: place + 1] != chain[: place + 1]
        if moved and reads_any(loop.extent, stored_in(chain[-1])):
            why = f'the loops write what the extent of "{loop.var.name}" reads'
            refuse("E109", why, at=loop, hint="keep these loops in their order")
    _check_order(func, chain, new_chain)
    return finish(replaced(func, {chain[0]: nest(new_chain, chain[-1].body)}))


def _check_order(func: PrimFunc, chain: list[For], new_chain: list[For]) -> None:
    """Refuse if a dependence that runs forward in `chain` runs backward in `new_chain`."""
    places = [chain.index(loop) for loop in new_chain]

    def turns(vector: tuple[str, ...]) -> bool:
        return _leading(vector) != _leading([vector[place] for place in places])

    items = accesses(func)
    inside = [item for item in items if chain[-1] in item.loops]
    owned: dict[Buffer, bool] = {}
    for first, second in conflicting_pairs(inside):
        buffer = first.buffer
        if owned.get(buffer) or commutes(first, second, chain):
            continue
        for vector in direction_vectors(Conflict(first, second), chain, turns):
            if buffer not in owned:
                owned[buffer] = buffer in func.allocs and is_private(buffer, chain[-1], items)
            if owned[buffer]:
                break
            _refuse_unless_absent(chain, vector, first, second)


def _leading(vector: Sequence[str]) -> str:
    """The first direction that is not "0": whether the second instance is later or earlier."""
    return next((sign for sign in vector if sign != "0"), "0")


def _refuse_unless_absent(
    chain: list[For], vector: tuple[str, ...], first: Access, second: Access
) -> None:
    """Refuse for a dependence of that direction, unless looking at all iterations finds none."""
    carrier = chain[next(n for n, sign in enumerate(vector) if sign != "0")]
    search = find_conflict(first, second, enclosing(carrier, first), carrier.var)
    if search.witness is None and search.complete:
        return
    names = ", ".join(loop.var.name for loop in chain)
    refuse(
        "E109",
        f"iterations of {names} depend on each other through {first.buffer.name}",
        at=first.node,
        example=Carried(carrier, first, second, search.witness, tuple(chain)).explain(),
        hint="keep these loops in their order",
    )


@primitive(keeps_order=True)
def add_unit_loop(func: PrimFunc, target: str) -> PrimFunc:
    """Put a loop of one iteration around the loop or the block called `target`.

        S(i)               -->        for unit in range(1):
                                          S(i)

    Legal always.
    """
    stmt = find_stmt(func, target)
    unit = For(Names(func).var("unit"), index(1), "serial", stmt)
    return finish(replaced(func, {stmt: unit}))


def _chain(func: PrimFunc, names: Sequence[str], verb: str, at_least: int = 2) -> list[For]:
    """The loops from the outermost to the innermost of `names`, each directly in the one before."""
    if len(names) < at_least or len(set(names)) != len(names):
        count = ("one", "two")[at_least - 1]
        refuse("E118", f"{verb} takes {count} or more different loops, got {list(names)}")
    places = [find_loop(func, name) for name in names]
    inner = max(places, key=lambda place: len(place.around))
    path = [*inner.around, inner.stmt]
    for place in places:
        if place.stmt not in path:
            why = f"the loops {', '.join(names)} are not in one nest"
            hint = "loops of one nest only: sch.loops(block) lists them"
            refuse("E116", why, at=place.stmt, hint=hint)
    chain: list[For] = []
    for stmt in path[min(path.index(place.stmt) for place in places) :]:
        if not isinstance(stmt, For):
            why = f"between {names[0]} and {names[-1]} stands more than one loop"
            hint = "reorder before compute_at, or only the loops of a perfect nest"
            refuse("E116", why, at=stmt, hint=hint)
        chain.append(stmt)
    return chain
