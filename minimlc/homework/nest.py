"""A program's loops and buffers, found again in a scheduled version.

The original program names axes (its loops) and buffers. In a scheduled version of it, `Nest` finds
the block that does the same computation, the loops each axis was cut into, and the copies of each
buffer: by what they compute, as a schedule may rename them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from math import prod
from typing import NamedTuple

from minimlc.apart.message import Failed
from minimlc.loops.ir.nodes import (
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Select,
    Store,
    Var,
    substitute,
)
from minimlc.loops.ir.walks import buffers_in, stored_in
from minimlc.loops.lower.lower import lower
from minimlc.loops.proofs.access import Access, accesses, loop_extents, reads, reducer_of, update_of
from minimlc.loops.proofs.affine import Digits
from minimlc.loops.proofs.arith import variables
from minimlc.loops.schedule import tree
from minimlc.loops.schedule.tree import find_block, names_of
from minimlc.loops.values.node import Node, walk

Role = tuple[str, frozenset[str]]
"""The role of an iter in a block: its kind, and the parameters that it indexes."""
Naming = Callable[[Buffer], str]


class Unrecognized(Failed):
    """Why the computation could not be found again."""


class Located(NamedTuple):
    """A block, the loops around it (outermost first), and its iters' values over those loops."""

    block: Block
    loops: tuple[For, ...]
    values: tuple[Expr, ...]


class Cut(NamedTuple):
    """A loop that an axis was cut into: `position` in the nest, `extent` values, each a step of
    `stride` along the axis. Of a fused loop, the part is `loop // divisor % extent`.
    """

    loop: For
    position: int
    stride: int
    extent: int
    divisor: int


