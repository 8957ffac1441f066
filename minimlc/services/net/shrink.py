"""A smaller program of the same structure, on which the steps of a schedule are tried as well.

Sizes are shrunk prime by prime, so that what divided still divides, and what left a tail still
does. It does not matter what the smaller program computes: it is a program, a schedule of it must
keep its meaning, and the primitives take the same way through it.
"""

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from minimlc.loops.ir.nodes import BlockIter, Buffer, Const, For, PrimFunc, index, substitute
from minimlc.loops.ir.walks import loops_in
from minimlc.loops.proofs.access import accesses, loop_ranges
from minimlc.loops.proofs.arith import constant_value
from minimlc.loops.proofs.wellformed import check_prim_func
from minimlc.loops.values.errors import CompileError
from minimlc.loops.values.node import Mutator, Node, replace, walk
from minimlc.services.equivalence.compare import BUDGET, cost

STRENGTHS = (2, 3, 4, 6, 12)
SMALL = 8
"""Constants in expressions up to this one are offsets and strides rather than sizes."""
SIZES = ("factors", "padding", "points", "sizes")
"""The arguments of primitives that are sizes."""

_SMALLER: WeakKeyDictionary[PrimFunc, dict[int, PrimFunc | None]] = WeakKeyDictionary()


def shrunk(size: int, strength: int) -> int:
    """A size with each prime's exponent divided by `strength` (rounded up); 7 stands for all
    primes above it.
    """
    if size < 2:
        return size
    exponents: Counter[int] = Counter()
    prime = 2
    while size > 1:
        if prime * prime > size:
            prime = size
        while size % prime == 0:
            size //= prime
            exponents[min(prime, 7)] += 1
        prime += 1
    return prod(base ** -(-exponent // strength) for base, exponent in exponents.items())


def smaller(func: PrimFunc, strength: int) -> PrimFunc | None:
    """`func` with its sizes shrunk; None where that is not well-formed, or not quick to run."""
    known = _SMALLER.setdefault(func, {})
    if strength not in known:
        small = _shrink(func, strength)
        known[strength] = small if small is not None and cost(small) <= BUDGET // 2 else None
    return known[strength]


def smaller_arguments(arguments: Mapping[str, Any], strength: int) -> dict[str, Any]:
    """A step's arguments for the smaller program."""
    return {
        name: _shrink_value(value, strength) if name in SIZES else value
        for name, value in arguments.items()
    }


def _shrink_value(value: Any, strength: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_shrink_value(part, strength) for part in value)
    return shrunk(value, strength) if type(value) is int else value


class _Shrink(Mutator):
    def __init__(self, sizes: set[int], strength: int):
        self.sizes = sizes
        self.strength = strength

    def visit_For(self, item: For) -> For:
        size = constant_value(item.extent)
        extent = self.visit(item.extent) if size is None else index(shrunk(size, self.strength))
        return replace(item, extent=extent, body=self.visit(item.body))

    def visit_BlockIter(self, item: BlockIter) -> BlockIter:
        return replace(
            item, extent=shrunk(item.extent, self.strength), value=self.visit(item.value)
        )

    def visit_Const(self, item: Const) -> Const:
        """A constant that is a size, or the last index of one."""
        if type(item.value) is not int or item.value <= SMALL:
            return item
        for end in (0, 1):
            if item.value + end in self.sizes:
                return replace(item, value=shrunk(item.value + end, self.strength) - end)
        return item


def _shrink(func: PrimFunc, strength: int) -> PrimFunc | None:
    body = _Shrink(_sizes(func), strength).visit(func.body)
    buffers: dict[Node, Node] = {
        b: replace(b, shape=tuple(shrunk(size, strength) for size in b.shape))
        for b in (*func.params, *func.allocs)
    }
    small = substitute(replace(func, body=body), buffers)
    small = substitute(small, _fitting(small))
    try:
        check_prim_func("the smaller program", small)
    except CompileError:
        return None
    return small


def _sizes(func: PrimFunc) -> set[int]:
    """Every extent of a loop, an iter or a buffer."""
    buffers = {size for b in (*func.params, *func.allocs) for size in b.shape}
    iters = {part.extent for part in walk(func.body) if isinstance(part, BlockIter)}
    loops = {constant_value(loop.extent) for loop in loops_in(func.body)}
    return {size for size in buffers | iters | loops if size is not None}


def _fitting(func: PrimFunc) -> dict[Node, Node]:
    """Each buffer with the shape that its accesses reach, where that is known."""
    shapes: dict[Buffer, list[int]] = {}
    for item in accesses(func):
        ranges = loop_ranges(item.loops)
        for guard in item.guards:
            ranges = ranges.assume(guard)
        shape = shapes.setdefault(item.buffer, [1] * item.buffer.ndim)
        for dim, (part, size) in enumerate(zip(item.indices, item.buffer.shape, strict=True)):
            high = ranges.bounds(part)[1]
            shape[dim] = max(shape[dim], int(high) + 1 if high < 2**31 else size)
    return {buffer: replace(buffer, shape=tuple(shape)) for buffer, shape in shapes.items()}
