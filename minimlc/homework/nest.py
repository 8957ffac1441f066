"""What has become of a program's loops and buffers, whatever they are called now.

The original program names axes (its loops) and buffers. In a scheduled version of it, `Nest` finds
the block that does the same computation, the loops each axis was cut into, and the copies of each
buffer; all by what they compute, not by what they are called.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from math import prod
from typing import NamedTuple

from minimlc.codegen.lower import lower
from minimlc.node import Node, walk
from minimlc.schedule.tree import inner_stmts
from minimlc.tir.analysis.access import Access, accesses, loop_extents, reducer_of, update_of
from minimlc.tir.analysis.affine import Digits
from minimlc.tir.analysis.arith import variables
from minimlc.tir.nodes import (
    Alloc,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Select,
    Stmt,
    Store,
    Var,
    substitute,
)

Role = tuple[str, frozenset[str]]


class Unrecognized(Exception):
    """The computation was not found again, and why."""


class Place(NamedTuple):
    """A block, the loops around it (outermost first), and its iters' values over those loops."""

    block: Block
    loops: tuple[For, ...]
    values: tuple[Expr, ...]


class Part(NamedTuple):
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
        renamed = dict(zip(func.params, original.params, strict=True))
        self._origin = {b: renamed[b].name for b in func.params}
        self.main = self._find()

    def origin(self, buffer: Buffer) -> str:
        """The parameter that a buffer is a copy of, by its name; else ''."""
        seen: set[Buffer] = set()
        while buffer in self.sources and buffer not in seen:
            seen.add(buffer)
            buffer = self.sources[buffer]
        return self._origin.get(buffer, "")

    def _find(self) -> Place:
        own = {b: b.name for b in self.original.params}
        wanted = _inputs(self.before.block, own)
        found = [
            place
            for place in self.places
            if reducer_of(place.block) == reducer_of(self.before.block)
            and _inputs(place.block, {b: self.origin(b) for b in _loaded(place.block)}) == wanted
        ]
        if not found:
            name = self.before.block.name
            raise Unrecognized(f"no block does what {name} did: is it a plain block any more?")
        return max(found, key=_runs)

    # Axes

    def axes(self) -> list[str]:
        """The original loops around the computation, outermost first."""
        return [loop.var.name for loop in self.before.loops]

    def spatial_axes(self) -> list[str]:
        """The axes that the result is spread over."""
        return [name for name in self.axes() if self._role_of(name)[0] == "S"]

    def parts(self, axis: str) -> list[Part]:
        """The loops that an axis has become, outermost first."""
        role, number, count = self._axis(axis)
        own = {b: self.origin(b) for b in _loaded(self.main.block)}
        alike = [n for n, r in enumerate(_roles(self.main.block, own)) if r == role]
        if count == 1:
            chosen = alike
        else:
            chosen = alike[number : number + 1] if len(alike) == count else []
        if not chosen:
            raise Unrecognized(f"the axis {axis} is not found again")
        return sorted(self._terms(chosen), key=_place)

    def order(self) -> list[str]:
        """The axes whose loops follow each other, from outside in; parts of one axis that do, once.
        A fused loop counts as the loops that it was made of.
        """
        parts = [(*_place(part), axis) for axis in self.axes() for part in self.parts(axis)]
        return [axis for axis, _ in groupby(axis for *_, axis in sorted(parts))]

    def _terms(self, iters: Sequence[int]) -> Iterator[Part]:
        loops = list(self.main.loops)
        order = {loop.var: number for number, loop in enumerate(loops)}
        digits = Digits(loop_extents(self.main.loops))
        sums = digits.sums([self.main.values[n] for n in iters])
        scale = 1
        for number, total in reversed(list(zip(iters, sums, strict=True))):
            if total is None:
                raise Unrecognized("its index is no plain sum of loop variables")
            for digit, factor in total.terms.items():
                place = order[digit.var]
                yield Part(loops[place], place, abs(factor) * scale, digit.extent, digit.divisor)
            scale *= self.main.block.iters[number].extent

    def _axis(self, axis: str) -> tuple[Role, int, int]:
        """An axis's role, its number among those of the same role, and how many there are."""
        if axis not in self.axes():
            raise ValueError(f'there is no axis "{axis}": the original has {self.axes()}')
        role = self._role_of(axis)
        alike = [name for name in self.axes() if self._role_of(name) == role]
        return role, alike.index(axis), len(alike)

    def _role_of(self, axis: str) -> Role:
        own = {b: b.name for b in self.original.params}
        roles = _roles(self.before.block, own)
        for role, value in zip(roles, self.before.values, strict=True):
            if any(var.name == axis for var in variables(value)):
                return role
        return "", frozenset()

    # Buffers

    @property
    def target(self) -> Buffer:
        """The buffer that the computation accumulates into."""
        store = update_of(self.main.block)
        assert store is not None
        return store.buffer

    def read_for(self, name: str) -> Buffer:
        """What the computation reads where the original read the parameter `name`."""
        for buffer in _loaded(self.main.block):
            if self.origin(buffer) == name:
                return buffer
        raise ValueError(f'the computation does not read "{name}"')

    def writers(self, buffer: Buffer) -> list[Place]:
        """The blocks that write a buffer."""
        return [place for place in self.places if buffer in _stored(place.block)]

    def after(self) -> list[Place]:
        """The blocks that work on the computation's result, directly or not."""
        reached = {self.target}
        found: list[Place] = []
        for place in self.places:
            if place is not self.main and reached & set(_loaded(place.block)):
                if self.target in _stored(place.block):
                    continue
                found.append(place)
                reached |= set(_stored(place.block))
        return found

    def shared(self, place: Place) -> tuple[For, ...]:
        """The loops around both `place` and the computation."""
        return tuple(loop for loop in place.loops if loop in self.main.loops)

    def guards(self) -> tuple[Expr, ...]:
        """The conditions under which the computation's update runs."""
        store = update_of(self.main.block)
        return next(item.guards for item in accesses(self.func) if item.node is store)

    # Lowered

    @cached_property
    def lowered(self) -> PrimFunc:
        """The function as targets see it: buffers have become small and have their place."""
        return lower(self.func)

    def stored_size(self, buffer: Buffer) -> tuple[int, ...]:
        """The shape of the storage that a buffer gets."""
        for item in walk(self.lowered.body):
            if isinstance(item, Alloc) and item.buffer.name == buffer.name:
                return item.buffer.shape
        return buffer.shape

    def hot(self, buffer: Buffer, write: bool = False) -> Access:
        """The computation's access to a buffer, in the lowered function."""
        items = accesses(self.lowered)
        updates = [
            i for i in items if i.is_write and i.buffer.name == self.target.name and _adds(i.node)
        ]
        if not updates:
            raise Unrecognized("its update is not found in the lowered function")
        update = max(updates, key=lambda i: prod(loop_extents(i.loops).values()))
        if write:
            return update
        inside = set(walk(update.node))
        for item in items:
            if item.node in inside and not item.is_write and item.buffer.name == buffer.name:
                return item
        raise Unrecognized(f"its read of {buffer.name} is not found in the lowered function")


