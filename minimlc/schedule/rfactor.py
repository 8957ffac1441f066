"""rfactor: partial results of a reduction, and their combination."""

from collections.abc import Sequence

from minimlc.node import Node, replace
from minimlc.schedule.shape import exclusive, loops_feeding
from minimlc.schedule.tree import (
    Names,
    Place,
    find_block,
    find_loop,
    finish,
    nest,
    refuse,
    replaced,
    with_alloc,
)
from minimlc.tir.access import reducer_of, reduction_parts, starts_its_target
from minimlc.tir.arith import conjuncts, constant_value, has_loads, variables
from minimlc.tir.nodes import (
    Binary,
    Block,
    BlockIter,
    Buffer,
    Const,
    Expr,
    For,
    IfThenElse,
    Load,
    PrimFunc,
    Stmt,
    Store,
    Var,
    conjunction,
    seq,
    substitute,
)
from minimlc.tir.regions import is_commutative_reduction, repeats
from minimlc.tir.wellformed import blocks_in

CODE = "E150"
IDEMPOTENT = ("min", "max", "and", "or", "&", "|")
"""Operators for which a start value counts once, however often it is combined."""
IDENTITY = {"+": 0, "*": 1, "^": 0, "|": 0}


def rfactor(func: PrimFunc, loop: str, axis: int = 0) -> PrimFunc:
    """Reduce each iteration of a reduction loop into a partial result; then combine these.

        for i, k_0, k_1 in grid(n, m, 4):        for i, k_0, k_1 in grid(n, m, 4):
            C[i] += A[i, k_0 * 4 + k_1]   -->        C_rf[k_1, i] += A[i, k_0 * 4 + k_1]
                                                 for i, k_1 in grid(n, 4):
                                                     C[i] += C_rf[k_1, i]

    Here `k_1` was factored; it is spatial in block `C_rf`, at position `axis` of buffer `C_rf`.
    Legal when the block is alone in its loops and combines by one commutative operator from a
    constant start that may be combined several times (the operator's identity; any constant for
    min, max, and, or), no loop serves spatial and reduce iters, and no condition mixes them.
    Sums of floats are rounded in another order.
    """
    place, factor = _block_in(func, loop)
    block = place.stmt
    assert isinstance(block, Block)
    start = _start(block, place)
    top, own, shared = exclusive(func, place)
    reduce_loops = _reduce_loops(block, own, shared, factor)
    spatial, reduce = _conditions(block, reduce_loops)
    parts, store = reduction_parts(block), block.body
    assert parts is not None and isinstance(store, Store)
    op, _, value = parts
    if not isinstance(axis, int) or not 0 <= axis <= len(store.indices):
        refuse("E118", f"rfactor: axis is a number from 0 to {len(store.indices)}, got {axis!r}")
    names = Names(func)
    size = int(constant_value(factor.extent) or 0)
    shape = (*store.buffer.shape[:axis], size, *store.buffer.shape[axis:])
    cache = Buffer(names.buffer(f"{store.buffer.name}_rf"), shape, store.buffer.dtype)

    # the partial results: one reduce iter for each reduction loop that is left
    fresh: dict[Node, Node] = {lp.var: names.var(f"v{lp.var.name}") for lp in reduce_loops}
    kept = [_renamed(it, names) for it in block.iters if it.kind != "R"]
    moved: dict[Node, Node] = {
        it.var: substitute(it.value, fresh) for it in block.iters if it.kind == "R"
    }
    moved.update({it.var: new.var for it, new in zip(_spatial(block), kept, strict=True)})
    at = [substitute(part, moved) for part in store.indices]
    where = (*at[:axis], _var(fresh[factor.var]), *at[axis:])
    update: Stmt = Store(cache, where, Binary(op, Load(cache, where), substitute(value, moved)))
    if reduce:
        inside = conjunction([substitute(part, fresh) for part in reduce])
        assert inside is not None
        update = IfThenElse(inside, update)
    iters = [
        BlockIter(_var(fresh[lp.var]), int(constant_value(lp.extent) or 0), kind, lp.var)
        for lp in reduce_loops
        for kind in ("S" if lp is factor else "R",)
    ]
    partial = Block(
        names.block(f"{block.name}_rf"),
        (*kept, *iters),
        conjunction(spatial),
        Store(cache, where, start),
        update,
    )

    # their combination, over the spatial loops and the factored one
    loops = [lp for lp in own if lp not in reduce_loops or lp is factor]
    loops = [*(lp for lp in loops if lp is not factor), factor]
    again: dict[Node, Node] = {lp.var: names.var(lp.var.name) for lp in loops}
    step = names.var(f"v{factor.var.name}")
    last = (*store.indices[:axis], step, *store.indices[axis:])
    combined = replace(
        block,
        iters=(
            *(replace(it, value=substitute(it.value, again)) for it in _spatial(block)),
            BlockIter(step, size, "R", _var(again[factor.var])),
        ),
        predicate=conjunction([substitute(part, again) for part in spatial]),
        body=replace(store, value=Binary(op, Load(store.buffer, store.indices), Load(cache, last))),
    )
    around = [
        replace(lp, var=_var(again[lp.var]), kind="serial", thread="", annotations=())
        for lp in loops
    ]
    new = seq((nest(own, partial), nest(around, combined)))
    return finish(with_alloc(replaced(func, {top: new}), cache))


