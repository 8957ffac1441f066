"""Copy constant weights ahead of time into the order in which a kernel reads them."""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from minimlc.graphs.ir.nodes import Call, Constant, Expr, call_tir
from minimlc.graphs.mutator import Mutator
from minimlc.loops.ir.nodes import (
    SHARED,
    Block,
    Buffer,
    Cast,
    Const,
    Load,
    PrimFunc,
    Select,
    Store,
    Var,
)
from minimlc.loops.ir.nodes import Expr as Value
from minimlc.loops.proofs.access import accesses
from minimlc.loops.proofs.arith import has_loads
from minimlc.loops.proofs.points import evaluate
from minimlc.loops.schedule.redirect import with_storage
from minimlc.loops.schedule.shape import check_full_domain, check_plain_path
from minimlc.loops.schedule.tree import find_block, replaced
from minimlc.loops.values.contents import digest_of
from minimlc.loops.values.dtypes import dtype_name, to_numpy
from minimlc.loops.values.errors import ScheduleError
from minimlc.loops.values.module import IRModule, module_pass
from minimlc.loops.values.node import replace, structural_equal, walk
from minimlc.services.runtime.copies import EXACT, READY, Copy, Ready, strided
from minimlc.services.runtime.memory import on_a_line

GROWTH = 2
"""How many times larger than the constant its copy may be, for zeros at its edges."""


@module_pass
def pack_constants(mod: IRModule, known: "Packs | None" = None) -> IRModule:
    """Make the copies of constants that scheduled functions begin with.

        lv = R.call_tir(mm, (x, const))    -->    lv = R.call_tir(mm_packed, (x, const'))

    A copy is a block that puts the constant's elements elsewhere, with zeros at the edges or in
    a wider dtype, and alone writes a buffer of the function's own: panels of a matrix, a
    convolution's weights by channels. The buffer becomes the parameter in the constant's place,
    where nothing else reads that and the copy is not much larger. (Bytes in groups for a tensor
    unit are no such copy, nor is what a GPU's threads share.) `known` are functions that were
    packed before; others are added.
    """
    return _Pack(mod, {} if known is None else known)(mod)


ORIGINS: WeakKeyDictionary[Constant, tuple[Constant, Copy]] = WeakKeyDictionary()
"""The source of each packed constant, and how it was copied."""


class _Pack(Mutator):
    def __init__(self, mod: IRModule, known: "Packs"):
        self.mod = mod
        self.known = known
        self.made: dict[tuple[Constant, Any], Constant] = {}

    def visit_Call(self, call: Call) -> Expr:
        func = self.mod.functions.get(call.callee) if call.op == "call_tir" else None
        if not isinstance(func, PrimFunc):
            return call
        places = frozenset(at for at, arg in enumerate(call.args) if isinstance(arg, Constant))
        new, copies = packed(func, places, self.known)
        if new is func:
            return call
        args = list(call.args)
        for place, copy in copies:
            args[place] = self.once(args[place], copy)
        name = self.builder.add_func(new, f"{call.callee}_packed")
        return call_tir(name, tuple(args), call.type)

    def once(self, source: Expr, copy: "Copy | Gathered") -> Constant:
        """A constant computed from another: the same one for weights that two layers share."""
        assert isinstance(source, Constant)
        if (source, copy) not in self.made:
            if isinstance(copy, Copy):
                new = Constant(copied(source.data, copy))
                ORIGINS[new] = source, copy
            else:
                new = Constant(_read_only(copy.of(source.data)))
            self.made[source, copy] = new
        return self.made[source, copy]


_COPIED: WeakValueDictionary[tuple[Any, ...], np.ndarray] = WeakValueDictionary()
"""Copies that something uses, by their constant and how it is copied."""


def copied(data: np.ndarray, copy: Copy) -> np.ndarray:
    """A copy of a constant, read-only; equal constants share one, as instances of a function for
    other sizes have the same weights.
    """
    key = dtype_name(data.dtype), data.shape, digest_of(data), copy
    found = _COPIED.get(key)
    if found is None:
        found = _COPIED[key] = _read_only(copy.of(data))
    return found


def _read_only(data: np.ndarray) -> np.ndarray:
    array = on_a_line(data)
    array.setflags(write=False)
    return array


class Gathered(NamedTuple):
    """A copy that is not one along digits: element by element, by its indices."""

    block: Block
    param: Buffer

    def of(self, data: np.ndarray) -> np.ndarray:
        return contents(self.block, self.param, data)


Packed = tuple[PrimFunc, list[tuple[int, Copy | Gathered]]]
"""A function without its copies, and the copies in their order, each by its parameter."""


Packs = dict[tuple[PrimFunc, frozenset[int]], Packed]
"""Packed functions, by the function and the places of its constant parameters."""


def packed(func: PrimFunc, places: frozenset[int], known: Packs) -> Packed:
    """`func` without the copies that can be made of its constant parameters, at `places`."""
    key = func, places
    if key not in known:
        known[key] = _packed_stub(func, READY[func]) if func in READY else _packed(func, places)
    return known[key]


