"""Primitives on reductions: decompose_reduction."""

from collections.abc import Sequence

from minimlc.loops.ir.nodes import Block, For, PrimFunc, index, seq
from minimlc.loops.proofs.arith import conjuncts, constant_value
from minimlc.loops.proofs.regions import first_comes_first, repeats
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import Names, sibling
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.shape import check_alone, check_plain_path, loops_feeding
from minimlc.loops.schedule.tree import find_block, find_loop_around, replaced, replaced_in, runs
from minimlc.loops.values.node import Node, replace


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
    if target.init is None:
        refuse("E114", f'block "{block}" has no init', at=target)
    loop = find_loop_around(func, place, at, "E114")
    path = place.path(loop)
    within = [stmt for stmt in path if isinstance(stmt, For)]
    _check_extents(within)
    _check_loops(target, within, place.loops)
    check_plain_path(path)
    check_alone(func, target, loop, "E114", "decompose at a loop that holds nothing else")
    names = Names(func)
    iters = [it for it in target.iters if it.kind != "R"]
    loops = loops_feeding(iters, within)
    # The others feed the sum, or run once: a condition may still depend on them.
    start: dict[Node, Node] = {lp.var: index(0) for lp in within if lp not in loops}
    init = sibling(target, target.init, iters, loops, "init", names, start)
    update = replace(target, name=names.block(f"{block}_update"), init=None)
    return finish(replaced(func, {loop: seq((init, replaced_in(loop, {target: update})))}))


def _check_loops(block: Block, inside: Sequence[For], around: Sequence[For]) -> None:
    reduce_iters = [it for it in block.iters if it.kind == "R"]
    outside = [lp for lp in around if lp not in inside and constant_value(lp.extent) != 1]
    for loop in loops_feeding(reduce_iters, outside):
        name = loop.var.name
        refuse(
            "E114",
            f'the reduction loop "{name}" is outside of "{inside[0].var.name}"',
            at=loop,
            example=f"{block.name} would start anew in each iteration of {name}",
            hint=f'sch.decompose_reduction("{block.name}", at="{name}")',
        )
    for loop in repeats(block, around):
        if loop in inside:
            name = loop.var.name
            refuse(
                "E114",
                f'block "{block.name}" runs anew in each iteration of "{name}"',
                at=loop,
                example=f"{name}=1 would go on from the sums of {name}=0",
                hint=f'a loop inside of "{name}"',
            )
    spatial = loops_feeding([it for it in block.iters if it.kind != "R"], inside)
    for loop in loops_feeding(reduce_iters, inside):
        if loop in spatial:
            why = f'loop "{loop.var.name}" of block "{block.name}" serves spatial and reduce iters'
            refuse("E114", why, at=block, hint="decompose before fusing them")
    for loop in loops_feeding([it for it in block.iters if it.kind == "O"], inside):
        name = loop.var.name
        why = f'the instances of block "{block.name}" must be taken in order along "{name}"'
        refuse("E114", why, at=loop, hint=f'a loop inside of "{name}"')
    if not first_comes_first(block, around, tuple(conjuncts(block.predicate))):
        why = f'the init of block "{block.name}" does not surely run first'
        example = "its reduce iters may not be 0 in the first iteration that runs"
        refuse("E114", why, at=block, example=example)


def _check_extents(inside: Sequence[For]) -> None:
    """Every loop runs at least once, and as often for the init as for the update."""
    for loop in inside:
        if not runs(loop):
            why = f'the extent of "{loop.var.name}" is not a constant >= 1'
            example = "where it is 0, the block does not run, and its init would"
            refuse("E114", why, at=loop, example=example)
