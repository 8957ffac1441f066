"""Primitives that give a block a copy of a buffer: cache_read, cache_write, cache_inplace."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from minimlc.loops.ir import nodes as ir
from minimlc.loops.proofs.access import Access, accesses
from minimlc.loops.proofs.coverage import covers
from minimlc.loops.proofs.regions import enclosing_box, is_written_before
from minimlc.loops.proofs.wellformed import iter_loop
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import End, Names, Space, copy_nest
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Redirect, to
from minimlc.loops.schedule.tree import (
    Place,
    find_block,
    find_buffer,
    inside,
    replaced,
    replaced_in,
    with_allocs,
)
from minimlc.loops.values.dtypes import DTYPES, dtype_record, holds, integer_range, is_integer
from minimlc.loops.values.node import replace

SCOPES = ("global", "local", "shared", "warp", "wmma", "m16n8k8", "metal", "amx")
"""The kinds of memory; a part of one has a name behind a dot: "shared.dyn", "wmma.matrix_a"."""


class Anchor(NamedTuple):
    """The statement beside which a copy is made, and the loops around that statement."""

    stmt: ir.Stmt
    loops: tuple[ir.For, ...]


def anchors(place: Place) -> list[Anchor]:
    """The statements that hold a block, outermost first: a copy can stand beside each.

    There are none inside a block: its iters would be out of sight.
    """
    places: list[Anchor] = []
    loops: tuple[ir.For, ...] = ()
    for stmt in (*place.around, place.stmt):
        if isinstance(stmt, ir.For | ir.Block | ir.IfThenElse):
            places.append(Anchor(stmt, loops))
        if isinstance(stmt, ir.For):
            loops = (*loops, stmt)
        if isinstance(stmt, ir.Block):
            break
    return places


class Use(NamedTuple):
    """A block's use of one buffer: its place, and its accesses among all others; of a whole
    function, or of the block around it.
    """

    place: Place[ir.Block]
    block: ir.Block
    buffer: ir.Buffer
    mine: list[Access]
    items: list[Access]
    is_within: bool = False

    def others(self, anchor: Anchor) -> list[Access]:
        """The accesses to the buffer in a statement around the block, other than the block's."""
        near = inside(self.items, anchor.stmt)
        return [i for i in near if i.buffer is self.buffer and i not in self.mine]

    def space(self, anchor: Anchor) -> Space:
        """The elements touched inside the loops around; outside of loops, all of the buffer."""
        fixed = [loop.var for loop in anchor.loops]
        box = enclosing_box(self.buffer, self.mine, fixed) if fixed else None
        return Space(self.buffer.shape, box, anchor.loops)


def use_of(func: ir.PrimFunc, block: str, buffer: str) -> Use:
    """The use of `buffer` by the block `block`; also in its predicate and in its iters' values."""
    place = find_block(func, block)
    return _use(place, find_buffer(func, buffer), accesses(func))


def _use(place: Place[ir.Block], buffer: ir.Buffer, items: list[Access]) -> Use:
    mine = [item for item in inside(items, place.stmt) if item.buffer is buffer]
    return Use(place, place.stmt, buffer, mine, items)


@primitive(keeps_order=True)
def cache_read(
    func: ir.PrimFunc,
    block: str,
    buffer: str,
    scope: str = "local",
    dtype: str | None = None,
    offset: int = 0,
) -> ir.PrimFunc:
    """Let a block read a copy of a buffer that is made before it.

        S(A[i])        -->        A_local[...] = A[...]
                                  S(A_local[i])

    The copy is a block `A_local` over the whole buffer; compute_at moves it closer. Where the
    buffer is written in loops around the block, the copy stands inside of those, over the
    elements that the block reads there; inside the block around it, where that writes the buffer.
    Legal when the block does not write the buffer itself.

    With `dtype`, the copy holds wider elements: what the block converted at each use is converted
    once. With `offset`, integers are copied plus that number, which each use takes off again: 128
    makes int8 of uint8's range, -128 the other way round. Legal when that dtype has every value of
    the buffer's, plus the offset.
    """
    check_scope(scope)
    use = use_of(func, block, buffer)
    if all(item.is_write for item in use.mine):
        refuse("E117", f'block "{block}" does not read {buffer}', at=use.block)
    use, anchor = _reading(use)
    names = Names(func)
    cache = cache_of(use.buffer, names, scope)
    if offset or (dtype is not None and dtype != cache.dtype):
        cache = replace(cache, dtype=dtype or cache.dtype)
        _check_wider(use, cache.dtype, offset)
    ends = End(use.buffer), End(cache)
    copy = copy_nest(*ends, use.space(anchor), names, cache.name, offset)
    new = _Widened(use, cache, offset).visit(use.block)
    return finish(beside(func, anchor.stmt, use.block, new, [copy], [], cache))


def _reading(use: Use) -> tuple[Use, Anchor]:
    """The use, and the place of the copy that is read: in the block around, if that writes too."""
    within = _within(use)
    if within is not None and _unwritten(use) is None:
        use = within
    return use, reading_anchor(use)


