"""The primitive blockize: a tile of iterations becomes one block with the old one inside."""

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from minimlc.loops.ir.nodes import (
    Block,
    BlockIter,
    Expr,
    For,
    IterKind,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    seq,
    substitute,
)
from minimlc.loops.ir.walks import blocks_in, loops_in
from minimlc.loops.proofs.access import (
    loop_extents,
    reads,
    reducer_of,
    starts_its_target,
    update_of,
)
from minimlc.loops.proofs.affine import Digit, Digits, DigitSum, terms_of, to_expr
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.proofs.wellformed import check_kinds, iter_loop
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names, sibling
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.shape import loops_feeding, names_loops
from minimlc.loops.schedule.tree import (
    Place,
    constant_extent,
    find_block,
    find_loop,
    nest,
    replaced,
)
from minimlc.loops.values.errors import VerifyError
from minimlc.loops.values.names import misnamed
from minimlc.loops.values.node import Node, replace, walk


class Tile(NamedTuple):
    """An iter cut in two: `value` is `outer * size + inner`, with inner in 0 ... size-1."""

    it: BlockIter
    outer: Expr
    inner: Expr
    size: int
    digits: frozenset[Digit]


@primitive(keeps_order=True)
def blockize(func: PrimFunc, loop: str | Sequence[str], name: str | None = None) -> PrimFunc:
    """Make one block of all that a loop runs, with iters over the loops around it.

        for i_0 in range(n // 16):            for i_0 in range(n // 16):
            for i_1 in range(16):                 with block("C_o"): vio = i_0
                with block("C"):       -->            for i_1 in range(16):
                    vi = i_0 * 16 + i_1                   with block("C"):
                    S(vi)                                     vi = vio * 16 + i_1
                                                              S(vi)

    A reduction's init becomes a block `C_init` in the init of the new block. Legal when a single
    block stands in the loop, in a perfect nest with constant extents and no condition, each iter is
    `outer * size + inner` with `inner` running through 0 ... size-1 inside the loop, and, for a
    reduction with an init, the loops inside distinguish all instances.

    With the names of several blocks in place of a loop, one block is made of the neighbouring
    statements that hold them, over the loops that they share. Legal when these statements hold no
    others, and the extents of those loops are constant; an iter whose values do not write apart
    from each other is opaque.
    """
    names = Names(func)
    wrong = misnamed("block", name) if name else ""
    if wrong or (name is not None and name in names.blocks):
        refuse("E118", wrong or f'the block name "{name}" is taken', hint="another name")
    if not isinstance(loop, str):
        if not loop:
            refuse("E118", "blockize takes a loop or one or more blocks, got none")
        return finish(_of_blocks(func, loop, name or "_".join((*loop, "o")), names))
    place = find_loop(func, loop)
    loops, block = _perfect_nest(place.stmt)
    tiles = _tiles(block, loops, place)
    reduces = block.init is not None and any(it.kind == "R" for it in block.iters)
    if reduces:
        _check_init(block, loops, tiles)
    outer = _outer_iters(tiles, names)
    inner = tuple(replace(t.it, value=_joined(outer.get(t.it.var), t)) for t in tiles)
    body = replace(block, iters=inner)
    init = None
    if reduces and block.init is not None:
        spatial = [it for it in inner if it.kind != "R"]
        init = sibling(body, block.init, spatial, loops_feeding(spatial, loops), "init", names)
        body = replace(body, init=None)
    label = names.block(name or f"{block.name}_o")
    new = Block(label, tuple(outer.values()), None, init, nest(loops, body))
    return finish(replaced(func, {place.stmt: new}))


def _of_blocks(func: PrimFunc, listed: Sequence[str], label: str, names: Names) -> PrimFunc:
    """The function with one block of the statements that hold some blocks."""
    places = [find_block(func, name) for name in listed]
    paths = [(*place.around, place.stmt) for place in places]
    *around, inner = (stmts[0] for stmts in takewhile(_are_one, zip(*paths, strict=False)))
    parts: Sequence[Stmt] = (inner,)
    if isinstance(inner, Seq):
        at = sorted(inner.stmts.index(path[len(around) + 1]) for path in paths)
        parts = inner.stmts[at[0] : at[-1] + 1]
    body = seq(parts)
    within = {part for place in places for part in blocks_in(place.stmt)}
    others = [block for block in blocks_in(body) if block not in within]
    if others:
        why = f'"{others[0].name}" stands among the blocks {", ".join(listed)}'
        refuse("E155", why, at=others[0], hint="all blocks of neighbouring statements")
    for loop in loops_in(body):
        _check_threads(loop)
    loops = [lp for lp in _innermost(around) if lp.var in variables(body)]
    iters = [
        BlockIter(names.var(f"v{lp.var.name}"), constant_extent(lp), "O", lp.var) for lp in loops
    ]
    values: dict[Node, Node] = {it.value: it.var for it in iters}
    block = Block(names.block(label), tuple(iters), None, None, substitute(body, values))
    outside = (it for stmt in around if isinstance(stmt, Block) for it in stmt.iters)
    still = (*(stmt for stmt in around if isinstance(stmt, For)), *map(iter_loop, outside))
    kinds = tuple(replace(it, kind=_kind(block, it, still)) for it in iters)
    return replaced(func, {parts[0]: replace(block, iters=kinds), **dict.fromkeys(parts[1:])})


def _are_one(stmts: tuple[Stmt, ...]) -> bool:
    return all(stmt is stmts[0] for stmt in stmts)


def _innermost(around: Sequence[Stmt]) -> list[For]:
    """The loops of a path since its last block, whose iters its body is over."""
    inside = list(takewhile(lambda stmt: not isinstance(stmt, Block), reversed(around)))
    return [stmt for stmt in reversed(inside) if isinstance(stmt, For)]


