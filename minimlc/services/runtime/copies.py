"""Copies of arrays as numbers: which elements go where, in boxes at regular distances.

A block that copies, `B[v // 16, v % 16] = A[v]`, places an element by the digits of its iters.
As numbers it needs no compiler, runs at the speed of memory, and can be written to a file.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import copysign, prod
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

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
    Store,
    Var,
)
from minimlc.loops.proofs.arith import has_loads
from minimlc.loops.proofs.points import evaluate
from minimlc.loops.values.dtypes import to_numpy
from minimlc.loops.values.node import nodes_of

EXACT = {("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64")}
"""Conversions that change no number, as recipes for 16-bit floats copy."""

MOST_BOXES = 64
"""The most boxes of a copy, which has a few where a row ends in the middle of a panel."""


class Digit(NamedTuple):
    """A loop of a copy: how often, and by how many elements it moves in target and source."""

    size: int
    target: int
    source: int


class Box(NamedTuple):
    """Elements at regular distances: where the first one goes, where it is from, and the loops."""

    target: int
    source: int
    digits: tuple[Digit, ...]


class Copy(NamedTuple):
    """An array of this shape and dtype, zero but for the boxes."""

    shape: tuple[int, ...]
    dtype: str
    boxes: tuple[Box, ...]

    def of(self, data: np.ndarray) -> np.ndarray:
        """The copy of an array; `ValueError` or `TypeError` where a box is not inside of it."""
        full = sum(prod(d.size for d in box.digits) for box in self.boxes) == prod(self.shape)
        result = (np.empty if full else np.zeros)(self.shape, to_numpy(self.dtype))
        for box in self.boxes:
            sizes = tuple([digit.size for digit in box.digits])
            to = _view(result, sizes, box.target, [digit.target for digit in box.digits])
            to[...] = _view(data, sizes, box.source, [digit.source for digit in box.digits])
        return result


def _view(data: np.ndarray, sizes: tuple[int, ...], start: int, steps: Sequence[int]) -> np.ndarray:
    """Elements of an array in C order; numpy checks that they are inside."""
    size = data.itemsize
    strides = tuple([step * size for step in steps])
    plain = data.reshape(-1).view(np.uint8)
    return np.ndarray(sizes, data.dtype, plain, start * size, strides)  # type: ignore[call-overload,no-any-return]


def copy_from(record: Any) -> Copy:
    """The reverse of writing a copy as JSON, which makes lists of its tuples."""
    shape, dtype, boxes = record
    parts = [Box(to, at, tuple([Digit(*digit) for digit in digits])) for to, at, digits in boxes]
    return Copy(tuple(shape), dtype, tuple(parts))


def strided(block: Block, param: Buffer) -> Copy | None:
    """A block's copy from `param`; None where it does not copy along the digits of its iters.

    Legal when each index is a sum of terms with one iter at the most, and so is each condition's
    side: then all iters move through target and source on their own.
    """
    assert isinstance(block.body, Store)
    target, load, conditions = block.body.buffer, *_source(block.body.value, param)
    if load is None or not target.shape or not param.shape:
        return None
    places = (_offset(block.body.indices, target.shape), _offset(load.indices, param.shape))
    indices = (*block.body.indices, *load.indices)
    terms = [term for index in indices for term in _terms(index)]
    if any(len(_vars(term)) > 1 for term in [*terms, *conditions]):
        return None
    try:
        return _boxes(block, target, places, conditions)
    except ValueError:  # an index that is no number before a call
        return None


def _source(value: Expr, param: Buffer) -> tuple[Load | None, list[Expr]]:
    """The element that is copied, and under which conditions: elsewhere the value is zero."""
    match value:
        case Load(buffer) if buffer is param:
            return value, []
        case Cast(dtype, a) if (a.dtype, dtype) in EXACT:
            return _source(a, param)
        case Select(condition, a, Const(0)) if not has_loads(condition) and _is_zero(value.b):
            load, others = _source(a, param)
            return load, [*_all_of(condition), *others]
        case _:  # other nodes: not a copy of one element
            return None, []


def _is_zero(item: Expr) -> bool:
    """Whether a constant is zero, and not -0.0."""
    return isinstance(item, Const) and item.value == 0 and copysign(1, item.value) > 0


def _all_of(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        return [*_all_of(condition.a), *_all_of(condition.b)]
    return [condition]


def _terms(index: Expr) -> list[Expr]:
    if isinstance(index, Binary) and index.op == "+":
        return [*_terms(index.a), *_terms(index.b)]
    return [index]


def _vars(item: Expr) -> set[Var]:
    return set(nodes_of(item, Var))


Place = list[tuple[Expr, int]]
"""An element's number, as a sum: indices and their strides."""


