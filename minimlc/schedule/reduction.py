"""Primitives on reductions: decompose_reduction."""

from collections.abc import Iterator, Sequence

from minimlc.node import Node, replace, walk
from minimlc.schedule.finish import finish
from minimlc.schedule.primitive import primitive
from minimlc.schedule.shape import check_plain_path, loops_feeding
from minimlc.schedule.staging import inside
from minimlc.schedule.tree import Names, copy_block, find_block, find_loop, nest, refuse, replaced
from minimlc.tir.analysis.access import accesses
from minimlc.tir.analysis.arith import conjuncts, constant_value
from minimlc.tir.analysis.regions import first_comes_first, repeats
from minimlc.tir.nodes import (
    Block,
    For,
    Load,
    PrimFunc,
    Stmt,
    conjunction,
    index,
    seq,
    substitute,
)


@primitive(keeps_order=True)
def decompose_reduction(func: PrimFunc, block: str, at: str) -> PrimFunc:
    """Make a reduction's init a block of its own, before the loop `at`.

        for i, k in grid(n, m):            for i in range(n):
            with init: C[i] = 0     -->        C[i] = 0
            C[i] += f(i, k)                    for k in range(m):
                                                   C[i] += f(i, k)

    The block becomes `C_init` and `C_update`. Legal when all of the reduction's loops that run more
    than once are at or inside `at`, every loop there tells instances of the block apart (else the
    sum would start once and run several times), no condition stands between `at` and the block,
    and nothing else in `at` touches what the block writes or writes what its init reads.
    """
    place = find_block(func, block)
    target = place.stmt
    assert isinstance(target, Block)
    if target.init is None:
        refuse("E114", f'decompose_reduction: block "{block}" has no init', at=target)
    loop = find_loop(func, at).stmt
    assert isinstance(loop, For)
    if loop not in place.around:
        listed = ", ".join(lp.var.name for lp in place.loops)
        refuse("E114", f'"{at}" is no loop of block "{block}"', hint=f"its loops: {listed}")
    outside = place.loops[: place.loops.index(loop)]
    within = place.loops[len(outside) :]
    _check_extents(within)
    _check_loops(target, outside, within, place.loops)
    check_plain_path(place.around[place.around.index(loop) :], "decompose_reduction")
    _check_alone(func, target, loop)
    fresh = Names(func)
    init = _init_nest(target, within, fresh)
    update = replace(target, name=fresh.block(f"{block}_update"), init=None)
    body = replaced(replace(func, body=loop), {target: update}).body
    return finish(replaced(func, {loop: seq((init, body))}))


def _check_loops(
    block: Block, outside: Sequence[For], inside: Sequence[For], around: Sequence[For]
) -> None:
    reduce_iters = [it for it in block.iters if it.kind == "R"]
    spatial_iters = [it for it in block.iters if it.kind != "R"]
    many = [loop for loop in outside if constant_value(loop.extent) != 1]
    above = loops_feeding(reduce_iters, many)
    if above:
        refuse(
            "E114",
            f'decompose_reduction: the reduction loop "{above[0].var.name}" is outside of '
            f'"{inside[0].var.name}"',
            at=above[0],
            example=f"{block.name} would start anew in each iteration of {above[0].var.name}",
            hint=f'sch.decompose_reduction("{block.name}", at="{above[0].var.name}")',
        )
    again = [loop for loop in repeats(block, around) if loop in inside]
    if again:
        name = again[0].var.name
        refuse(
            "E114",
            f'decompose_reduction: block "{block.name}" runs anew in each iteration of "{name}"',
            at=again[0],
            example=f"{name}=1 would go on from the sums of {name}=0",
            hint=f'a loop inside of "{name}"',
        )
    spatial = loops_feeding(spatial_iters, inside)
    both = [loop for loop in loops_feeding(reduce_iters, inside) if loop in spatial]
    if both:
        refuse(
            "E114",
            f'decompose_reduction: loop "{both[0].var.name}" of block "{block.name}" '
            "serves spatial and reduce iters",
            at=block,
            hint="decompose before fusing them",
        )
    ordered = loops_feeding([it for it in block.iters if it.kind == "O"], inside)
    if ordered:
        refuse(
            "E114",
            f'decompose_reduction: the instances of block "{block.name}" must be taken in order '
            f'along "{ordered[0].var.name}"',
            at=ordered[0],
            hint=f'a loop inside of "{ordered[0].var.name}"',
        )
    if not first_comes_first(block, around, tuple(conjuncts(block.predicate))):
        refuse(
            "E114",
            f'decompose_reduction: the init of block "{block.name}" does not surely run first',
            at=block,
            example="its reduce iters are not 0 in the first iteration that runs",
        )


def _check_extents(inside: Sequence[For]) -> None:
    """Every loop runs at least once, and as often for the init as for the update."""
    for loop in inside:
        extent = constant_value(loop.extent)
        if extent is None or extent < 1:
            refuse(
                "E114",
                f'decompose_reduction: the extent of "{loop.var.name}" is not a constant >= 1',
                at=loop,
                example="where it is 0, the block does not run, and its init would",
            )


def _check_alone(func: PrimFunc, block: Block, loop: For) -> None:
    items = accesses(func)
    mine = inside(items, block)
    own = {item.order for item in mine}
    buffers = {item.buffer for item in mine if item.is_write}
    read = {n.buffer for part in _init_parts(block) for n in walk(part) if isinstance(n, Load)}
    for item in items:
        if loop not in item.loops or item.order in own:
            continue
        if item.buffer in buffers or (item.is_write and item.buffer in read):
            refuse(
                "E114",
                f'decompose_reduction: {item.buffer.name} is used elsewhere in "{loop.var.name}"',
                at=item.node,
                hint="decompose at a loop that holds nothing else",
            )


def _init_parts(block: Block) -> Iterator[Node]:
    """What the init is made of, with the condition and the values it runs under."""
    yield from (it.value for it in block.iters)
    yield from conjuncts(block.predicate)
    if block.init is not None:
        yield block.init


def _init_nest(block: Block, inside: Sequence[For], names: Names) -> Stmt:
    """The init over the spatial loops at and inside the place of decomposition."""
    spatial_iters = tuple(it for it in block.iters if it.kind != "R")
    assert block.init is not None
    plain = replace(block, iters=spatial_iters, init=None, body=block.init, annotations=())
    copy = copy_block(plain, names, f"{block.name}_init")
    loops = loops_feeding(spatial_iters, inside)
    # The others feed the sum, or run once: a condition may still speak of them.
    start: dict[Node, Node] = {lp.var: index(0) for lp in inside if lp not in loops}
    fresh: dict[Node, Node] = {lp.var: names.var(f"{lp.var.name}_init") for lp in loops}
    moved = {**start, **fresh}
    parts = [substitute(part, moved) for part in conjuncts(block.predicate)]
    iters = tuple(replace(it, value=substitute(it.value, moved)) for it in copy.iters)
    body = replace(copy, iters=iters, predicate=conjunction(parts))
    around = [
        replace(lp, var=fresh[lp.var], extent=substitute(lp.extent, moved), annotations=())
        for lp in loops
    ]
    return nest(around, body)