def _within(use: Use) -> Use | None:
    """A use seen from inside the innermost block around, over that block's iters; None if none."""
    around = use.place.around
    for depth, outer in reversed(list(enumerate(around))):
        if isinstance(outer, ir.Block):
            loops = tuple(map(iter_loop, outer.iters))
            iters = tuple(replace(it, value=it.var) for it in outer.iters)
            items = accesses(replace(outer, iters=iters, predicate=None))
            items = [item._replace(loops=loops + item.loops) for item in items]
            place = Place(use.block, (*loops, *around[depth + 1 :]))
            return _use(place, use.buffer, items)._replace(is_within=True)
    return None


def _check_wider(use: Use, dtype: str, offset: int) -> None:
    """Refuse a dtype that lacks some value of a buffer's dtype plus an offset."""
    old, name = use.buffer.dtype, use.buffer.name
    dtype = dtype_record(dtype).name
    if offset and not (is_integer(old) and is_integer(dtype)):
        why = f"an offset is for integers; {name} is {old}, its copy would be {dtype}"
        refuse("E117", why, at=use.block)
    fitting = [kind for kind in DTYPES if _has_all(kind, old, offset)]
    if dtype not in fitting:
        plus = f" plus {offset}" if offset else ""
        why = f"{dtype} has not every value of {name}'s {old}{plus}"
        wider = [kind for kind in fitting if kind != old]
        refuse("E117", why, at=use.block, hint=" or ".join(wider))


def _has_all(dtype: str, old: str, offset: int) -> bool:
    """Whether a dtype has all values of another one, each plus an offset."""
    if not offset or not is_integer(dtype):
        return holds(dtype, old)
    (low, high), (least, most) = integer_range(dtype), integer_range(old)
    return low <= least + offset and most + offset <= high


class _Widened(Redirect):
    """Reads a copy in place of a buffer; where it is of another dtype, with one conversion."""

    def __init__(self, use: Use, new: ir.Buffer, offset: int):
        super().__init__({use.buffer: lambda load: self.converted(load.dtype, load)}, stores=False)
        self.use, self.new, self.offset = use, new, offset

    def visit_Cast(self, item: ir.Cast) -> ir.Expr:
        if not isinstance(item.a, ir.Load) or item.a.buffer is not self.use.buffer:
            return self.visit_children(item)
        return self.converted(item.dtype, self.visit_children(item.a))

    def converted(self, dtype: str, item: ir.Load) -> ir.Expr:
        """The element that a load takes from the copy, in the dtype in which it is used."""
        moved: ir.Expr = replace(item, buffer=self.new)
        if self.new.dtype != dtype:
            moved = ir.Cast(dtype, moved)
        if not self.offset:
            return moved
        if not holds(dtype, self.new.dtype):
            name = self.use.buffer.name
            why = f"{name} is used as {dtype}, which has not all values of {self.new.dtype}"
            hint = f"an offset is for what is converted where it is used: {name} to int32"
            refuse("E117", why, at=self.use.block, hint=hint)
        return moved - ir.const(self.offset, dtype)


@primitive(keeps_order=True)
def cache_write(func: ir.PrimFunc, block: str, buffer: str, scope: str = "local") -> ir.PrimFunc:
    """Let a block write a buffer of its own that is copied out after it.

        C[i] = f(i)        -->        C_local[i] = f(i)
                                      C[...] = C_local[...]

    The copy is a block `C_local` over the whole buffer; reverse_compute_at moves it closer. Where
    loops around the block use the buffer elsewhere, or do not write all of it, the copy stands
    inside of those, over the elements that the block writes there; inside the block around it, if
    need be. Legal when the block reads nothing of it but what its own init or itself has written,
    and surely writes all elements that are copied out.
    """
    check_scope(scope)
    use = use_of(func, block, buffer)
    writes = [item for item in use.mine if item.is_write and item.role != "init"]
    if not writes:
        refuse("E117", f'block "{block}" does not write {buffer}', at=use.block)
    within = _within(use)
    uses = [use] if within is None else [use, within]
    places = [(view, anchor) for view in uses for anchor in anchors(view.place)]
    fitting = [place for place in places if not unfit_to_write(*place)]
    results = (_written_back(func, *place, scope) for place in fitting)
    result = next((r for r in results if r is not None), None)
    if result is None:
        partial = f'block "{block}" may not write every element of {buffer}'
        no_copy(use, partial if fitting else unfit_to_write(*places[0]))
    return finish(result)


