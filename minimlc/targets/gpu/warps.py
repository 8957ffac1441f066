"""Tensorized blocks that a warp does together, on tiles in the registers of its threads.

A tile has no address: in the language of a device with tensor cores a thread keeps the part of it
that the instructions' layout gives it. Everywhere else a thread keeps its own copy, and fills
and uses as much of it as the elements of the result need that are its own: rows n and n + 8 and
columns 2 m and 2 m + 1, where the thread is number 4 n + m. So no thread waits for another, and the
elements of a result are spread as the instructions spread them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

from minimlc.loops.ir import nodes as tir
from minimlc.loops.ir.walks import blocks_in, buffers_in
from minimlc.loops.lower.lower import TENSOR
from minimlc.loops.proofs.access import Access
from minimlc.loops.proofs.arith import constant_value, variables
from minimlc.loops.proofs.ranges import Ranges
from minimlc.loops.proofs.simplify import Simplifier
from minimlc.loops.schedule.redirect import Redirect, to
from minimlc.loops.values.node import Node, node, nodes_of
from minimlc.loops.values.parts import Hook
from minimlc.services.checks.threads import SWIZZLED
from minimlc.targets.gpu.lanes import quotient
from minimlc.targets.gpu.launch import Axis, touches
from minimlc.targets.gpu.places import is_swizzled
from minimlc.targets.gpu.refusal import refused

blocks: Any = Hook[Any]("tensor blocks").first
intrinsics: Any = Hook[Any]("intrinsics that come with the library").first

LANES = 32
"""The threads of a warp; its tiles are used where they are all of axis X."""
X, Y = "threadIdx.x", "threadIdx.y"
SUMS = 16, 8
"""The rows and columns of a tile of sums."""
GROUP = 4
"""Warps that do an instruction together."""
FRAGMENT = "wmma"
"""The prefix of the scopes of tiles."""
_A, _B, _SUM = (f"{FRAGMENT}.{name}" for name in ("matrix_a", "matrix_b", "accumulator"))


class Unit(NamedTuple):
    """The work of an intrinsic: the axes of its loops (rows i and columns j of a result, parts g of
    it, or k), and the scopes of its operands, "" for one in any memory.
    """

    loops: str
    scopes: tuple[str, ...]


UNITS = {
    "zero": Unit("ij", (_SUM,)),
    "load_a": Unit("ik", ("", _A)),
    "load_b": Unit("kj", ("", _B)),
    "load_b_turned": Unit("jk", ("", _B)),
    "mma": Unit("ijk", (_A, _B, _SUM)),
    "store": Unit("ij", (_SUM, "")),
    "group": Unit("gijk", (SWIZZLED, SWIZZLED, _SUM)),
}


@node
class Warp(tir.Stmt):
    """The work of the threads of a warp together: the intrinsic `name`, on operands that begin at
    `places`, whose rows and columns are `steps` elements apart; the place of a tile is its number
    in a buffer of tiles. `body` is the work of each thread where there is no instruction.
    """

    name: str
    places: tuple[tir.Load, ...]
    steps: tuple[tuple[int, ...], ...]
    body: tir.Stmt

    @property
    def flops(self) -> int:
        """The operations on floats of a thread."""
        if len(self.places) < 3 or self.places[2].dtype != "float32":
            return 0
        return 2 * 64 * 64 if kind_of(self.name) == "group" else 2 * 2 * 2 * 16


def kind_of(name: str) -> str:
    """The kind of an intrinsic, a key of `UNITS`; "" for one that is not for warps."""
    parts = re.fullmatch(r"mma_(?:(zero|load_a|load_b|store|group)_)?[a-z]+\d+(_turned)?", name)
    if parts is None or intrinsics is None or name not in intrinsics.WARPS:
        return ""
    return f"{parts[1]}{parts[2] or ''}" if parts[1] else "mma"


def warp_of(block: tir.Block, lane: tir.Expr) -> Warp | None:
    """A tensorized block as the work of a warp, whose threads have the number `lane`; None for one
    of another kind, or with operands that do not lie as they have to.
    """
    name = str(dict(block.annotations).get(TENSOR))
    unit = UNITS.get(kind_of(name))
    operands = blocks.operands_of(block) if blocks and unit else None
    if blocks is None or unit is None or operands is None:
        return None
    pattern, params = blocks.implementation(name)
    parts = list(zip(operands, params, unit.scopes, strict=True))
    places = tuple(p for p in starmap(_place, parts) if p is not None)
    if len(places) < len(parts):
        return None
    moves = {param: to(operand.buffer, operand.at) for operand, param, _ in parts}
    body = Redirect(moves).visit(_spread(unit, pattern.loops, pattern.store, lane))
    return Warp(name, places, tuple(map(blocks.strides_of, operands)), body)


def _place(operand: Any, param: tir.Buffer, scope: str) -> tir.Load | None:
    """Where an operand begins; None if it is not in the memory that it has to be in."""
    buffer = operand.buffer
    assert blocks is not None
    if not scope.startswith(FRAGMENT):
        if scope:
            rows, right = operand.base[-2], blocks.strides_of(operand)[-2:]
            fits = is_swizzled(buffer) and quotient(rows, 8) is not None and right == (64, 1)
        else:
            fits = not buffer.scope.startswith(("local", FRAGMENT)) and not is_swizzled(buffer)
        return tir.Load(buffer, operand.base) if fits else None
    number = _number(operand, param.shape) if buffer.scope == scope else None
    return None if number is None else tir.Load(buffer, (number,))


def is_group(item: Node) -> bool:
    """Whether a node is the work of several warps together."""
    return isinstance(item, Warp) and kind_of(item.name) == "group"


def check_group(item: Warp, axes: Mapping[str, Axis]) -> None:
    """`BuildError` E510 where warps do not do together what only four neighbours can."""
    if not is_group(item):
        return
    a, b, _ = item.places
    y = axes.get(Y, Axis(Y, tir.Var(Y), 1))
    rows = Simplifier(Ranges()).visit(a.indices[-2] - y.var * 16)
    rest = [rows, *a.indices[:-2], *b.indices]
    differ = any(y.var in variables(index) or nodes_of(index, tir.Load) for index in rest)
    if differ or y.extent % GROUP:
        raise refused(
            f"{item.name} is for four warps along {Y}, whose rows follow each other",
            f"split rows of a tile by 16, and bind the loop over those to {Y}",
        )


def _spread(unit: Unit, loops: Sequence[tir.For], store: tir.Store, lane: tir.Expr) -> tir.Stmt:
    """A nest over the rows and columns of one thread."""
    row, column = tir.Binary("//", lane, tir.index(4)), tir.Binary("%", lane, tir.index(4)) * 2
    body: tir.Stmt = store
    for kind, loop in reversed(list(zip(unit.loops, loops, strict=True))):
        var = tir.Var(loop.var.name)
        whole, count = kind in "gk", int(constant_value(loop.extent) or 0)
        if kind == "j" and count > 8:
            tile, rest = (tir.Binary(op, var, tir.index(2)) for op in ("//", "%"))
            mine = column + tile * 8 + rest
        else:
            mine = {"i": row + var * 8, "j": column + var}.get(kind, var)
        extent = loop.extent if whole else tir.index(count // (8 if kind == "i" else 4))
        order: tir.LoopKind = "serial" if kind == "k" else "unrolled"
        body = tir.For(var, extent, order, tir.substitute(body, {loop.var: mine}))
    return body


def _number(operand: Any, tile: Sequence[int]) -> tir.Expr | None:
    """Which of a buffer's tiles an operand is; None where it is not known to be a whole one."""
    number, shape = tir.index(0), operand.buffer.shape
    if operand.dims != tuple(range(len(shape) - len(tile), len(shape))):
        return None
    if len(tile) > 2:  # several in order
        if shape[-len(tile) :] != tuple(tile):
            return None
        tile = SUMS
    sides = *[1] * (len(shape) - 2), *tile
    for start, size, side in zip(operand.base, shape, sides, strict=True):
        place = quotient(start, side)
        if place is None or size % side:
            return None
        number = number * (size // side) + place
    return Simplifier(Ranges()).visit(number)


def tiles_in(
    stmt: tir.Stmt, items: Iterable[Access], sizes: Mapping[str, int]
) -> frozenset[tir.Buffer]:
    """The tiles that warps keep in registers: all that a statement has, if units alone use them,
    and the threads of an axis are a warp; else none.
    """
    tiles = frozenset(b for b in buffers_in(stmt) if b.scope.startswith(FRAGMENT))
    apart = any(lp.thread == X for it in items if it.buffer in tiles for lp in it.loops)
    return frozenset() if apart or sizes.get(X) != LANES or _others(stmt, tiles) else tiles


def _others(stmt: tir.Stmt, tiles: frozenset[tir.Buffer]) -> bool:
    """Whether anything but a unit uses tiles, or units use a buffer's tiles by two shapes."""
    warps = ((block, warp_of(block, tir.index(0))) for block in blocks_in(stmt))
    units = {block: warp for block, warp in warps if warp}
    inside = {part for unit in units for part in touches(unit)}
    shapes = {pair for warp in units.values() for pair in _shapes(warp) if pair[0] in tiles}
    mixed = len(shapes) > len({buffer for buffer, _ in shapes})
    return mixed or any(part.buffer in tiles and part not in inside for part in touches(stmt))


def _shapes(warp: Warp) -> Iterable[tuple[tir.Buffer, tuple[int, ...]]]:
    """The buffers of a warp's operands, each with the shape that its intrinsic gives it."""
    assert blocks is not None
    _, params = blocks.implementation(warp.name)
    pairs = zip(warp.places, params, strict=True)
    return ((p.buffer, SUMS if p.buffer.scope == _SUM else param.shape) for p, param in pairs)
