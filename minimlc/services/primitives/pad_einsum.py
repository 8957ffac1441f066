"""The primitive pad_einsum: a sum of products over rounder extents."""

from collections.abc import Sequence
from functools import partial, reduce
from math import copysign, isfinite

import numpy as np

from minimlc.loops.ir.nodes import (
    Binary,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    const,
    index,
    seq,
)
from minimlc.loops.proofs.arith import variables
from minimlc.loops.schedule.finish import finish
from minimlc.loops.schedule.fresh import End, Names, Space, copy_nest, store_nest
from minimlc.loops.schedule.primitive import primitive, refuse
from minimlc.loops.schedule.redirect import Redirect, to
from minimlc.loops.schedule.tree import find_block, nest, replaced, with_allocs
from minimlc.loops.values.dtypes import is_float, is_integer, to_numpy
from minimlc.loops.values.node import replace, walk
from minimlc.services.layouts.layout import is_too_large
from minimlc.services.primitives.sums import Einsum, einsum_of, iter_nest

Sizes = dict[Var, int]
"""The extents that padded iters are to have."""


@primitive(keeps_order=True)
def pad_einsum(func: PrimFunc, block: str, padding: Sequence[int]) -> PrimFunc:
    """Pad a sum of products until each iter's extent is a multiple of its number in `padding`.

        for i, k in grid(8, 30):                for i, k in grid(8, 32):
            C[i] += A[i, k]                         A_pad[i, k] = select(k < 30, A[i, k], 0)
                                         -->    for i, k in grid(8, 32):
                                                    C[i] += A_pad[i, k]

    Here for [1, 8]. Inputs get copies `A_pad` that are 0 beyond the old extents; where a spatial
    iter is padded, the sums go to `C_pad`, and block `C_pad` copies those that count to `C`.
    Legal when the block is alone in loops that are its iters, adds up from a constant, padded
    iters are plain indices, and all that padding adds to a sum is 0. In floats 0 * inf is NaN:
    there a padded reduction must index every factor.
    """
    place = find_block(func, block)
    target = place.stmt
    sizes = _sizes(target, padding)
    top, old = iter_nest(place)
    einsum = einsum_of(place)
    if not sizes:
        return func
    names = Names(func)
    output = einsum.store.buffer
    inputs = _Inputs(target, sizes, names)
    moves = {n.buffer: inputs.padded for n in walk(einsum.store.value) if isinstance(n, Load)}
    del moves[output]
    body = Redirect(moves).visit(einsum.store)
    _check_zeros(target, einsum, sizes)
    init: Stmt = replace(einsum.store, value=einsum.start)
    before = [_pad_nest(*source, cache, names) for source, cache in inputs.copies.items()]
    after: list[Stmt] = []
    buffers = list(inputs.copies.values())
    if any(var in sizes for var in einsum.store.indices):
        sums, last = _padded_output(target, einsum.store, sizes, names)
        renamed = Redirect({output: to(sums)})
        body, init = renamed.visit(body), renamed.visit(init)
        after.append(last)
        buffers.append(sums)
    iters = tuple(replace(it, extent=sizes.get(it.var, it.extent)) for it in target.iters)
    extents = {it.value: index(it.extent) for it in iters}
    loops = [replace(lp, extent=extents[lp.var]) for lp in old]
    new = nest(loops, replace(target, iters=iters, init=init, body=body))
    return finish(with_allocs(replaced(func, {top: seq((*before, new, *after))}), buffers))


