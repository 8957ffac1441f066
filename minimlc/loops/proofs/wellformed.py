"""When a primitive function is well-formed; the first thing that is not is a `VerifyError`.

Checked: names and scopes, dtypes, that iters stay in their extents and indices in their buffers,
that each axis is of the kind it claims, that parallel and vectorized loops carry nothing, and that
nothing is used that surely was never written.
"""

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NoReturn
from weakref import WeakKeyDictionary, WeakSet

from minimlc.loops.ir import nodes as ir
from minimlc.loops.ir.walks import blocks_in, buffers_in, condition_of, inner_stmts, stored_in
from minimlc.loops.proofs.access import (
    Access,
    Alone,
    accesses_alone,
    keys_of,
    lasting,
    nest_key,
    part_accesses,
    reads_any,
    reducer_of,
    top_statements,
)
from minimlc.loops.proofs.arith import has_loads, variables
from minimlc.loops.proofs.inside import Escape, escapes, fits
from minimlc.loops.proofs.legality import carried_dependence, concurrent_dependence
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.reducers import tuple_reducer
from minimlc.loops.proofs.scopes import Scopes
from minimlc.loops.values.dtypes import INDEX, excess
from minimlc.loops.values.errors import VerifyError
from minimlc.loops.values.node import Node, replace, span_of, walk
from minimlc.loops.values.parts import Hook

CHECKS = Hook[Callable[[ir.PrimFunc], None]]("checks of functions")
"""Checks that raise a `VerifyError` for other reasons."""

_CHECKED: WeakSet[ir.PrimFunc] = WeakSet()
"""Functions found well-formed: they cannot change, so once is enough."""

_FINE: WeakSet[ir.Stmt] = WeakSet()
"""Statements of functions whose iters and indices stay in range, and whose axes are right."""

_FINE_IN: WeakKeyDictionary[ir.Stmt | ir.BlockIter, Hashable] = WeakKeyDictionary()
"""The last context in which a statement's blocks, or an iter, were found fine."""

_INSIDE: WeakSet[ir.Block] = WeakSet()
"""Blocks whose indices stay in their buffers wherever the blocks stand."""

_RIGHT_KINDS: dict[Hashable, None] = {}
"""Blocks whose axes are right, with the loops whose variables they use, the oldest first."""
MOST_RIGHT = 256


def check_prim_func(name: str, func: ir.PrimFunc) -> None:
    """Raise a `VerifyError` unless `func` is well-formed. `name` is for the message."""
    if func in _CHECKED:
        return
    Scopes(name).function(func)
    check_blocks(func)
    check_loop_kinds(func)
    for check in CHECKS:
        check(func)
    _CHECKED.add(func)


def check_symbolic_func(name: str, func: ir.SymbolicFunc) -> None:
    """Raise a `VerifyError` unless names, scopes and dtypes are right: all that does not depend on
    the sizes. The rest is checked of each instance.
    """
    Scopes(name, frozenset(func.sizes)).symbolic(func)


def check_blocks(func: ir.PrimFunc) -> None:
    """Raise a `VerifyError` unless iters and indices stay in range and axes are what they claim."""
    _check_sizes((*func.params, *func.allocs), func)
    for part in top_statements(func):
        if part not in _FINE:
            _check_sizes(buffers_in(part), part)
            _check_iters(part)
            changing = {item.buffer for item in part_accesses(part) if item.is_write}
            for item in part_accesses(part):
                _check_range(item, changing)
            _FINE.add(part)


def _fail(code: str, why: str, *where: Node, example: str = "", hint: str = "") -> NoReturn:
    """Raise a `VerifyError` that shows the first of `where` that is known to be in the source."""
    span = next(filter(None, map(span_of, where)), None)
    raise VerifyError(why, code=code, span=span, example=example, hint=hint)


def _check_sizes(buffers: Iterable[ir.Buffer], where: Node) -> None:
    for buffer in buffers:
        why = excess(buffer.shape, buffer.dtype)
        if why:
            hint = "smaller sizes, or a smaller dtype"
            _fail("E135", f"{buffer.name} {why}", buffer, where, hint=hint)


def _check_iters(
    stmt: ir.Stmt, loops: tuple[ir.For, ...] = (), guards: tuple[ir.Expr, ...] = ()
) -> None:
    """Check every block in a statement inside `loops`, where `guards` hold throughout."""
    if isinstance(stmt, ir.Seq):
        for part in stmt.stmts:
            _check_iters(part, loops, guards)
        return
    around = _around(stmt, loops, guards)
    if _FINE_IN.get(stmt) == around:
        return
    if isinstance(stmt, ir.Block):
        _check_block(stmt, loops, guards)
    else:
        inner = (*loops, stmt) if isinstance(stmt, ir.For) else loops
        for part in inner_stmts(stmt):
            _check_iters(part, inner, _with(guards, lasting(condition_of(stmt, part), part)))
    _FINE_IN[stmt] = around