def _block_in(func: PrimFunc, loop: str) -> tuple[Place, For]:
    factor = find_loop(func, loop).stmt
    assert isinstance(factor, For)
    inside = blocks_in(factor)
    if len(inside) != 1:
        refuse(CODE, f'rfactor: "{loop}" holds {len(inside)} blocks, not one', at=factor)
    place = find_block(func, inside[0].name)
    if any(isinstance(stmt, Block) for stmt in place.around):
        refuse(CODE, f'rfactor: "{inside[0].name}" is inside another block', at=place.stmt)
    return place, factor


def _start(block: Block, place: Place) -> Expr:
    """What each partial result starts from."""
    op = reducer_of(block)
    plain = isinstance(block.body, Store) and not any(map(has_loads, block.body.indices))
    if op is None or not plain or not starts_its_target(block):
        refuse(
            CODE,
            f'rfactor: block "{block.name}" is not of the form: init X[...] = constant, '
            "X[...] = X[...] op value, with a commutative op",
            at=block,
        )
    again = repeats(block, place.loops)
    if again:
        name = again[0].var.name
        refuse(CODE, f'rfactor: block "{block.name}" runs anew in each iteration of "{name}"')
    if not is_commutative_reduction(block, place.loops):
        refuse(CODE, f'rfactor: the init of block "{block.name}" does not surely run first')
    assert isinstance(block.init, Store)
    start = block.init.value
    if not isinstance(start, Const) or (op not in IDEMPOTENT and IDENTITY.get(op) != start.value):
        refuse(
            CODE,
            f'rfactor: block "{block.name}" starts from {start.script()}, which is not the '
            f"identity of {op}",
            at=block,
            example=f"each partial result would combine {start.script()} once more",
        )
    return start


def _reduce_loops(
    block: Block, own: Sequence[For], shared: Sequence[For], factor: For
) -> list[For]:
    reducing = [it for it in block.iters if it.kind == "R"]
    every = loops_feeding(reducing, [*shared, *own])
    both = loops_feeding(_spatial(block), every)
    if factor not in every or factor in both:
        refuse(
            CODE,
            f'rfactor: "{factor.var.name}" is no reduction loop of block "{block.name}"',
            at=factor,
        )
    if both:
        refuse(CODE, f'rfactor: "{both[0].var.name}" serves spatial and reduce iters', at=both[0])
    for lp in every:
        if lp not in own:
            refuse(CODE, f'rfactor: the reduction loop "{lp.var.name}" holds other statements')
    for lp in own:
        extent = constant_value(lp.extent)
        if extent is None or extent < 1:
            refuse(CODE, f'rfactor: the extent of "{lp.var.name}" is not a constant >= 1', at=lp)
    return every


def _conditions(block: Block, reducing: Sequence[For]) -> tuple[list[Expr], list[Expr]]:
    """The block's conditions over spatial loops, and those over reduction loops.

    The former hold for whole elements. The latter leave out values, not partial results.
    """
    spatial: list[Expr] = []
    reduce: list[Expr] = []
    own = {lp.var for lp in reducing}
    for part in conjuncts(block.predicate):
        spoken = variables(part)
        if has_loads(part) or (spoken & own and spoken - own):
            refuse(
                CODE,
                f'rfactor: the condition {part.script()} of block "{block.name}" speaks of more '
                "than the reduction loops",
                at=block,
            )
        (reduce if spoken & own else spatial).append(part)
    return spatial, reduce


def _spatial(block: Block) -> list[BlockIter]:
    return [it for it in block.iters if it.kind != "R"]


def _renamed(it: BlockIter, names: Names) -> BlockIter:
    return replace(it, var=names.var(it.var.name))


def _var(node: Node) -> Var:
    assert isinstance(node, Var)
    return node