def _place(part: Part) -> tuple[int, int]:
    return part.position, -part.divisor


def places(func: PrimFunc) -> list[Place]:
    """Every block, in program order."""
    found: list[Place] = []

    def visit(stmt: Stmt, loops: tuple[For, ...], known: dict[Node, Node]) -> None:
        if isinstance(stmt, For):
            loops = (*loops, stmt)
        if isinstance(stmt, Block):
            values = tuple(substitute(it.value, known) for it in stmt.iters)
            found.append(Place(stmt, loops, values))
            known = {**known, **{it.var: v for it, v in zip(stmt.iters, values, strict=True)}}
        for part in inner_stmts(stmt):
            visit(part, loops, known)

    visit(func.body, (), {})
    return found


def _computation(found: Sequence[Place], name: str) -> Place:
    """The block of that name; without one, the only reduction or the only block."""
    reductions = [place for place in found if reducer_of(place.block)]
    fitting = [p for p in found if p.block.name == name] if name else reductions or found
    if len(fitting) != 1:
        raise ValueError("say which block of the original is meant: block=...")
    return fitting[0]


def _copies(found: Iterable[Place]) -> dict[Buffer, Buffer]:
    """Which buffer each copy was made from."""
    result = {}
    for place in found:
        body = place.block.body
        if isinstance(body, Store) and place.block.init is None:
            source = _copied(body.value)
            if source is not None and source.buffer is not body.buffer:
                result[body.buffer] = source.buffer
    return result


def _copied(value: Expr) -> Load | None:
    """The load that a value is, also one with a constant where it is padded."""
    match value:
        case Load():
            return value
        case Select(_, Load() as load, Const()) | Select(_, Const(), Load() as load):
            return load
    return None


def _loaded(block: Block) -> list[Buffer]:
    return list(dict.fromkeys(n.buffer for n in walk(block.body) if isinstance(n, Load)))


def _stored(block: Block) -> list[Buffer]:
    return list(dict.fromkeys(n.buffer for n in walk(block.body) if isinstance(n, Store)))


def _inputs(block: Block, names: Mapping[Buffer, str]) -> list[str]:
    """The parameters that a block combines, by their original names."""
    stored = _stored(block)
    return sorted(names.get(b, "") for b in _loaded(block) if b not in stored)


def _roles(block: Block, names: Mapping[Buffer, str]) -> list[Role]:
    """Per iter: its kind, and the parameters that it indexes."""
    uses: dict[Var, set[str]] = {it.var: set() for it in block.iters}
    stored = _stored(block)
    for item in walk(block.body):
        if isinstance(item, Load | Store):
            name = "" if item.buffer in stored else names.get(item.buffer, "")
            for var in {v for index in item.indices for v in variables(index)}:
                uses.get(var, set()).add(name)
    return [(it.kind, frozenset(uses[it.var])) for it in block.iters]


def _adds(node: Node) -> bool:
    return isinstance(node, Store) and any(
        isinstance(n, Load) and n.buffer is node.buffer for n in walk(node.value)
    )


def _runs(place: Place) -> int:
    return prod(loop_extents(place.loops).values())