def _around(
    item: ir.Stmt | ir.Expr, loops: tuple[ir.For, ...], guards: tuple[ir.Expr, ...]
) -> Hashable:
    """The context of an item: its guards, and the loops whose variables it or they use, by their
    extents and whether those last; the whole nest if some loops may not run at all.
    """
    near = loops
    if _surely_run(loops):
        near = _used_of(loops, variables(item).union(*map(variables, guards)))
    lasts = tuple([lasting(loop.extent, loop.body) is not None for loop in near])
    return frozenset(zip(nest_key(near), lasts, strict=True)), keys_of(guards)


@lru_cache(maxsize=256)
def _surely_run(loops: tuple[ir.For, ...]) -> bool:
    """Whether each of the loops runs at least once, whatever the data are."""
    return all(isinstance(loop.extent, ir.Const) and loop.extent.value >= 1 for loop in loops)


def _used_of(loops: tuple[ir.For, ...], used: frozenset[ir.Var]) -> tuple[ir.For, ...]:
    """The loops of a nest whose variables are used, also in extents of others that are."""
    near: list[ir.For] = []
    for loop in reversed(loops):
        if loop.var in used:
            near.insert(0, loop)
            used |= variables(loop.extent)
    return tuple(near)


def _check_block(block: ir.Block, loops: tuple[ir.For, ...], guards: tuple[ir.Expr, ...]) -> None:
    held = _with(guards, block.predicate)
    for it in block.iters:
        _check_iter(block, it, loops, held)
        _check_lasts(block, it)
    check_kinds(block, loops)
    if _is_inside(Alone.of(block)):
        _INSIDE.add(block)
    if len(blocks_in(block)) > 1:
        inner = tuple(map(iter_loop, block.iters))
        held = _with(guards, lasting(block.predicate, block))
        first = tuple(ir.Binary("==", it.var, ir.index(0)) for it in block.iters if it.kind == "R")
        for part in inner_stmts(block):
            _check_iters(part, (*loops, *inner), (*held, *first) if part is block.init else held)


def _with(guards: tuple[ir.Expr, ...], condition: ir.Expr | None) -> tuple[ir.Expr, ...]:
    return guards if condition is None else (*guards, condition)


def _check_lasts(block: ir.Block, it: ir.BlockIter) -> None:
    """An iter's value stays the same while the block runs."""
    if not has_loads(it.value):
        return
    if reads_any(it.value, stored_in(block)):
        why = f'block "{block.name}" writes what the value of its iter {it.var.name} reads'
        _fail("E106", why, it, block, hint="read the element in a block of its own first")


def _check_iter(
    block: ir.Block, it: ir.BlockIter, loops: tuple[ir.For, ...], guards: tuple[ir.Expr, ...]
) -> None:
    """An iter's value stays within its extent."""
    around = _around(it.value, loops, guards)
    if _FINE_IN.get(it) == around:
        return
    where = ir.Buffer(it.var.name, (it.extent,), INDEX)
    probe = Access(where, (it.value,), False, loops, guards, block, "", 0, block)
    escape = next(escapes(probe), None)
    if escape is None:
        _FINE_IN[it] = around
        return
    why = f'block "{block.name}": iter {it.var.name} leaves its extent 0..{it.extent - 1}'
    hint = f"T.where({_inside(it.value, escape, it.extent)})  # where the block runs"
    _fail("E106", why + _unless_shown(escape), it, block, example=escape.example, hint=hint)


def _unless_shown(escape: Escape) -> str:
    return "" if escape.example else ", or is not known to stay inside"


def _check_range(item: Access, changing: Container[ir.Buffer]) -> None:
    """No index leaves its buffer. One that reads data is refused only with an example, or if no
    value that it may have is inside.
    """
    if item.block in _INSIDE:
        return
    for escape in escapes(item, changing):
        if escape.example or escape.always or not has_loads(item.indices[escape.dim]):
            _out_of_range(item, escape)


def _out_of_range(item: Access, escape: Escape) -> NoReturn:
    verb = "written" if item.is_write else "read"
    size = item.buffer.shape[escape.dim]
    why = f"{item.buffer.name} is {verb} out of range in dimension {escape.dim} (size {size})"
    hint = _keep_inside(item, item.indices[escape.dim], escape, size)
    where = (item.node,) if item.block is None else (item.node, item.block)
    _fail("E107", why + _unless_shown(escape), *where, example=escape.example, hint=hint)


def _variables_in(alone: Alone) -> frozenset[ir.Var]:
    """The variables that a block's init and body use."""
    return variables(alone.init) | variables(alone.body)


@lru_cache(maxsize=256)
def _is_inside(alone: Alone) -> bool:
    """Whether all of a block's indices stay in their buffers whatever values its iters have."""
    ranges = Ranges({var: extent for var, extent, _ in alone.iters})
    items = accesses_alone(alone)
    changing = {item.buffer for item in items if item.is_write}
    return all(fits(item, ranges, changing) for item in items)