@primitive(keeps_order=True)
def cache_inplace(func: ir.PrimFunc, block: str, buffer: str, scope: str = "local") -> ir.PrimFunc:
    """Let a block work on a copy of a buffer: it is copied in before and out after.

        X[i] = f(X[i])        -->        X_local[...] = X[...]
                                         X_local[i] = f(X_local[i])
                                         X[...] = X_local[...]

    The copies are blocks `X_local_in` and `X_local_out`. They stand around the outermost loop of
    the block in which nothing else uses the buffer: at the function's own level they span it all,
    inside shared loops what the block touches there. Always legal for a block that writes the
    buffer; what it does not write is copied back as it was.
    """
    check_scope(scope)
    use = use_of(func, block, buffer)
    if not any(item.is_write for item in use.mine):
        refuse("E117", f'block "{block}" does not write {buffer}', at=use.block)
    anchor = next((a for a in anchors(use.place) if not use.others(a)), None)
    if anchor is None:
        refuse("E117", f'{buffer} is used elsewhere in block "{block}"', at=use.block)
    names = Names(func)
    cache = cache_of(use.buffer, names, scope)
    outside, local = End(use.buffer), End(cache)
    copy_in = copy_nest(outside, local, use.space(anchor), names, f"{cache.name}_in")
    copy_out = copy_nest(local, outside, use.space(anchor), names, f"{cache.name}_out")
    new = Redirect({use.buffer: to(cache)}).visit(use.block)
    return finish(beside(func, anchor.stmt, use.block, new, [copy_in], [copy_out], cache))


def cache_of(buffer: ir.Buffer, names: Names, scope: str) -> ir.Buffer:
    """A buffer like another one, named after its scope."""
    name = names.buffer(f"{buffer.name}_{scope.split('.')[-1]}")
    return ir.Buffer(name, buffer.shape, buffer.dtype, scope)


def reading_anchor(use: Use) -> Anchor:
    """The outermost statement around a block in which nothing writes what it reads."""
    anchor = _unwritten(use)
    if anchor is None:
        no_copy(
            use, f'block "{use.block.name}" writes {use.buffer.name} itself: a copy would be stale'
        )
    return anchor


def _unwritten(use: Use) -> Anchor | None:
    written = [i for i in use.items if i.is_write and i.buffer is use.buffer]
    return next((a for a in anchors(use.place) if not inside(written, a.stmt)), None)


def no_copy(use: Use, why: str) -> NoReturn:
    """Refuse: there is no place for a copy, or it would be wrong."""
    hint = f'sch.cache_inplace("{use.block.name}", "{use.buffer.name}") copies in and out'
    refuse("E117", why, at=use.block, hint=hint)


def unfit_to_write(use: Use, anchor: Anchor) -> str:
    """Why a block cannot write a copy that is made in `anchor` and copied out after it; or ""."""
    name, buffer = use.block.name, use.buffer.name
    if use.others(anchor):
        return f'{buffer} is used elsewhere in the loops of "{name}"'
    written = {item.buffer for item in use.items if item.is_write}
    writes = [item for item in use.mine if item.is_write]
    for item in use.mine:
        if not item.is_write and not is_written_before(item, len(anchor.loops), writes, written):
            return f'block "{name}" starts from what {buffer} holds'
    return ""


def _written_back(func: ir.PrimFunc, use: Use, anchor: Anchor, scope: str) -> ir.PrimFunc | None:
    """The function with the copy after `anchor`; None if it may copy what was not written."""
    names = Names(func)
    cache = cache_of(use.buffer, names, scope)
    copy = copy_nest(End(cache), End(use.buffer), use.space(anchor), names, cache.name)
    new = Redirect({use.buffer: to(cache)}).visit(use.block)
    result = beside(func, anchor.stmt, use.block, new, [], [copy], cache)
    return result if is_written(result, use, cache, anchor) else None


def is_written(func: ir.PrimFunc, use: Use, cache: ir.Buffer, anchor: Anchor) -> bool:
    """Whether all elements of `cache` that its copy reads have been written in `anchor`."""
    now = use_of(func, use.block.name, cache.name)
    now = _within(now) or now if use.is_within else now
    copied = [i for i in now.items if i.buffer is cache and i not in now.mine]
    writes = [i for i in now.mine if i.is_write and i.role != "init"]
    fixed = [loop.var for loop in anchor.loops]
    return all(any(covers(write, read, fixed) for write in writes) for read in copied)


def beside(
    func: ir.PrimFunc,
    anchor: ir.Stmt,
    block: ir.Stmt,
    new_block: ir.Stmt,
    before: Sequence[ir.Stmt],
    after: Sequence[ir.Stmt],
    cache: ir.Buffer,
) -> ir.PrimFunc:
    """`func` with a block replaced, copies around its anchor, and a buffer for them."""
    middle = replaced_in(anchor, {block: new_block})
    return with_allocs(replaced(func, {anchor: ir.seq((*before, middle, *after))}), [cache])


def check_scope(scope: str) -> None:
    """Refuse a scope that does not exist."""
    kind, *parts = str(scope).split(".")
    if kind not in SCOPES or not all(part.isidentifier() for part in parts):
        listed = ", ".join(SCOPES)
        refuse("E117", f'unknown scope "{scope}"', hint=f'{listed}, or a part as in "shared.dyn"')
