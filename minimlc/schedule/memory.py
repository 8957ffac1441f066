"""Primitives on memory: cache_read and cache_write."""

from collections.abc import Mapping
from typing import Any

from minimlc.node import Mutator, replace, walk
from minimlc.schedule.tree import (
    Names,
    Place,
    find_block,
    find_buffer,
    finish,
    refuse,
    replaced,
    with_alloc,
)
from minimlc.tir.access import Access, accesses
from minimlc.tir.nodes import (
    Block,
    BlockIter,
    Buffer,
    Expr,
    For,
    Load,
    PrimFunc,
    Stmt,
    Store,
    index,
    load,
    seq,
)
from minimlc.tir.regions import covers, init_comes_first

SCOPES = ("global", "local", "shared")


def cache_read(func: PrimFunc, block: str, buffer: str, scope: str = "local") -> PrimFunc:
    """Let a block read a copy of a buffer that is made before it.

        S(A[i])        -->        A_local[...] = A[...]
                                  S(A_local[i])

    The copy is a block `A_local` over the whole buffer; compute_at moves it closer. Legal when
    nothing writes the buffer between the copy and the block.
    """
    place = find_block(func, block)
    source = find_buffer(func, buffer)
    _check_scope(scope)
    target = place.stmt
    items = accesses(func)
    mine = [i for i in items if i.block is target and i.buffer is source]
    if not any(not item.is_write for item in mine):
        refuse("E117", f'cache_read: block "{block}" does not read {buffer}', at=target)
    top = _top(place)
    for item in items:
        if item.is_write and item.buffer is source and _is_inside(item, top):
            refuse(
                "E117",
                f'cache_read: {buffer} is written in the loops around "{block}": a copy made '
                "before them would be stale",
                at=item.node,
                hint="cache_read before moving blocks together",
            )
    names = Names(func)
    cache = Buffer(names.buffer(f"{buffer}_{scope}"), source.shape, source.dtype, scope)
    copy = _copy(source, cache, names, cache.name)
    new_block = _Rename({source: cache}, loads_only=True).visit(target)
    changed = replaced(func, {target: new_block})
    new_top = new_block if top is target else _top(find_block(changed, block))
    return finish(with_alloc(replaced(changed, {new_top: seq((copy, new_top))}), cache))


def cache_write(func: PrimFunc, block: str, buffer: str, scope: str = "local") -> PrimFunc:
    """Let a block write a buffer of its own that is copied out after it.

        C[i] = f(i)        -->        C_local[i] = f(i)
                                      C[...] = C_local[...]

    The copy is a block `C_local` over the whole buffer; reverse_compute_at moves it closer. Legal
    when the block alone uses the buffer in its loops, starts from an init of its own, and writes
    every element.
    """
    place = find_block(func, block)
    target = find_buffer(func, buffer)
    _check_scope(scope)
    items = accesses(func)
    top = _top(place)
    mine = [i for i in items if i.block is place.stmt and i.buffer is target]
    writes = [item for item in mine if item.is_write and item.role != "init"]
    if not writes:
        refuse("E117", f'cache_write: block "{block}" does not write {buffer}', at=place.stmt)
    _check_write(items, mine, target, place, top)
    names = Names(func)
    cache = Buffer(names.buffer(f"{buffer}_{scope}"), target.shape, target.dtype, scope)
    copy = _copy(cache, target, names, cache.name)
    (whole,) = [
        item for item in accesses(_copy(target, cache, names, "whole")) if not item.is_write
    ]
    if not any(covers(write, whole._replace(order=len(items)), ()) for write in writes):
        refuse(
            "E117",
            f'cache_write: block "{block}" may not write every element of {buffer}',
            at=place.stmt,
            example="the copy would overwrite the others with undefined values",
        )
    new_block = _Rename({target: cache}, loads_only=False).visit(place.stmt)
    changed = replaced(func, {place.stmt: new_block})
    new_top = new_block if top is place.stmt else _top(find_block(changed, block))
    return finish(with_alloc(replaced(changed, {new_top: seq((new_top, copy))}), cache))


def _check_write(
    items: list[Access], mine: list[Access], target: Buffer, place: Place, top: Stmt
) -> None:
    name = place.stmt.name  # type: ignore[attr-defined]
    for item in items:
        if item.buffer is target and item.block is not place.stmt and _is_inside(item, top):
            refuse(
                "E117",
                f'cache_write: {target.name} is used elsewhere in the loops of "{name}"',
                at=item.node,
                hint="cache_write before moving or decomposing blocks",
            )
    assert isinstance(place.stmt, Block)
    read = [item for item in mine if not item.is_write]
    if any(not _starts_anew(item) for item in read):
        refuse(
            "E117",
            f'cache_write: block "{name}" starts from what {target.name} holds',
            at=place.stmt,
            hint="cache_write before decompose_reduction",
        )


def _starts_anew(read: Access) -> bool:
    """Whether a block reads only what its own init has written."""
    block = read.block
    if block is None or block.init is None or read.role != "update":
        return False
    return init_comes_first(block, read.loops, read.runs_where)


def _check_scope(scope: str) -> None:
    if scope not in SCOPES:
        refuse("E117", f'unknown scope "{scope}"', hint=", ".join(SCOPES))


def _top(place: Place) -> Stmt:
    """The statement of the function's own sequence that holds a place."""
    path = [*place.around, place.stmt]
    return path[0] if isinstance(path[0], For | Block) else path[1]


def _is_inside(item: Access, top: Stmt) -> bool:
    return any(n is item.node for n in walk(top))


def _copy(source: Buffer, target: Buffer, names: Names, name: str) -> Stmt:
    """A block that copies one buffer to another of the same shape, element by element."""
    loops = [names.var(f"ax{dim}") for dim in range(source.ndim)]
    iters = tuple(
        BlockIter(names.var(f"v{dim}"), size, "S", var)
        for dim, (var, size) in enumerate(zip(loops, source.shape, strict=True))
    )
    values: list[Expr] = [it.var for it in iters]
    store = Store(target, tuple(values), load(source, values))
    stmt: Stmt = Block(names.block(name), iters, None, None, store)
    for var, size in reversed(list(zip(loops, source.shape, strict=True))):
        stmt = For(var, index(size), "serial", stmt)
    return stmt


class _Rename(Mutator):
    """Exchanges buffers, in loads only or in stores too."""

    def __init__(self, mapping: Mapping[Buffer, Buffer], loads_only: bool):
        self.mapping = mapping
        self.loads_only = loads_only

    def visit_Load(self, item: Load) -> Any:
        item = self.visit_children(item)
        return replace(item, buffer=self.mapping.get(item.buffer, item.buffer))

    def visit_Store(self, item: Store) -> Any:
        indices, value = self.visit(item.indices), self.visit(item.value)
        buffer = item.buffer if self.loads_only else self.mapping.get(item.buffer, item.buffer)
        return replace(item, buffer=buffer, indices=indices, value=value)