def _offset(indices: Sequence[Expr], shape: Sequence[int]) -> Place:
    steps = [prod(shape[at + 1 :]) for at in range(len(shape))]
    return list(zip(indices, steps, strict=True))


def _boxes(
    block: Block, target: Buffer, places: Sequence[Place], conditions: list[Expr]
) -> Copy | None:
    """The boxes of a copy: for each of its iters some, in all combinations."""
    origin = {it.var: 0 for it in block.iters}
    starts = [_number(place, origin) for place in places]
    axes: list[list[Box]] = []
    for it in block.iters:
        numbers = np.arange(it.extent)
        values = {**origin, it.var: numbers}
        tests = [c for c in conditions if it.var in _vars(c)]
        runs = np.logical_and.reduce(
            [np.broadcast_to(True, numbers.shape)]
            + [np.broadcast_to(evaluate(c, values), numbers.shape) for c in tests]
        )
        moves = [
            np.broadcast_to(_number(place, values) - start, numbers.shape)[runs]
            for place, start in zip(places, starts, strict=True)
        ]
        axes.append(_pieces(*moves))
    if not all(bool(evaluate(c, origin)) for c in conditions if not _vars(c)):
        axes.append([])
    if prod(map(len, axes)) > MOST_BOXES:
        return None
    boxes = [
        Box(
            int(starts[0]) + sum(part.target for part in parts),
            int(starts[1]) + sum(part.source for part in parts),
            tuple([digit for part in parts for digit in part.digits]),
        )
        for parts in product(*axes)
    ]
    return Copy(target.shape, target.dtype, tuple(boxes))


def _number(place: Place, values: Any) -> Any:
    return sum(evaluate(index, values) * step for index, step in place)


def _pieces(target: np.ndarray, source: np.ndarray) -> list[Box]:
    """The way of one iter through target and source, in few boxes."""
    if len(target) < 2:
        return [Box(int(a), int(b), ()) for a, b in zip(target, source, strict=True)]
    regular = (np.diff(target) == target[1] - target[0]) & (
        np.diff(source) == source[1] - source[0]
    )
    run = len(target) if regular.all() else int(np.argmin(regular)) + 1
    whole = len(target) // run * run
    rows = [side[:whole].reshape(-1, run) for side in (target, source)]
    if not all((row - row[:, :1] == row[0] - row[0, 0]).all() for row in rows):
        whole = run
        rows = [side[:whole].reshape(-1, run) for side in (target, source)]
    digit = Digit(run, *[int(row[0, 1] - row[0, 0]) for row in rows])
    outer = _pieces(rows[0][:, 0], rows[1][:, 0])
    pieces = [box._replace(digits=(*box.digits, digit)) for box in outer]
    return pieces if whole == len(target) else [*pieces, *_pieces(target[whole:], source[whole:])]


class Ready(NamedTuple):
    """Facts of a function that was scheduled and compiled before: a stub stands for it.

    `copies` are to be made ahead: parameter, its new name, how. `shares`, `views` and `joined` are
    as the functions of these names in `native.in_place` give them. `codes` has the name of its code
    and of the entry in the cache, by whether results share memory.
    """

    copies: tuple[tuple[int, str, Copy], ...]
    shares: frozenset[tuple[int, int]]
    codes: Mapping[bool, tuple[str, str]]
    threaded: bool
    views: tuple[int, ...]
    joined: tuple[int, ...]


READY: WeakKeyDictionary[PrimFunc, Ready] = WeakKeyDictionary()
"""The facts of each stub."""