def _sizes(block: Block, padding: Sequence[int]) -> Sizes:
    count = len(block.iters)
    if len(padding) != count or any(not 1 <= number < 2**31 for number in padding):
        why = f'the padding of block "{block.name}" is a number >= 1 for each of its '
        why += f"{count} iter(s), got {list(padding)}"
        refuse("E118", why, hint=f"its iters: {', '.join(it.var.name for it in block.iters)}")
    pairs = zip(block.iters, padding, strict=True)
    return {it.var: -(-it.extent // by) * by for it, by in pairs if it.extent % by}


def _check_zeros(block: Block, einsum: Einsum, sizes: Sizes) -> None:
    """Refuse unless all that padding adds to a sum that counts is 0, and changes nothing."""
    is_real = is_float(einsum.start.dtype)
    for it in block.iters:
        if it.kind != "R" or it.var not in sizes:
            continue
        start = _number(einsum.start)
        if is_real and start == 0 and copysign(1, start) < 0:
            refuse("E154", "starts from -0.0, which adding 0.0 would change", of=block)
        if not _is_zero(einsum.value, it.var):
            name, end = it.var.name, it.extent
            why = f"may add something else than 0 beyond {name} = {end - 1}"
            example = f"at {name} = {end}: {einsum.value.script()}"
            example += ", where 0 * inf or 0 * NaN is NaN" if is_real else ""
            hint = "pad no reduction iter that does not index "
            hint += f"{'all' if is_real else 'some'} of the factors"
            refuse("E154", why, of=block, example=example, hint=hint)


def _is_zero(value: Expr, beyond: Var) -> bool:
    """Whether a value is 0 (of either sign) where the padded iter `beyond` is beyond its extent."""
    match value:
        case Load(_, indices):
            return beyond in indices
        case Const():
            return _number(value) == 0
        case Cast(_, a) | Unary("-", a):
            return _is_zero(a, beyond)
        case Binary("+" | "-", a, b):
            return _is_zero(a, beyond) and _is_zero(b, beyond)
        case Binary("*", a, b):
            one, other = _is_zero(a, beyond), _is_zero(b, beyond)
            if is_float(value.dtype):
                return (one and _is_finite(b, beyond)) or (other and _is_finite(a, beyond))
            return one or other
        case _:  # other nodes: not known to be 0
            return False


def _number(value: Const) -> float:
    """A constant as its dtype has it: 1e39 is not a finite float32."""
    with np.errstate(over="ignore"):
        return float(np.asarray(value.value).astype(to_numpy(value.dtype)))


def _is_finite(value: Expr, beyond: Var) -> bool:
    match value:
        case Const():
            return isfinite(_number(value))
        case Cast("float32" | "float64" | "bfloat16", a) if is_integer(a.dtype):
            return True
        case _:  # other nodes: not known to be finite, unless 0
            return _is_zero(value, beyond)


Limit = tuple[int, int] | None
"""For a padded dimension: how many indices are real, and how many there are."""


class _Inputs:
    """Makes loads at padded iters loads of padded copies, and remembers these."""

    def __init__(self, block: Block, sizes: Sizes, names: Names):
        self.block, self.sizes, self.names = block, sizes, names
        self.extents = {it.var: it.extent for it in block.iters}
        self.copies: dict[tuple[Buffer, tuple[Limit, ...]], Buffer] = {}

    def padded(self, item: Load) -> Load:
        limits = tuple(self.limit(item, part) for part in item.indices)
        if not any(limits):
            return item
        source = (item.buffer, limits)
        if source not in self.copies:
            self.copies[source] = self.copy(*source)
        return replace(item, buffer=self.copies[source])

    def limit(self, item: Load, part: Expr) -> Limit:
        if isinstance(part, Var) and part in self.sizes:
            return self.extents[part], self.sizes[part]
        for name in sorted(var.name for var in variables(part) if var in self.sizes):
            why = f"reads {item.script()}: the padded iter {name} is not an index by itself"
            refuse("E154", why, of=self.block, hint=f"leave {name} as it is: 1 in the padding")
        return None

    def copy(self, buffer: Buffer, limits: Sequence[Limit]) -> Buffer:
        pairs = zip(limits, buffer.shape, strict=True)
        shape = tuple(limit[1] if limit else size for limit, size in pairs)
        return _padded_buffer(self.block, buffer, shape, self.names)


def _padded_buffer(block: Block, buffer: Buffer, shape: Sequence[int], names: Names) -> Buffer:
    if is_too_large(shape, buffer):
        why = f"would have a padded copy of {buffer.name} of shape {tuple(shape)}"
        refuse("E154", why, of=block)
    return Buffer(names.buffer(f"{buffer.name}_pad"), tuple(shape), buffer.dtype)


def _pad_nest(source: Buffer, limits: Sequence[Limit], cache: Buffer, names: Names) -> Stmt:
    """A block that copies a buffer, and is 0 beyond what is real."""

    def padded(at: tuple[Var, ...]) -> Store:
        real = [v < limit[0] for v, limit in zip(at, limits, strict=True) if limit]
        inside = reduce(partial(Binary, "and"), real)
        return Store(cache, at, Select(inside, Load(source, at), const(0, cache.dtype)))

    return store_nest(cache.name, Space(cache.shape), names, padded)


def _padded_output(block: Block, store: Store, sizes: Sizes, names: Names) -> tuple[Buffer, Stmt]:
    """The buffer of the padded sums, and the nest that copies those that count."""
    extents = {it.var: it.extent for it in block.iters}
    dims = [part for part in store.indices if isinstance(part, Var)]
    shape = [sizes.get(var, extents[var]) for var in dims]
    sums = _padded_buffer(block, store.buffer, shape, names)
    real = [extents[var] for var in dims]
    return sums, copy_nest(End(sums), End(store.buffer), Space(real), names, sums.name)