def _kind(block: Block, it: BlockIter, around: tuple[For, ...]) -> IterKind:
    """Spatial where the values of an iter write apart from each other, else opaque."""
    iters = (replace(other, kind="S" if other is it else "O") for other in block.iters)
    try:
        check_kinds(replace(block, iters=tuple(iters)), around)
    except VerifyError:
        return "O"
    return "S"


def _check_threads(loop: For) -> None:
    if loop.kind in ("parallel", "thread_binding"):
        why = f'"{loop.var.name}" is {loop.kind}; threads start outside of blocks'
        refuse("E155", why, at=loop)


def _perfect_nest(loop: For) -> tuple[list[For], Block]:
    """The loops from `loop` on and the block in them."""
    loops: list[For] = []
    stmt: Stmt = loop
    while isinstance(stmt, For):
        if constant_value(stmt.extent) is None or constant_value(stmt.extent) == 0:
            refuse("E155", f'the extent of "{stmt.var.name}" is not a constant >= 1', at=stmt)
        _check_threads(stmt)
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Block):
        name = loops[-1].var.name
        hint = f'decompose or blockize a loop inside of "{name}" instead'
        refuse("E155", f'"{name}" holds more than one block alone', at=loops[-1], hint=hint)
    if stmt.predicate is not None:
        hint = "split by factors that divide the extent, so that no tile is cut off"
        refuse("E155", f"runs only where {stmt.predicate.script()}", of=stmt, hint=hint)
    if names_loops(stmt, loops):
        refuse("E155", "uses the variables of its loops directly", of=stmt)
    return loops, stmt


def _tiles(block: Block, loops: Sequence[For], place: Place[For]) -> list[Tile]:
    extents = loop_extents((*place.loops, *loops))
    outside = (it for stmt in place.around if isinstance(stmt, Block) for it in stmt.iters)
    digits = Digits({**extents, **{it.var: it.extent for it in outside}})
    inside = {lp.var for lp in loops}
    sums = digits.sums([it.value for it in block.iters])
    pairs = zip(block.iters, sums, strict=True)
    return [_tile(block, it, total, inside, digits) for it, total in pairs]


def _tile(
    block: Block, it: BlockIter, total: DigitSum | None, inside: set[Var], cut: Digits
) -> Tile:
    """One iter's value as outer * size + inner."""
    value = it.value.script()
    if total is None:
        if variables(it.value) & inside:
            why = f"{it.var.name} = {value} is not a sum of multiples of loops"
            refuse("E155", why, at=block)
        return Tile(it, it.value, it.value, 1, frozenset())
    inner = terms_of(total, inside)
    outer = total.minus(inner)
    size = _size(inner)
    exact = size is not None and all(cut.is_exact(d.var) for d in inner.terms)
    divides = size is not None and all(
        n % size == 0 for n in (*outer.terms.values(), outer.constant, it.extent)
    )
    if size is None or not exact or not divides:
        why = f"{it.var.name} = {value} (0..{it.extent - 1}) does not divide into whole tiles"
        hint = "split by factors that divide the extent, outer loops first"
        refuse("E155", why, at=block, hint=hint)
    whole, _ = outer.divided(size)
    extents = cut.extents
    return Tile(it, to_expr(whole, extents), to_expr(inner, extents), size, frozenset(inner.terms))


def _size(inner: DigitSum) -> int | None:
    """How many values 0, 1, ... the sum takes, each of them once; None if it does otherwise."""
    reach = 1
    for digit, coefficient in sorted(inner.terms.items(), key=lambda item: item[1]):
        if coefficient != reach:
            return None
        reach *= digit.extent
    return reach


def _outer_iters(tiles: Sequence[Tile], names: Names) -> dict[Var, BlockIter]:
    """The new block's iters, by the iter each is a part of; one that the loops around do not choose
    has none.
    """
    return {
        it.var: BlockIter(names.var(f"{it.var.name}o"), it.extent // size, it.kind, whole)
        for it, whole, _, size, _ in tiles
        if it.extent > size or variables(whole)
    }


def _joined(outer: BlockIter | None, tile: Tile) -> Expr:
    if outer is None:
        return tile.inner
    return outer.var if tile.size == 1 else outer.var * tile.size + tile.inner


def _check_init(block: Block, loops: Sequence[For], tiles: Sequence[Tile]) -> None:
    """Refuse unless the init may run for the whole tile first, each of its instances once."""
    store = update_of(block)
    if reducer_of(block) is None or store is None or not starts_its_target(block):
        refuse("E155", "is not a reduction whose init starts its own element", of=block)
    assert block.init is not None
    uses = [n for n in walk(block.body) if isinstance(n, Load) and n.buffer is store.buffer]
    if len(uses) > 1 or reads(block.init, store.buffer):
        refuse("E155", f"reads {store.buffer.name} elsewhere as well", of=block)
    used: dict[Digit, str] = {}
    for tile in tiles:
        for digit in tile.digits:
            if digit in used:
                why = f'"{digit.var.name}" serves two iters of "{block.name}"'
                refuse("E155", why, at=block)
            used[digit] = tile.it.kind
    for loop in loops:
        size, kinds = 1, set()
        for digit, kind in used.items():
            if digit.var is loop.var:
                size *= digit.extent
                kinds.add(kind)
        if size != constant_value(loop.extent):
            why = f'block "{block.name}" runs anew in iterations of "{loop.var.name}"'
            refuse("E155", why, at=loop)
        if len(kinds) > 1:
            why = f'"{loop.var.name}" serves spatial and reduce iters'
            refuse("E155", why, at=loop, hint="do not fuse them")