class Nest:
    """`func` seen as a version of `original`, around the computation of one of its blocks.

    `block` may be left out where the original has one reduction.
    """

    def __init__(self, original: PrimFunc, func: PrimFunc, block: str = ""):
        self.original, self.func = original, func
        self.before = _computation(places(original), block)
        self.places = places(func)
        self.sources = _copies(self.places)
        pairs = zip(func.params, original.params, strict=True)
        self._origins = {buffer: param.name for buffer, param in pairs}
        self.main = self._find()

    def origin(self, buffer: Buffer) -> str:
        """The name of the parameter that a buffer is a copy of; "" if of none."""
        seen: set[Buffer] = set()
        while buffer in self.sources and buffer not in seen:
            seen.add(buffer)
            buffer = self.sources[buffer]
        return self._origins.get(buffer, "")

    def _find(self) -> Located:
        task = _task(self.before.block, self._original_name)
        same = [place for place in self.places if _task(place.block, self.origin) == task]
        if not same:
            name = self.before.block.name
            raise Unrecognized(f"no block does what {name} did: is it a plain block any more?")
        return max(same, key=lambda place: _runs(place.loops))

    def _original_name(self, buffer: Buffer) -> str:
        return buffer.name if buffer in self.original.params else ""

    # Axes

    def axes(self) -> list[str]:
        """The original loops around the computation, outermost first."""
        return [loop.var.name for loop in self.before.loops]

    def spatial_axes(self) -> list[str]:
        """The axes that the result is spread over."""
        return [name for name in self.axes() if self._role(name)[0] == "S"]

    def parts(self, axis: str) -> list[Cut]:
        """The loops that an axis has become, outermost first."""
        if axis not in self.axes():
            raise ValueError(f'there is no axis "{axis}": the original has {self.axes()}')
        role = self._role(axis)
        alike = [name for name in self.axes() if self._role(name) == role]
        iters = [n for n, r in enumerate(_roles(self.main.block, self.origin)) if r == role]
        if len(alike) > 1:  # they are told apart by their order, if none is missing
            number = alike.index(axis)
            iters = iters[number : number + 1] if len(iters) == len(alike) else []
        if not iters:
            raise Unrecognized(f"the axis {axis} is not found again")
        return sorted(self._terms(iters), key=_place)

    def loops(self, axis: str) -> list[For]:
        """The loops that an axis has become, outermost first."""
        return [part.loop for part in self.parts(axis)]

    def order(self) -> list[str]:
        """The axes of the loops from outside in; adjacent parts of one axis count once, and a fused
        loop as the loops that were fused.
        """
        parts = [(*_place(part), axis) for axis in self.axes() for part in self.parts(axis)]
        return [axis for axis, _ in groupby(axis for *_, axis in sorted(parts))]

    def _terms(self, iters: Sequence[int]) -> Iterator[Cut]:
        loops = self.main.loops
        order = {loop.var: number for number, loop in enumerate(loops)}
        sums = Digits(loop_extents(loops)).sums([self.main.values[n] for n in iters])
        scale = 1
        for number, total in reversed(list(zip(iters, sums, strict=True))):
            if total is None:
                raise Unrecognized("its index is not a plain sum of loop variables")
            for digit, factor in total.terms.items():
                place = order[digit.var]
                yield Cut(loops[place], place, abs(factor) * scale, digit.extent, digit.divisor)
            scale *= self.main.block.iters[number].extent

    def _role(self, axis: str) -> Role:
        roles = _roles(self.before.block, self._original_name)
        for role, value in zip(roles, self.before.values, strict=True):
            if any(var.name == axis for var in variables(value)):
                return role
        return "", frozenset()

    # Buffers

    @property
    def target(self) -> Buffer:
        """The buffer that the computation accumulates into."""
        return self._update.buffer

    @property
    def _update(self) -> Store:
        store = update_of(self.main.block)
        assert store is not None
        return store

    def read_for(self, name: str) -> Buffer:
        """The buffer that the computation reads where the original read the parameter `name`."""
        for buffer in _loaded(self.main.block):
            if self.origin(buffer) == name:
                return buffer
        raise ValueError(f'the computation does not read "{name}"')

    def copy_of(self, name: str) -> Buffer:
        """The copy of the parameter `name` that the computation reads."""
        copy = self.read_for(name)
        if copy not in self.sources:
            raise Unrecognized(f"the computation reads {name} itself")
        return copy

    def writers(self, buffer: Buffer) -> list[Located]:
        """The blocks that write a buffer."""
        return [place for place in self.places if buffer in stored_in(place.block.body)]

    def after(self) -> list[Located]:
        """The blocks that work on the computation's result, directly or not."""
        reached = {self.target}
        later: list[Located] = []
        for place in self.places:
            stored = stored_in(place.block.body)
            if not reached.isdisjoint(_loaded(place.block)) and self.target not in stored:
                later.append(place)
                reached |= stored
        return later

    def shared(self, place: Located) -> tuple[For, ...]:
        """The loops around both `place` and the computation."""
        return tuple(loop for loop in place.loops if loop in self.main.loops)

    def guards(self) -> tuple[Expr, ...]:
        """The conditions under which the computation's update runs."""
        return next(item.guards for item in accesses(self.func) if item.node is self._update)

    # Lowered

    @cached_property
    def lowered(self) -> PrimFunc:
        """The function as targets see it: buffers are as small as can be, and in their place."""
        return lower(self.func)

    def stored_size(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape of the storage that a buffer gets."""
        buffers = buffers_in(self.lowered.body)
        return next((item.shape for item in buffers if item.name == buffer.name), buffer.shape)

    def hot(self, buffer: Buffer, write: bool = False) -> Access:
        """The computation's access to a buffer, in the lowered function."""
        items = accesses(self.lowered)
        updates = [i for i in items if i.buffer.name == self.target.name and _adds(i.node)]
        if not updates:
            raise Unrecognized("its update is not found in the lowered function")
        update = max(updates, key=lambda item: _runs(item.loops))
        if write:
            return update
        inside = set(walk(update.node))
        for item in items:
            if item.node in inside and not item.is_write and item.buffer.name == buffer.name:
                return item
        raise Unrecognized(f"its read of {buffer.name} is not found in the lowered function")


def _place(part: Cut) -> tuple[int, int]:
    return part.position, -part.divisor


def places(func: PrimFunc) -> list[Located]:
    """Every block, in program order."""
    return [_located(find_block(func, name)) for name in names_of(func, "block")]


def _located(place: tree.Place[Block]) -> Located:
    """A block with its iters' values over loop variables, not over the iters of blocks around."""
    known: dict[Node, Node] = {}
    values: tuple[Expr, ...] = ()
    for block in (*place.around, place.stmt):
        if isinstance(block, Block):
            values = tuple(substitute(it.value, known) for it in block.iters)
            known |= zip((it.var for it in block.iters), values, strict=True)
    return Located(place.stmt, place.loops, values)


def _computation(candidates: Sequence[Located], name: str) -> Located:
    """The block of that name; without one, the only reduction or the only block."""
    reductions = [place for place in candidates if reducer_of(place.block)]
    fitting = reductions or candidates
    if name:
        fitting = [place for place in candidates if place.block.name == name]
    if len(fitting) != 1:
        raise ValueError("say which block of the original is meant: block=...")
    return fitting[0]


def _copies(blocks: Iterable[Located]) -> dict[Buffer, Buffer]:
    """The buffer that each copy is a copy of."""
    sources = {}
    for block, *_ in blocks:
        if isinstance(block.body, Store) and block.init is None:
            source = _copied(block.body.value)
            if source is not None and source.buffer is not block.body.buffer:
                sources[block.body.buffer] = source.buffer
    return sources


def _copied(value: Expr) -> Load | None:
    """The load that a value is, also one with a constant where it is padded."""
    match value:
        case Load() as load:
            return load
        case Select(_, Load() as load, Const()) | Select(_, Const(), Load() as load):
            return load
        case _:  # other nodes: computations
            return None


def _loaded(block: Block) -> list[Buffer]:
    """The buffers that a block's body reads, each once."""
    return list(dict.fromkeys(n.buffer for n in walk(block.body) if isinstance(n, Load)))


def _task(block: Block, name: Naming) -> tuple[str | None, list[str]]:
    """The computation of a block: its reduction operator, and the parameters that it combines."""
    inputs = set(_loaded(block)) - stored_in(block.body)
    return reducer_of(block), sorted(map(name, inputs))


def _roles(block: Block, name: Naming) -> list[Role]:
    """The role of each iter."""
    uses: dict[Var, set[str]] = {it.var: set() for it in block.iters}
    stored = stored_in(block.body)
    for item in walk(block.body):
        if isinstance(item, Load | Store):
            indexed = "" if item.buffer in stored else name(item.buffer)
            for var in set().union(*map(variables, item.indices)):
                uses.get(var, set()).add(indexed)
    return [(it.kind, frozenset(uses[it.var])) for it in block.iters]


def _adds(node: Node) -> bool:
    return isinstance(node, Store) and reads(node.value, node.buffer)


def _runs(loops: tuple[For, ...]) -> int:
    return prod(loop_extents(loops).values())