def _packed(func: PrimFunc, places: Iterable[int]) -> Packed:
    copies: list[tuple[int, Copy | Gathered]] = []
    for place in sorted(places):
        while block := copy_of(func, func.params[place]):
            param = func.params[place]
            copy = strided(block, param) or Gathered(block, param)
            if isinstance(copy, Gathered) and not _is_known(copy):
                break
            copies.append((place, copy))
            func = without_copy(func, place, block)
    return func, copies


def _packed_stub(func: PrimFunc, ready: Ready) -> Packed:
    params = list(func.params)
    for place, name, copy in ready.copies:
        params[place] = Buffer(name, copy.shape, copy.dtype)
    new = replace(func, params=params)
    READY[new] = ready._replace(copies=())
    return new, [(place, copy) for place, _, copy in ready.copies]


def _is_known(copy: Gathered) -> bool:
    """Whether numpy can compute what a block writes."""
    try:
        copy.of(np.zeros(copy.param.shape, to_numpy(copy.param.dtype)))
    except ValueError:
        return False
    return True


def copy_of(func: PrimFunc, param: Buffer) -> Block | None:
    """The block through which alone `func` reads a parameter, if all it writes is known with that:
    a copy, if `contents` knows its values.
    """
    items = accesses(func)
    readers = {item.block for item in items if item.buffer is param}
    block = readers.pop() if len(readers) == 1 else None
    if block is None or block.init is not None or not isinstance(block.body, Store):
        return None
    target, value = block.body.buffer, block.body.value
    writers = {item.block for item in items if item.buffer is target and item.is_write}
    fits = prod(target.shape) <= GROWTH * prod(param.shape)
    if target not in func.allocs or writers != {block} or not fits:
        return None
    if target.scope.startswith(SHARED):  # where a GPU's threads fetch it, because that is fast
        return None
    iters = {it.var for it in block.iters}
    bound = all(part in iters for part in walk(block.body) if isinstance(part, Var))
    spatial = all(it.kind == "S" for it in block.iters)
    same = isinstance(value, Load) and structural_equal(value.indices, block.body.indices)
    return block if bound and spatial and not same and _runs_in_full(func, block) else None


def _runs_in_full(func: PrimFunc, block: Block) -> bool:
    """Whether a block surely runs for all values of its iters, whatever the conditions."""
    place = find_block(func, block.name)
    try:
        check_plain_path(place.around)
        check_full_domain(block, block.iters, place.loops, place.loops)
    except ScheduleError:
        return False
    return True


def contents(copy: Block, param: Buffer, data: np.ndarray) -> np.ndarray:
    """The elements that a copy of `param` writes, in an array of its buffer's shape, else zeros.

    ValueError for a block that computes, and for an index that depends on more than its iters.
    """
    assert isinstance(copy.body, Store)
    target = copy.body.buffer
    grid = tuple(it.extent for it in copy.iters)
    axes = np.ogrid[tuple(map(slice, grid))]
    values = {it.var: axis for it, axis in zip(copy.iters, axes, strict=True)}
    elements = _elements(copy.body.value, values, param, data)
    places = [np.broadcast_to(evaluate(index, values), grid) for index in copy.body.indices]
    result = np.zeros(target.shape, to_numpy(target.dtype))
    result[tuple(places)] = elements
    return result


def _elements(value: Value, values: Mapping[Var, Any], param: Buffer, data: np.ndarray) -> Any:
    """The elements of `param`, perhaps in a wider dtype, and numbers, that a copy writes."""
    match value:
        case Load(buffer) if buffer is param:
            # Where a condition leaves an element out, its index may be outside.
            places = (evaluate(index, values) for index in value.indices)
            inside = (np.clip(at, 0, size - 1) for at, size in zip(places, data.shape, strict=True))
            return data[tuple(inside)]
        case Select(condition, a, b) if not has_loads(condition):
            sides = (_elements(side, values, param, data) for side in (a, b))
            return np.where(evaluate(condition, values), *sides)
        case Cast(dtype, a) if (a.dtype, dtype) in EXACT:
            return np.asarray(_elements(a, values, param, data)).astype(to_numpy(dtype))
        case Const():
            return to_numpy(value.dtype).type(value.value)
        case _:
            raise ValueError(f"a copy stores no {type(value).__name__}")


def without_copy(func: PrimFunc, place: int, copy: Block) -> PrimFunc:
    """`func` with the copy as the parameter at `place`."""
    assert isinstance(copy.body, Store)
    buffer = copy.body.buffer
    param = replace(buffer, scope="global")
    moved = with_storage(replaced(func, {copy: None}), {buffer: param})
    params = tuple(param if at == place else old for at, old in enumerate(func.params))
    return replace(moved, params=params, allocs=tuple(b for b in moved.allocs if b is not param))