def _inside(value: ir.Expr, escape: Escape, size: int) -> str:
    """The condition that keeps a value in 0 ... size-1, on the side where it leaves them."""
    return f"{value.script()} >= 0" if escape.below else f"{value.script()} < {size}"


def _keep_inside(item: Access, part: ir.Expr, escape: Escape, size: int) -> str:
    if not variables(part) and not has_loads(part):
        return f"the indices of {item.buffer.name} are 0..{size - 1}" if size else ""
    condition = _inside(part, escape, size)
    if item.block is None:
        return f"if {condition}:  # only there {item.buffer.name} has an element"
    return f"T.where({condition})  # only there {item.buffer.name} has an element"


def iter_loop(it: ir.BlockIter) -> ir.For:
    """A loop over all values of an iter: to look at a block by itself."""
    return ir.For(it.var, ir.index(it.extent), "serial", ir.Seq(()))


def check_kinds(block: ir.Block, around: tuple[ir.For, ...]) -> None:
    """Spatial iters write apart from each other; reduce iters combine into one element.

    Of the loops around, only those whose variables the block uses count.
    """
    alone = Alone.of(block)
    near = _used_of(around, _variables_in(alone))
    if (alone, frozenset(nest_key(near))) in _RIGHT_KINDS:
        return
    items = accesses_alone(alone)
    loops = {it.var: replace(iter_loop(it), body=alone.body) for it in block.iters}
    for it in block.iters:
        loop = loops[it.var]
        nest = (*near, loop, *(other for other in loops.values() if other is not loop))
        if it.kind == "S" and it.extent > 1:
            placed = [item._replace(loops=nest + item.loops) for item in items]
            _check_spatial(block, it, loop, placed)
        elif it.kind == "R":
            _check_reduce(block, it, items)
    _RIGHT_KINDS[alone, frozenset(nest_key(near))] = None
    if len(_RIGHT_KINDS) > MOST_RIGHT:
        del _RIGHT_KINDS[next(iter(_RIGHT_KINDS))]


def _check_spatial(
    block: ir.Block, it: ir.BlockIter, loop: ir.For, items: Sequence[Access]
) -> None:
    carried = carried_dependence(loop, items)
    if carried is None:
        return
    reduces = reducer_of(block) is not None
    kind = "a reduction axis" if reduces else "an axis whose values depend on each other"
    letter = 'T.axis.reduce ("R" in remap)' if reduces else 'T.axis.opaque ("O" in remap)'
    why = f'block "{block.name}": {it.var.name} is declared spatial but is {kind}'
    hint = _bypassed(block) or f"declare {it.var.name} as {letter}"
    _fail("E103", why, it, block, example=carried.explain(), hint=hint)


def _bypassed(block: ir.Block) -> str:
    """Advice for a block that uses a loop variable where it has an iter of the same value."""
    used = {n for n in walk(block.body) if isinstance(n, ir.Var)}
    for it in block.iters:
        if isinstance(it.value, ir.Var) and it.value in used:
            return f"inside the block write {it.var.name} where it says {it.value.name}"
    return ""


def _check_reduce(block: ir.Block, it: ir.BlockIter, items: Sequence[Access]) -> None:
    why = example = ""
    if any(it.var in variables(i) for item in items if item.is_write for i in item.indices):
        why = f"is declared a reduction, but {block.name} writes another element for each value"
        hint = f"declare {it.var.name} spatial"
    elif reducer_of(block) is None and not blocks_in(block.body):
        why, example = _no_reducer(block)
        hint = f"T.axis.opaque keeps the iterations of {it.var.name} in order"
    if why:
        why = f'block "{block.name}": {it.var.name} {why}'
        _fail("E103", why, it, block, example=example, hint=hint)


def _no_reducer(block: ir.Block) -> tuple[str, str]:
    """Why a block is not a reduction, with an example; nothing where it is one."""
    several = tuple_reducer(block)
    if several is None:
        why = "the block is not of the form X[...] = X[...] op value with a commutative op"
        return f"is declared a reduction, but {why}", ""
    if several.associative:
        return "", ""
    names = ", ".join(store.buffer.name for store in several.stores)
    why = f"how the block combines ({names}) depends on how the values are grouped"
    return f"is declared a reduction, but {why}", f"the values {several.example}"


def check_loop_kinds(func: ir.PrimFunc) -> None:
    """No parallel or vectorized loop carries a dependence."""
    carried = concurrent_dependence(func)
    if carried is not None:
        loop = carried.loop
        why = f"the {loop.kind} loop {loop.var.name} carries a dependence"
        apart = f"two loops bound to {loop.thread}, one after the other: threads wait in between"
        waits = loop.thread.startswith("threadIdx")
        hint = apart if waits else f"make {loop.var.name} a serial loop"
        _fail("E104", why, loop, example=carried.explain(), hint=hint)
