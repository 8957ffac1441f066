"""Copy constant weights ahead of time into the order in which a kernel reads them."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from minimlc.dtypes import to_numpy
from minimlc.graph.mutator import Mutator
from minimlc.graph.nodes import Call, Constant, Expr, call_tir, constant
from minimlc.module import IRModule
from minimlc.node import replace, structural_equal, walk
from minimlc.schedule.layout import with_storage
from minimlc.schedule.tree import replaced
from minimlc.tir.access import accesses
from minimlc.tir.arith import has_loads
from minimlc.tir.nodes import Block, Buffer, Const, Load, PrimFunc, Select, Store, Var
from minimlc.tir.nodes import Expr as Value
from minimlc.tir.points import evaluate

GROWTH = 2
"""How many times larger than the constant its copy may be, for zeros at its edges."""


def pack_constants(mod: IRModule) -> IRModule:
    """Make the copies of constants that scheduled functions begin with.

        lv = R.call_tir(mm, (x, const))    -->    lv = R.call_tir(mm_packed, (x, const'))

    A copy is a block that puts the constant's elements elsewhere, with zeros at the edges, and
    alone writes a buffer of the function's own: panels of a matrix, a convolution's weights by
    channels. The buffer becomes the parameter in the constant's place, where nothing else reads
    that and the copy is not much larger.
    """
    return _Pack(mod)(mod)


class _Pack(Mutator):
    def __init__(self, mod: IRModule):
        self.mod = mod

    def visit_Call(self, call: Call) -> Expr:
        func = self.mod.functions.get(call.callee) if call.op == "call_tir" else None
        if not isinstance(func, PrimFunc):
            return call
        args, packed = list(call.args), func
        for place, arg in enumerate(args):
            if not isinstance(arg, Constant):
                continue
            copy = copy_of(packed, packed.params[place])
            if copy is not None:
                args[place] = constant(contents(copy, arg.data))
                packed = without_copy(packed, place, copy)
        if packed is func:
            return call
        name = self.builder.add_func(packed, f"{call.callee}_packed")
        return call_tir(name, tuple(args), call.type)


def copy_of(func: PrimFunc, param: Buffer) -> Block | None:
    """The block through which alone `func` reads a parameter, if it does nothing but copy it."""
    items = accesses(func)
    readers = {item.block for item in items if item.buffer is param}
    block = readers.pop() if len(readers) == 1 else None
    if block is None or block.init is not None or not isinstance(block.body, Store):
        return None
    made = block.body.buffer
    writers = {item.block for item in items if item.buffer is made and item.is_write}
    fits = prod(made.shape) <= GROWTH * prod(param.shape)
    if made not in func.allocs or writers != {block} or not fits:
        return None
    own = {it.var for it in block.iters}
    bound = all(part in own for part in walk(block.body) if isinstance(part, Var))
    spatial = all(it.kind == "S" for it in block.iters)
    value = block.body.value
    same = isinstance(value, Load) and structural_equal(value.indices, block.body.indices)
    return block if bound and spatial and not same and _is_copy(value, param) else None


def _is_copy(value: Value, param: Buffer) -> bool:
    """Whether a value is an element of `param`, or a number, as conditions on indices say."""
    match value:
        case Load(buffer, indices):
            return buffer is param and not any(map(has_loads, indices))
        case Select(condition, a, b):
            return not has_loads(condition) and _is_copy(a, param) and _is_copy(b, param)
    return isinstance(value, Const)


def contents(copy: Block, data: np.ndarray) -> np.ndarray:
    """What a copy writes, as an array of its buffer's shape; elements it leaves out are zero."""
    assert isinstance(copy.body, Store)
    made = copy.body.buffer
    count = len(copy.iters)
    values = {
        it.var: np.arange(it.extent).reshape([-1 if n == at else 1 for n in range(count)])
        for at, it in enumerate(copy.iters)
    }
    result = np.zeros(made.shape, to_numpy(made.dtype))
    places = tuple(evaluate(index, values) for index in copy.body.indices)
    result[places] = _elements(copy.body.value, values, data)
    return result


def _elements(value: Value, values: Mapping[Var, Any], data: np.ndarray) -> Any:
    match value:
        case Load():
            # Where a condition leaves an element out, its index may be outside.
            places = (evaluate(index, values) for index in value.indices)
            inside = (np.clip(at, 0, size - 1) for at, size in zip(places, data.shape, strict=True))
            return data[tuple(inside)]
        case Select(condition, a, b):
            sides = (_elements(side, values, data) for side in (a, b))
            return np.where(evaluate(condition, values), *sides)
    assert isinstance(value, Const)
    return to_numpy(value.dtype).type(value.value)


def without_copy(func: PrimFunc, place: int, copy: Block) -> PrimFunc:
    """`func` with the copy as the parameter at `place`."""
    assert isinstance(copy.body, Store)
    made = copy.body.buffer
    param = replace(made, scope="global")
    moved = with_storage(replaced(func, {copy: None}), made, param, None)
    params = tuple(param if at == place else old for at, old in enumerate(func.params))
    return replace(moved, params=params, allocs=tuple(b for b in moved.allocs if b is not param))
